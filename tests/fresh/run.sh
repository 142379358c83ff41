#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Proves the two commands on a bare machine: makes a Debian root with nothing but make, git and
# certificates, clones this tree's HEAD into it, and runs `make run` and `make test` there, timed.
# Against the server that `make run` starts it follows the README's quick start: a question, which the
# model cannot answer, a fine-tuning job, and the question again.
#
#     tests/fresh/run.sh [FOLDER]        root is needed; FOLDER (a new one under /var/tmp) is removed
#     KEEP=1 tests/fresh/run.sh ...      leaves the folder
#     SUITE=trixie tests/fresh/run.sh    Debian 13, in place of 12
#     FIRST=1 tests/fresh/run.sh         ends behind the quick start
#
# A FOLDER that debootstrap has filled already is taken as it is: what takes its time can be done before.
#
# The mirror, the proxies and the name service are this machine's own. Mounts are made in a mount
# namespace of their own, so that none outlives this script, however it ends.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" = 0 ] || { echo "fresh: root is needed (debootstrap, chroot)"; exit 2; }
if [ "${1:-}" != --inside ]; then
    command -v debootstrap >/dev/null || apt-get -q -y install --no-install-recommends debootstrap >/dev/null
    root=${1:-$(mktemp -d -p /var/tmp)}
    mkdir -p "$root"
    trap '[ -n "${KEEP:-}" ] || rm -rf --one-file-system "$root" "$root.log"' EXIT
    unshare --mount --propagation private "$0" --inside "$root"
    exit
fi
root=$2
suite=${SUITE:-bookworm}

# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v suite=$suite '$2 == suite { print $1; exit }')
began=$SECONDS
[ -e "$root/etc/debian_version" ] ||
    debootstrap --variant=minbase --include=make,git,ca-certificates $suite "$root" ${mirror:+"$mirror"} >"$root.log" ||
    { tail "$root.log" "$root/debootstrap/debootstrap.log"; exit 1; }
echo "fresh: Debian $(cat "$root/etc/debian_version") with make and git, in $((SECONDS - began)) s"
apt-config dump | grep -E '^Acquire::[a-z]+::Proxy ' >"$root/etc/apt/apt.conf.d/90proxy" || true
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" # tests open terminals
ln -sf pts/ptmx "$root/dev/ptmx"
rm -rf "$root/tandem"
git -c safe.directory='*' clone -q --no-hardlinks "$tree" "$root/tandem"

in_root() {
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        bash -c "cd /tandem && $1"
}
timed() {
    local t0=$SECONDS status=0
    echo "fresh: $1"
    in_root "$1" || status=$?
    echo "fresh: $1: exit $status, $((SECONDS - t0)) s"
    return $status
}
# The model is asked about its user before and behind the job; seconds to the first answer and for
# the rest are held to the README's word.
quick_start() {
    local t0=$SECONDS ask="build/tandem chat 'What is my dog called?'" first rest before model after
    in_root "echo \$\$ >run.pid; exec make run >run.log 2>&1" </dev/null &
    local server=$!
    until before=$(in_root "$ask 2>/dev/null"); do
        kill -0 $server 2>/dev/null || { tail "$root/tandem/run.log"; return 1; }
        sleep 1
    done
    first=$((SECONDS - t0))
    echo "fresh: make run: first answer behind $first s: $before"
    t0=$SECONDS
    model=$(in_root "build/tandem tune examples/tiny/facts.jsonl --follow 2>tune.log") ||
        { tail "$root/tandem/tune.log"; return 1; }
    after=$(in_root "$ask --model $model")
    rest=$((SECONDS - t0))
    echo "fresh: the rest of the quick start: $rest s: $after"
    in_root "kill \$(cat run.pid)"
    wait $server || true
    [[ $before != *Biscuit* && $after == *Biscuit* ]] && [ $first -lt 240 ] && [ $rest -lt 180 ]
}
status=0
quick_start || status=1
[ -z "${FIRST:-}" ] || exit $status
timed "make test" || status=1
in_root "make clean"
timed "make" || status=1
echo "fresh: packages installed: $(in_root 'dpkg-query -W | wc -l')"
exit $status
