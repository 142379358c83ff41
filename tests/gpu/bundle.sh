#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build/gpu/bundle: what the scripts of this folder need on a machine that has a GPU and cannot build.
# The libraries of the programs come along, but for those of the C library and CUDA.
set -eu
build=${1:?the build, as build/release}
to=build/gpu/bundle
programs=(tandem tandem-kernels gpu_limits gpu_products libtandem_cuda.so tests/fake/cuda/plug.so
    tests/engine/device/test_cuda_golden tests/engine/comm/test_fabric tests/tools/make_model)
rm -rf "$to"
mkdir -p "$to/lib"
for p in "${programs[@]}"; do
    [ -e "$build/$p" ] || continue
    mkdir -p "$to/$build/$(dirname "$p")"
    cp -L "$build/$p" "$to/$build/$p"
    strip --strip-debug "$to/$build/$p"
    ldd "$build/$p" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' || true
done | sort -u | while read -r lib; do
    case $(basename "$lib") in
    libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libcu* | libnv*) ;;
    *) cp -L "$lib" "$to/lib/" ;;
    esac
done
for d in tests/gpu tests/lib tests/server tests/clients/local tests/engine/device tests/golden/models; do
    mkdir -p "$to/$d"
    (cd "$d" && find . -name '*.c' -prune -o -type f -print) | while read -r f; do
        mkdir -p "$to/$d/$(dirname "$f")"
        cp -L "$d/$f" "$to/$d/$f"
    done
done
cat >"$to/run" <<'RUN'
#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run check.py, run bench.py
cd "$(dirname "$0")" || exit 1
export LD_LIBRARY_PATH=$PWD/lib:${LD_LIBRARY_PATH:-}
exec "tests/gpu/${1:-check.py}"
RUN
chmod +x "$to/run"
du -sh "$to"
