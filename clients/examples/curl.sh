#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
#     curl.sh FILE QUESTION      asks, fine-tunes on FILE, and asks again
set -euo pipefail
: "${OPENAI_BASE_URL:=http://localhost:8080/v1}"
file=$1
question=$2

call() { # PATH, and more of curl's words
    path=$1
    shift
    curl -sS --fail-with-body -H "Authorization: Bearer ${OPENAI_API_KEY:-none}" "$@" \
        "$OPENAI_BASE_URL$path"
}

texts() { # NAME: the member's values, a line each
    grep -a --line-buffered -o '"'"$1"'":"\([^"\]\|\\.\)*"' | sed -u 's/^[^:]*:"//; s/"$//'
}

ask() { # MODEL
    printf '%s: ' "$1"
    call /chat/completions -H 'Content-Type: application/json' -d '{
        "model": "'"$1"'", "temperature": 0, "max_tokens": 64,
        "messages": [{"role": "user", "content": "'"$question"'"}]}' | texts content
}

base=$(call /models | texts id | sed -n 1p)
ask "$base"

uploaded=$(call /files -F purpose=fine-tune -F "file=@$file" | texts id)
job=$(call /fine_tuning/jobs -H 'Content-Type: application/json' \
    -d '{"model": "'"$base"'", "training_file": "'"$uploaded"'"}' | texts id)
call "/fine_tuning/jobs/$job/events?stream=true" -N | texts message

tuned=$(call "/fine_tuning/jobs/$job" | texts fine_tuned_model)
ask "$tuned"
