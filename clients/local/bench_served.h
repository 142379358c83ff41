/* SPDX-License-Identifier: Apache-2.0
 *
 * Load on an engine in this process, through engine_submit, as a server would bring it.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOCAL_BENCH_SERVED_H
#define CLIENTS_LOCAL_BENCH_SERVED_H

#include "engine/engine.h"

struct bench_served {
    struct engine *engine; /* started */
    int64_t streams;       /* at once */
    int64_t prompt, new_tokens;
    uint64_t round; /* texts of one round are not found again in another */
};

/* Tokens a second while all streams decode: from the last one's first token to the first one's
 * last; 0: they never did. */
int bench_served_together(const struct bench_served *s, double *per_s, struct err *e);

/* Requests of one token each, `streams` of them in flight: requests a second. */
int bench_served_requests(const struct bench_served *s, int64_t n, double *per_s, struct err *e);

#endif
