#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds libraries, static and hardened, into build/deps from the source packages of a newer suite
# of this machine's own distribution.
#
#     tests/fresh/vendor.sh libmicrohttpd jansson sqlite3    fetches them, and lays out their headers
#     tests/fresh/vendor.sh --build sqlite3                  builds one that was fetched
#
# The first is all that compiling ours needs, so the second runs beside it, as a target of make. What
# cannot be built is named in build/deps/failed, and the next deps.sh takes the distribution's.
#
# Why: libmicrohttpd before 1.0.10 has published request smuggling and stack writes; jansson before
# 2.15 recurses without bound when it prints; SQLite before 3.53 can corrupt a write-ahead log.
#
# Where from: a private apt state beside the machine's own, with the machine's own mirror (as its
# sources say when this runs), keys and proxies, and one newer suite. apt proves the signature of
# what it fetches. The versions known when this was written are pinned by SHA-256 besides; a later
# version is taken on apt's word. The machine's own lists and packages are not touched.
#
# One library that fails does not stop the others; exit 1 when any failed. Logs: build/deps/log.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$PWD/build/deps
work=$out/src
log=$out/log
mkdir -p "$work" "$log" "$out/lib/pkgconfig" "$out/include"
: "${CC:=gcc}"
CFLAGS="-O2 -g1 -fPIE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection"

# name | least version | pinned upstream version | its orig archive | SHA-256
pins="\
libmicrohttpd 1.0.10 1.0.10 .orig.tar.gz 04bfe8ef75db7d629a33de767599765cecadc56274a39822d5d081030d577685
jansson 2.15 2.15.1 .orig.tar.gz 12ee844d80157043c099e6ec41e2f5f40516b2043ab8d2b3eca6594920714f49
sqlite3 3.53 3.53.4 .orig.tar.xz 05366adc8ee80c6b1faa71285b49d133c2121238ca58934b077fdeb95934abd4"

say() {
    echo "deps: $*"
}

# ---- apt, beside the machine's own state -------------------------------------------------------

# The mirror that this machine's own suite comes from.
mirror() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v suite="$1" '$2 == suite { print $1; exit }'
}

# An index past its date serves as well (a mirror may be a snapshot): versions have a floor here.
apt_private() {
    local verb=$1
    shift
    "$verb" -q -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" \
        -o APT::Sandbox::User=root -o Acquire::Languages=none \
        -o Acquire::Check-Valid-Until=false "$@"
}

# Points the private state at one suite; fails when the mirror does not have it.
open_suite() {
    local suite=$1 uri=$2 keys=/usr/share/keyrings/$ID-archive-keyring.gpg
    rm -rf "$work/apt"
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    local signed=""
    [ ! -e "$keys" ] || signed="[signed-by=$keys] "
    echo "deb-src $signed$uri $suite main$([ "$ID" != ubuntu ] || echo ' universe')" \
        >"$work/apt/sources.list"
    apt_private apt-get update >"$log/apt-$suite.txt" 2>&1 && ! grep -q '^[EW]:' "$log/apt-$suite.txt"
}

# The newest version of a source package in the open suite.
version_of() {
    apt_private apt-cache showsrc "$1" 2>/dev/null | awk '/^Version:/ { print $2 }' | sort -V | tail -1
}

