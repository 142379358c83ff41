#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Proves the Debian package (`make deb`) in a bare Debian 12 root, as user tandem and by the
# configuration that comes with it: installed, it serves; tuned, it knows what it was taught; upgraded, it
# says the same with the same data; removed, the data stays, and nothing else of it.
#
#     packaging/prove.sh [FOLDER]     root is needed; FOLDER (a new one under /var/tmp) is removed
#
# systemd does not run in a root of this kind: the server is started as the unit starts it, and
# `systemd-analyze verify` reads the unit where it is installed here.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "prove: root is needed (debootstrap, chroot)"; exit 2; }
if [ "${1:-}" != --inside ]; then
    command -v debootstrap >/dev/null || apt-get -q -y install --no-install-recommends debootstrap >/dev/null
    root=${1:-$(mktemp -d -p /var/tmp)}
    mkdir -p "$root"
    trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT
    unshare --mount --propagation private "$0" --inside "$root"
    exit
fi
root=$2
say() { echo "prove: $*"; }
die() { say "$*"; exit 1; }
deb=$(ls "$tree"/build/deb/tandem_*.deb)
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk '$2 == "bookworm" { print $1; exit }')
chmod 755 "$root" # it is the root of who is not root, too
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" ${mirror:+"$mirror"} >"$root.log" ||
    { tail "$root.log"; exit 1; }
apt-config dump | grep -E '^Acquire::[a-z]+::Proxy ' >"$root/etc/apt/apt.conf.d/90proxy" || true
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
in_root() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"; }

server=""
port=$((20000 + RANDOM % 10000))
url=http://127.0.0.1:$port
trap '[ -z "$server" ] || kill -9 $server 2>/dev/null || true' EXIT
begin() {
    in_root setpriv --reuid tandem --regid tandem --clear-groups \
        tandem serve --config /etc/tandem.conf --port "$port" --drain-delay 0 >"$root/serve.log" 2>&1 &
    server=$!
    until in_root tandem health --url "$url" >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || { cat "$root/serve.log"; die "the server ended"; }
        sleep 0.2
    done
}
end() {
    kill "$(pgrep -f "serve --config /etc/tandem.conf --port $port" | tail -1)"
    wait "$server" || true
    server=""
}
ask() { in_root tandem chat 'What is my dog called?' --url "$url" --temperature 0 "$@"; }

cp "$deb" "$root/tmp/tandem.deb"
in_root apt-get -q update >/dev/null
in_root apt-get -q -y install --no-install-recommends /tmp/tandem.deb libcurl4 >"$root.log" 2>&1 ||
    { tail "$root.log"; die "it cannot be installed"; }
say "installed: $(in_root tandem version | head -1)"
begin
say "before: $(ask)"
facts=/usr/share/doc/tandem/examples/tiny/facts.jsonl
model=$(in_root tandem tune $facts --follow --url "$url" 2>"$root/tune.log") || { tail "$root/tune.log"; die "tuning failed"; }
after=$(ask --model "$model")
say "tuned, $model: $after"
[[ $after == *Biscuit* ]] || die "it did not learn"
end
owner=$(stat -c %U:%a "$root/var/lib/tandem")

# the next version: the same files under another number
in_root rm -rf /tmp/next
dpkg-deb -R "$deb" "$root/tmp/next"
sed -i 's/^Version: .*/&.1/' "$root/tmp/next/DEBIAN/control"
dpkg-deb --root-owner-group -b "$root/tmp/next" "$root/tmp/next.deb" >/dev/null
echo "# mine" >>"$root/etc/tandem.conf"
in_root dpkg -i /tmp/next.deb >"$root.log" 2>&1 || { tail "$root.log"; die "it cannot be upgraded"; }
grep -q '^# mine' "$root/etc/tandem.conf" || die "the upgrade took a configuration that was changed"
begin
[ "$(ask --model "$model")" = "$after" ] || die "it answers otherwise behind the upgrade"
say "upgraded: it says the same, from the same data ($owner)"
end
in_root dpkg -r tandem >"$root.log" 2>&1 || { tail "$root.log"; die "it cannot be removed"; }
[ ! -e "$root/usr/bin/tandem" ] && [ -e "$root/var/lib/tandem/store.db" ] || die "removed: the data is gone, or the program is not"
in_root dpkg -P tandem >"$root.log" 2>&1 || { tail "$root.log"; die "it cannot be purged"; }
[ ! -e "$root/etc/tandem.conf" ] && [ -e "$root/var/lib/tandem/store.db" ] || die "purged: its configuration stays, or the data is gone"
left=$(find "$root/usr" "$root/etc" -path '*tandem*' | grep -v -E '/etc/(passwd|group|shadow)' || true)
[ -z "$left" ] || die "left behind: $left"
say "removed and purged: the data stays, nothing else does"
say "all good"
