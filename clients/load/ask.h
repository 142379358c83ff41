/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests: the n-th one is a pure function of the options and n, so that a run can be had
 * again and two servers get the same words. A prompt is `input_tokens` random token ids, or as many
 * short words where the endpoint takes text alone; the first `shared_prefix` of them are the same
 * in every request.
 *
 * Thread: any; constant once made.
 */
#ifndef CLIENTS_LOAD_ASK_H
#define CLIENTS_LOAD_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "clients/load/url.h"
#include "engine/base/buf.h"

enum { LOAD_ASK_BYTES_MAX = 64 << 20 };

struct load_ask {
    const struct load_url *url; /* borrowed */
    const char *model;          /* borrowed */
    const char *api_key;        /* borrowed; NULL */
    const char *body_more;      /* borrowed; NULL: members to add, without the braces */
    bool is_chat, is_stream, ignore_eos;
    bool sends_ids; /* token ids, not words */
    int64_t input_tokens, output_tokens, shared_prefix, vocab;
    double temperature;
    uint64_t seed;
};

/* The whole request, headers and body. */
void load_ask_write(const struct load_ask *a, uint64_t n, struct buf *out);

/* One that only reads: GET. */
void load_ask_write_get(const struct load_ask *a, const char *path, struct buf *out);

#endif
