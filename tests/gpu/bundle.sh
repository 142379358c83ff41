#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build/gpu/bundle, and the same as bundle.tgz: what the scripts of this folder need on a machine that
# has a GPU and cannot build. The libraries of the programs come along, but for the C library's own and
# CUDA's; a program finds them by the line of shell that stands in its place, so that nothing else on
# that machine, its python3 least of all, meets them.
set -eu
build=${1:?the build, as build/release}
to=build/gpu/bundle
programs=(tandem tandem-kernels gpu_limits gpu_products tests/engine/device/test_cuda_golden
    tests/engine/comm/test_fabric tests/tools/make_model)
plugs=(libtandem_cuda.so libtandem_cuda_emu.so tests/fake/cuda/plug.so)
rm -rf "$to" "$to.tgz"
mkdir -p "$to/lib"

libraries() {
    ldd "$1" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | while read -r lib; do
        case $(basename "$lib") in
        libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libresolv.so*) ;;
        libcuda.so* | libcudart* | libcublas* | libnccl* | libnvidia*) ;;
        *) cp -L "$lib" "$to/lib/" ;;
        esac
    done
}

carry() {
    mkdir -p "$to/$build/$(dirname "$1")"
    cp -L "$build/$1" "$to/$build/$1$2"
    strip --strip-debug "$to/$build/$1$2"
    libraries "$build/$1"
}

for p in "${plugs[@]}"; do
    if [ -e "$build/$p" ]; then carry "$p" ""; fi
done
for p in "${programs[@]}"; do
    [ -e "$build/$p" ] || continue
    carry "$p" .bin
    up=$(dirname "$build/$p" | sed 's,[^/][^/]*,..,g')
    cat >"$to/$build/$p" <<PROGRAM
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
LD_LIBRARY_PATH=\$here/$up/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$here/$(basename "$p").bin" "\$@"
PROGRAM
    chmod +x "$to/$build/$p"
done
for d in tests/gpu tests/lib tests/server tests/clients/local tests/engine/device tests/golden/models; do
    mkdir -p "$to/$d"
    (cd "$d" && find . \( -name '*.[ch]' -o -name '*.cu' -o -name '*.pyc' \) -prune -o -type f -print) |
        while read -r f; do
            mkdir -p "$to/$d/$(dirname "$f")"
            cp -L "$d/$f" "$to/$d/$f"
        done
done
mkdir -p "$to/server/http"
cp server/http/routes.def "$to/server/http/"
cat >"$to/run" <<'RUN'
#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run check.py, run bench.py: the report lies in $OUT, or in build/gpu here.
cd "$(dirname "$0")" || exit 1
exec python3 "tests/gpu/${1:-check.py}"
RUN
chmod +x "$to/run"
tar -C build/gpu -czf "$to.tgz" bundle
du -sh "$to" "$to.tgz"
