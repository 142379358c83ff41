#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes docker/secrets/: `keys` for the server (one that may do all, one for metrics) and
# `metrics_key` for Prometheus; prints the first. What is there already stays.
set -eu
cd "$(dirname "$0")"
[ ! -e secrets ] || { awk '$2 == "all" { print $3 }' secrets/keys; exit; }
key() {
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}
all=$(key)
metrics=$(key)
mkdir -m 700 secrets.new
printf 'me all %s\nprometheus admin %s\n' "$all" "$metrics" >secrets.new/keys
printf '%s' "$metrics" >secrets.new/metrics_key
chmod 444 secrets.new/* # containers read them as users of their own; the folder keeps others out
mv secrets.new secrets
echo "$all"
