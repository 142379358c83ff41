#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An archive that runs where it is unpacked, for distributions that have no package of ours: of shared
# libraries only the C library is the machine's. It wants a C library as new as the one here.
#
#     packaging/tarball.sh VERSION BUILD [PLUG...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$1 build=$2
shift 2
name=tandem-$version-linux-$(uname -m)
root=build/$name
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
rm -rf "$root"
"$here/install.sh" install "$root" "$build" "$@"
install -m 755 "$build/portable/tandem" "$root/bin/tandem"
# the library is for who builds, and wants the distribution's own beside it
rm -rf "$root/include" "$root"/lib/libtandem.* "$root/lib/pkgconfig" "$root/share/doc/tandem/examples/library"
find "$root/bin" "$root/lib" -type f -exec strip --strip-unneeded {} + 2>/dev/null || true
# what has no static library here lies beside, where the program looks first
ldd "$build/portable/tandem" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | while read -r so path; do
    case $so in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | ld-linux*) ;;
    *) install -D -m 644 "$path" "$root/lib/tandem/$so" ;;
    esac
done
cp "$here/../LICENSE" "$root/LICENSE"
tar -C build --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -c "$name" | gzip -9n >"build/$name.tar.gz"
rm -rf "$root"
echo "build/$name.tar.gz"
