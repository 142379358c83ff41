#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs fuzz targets for FUZZ_SECONDS each (default 60), two at a time, from their corpora.
#
#     tests/fuzz/run.sh build/fuzz/tests/fuzz/fuzz_json ...
#
# What reaches new code is kept in build/fuzz/corpus/NAME and read again next time. What breaks a
# target is put into build/fuzz/found/; once mended, move it to tests/fuzz/corpus/NAME: from then on
# every `make test` replays it. The last line counts targets: "N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
: "${FUZZ_SECONDS:=60}"
export FUZZ_SECONDS
mkdir -p build/fuzz/found build/fuzz/log
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

fuzz() {
    local bin=$1 name=${1##*/fuzz_}
    local log=build/fuzz/log/$name.txt seeds=()
    [ ! -d "tests/fuzz/corpus/$name" ] || seeds=("tests/fuzz/corpus/$name")
    mkdir -p "build/fuzz/corpus/$name"
    if "$bin" -max_total_time="$FUZZ_SECONDS" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$name-" "build/fuzz/corpus/$name" "${seeds[@]}" \
        >"$log" 2>&1; then
        printf 'ok   %-24s %12s inputs, %s places reached\n' "$name" \
            "$(awk '/number_of_executed_units/ { print $2 }' "$log")" \
            "$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -d' ' -f2)"
    else
        printf 'FAIL %-24s %s\n' "$name" "$log"
        grep -E -A12 'ERROR: |runtime error' "$log" | head -30
        return 1
    fi
}
export -f fuzz

# shellcheck disable=SC2016
printf '%s\n' "$@" | xargs -r -P 2 -I{} bash -c 'fuzz {} || echo {} >>build/fuzz/failed.$PPID'
failed=0
for f in build/fuzz/failed.*; do
    [ ! -e "$f" ] || { failed=$((failed + $(wc -l <"$f"))); rm "$f"; }
done
echo "$(($# - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
