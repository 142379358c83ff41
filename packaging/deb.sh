#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Debian packages, in build/deb: `tandem`; where the library was built `libtandem0` and `libtandem-dev`, and
# where the CUDA plug was `tandem-cuda` with it.
#
#     packaging/deb.sh VERSION BUILD [PLUG...]     OUT: a folder for them; DEBFULLNAME, DEBEMAIL: whose
#
# dpkg is all that is wanted. What the packages depend on is read from the binaries. Files have the time
# of the last commit, so that the same tree makes the same packages.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$1 build=$2
shift 2
for tool in dpkg-deb dpkg-shlibdeps strip; do
    command -v $tool >/dev/null || { echo "deb: $tool is not here: make deps SETS=deb" >&2; exit 1; }
done
arch=$(dpkg --print-architecture)
out=${OUT:-$PWD/build/deb}
maintainer="${DEBFULLNAME:-Tandem developers} <${DEBEMAIL:-tandem@example.org}>"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
rm -rf "$out"
mkdir -p "$out/stub/debian"

plugs=() cuda=""
for plug in "$@"; do
    case $plug in *_cuda.so) cuda=$plug ;; *) plugs+=("$plug") ;; esac
done

# What a binary needs of others, as dpkg says it.
depends() {
    printf 'Source: tandem\n\nPackage: tandem\nArchitecture: any\n' >"$out/stub/debian/control"
    (cd "$out/stub" && dpkg-shlibdeps -O --ignore-missing-info "$@" 2>/dev/null) | sed 's/^shlibs:Depends=//'
}

put() { install -D -m "$1" "$2" "$3"; }