# Fetches name's orig archive into $work when the open suite has what is wanted of it.
fetch() {
    local name=$1 least pinned ending sum
    read -r _ least pinned ending sum < <(grep "^$name " <<<"$pins")
    local full upstream
    full=$(version_of "$name")
    upstream=${full#*:}
    upstream=${upstream%-*}
    [ -n "$full" ] && dpkg --compare-versions "$upstream" ge "$least" || return 1
    (cd "$work" && apt_private apt-get source --download-only --tar-only "$name=$full") \
        >"$log/$name.txt" 2>&1 || return 1
    archive=$work/${name}_$upstream$ending
    [ -e "$archive" ] || archive=$(echo "$work/${name}_$upstream".orig.tar.?z)
    if [ "$upstream" = "$pinned" ]; then
        echo "$sum  $archive" | sha256sum --quiet -c - >>"$log/$name.txt" 2>&1 ||
            { say "$name $upstream: SHA-256 is not the pinned one: not used"; return 1; }
    else
        say "$name $upstream is newer than the pinned $pinned: signed by the archive, taken as it is"
    fi
    rm -rf "${work:?}/$name"
    mkdir "$work/$name"
    tar -xf "$archive" -C "$work/$name" --strip-components=1
    echo "$upstream" >"$work/$name/.upstream"
}

# ---- the builds, each in its source folder -----------------------------------------------------

# Leaves a .pc that is right wherever the tree is moved.
describe() {
    local name=$1 lib=$2
    # shellcheck disable=SC2016
    printf '%s\n' 'prefix=${pcfiledir}/../..' "Name: $name" "Description: built by make deps" \
        "Version: $(cat .upstream)" 'Cflags: -I${prefix}/include' "Libs: -L\${prefix}/lib -l$lib $3" \
        >"$out/lib/pkgconfig/$name.pc"
}

lay_libmicrohttpd() {
    cp src/include/microhttpd.h "$out/include/" && describe libmicrohttpd microhttpd -lpthread
}

build_libmicrohttpd() {
    CC="$CC" CFLAGS="$CFLAGS" ./configure --enable-static --disable-shared --disable-https \
        --disable-bauth --disable-dauth --disable-postprocessor --disable-doc --disable-examples \
        --disable-tools --disable-curl --disable-nls --disable-dependency-tracking &&
        make -j2 -C src/microhttpd libmicrohttpd.la &&
        cp src/microhttpd/.libs/libmicrohttpd.a "$out/lib/"
}

# The archive has no configure; its header says to fill in the values by hand.
lay_jansson() {
    sed -e 's/@json_inline@/inline/' -e 's/@json_have_[a-z_]*@/1/' src/jansson_config.h.in \
        >src/jansson_config.h &&
        printf '#define %s 1\n' HAVE_ATOMIC_BUILTINS HAVE_SYNC_BUILTINS HAVE_CLOSE HAVE_OPEN HAVE_READ \
            HAVE_FCNTL_H HAVE_ENDIAN_H HAVE_GETPID HAVE_GETTIMEOFDAY HAVE_SCHED_H HAVE_SCHED_YIELD \
            HAVE_STDINT_H HAVE_SYS_PARAM_H HAVE_SYS_STAT_H HAVE_SYS_TIME_H HAVE_SYS_TYPES_H \
            HAVE_UNISTD_H HAVE_LOCALE_H USE_URANDOM DTOA_ENABLED >src/jansson_private_config.h &&
        echo '#define INITIAL_HASHTABLE_ORDER 3' >>src/jansson_private_config.h &&
        cp src/jansson.h src/jansson_config.h "$out/include/" && describe jansson jansson ""
}

build_jansson() {
    local f
    for f in src/*.c; do
        # shellcheck disable=SC2086
        $CC $CFLAGS -DHAVE_CONFIG_H -Isrc -c "$f" -o "${f%.c}.o" || return 1
    done
    rm -f "$out/lib/libjansson.a"
    ar rcs "$out/lib/libjansson.a" src/*.o
}

# One writer, a write-ahead log, no extension: what is not used is left out.
lay_sqlite3() {
    CC="$CC" ./configure --disable-shared --disable-tcl --disable-readline && make sqlite3.h &&
        cp sqlite3.h "$out/include/" && describe sqlite3 sqlite3 "-lm -lpthread"
}

build_sqlite3() {
    make sqlite3.c || return 1
    # shellcheck disable=SC2086
    $CC $CFLAGS -DSQLITE_DQS=0 -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION \
        -DSQLITE_OMIT_DEPRECATED -DSQLITE_OMIT_SHARED_CACHE -DSQLITE_DEFAULT_MEMSTATUS=0 \
        -DSQLITE_LIKE_DOESNT_MATCH_BLOBS -c sqlite3.c -o sqlite3.o || return 1
    rm -f "$out/lib/libsqlite3.a"
    ar rcs "$out/lib/libsqlite3.a" sqlite3.o
}

# What was fetched becomes headers and a .pc; its archive of before is none of this one.
lay() {
    local name=$1 text
    rm -f "$out/lib/lib${name#lib}.a"
    mkdir -p "$out/licences"
    for text in COPYING LICENSE LICENSE.md; do
        [ ! -e "$work/$name/$text" ] || cp "$work/$name/$text" "$out/licences/$name"
    done
    (cd "$work/$name" && "lay_$name") >>"$log/$name.txt" 2>&1 || fail "$name"
}

build() {
    local name=$1 version
    unset MAKEFLAGS MFLAGS MAKELEVEL # who calls may be make, and its jobs are not theirs
    version=$(cat "$work/$name/.upstream")
    (cd "$work/$name" && "build_$name") >>"$log/$name.txt" 2>&1 || { fail "$name"; return 1; }
    rm -rf "${work:?}/$name"
    say "built $name $version"
}

# Nothing of it may be found: the distribution's takes its place.
fail() {
    say "could not build $1: build/deps/log/$1.txt; run the command again, it takes the distribution's"
    echo "$1" >>"$out/failed"
    rm -rf "${work:?}/$1" "$out/lib/pkgconfig/$1.pc" "$out"/build.mk
    case $1 in
    libmicrohttpd) rm -f "$out/include/microhttpd.h" ;;
    jansson) rm -f "$out/include/jansson.h" "$out/include/jansson_config.h" ;;
    sqlite3) rm -f "$out/include/sqlite3.h" ;;
    esac
    return 1
}

# ---- all of it ---------------------------------------------------------------------------------
if [ "${1:-}" = --build ]; then
    build "$2"
    exit
fi
command -v apt-get >/dev/null || { say "no apt-get here: no newer sources"; exit 1; }
# shellcheck source=/dev/null
. /etc/os-release
case $ID in
debian) suites="forky sid" ;;
ubuntu) suites="devel" ;;
*) suites="" ;;
esac
uri=$(mirror "${VERSION_CODENAME:-}")
if [ -z "$uri" ] || [ -z "$suites" ]; then
    say "no mirror with newer sources is known here"
    exit 1
fi
left=("$@")
got=()
for suite in $suites; do
    [ ${#left[@]} -gt 0 ] || break
    open_suite "$suite" "$uri" || continue
    still=()
    for name in "${left[@]}"; do
        if fetch "$name"; then got+=("$name"); else still+=("$name"); fi
    done
    left=("${still[@]}")
done
pids=()
for name in "${got[@]}"; do
    lay "$name" &
    pids+=($!)
done
bad=${#left[@]}
for pid in "${pids[@]}"; do
    wait "$pid" || bad=$((bad + 1))
done
rm -rf "$work/apt" "$work"/*.tar.*
[ "$bad" -eq 0 ]
