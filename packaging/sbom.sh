#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the binaries link, as an SPDX 2.3 document (JSON) and as notices for people.
#
#     packaging/sbom.sh VERSION OUT STATIC BINARY...
#
# OUT gets tandem.spdx.json and THIRD-PARTY. STATIC: names of archives that were linked in
# ("libsqlite3.a libcudart_static.a"); what is shared is read from the binaries. A library that
# packaging/libraries.txt does not have is an error: somebody must say what its licence is. The time of
# the document is that of the sources (SOURCE_DATE_EPOCH, else the last commit, else now), so that the same tree
# makes the same bytes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(dirname "$here")
version=$1 out=$2 static=$3
shift 3
mkdir -p "$out"
export PKG_CONFIG_PATH="$tree/build/deps/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$tree" log -1 --format=%ct 2>/dev/null || date +%s)}

needed() {
    { objdump -p "$@" | awk '$1 == "NEEDED" { print $2 }'
      echo libcurl.so.4 # opened by name, where a command wants it
      printf '%s\n' $static; } | sort -u
}

# name how licence home, of each thing that is linked
rows=$(needed "$@" | while read -r lib; do
    row=$(awk -v lib="$lib" '!/^#/ && NF && index(lib, $2) == 1 { print $1, $3, $4, $5; exit }' "$here/libraries.txt")
    [ -n "$row" ] || { echo "sbom: $lib is linked, and packaging/libraries.txt does not say what it is" >&2; exit 1; }
    echo "$row"
done | sort -u)
[ -n "$rows" ] || exit 1

version_of() {
    pkg-config --modversion "$1" 2>/dev/null || case $1 in
    glibc) getconf GNU_LIBC_VERSION | cut -d' ' -f2 ;;
    libgcc | libstdc++) gcc -dumpfullversion ;;
    *) echo NOASSERTION ;;
    esac
}

licence_text() {
    local name=$1 f
    for f in "$tree/build/deps/licences/$name" /usr/share/doc/"$name"-dev/copyright \
        /usr/share/doc/lib"$name"-dev/copyright /usr/share/doc/"${name%-8}"-dev/copyright \
        /usr/share/doc/libcurl4-openssl-dev/copyright /usr/share/doc/libc6/copyright; do
        case $f:$name in
        *libcurl4*:libcurl | *libc6/*:glibc) ;;
        *libcurl4*:* | *libc6/*:*) continue ;;
        esac
        [ -r "$f" ] && { cat "$f"; return; }
    done
    echo "(Its text is at its home.)"
}

{
    created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
    printf '{\n "spdxVersion": "SPDX-2.3",\n "dataLicense": "CC0-1.0",\n "SPDXID": "SPDXRef-DOCUMENT",\n'
    printf ' "name": "tandem-%s",\n "documentNamespace": "https://spdx.org/spdxdocs/tandem-%s-%s",\n' \
        "$version" "$version" "$(cat "$@" | sha256sum | cut -c1-32)"
    printf ' "creationInfo": {"created": "%s", "creators": ["Tool: packaging/sbom.sh"]},\n' "$created"
    printf ' "packages": [\n  {"SPDXID": "SPDXRef-tandem", "name": "tandem", "versionInfo": "%s",' "$version"
    printf ' "downloadLocation": "NOASSERTION", "filesAnalyzed": false,'
    printf ' "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}'
    while read -r name how licence home; do
        printf ',\n  {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s",' "${name//[^A-Za-z0-9.-]/-}" \
            "$name" "$(version_of "$name")"
        printf ' "downloadLocation": "%s", "filesAnalyzed": false,' "$home"
        printf ' "licenseConcluded": "%s", "licenseDeclared": "%s", "copyrightText": "NOASSERTION"}' \
            "${licence//_/ }" "${licence//_/ }"
    done <<<"$rows"
    printf '\n ],\n "hasExtractedLicensingInfos": [{"licenseId": "LicenseRef-NVIDIA-CUDA",'
    printf ' "extractedText": "CUDA Toolkit End User License Agreement, https://docs.nvidia.com/cuda/eula/"}],\n'
    printf ' "relationships": [\n  {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",'
    printf ' "relatedSpdxElement": "SPDXRef-tandem"}'
    while read -r name how licence home; do
        case $how in
        static) kind=STATIC_LINK ;;
        opened) kind=OPTIONAL_DEPENDENCY_OF ;;
        *) kind=DYNAMIC_LINK ;;
        esac
        from=SPDXRef-tandem to=SPDXRef-${name//[^A-Za-z0-9.-]/-}
        [ $kind != OPTIONAL_DEPENDENCY_OF ] || { to=$from from=SPDXRef-${name//[^A-Za-z0-9.-]/-}; }
        printf ',\n  {"spdxElementId": "%s", "relationshipType": "%s", "relatedSpdxElement": "%s"}' "$from" $kind "$to"
    done <<<"$rows"
    printf '\n ]\n}\n'
} >"$out/tandem.spdx.json"

{
    echo "Tandem $version is licensed under the Apache License, version 2.0 (LICENSE). Its binaries hold, or"
    echo "load, these libraries of others."
    while read -r name how licence home; do
        printf '\n%s\n%s %s (%s, %s)\n%s\n\n' "$(printf '=%.0s' {1..78})" "$name" "$(version_of "$name")" \
            "${licence//_/ }" "$how" "$home"
        licence_text "$name"
    done <<<"$rows"
} >"$out/THIRD-PARTY"
