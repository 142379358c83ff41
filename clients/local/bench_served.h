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
    uint64_t round;      /* texts of one round are not found again in another */
    double temperature;  /* 0: greedy */
    struct masks *masks; /* borrowed: what the texts are held to; NULL: nothing */
};

/* Tokens a second while all streams decode: from the last one's first token to the first one's
 * last; 0: they never did. */
int bench_served_together(const struct bench_served *s, double *per_s, struct err *e);

/* What `streams` clients get that each ask again when their answer ended, n requests in all: the
 * load that `tandem bench serve` puts on a server, without the server. */
struct bench_clients {
    double per_s;    /* requests */
    double first_ms; /* from asking to the first token, the median */
};
int bench_served_clients(const struct bench_served *s, int64_t n, struct bench_clients *out,
                         struct err *e);

#endif