# What each package has to say of itself: copyright, changelog, and why lintian is to be still.
documents() {
    local name=$1 root=$2 doc=$2/usr/share/doc/$1
    mkdir -p "$doc"
    {
        echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
        echo "Upstream-Name: tandem"
        echo
        echo "Files: *"
        echo "Copyright: 2025-2026 the authors of Tandem"
        echo "License: Apache-2.0"
        echo " On Debian systems the whole text is in /usr/share/common-licenses/Apache-2.0."
        [ "$name" != tandem ] || printf '%s\n' "Comment: what the program links of others, with their licences, is in" \
            " /usr/share/doc/tandem/THIRD-PARTY.gz and tandem.spdx.json."
    } >"$doc/copyright"
    {
        echo "$name ($version) unstable; urgency=medium"
        echo
        echo "  * What changed is told in /usr/share/doc/tandem/CHANGELOG.md.gz."
        echo
        echo " -- $maintainer  $(date -uR -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$doc/changelog.gz"
    chmod 644 "$doc"/*
}

# The time of the tree, sizes, sums; then the archive.
finish() {
    local name=$1 root=$2
    find "$root" -type d -exec chmod 755 {} +
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) \
        >"$root/DEBIAN/md5sums"
    echo "Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)" >>"$root/DEBIAN/control"
    chmod 644 "$root"/DEBIAN/{control,md5sums}
    find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group "-Z${ZIP:-xz}" --build "$root" "$out/${name}_${version}_$arch.deb"
}

# ---- the program ---------------------------------------------------------------------------------

root=$out/root
"$here/install.sh" install "$root/usr" "$build" "${plugs[@]}"
find "$root/usr/bin" "$root/usr/lib" -type f -exec strip --strip-unneeded --remove-section=.comment {} + 2>/dev/null || true
lib=$out/lib dev=$out/dev doc=usr/share/doc
if [ -e "$root/usr/lib/libtandem.so.0" ]; then # into packages of their own
    mkdir -p "$lib/usr/lib" "$dev/usr/lib" "$dev/$doc/libtandem-dev/examples"
    mv "$root/usr/lib/libtandem.so.0" "$lib/usr/lib/"
    mv "$root"/usr/lib/{libtandem.so,libtandem.a,pkgconfig} "$dev/usr/lib/"
    mv "$root/usr/include" "$dev/usr/"
    mv "$root/$doc/tandem/examples/library"/* "$dev/$doc/libtandem-dev/examples/"
    rmdir "$root/$doc/tandem/examples/library"
fi
gzip -9n "$root/usr/share/man/man1/tandem.1" "$root/usr/share/doc/tandem/THIRD-PARTY" \
    "$root/usr/share/doc/tandem/CHANGELOG.md"
rm "$root/usr/share/doc/tandem/LICENSE" # Debian has it in one place
put 644 "$here/tandem.service" "$root/usr/lib/systemd/system/tandem.service"
put 644 "$here/tandem.conf" "$root/etc/tandem.conf"
put 644 "$here/tandem.default" "$root/etc/default/tandem"
put 644 "$here/logrotate" "$root/etc/logrotate.d/tandem"
documents tandem "$root"
mkdir -p "$root/usr/share/lintian/overrides" "$root/DEBIAN"
{
    echo "# newer than the distribution's, which have published faults (tests/fresh/vendor.sh)"
    echo "tandem: embedded-library *"
} >"$root/usr/share/lintian/overrides/tandem"
printf '%s\n' /etc/tandem.conf /etc/default/tandem /etc/logrotate.d/tandem >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<END
Package: tandem
Version: $version
Architecture: $arch
Maintainer: $maintainer
Section: science
Priority: optional
Depends: adduser, $(depends "$root/usr/bin/tandem")
Recommends: libcurl4t64 | libcurl4 | libcurl3t64-gnutls | libcurl3-gnutls, ca-certificates
Suggests: tandem-cuda (= $version), python3
Description: server and trainer of language models in one program
 Tandem serves language models over OpenAI's API and fine-tunes them on the
 weights that it serves: a client posts a file of examples and a job, and the
 tuned model answers on the same port, without a restart.
 .
 A small model comes with it. The service is not started by itself.
END
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    getent passwd tandem >/dev/null ||
        adduser --quiet --system --group --no-create-home --home /var/lib/tandem tandem
    for d in /var/lib/tandem /var/log/tandem; do
        [ -d $d ] || install -d -m 750 -o tandem -g tandem $d
    done
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
        [ -z "$2" ] || deb-systemd-invoke try-restart tandem.service || true
    fi
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop tandem.service || true
fi
END
cat >"$root/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
if [ "$1" = purge ]; then
    rm -rf /var/log/tandem
    # models that somebody trained are not the package's to delete
    [ ! -d /var/lib/tandem ] || rmdir /var/lib/tandem 2>/dev/null ||
        echo "tandem: what was trained stays in /var/lib/tandem; delete it if nobody wants it" >&2
fi
END
chmod 755 "$root"/DEBIAN/{postinst,prerm,postrm}
finish tandem "$root"

# ---- the library ---------------------------------------------------------------------------------

if [ -d "$lib" ]; then
    documents libtandem0 "$lib"
    documents libtandem-dev "$dev"
    mkdir -p "$lib/DEBIAN" "$dev/DEBIAN" "$lib/usr/share/lintian/overrides" "$dev/usr/share/lintian/overrides"
    echo "libtandem0: embedded-library *" >"$lib/usr/share/lintian/overrides/libtandem0"
    echo "libtandem 0 libtandem0 (>= $version)" >"$lib/DEBIAN/shlibs"
    echo "activate-noawait ldconfig" >"$lib/DEBIAN/triggers"
    chmod 644 "$lib"/DEBIAN/{shlibs,triggers}
    rmdir "$dev/usr/share/lintian/overrides" "$dev/usr/share/lintian"
    cat >"$lib/DEBIAN/control" <<END
Package: libtandem0
Version: $version
Architecture: $arch
Maintainer: $maintainer
Section: libs
Priority: optional
Depends: $(depends "$lib/usr/lib/libtandem.so.0")
Suggests: tandem-cuda (= $version)
Description: language models in a program, to be asked and to be taught
 The engine of Tandem as a shared library: models are opened, asked, trained on
 a file of examples and asked again by C functions, without a server.
END
    cat >"$dev/DEBIAN/control" <<END
Package: libtandem-dev
Version: $version
Architecture: $arch
Maintainer: $maintainer
Section: libdevel
Priority: optional
Depends: libtandem0 (= $version)
Suggests: libcjson-dev, libutf8proc-dev, libpcre2-dev, libjansson-dev, pkgconf
Description: language models in a program (development files)
 The header, the static library and the examples of libtandem0. Who links the
 static library wants the suggested packages.
END
    finish libtandem0 "$lib"
    finish libtandem-dev "$dev"
fi

# ---- the CUDA plug -------------------------------------------------------------------------------

if [ -n "$cuda" ]; then
    root=$out/cuda
    put 644 "$cuda" "$root/usr/lib/tandem/libtandem_cuda.so"
    strip --strip-unneeded --remove-section=.comment "$root/usr/lib/tandem/libtandem_cuda.so"
    documents tandem-cuda "$root"
    mkdir -p "$root/DEBIAN"
    cat >"$root/DEBIAN/control" <<END
Package: tandem-cuda
Version: $version
Architecture: $arch
Maintainer: $maintainer
Section: contrib/science
Priority: optional
Depends: tandem (= $version), $(depends "$root/usr/lib/tandem/libtandem_cuda.so")
Description: server and trainer of language models, on NVIDIA's GPUs
 The part of Tandem that computes on GPUs by CUDA. The program opens it where
 NVIDIA's driver is (libcuda.so.1), and serves and trains on the GPU then.
END
    finish tandem-cuda "$root"
fi
rm -rf "$out/stub" "$out/root" "$out/cuda" "$lib" "$dev"
