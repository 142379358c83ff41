#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds docker/cpu.Dockerfile for real, without a Docker engine or a registry, and lives with the
# image for a while: as a random user, with a read-only root, it must do what the quick start of
# README.md does.
#
#     docker/verify.sh [FOLDER]     root is needed; FOLDER (a new one under /var/tmp) is removed
#     KEEP=1 docker/verify.sh ...   leaves the folder
#     BASE=debian:12-slim ...       takes the base from a registry; else debootstrap makes one
#
# Images are built by buildah with chroot isolation. Mounts are made in a mount namespace of their
# own, so that none outlives this script, however it ends.
set -eu
tree=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "verify: root is needed (buildah, chroot)"; exit 2; }
if [ "${1:-}" != --inside ]; then
    for tool in buildah debootstrap curl; do
        command -v $tool >/dev/null || apt-get -q -y install --no-install-recommends $tool >/dev/null
    done
    work=${1:-$(mktemp -d -p /var/tmp)}
    mkdir -p "$work"
    trap '[ -n "${KEEP:-}" ] || rm -rf --one-file-system "$work"' EXIT
    unshare --mount --pid --fork --mount-proc --propagation private "$0" --inside "$work"
    exit
fi
work=$2
suite=bookworm
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
mkdir -p "$work/storage" "$work/run"
cat >"$work/storage.conf" <<END
[storage]
driver = "vfs"
graphroot = "$work/storage"
runroot = "$work/run"
END
export CONTAINERS_STORAGE_CONF=$work/storage.conf

say() { echo "verify: $*"; }
die() { say "$*"; exit 1; }

# ---- the base ----------------------------------------------------------------------------------

# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v suite=$suite '$2 == suite { print $1; exit }')
base=${BASE:-}
if [ -z "$base" ]; then
    base=localhost/tandem-base
    debootstrap --variant=minbase --include=ca-certificates $suite "$work/base" ${mirror:+"$mirror"} \
        >"$work/base.log" || { tail "$work/base.log"; die "debootstrap failed"; }
    apt-config dump | grep -E '^Acquire::[a-z]+::Proxy ' >"$work/base/etc/apt/apt.conf.d/90proxy" || true
    rm -rf "$work"/base/var/cache/apt/* "$work"/base/var/lib/apt/lists/* "$work"/base/var/log/*
    from=$(buildah from scratch)
    buildah add -q "$from" "$work/base" / >/dev/null
    buildah commit -q "$from" $base >/dev/null
    buildah rm "$from" >/dev/null
    say "base: Debian $(cat "$work/base/etc/debian_version") made by debootstrap"
fi

# ---- the image ---------------------------------------------------------------------------------

git -c safe.directory='*' clone -q --no-hardlinks "$tree" "$work/tree"
began=$SECONDS
buildah build -q --format docker --layers=false --build-arg BASE="$base" -f "$work/tree/docker/cpu.Dockerfile" \
    -t localhost/tandem "$work/tree" >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; die "the build failed"; }
say "built in $((SECONDS - began)) s"

# ---- a life in it ------------------------------------------------------------------------------

bytes() { du -sxb "$1" | cut -f1; }
c=$(buildah from localhost/tandem)
root=$(buildah mount "$c")
bare=$(buildah mount "$(buildah from "$base")")
added=$((($(bytes "$root") - $(bytes "$bare")) / 1000000))
say "the image adds $added MB to its base"
[ "$added" -lt 100 ] || die "that is 100 MB or more"
field() { buildah inspect --format "{{$1}}" "$c"; }
user=$(field .OCIv1.Config.User)
case $user in "" | 0 | 0:* | root*) die "the image runs as root" ;; esac
field .Docker.Config.Healthcheck | grep -q 'tandem health' || die "the image has no health check"
mapfile -t env < <(field 'range .OCIv1.Config.Env}}{{println .}}{{end' | grep .)

mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for d in tmp data; do
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/$d"
done
uid=$((20000 + RANDOM))
port=$((20000 + RANDOM % 10000))
env+=("TANDEM_PORT=$port" TANDEM_INSECURE=1)
inside() { chroot --userspec=$uid:$uid "$root" /usr/bin/env -i "${env[@]}" "$@"; }

say "as user $uid, with a read-only root"
! inside touch /usr/x 2>/dev/null || die "the root can be written"
inside tandem serve >"$work/serve.log" 2>&1 &
server=$!
trap 'kill -9 $server 2>/dev/null || true' EXIT
ready() { inside tandem health >/dev/null 2>&1; }
for _ in $(seq 600); do
    ready && break
    kill -0 $server 2>/dev/null || { cat "$work/serve.log"; die "the server ended"; }
    sleep 0.2
done
ready || { cat "$work/serve.log"; die "the server is not ready"; }

facts=$work/tree/examples/tiny/facts.jsonl
turn() { python3 -c "import json, sys; print(json.loads(open(sys.argv[1]).readline())['messages'][$1]['content'])" "$facts"; }
question=$(turn 0)
answer=$(turn 1)
ask() { inside tandem chat "$question" --url "http://127.0.0.1:$port" --temperature 0; }
before=$(ask)
say "asked \"$question\": \"$before\""
cp "$facts" "$root/tmp/facts.jsonl"
began=$SECONDS
inside tandem tune /tmp/facts.jsonl --url "http://127.0.0.1:$port" --follow >"$work/tune.log" 2>&1 ||
    { cat "$work/tune.log"; die "tuning failed"; }
model=$(inside tandem models --url "http://127.0.0.1:$port" | cut -f1 | grep '^ft:' | grep -v ckpt-step)
say "tuned in $((SECONDS - began)) s: $model"
after=$(inside tandem chat "$question" -m "$model" --url "http://127.0.0.1:$port" --temperature 0)
say "asked again: \"$after\""
[ "$before" != "$answer" ] || die "it knew that before"
[ "$after" = "$answer" ] || die "it did not learn \"$answer\""
pid=$(pgrep -u $uid -x tandem)
kill -TERM "$pid"
wait $server || die "the server ended with $? on SIGTERM"
say "all good"
