/* SPDX-License-Identifier: Apache-2.0
 *
 * What came out of a stage of load: how requests ended, tokens, and four histograms of times.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOAD_TALLY_H
#define CLIENTS_LOAD_TALLY_H

#include "clients/load/conn.h"

enum { LOAD_TALLY_STATUS_MAX = 600 };

struct load_tally {
    int64_t n_begun, n_end[LOAD_CONN_ENDS],
        n_status[LOAD_TALLY_STATUS_MAX];      /* n_status: other than 200 */
    int64_t n_again;                          /* sent a second time over a fresh connection */
    int64_t tok_in, tok_out;                  /* of good requests */
    int64_t n_no_usage;                       /* good ones whose tokens nobody counted but we */
    int64_t begin_us, end_us;                 /* monotonic: the first set out, the last ended */
    int64_t cpu_us;                           /* of this process meanwhile */
    struct load_hist first, between, whole;   /* of good requests; between: of all */
    struct load_hist refused;                 /* of requests that had a status other than 200 */
    struct load_hist late;                    /* how long after its time each set out, at a rate */
    char fault[LOAD_ANSWER_FAULT_BYTES + 32]; /* the first one */
};

void load_tally_note(struct load_tally *t, const struct load_conn *c, enum load_conn_end end,
                     int64_t now_us);
int64_t load_tally_bad(const struct load_tally *t);
double load_tally_seconds(const struct load_tally *t);

#endif
