#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing to build, test or check this tree, and only that.
#
#     tests/fresh/deps.sh [build] [test] [web] [lint] [fuzz] [deb] [mpi]   default: build test
#     DEPS=check tests/fresh/deps.sh ...                       only prints what is missing
#     LATER=1 tests/fresh/deps.sh ...      leaves what vendor.sh builds to who asked: make, beside ours
#
# A thing is there when its probe says so (a program, a pkg-config module, a header), whoever put it
# there. What is missing is installed with apt-get, through sudo when not root: the names are those
# of Debian 12 and Ubuntu 24.04. Three libraries are wanted newer than these distributions have them
# (the reasons stand in vendor.sh, which builds them); where that cannot be done, the distribution's
# is installed and the program says so.
set -eu
cd "$(dirname "$0")/../.."
export PKG_CONFIG_PATH="$PWD/build/deps/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"

# set | probe | package
table() {
    cat <<'END'
build header:stdio.h           libc6-dev
build program:gcc              gcc
build program:pkg-config       pkg-config
build module:libcjson          libcjson-dev
build module:libutf8proc       libutf8proc-dev
build module:libpcre2-8        libpcre2-dev
build module:libcurl           libcurl4-openssl-dev
build module:jemalloc          libjemalloc-dev
build module:zlib              zlib1g-dev
test  module:cmocka            libcmocka-dev
test  program:g++              g++
test  program:python3          python3
test  program:curl             curl
test  python:ensurepip         python3-venv
web   program:chromium         chromium
lint  program:python3          python3
lint  program:git              git
lint  format:14                clang-format-14
fuzz  program:clang            clang
fuzz  fuzzer:                  libclang-rt-dev
deb   program:dpkg-shlibdeps   dpkg-dev
deb   program:lintian          lintian
mpi   program:mpirun           openmpi-bin
mpi   module:ompi-c            libopenmpi-dev
END
}

# name, least version, distribution's package: built by vendor.sh
vendored() {
    cat <<'END'
libmicrohttpd 1.0.10 libmicrohttpd-dev
jansson       2.15   libjansson-dev
sqlite3       3.53   libsqlite3-dev
END
}

is_here() {
    case $1 in
    header:*) [ -e "/usr/include/${1#*:}" ] ;;
    program:*) command -v "${1#*:}" >/dev/null ;;
    module:*) pkg-config --exists "${1#*:}" 2>/dev/null ;;
    format:*) command -v "clang-format-${1#*:}" >/dev/null || command -v clang-format >/dev/null ;;
    python:*) python3 -c "import ${1#*:}" 2>/dev/null ;;
    fuzzer:*) [ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null)" ] ||
        [ -e "$(clang -print-file-name=libclang_rt.fuzzer.a 2>/dev/null)" ] ;;
    esac
}

# The package, or its kin of no version where a distribution has it in another: the lint looks at the
# format only where it is the version that the style is written for.
had() {
    case $1 in
    clang-format-*) apt-cache show "$1" >/dev/null 2>&1 || { echo "${1%-*}"; return; } ;;
    esac
    echo "$1"
}

# The packages that the sets given lack, each once.
missing() {
    table | while read -r set probe package; do
        case " $* " in *" $set "*) is_here "$probe" || had "$package" ;; esac
    done | sort -u
}

# The libraries of vendored() that are older than wanted, or absent.
behind() {
    case " $sets " in *" build "*) ;; *) return ;; esac
    vendored | while read -r name least package; do
        pkg-config --atleast-version="$least" "$name" 2>/dev/null ||
            grep -qsx "$name" build/deps/failed || echo "$name"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install() {
    [ $# -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "deps: no apt-get here. Install by your own means: $*" >&2
        return 1
    fi
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "deps: not root, and no sudo here. As root: apt-get install --no-install-recommends $*" >&2
        return 1
    fi
    echo "deps: installing $*"
    local get="env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0"
    # stale lists name versions that the archive no longer has: then fetch them and try again
    # shellcheck disable=SC2086
    as_root $get install --no-install-recommends "$@" >build/deps/log/apt.txt 2>&1 ||
        { as_root $get update >build/deps/log/apt.txt 2>&1 &&
            as_root $get install --no-install-recommends "$@" >>build/deps/log/apt.txt 2>&1; } ||
        { tail -5 build/deps/log/apt.txt >&2; return 1; }
}

sets="${*:-build test}"
# shellcheck disable=SC2086
packages=$(missing ${sets/web/} | xargs)
browser=$(case " $sets " in *" web "*) missing web ;; esac)
old=$(behind | xargs)
if [ "${DEPS:-}" = check ]; then
    [ -z "$packages$browser" ] || echo "missing: $packages $browser"
    [ -z "$old" ] || echo "to be built into build/deps: $old"
    [ -n "$packages$browser$old" ] || echo "nothing is missing for: $sets"
    exit 0
fi
mkdir -p build/deps/log
need=""
if [ -n "$old" ]; then
    for tool in xz:xz-utils make:make; do
        command -v "${tool%:*}" >/dev/null || need="$need ${tool#*:}"
    done
fi
# shellcheck disable=SC2086
install $packages $need
# not every distribution has it, and one that has none builds and tests all else
[ -z "$browser" ] || install "$browser" ||
    echo "deps: no $browser was to be had: the tests of the page will say so and skip"
old=$(behind | xargs)
if [ -n "$old" ]; then
    # shellcheck disable=SC2086
    tests/fresh/vendor.sh $old || true
    [ -n "${LATER:-}" ] || for name in $old; do
        [ ! -d "build/deps/src/$name" ] || tests/fresh/vendor.sh --build "$name" &
    done
    wait
fi
case " $sets " in *" build "*)
    vendored | while read -r name least package; do
        pkg-config --exists "$name" || install "$package"
        pkg-config --atleast-version="$least" "$name" ||
            echo "deps: $name $(pkg-config --modversion "$name") is older than $least: no newer source was to be had"
    done
    ;;
esac
for set in $sets; do
    touch "build/deps/$set.mk"
done
