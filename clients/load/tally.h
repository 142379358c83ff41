/* SPDX-License-Identifier: Apache-2.0
 *
 * What came out of a stage of load: how requests ended, tokens, and four histograms of times.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOAD_TALLY_H
#define CLIENTS_LOAD_TALLY_H

#include "clients/load/conn.h"

enum { TALLY_STATUS_MAX = 600 };

struct tally {
    int64_t n_begun, n_end[CONN_ENDS], n_status[TALLY_STATUS_MAX]; /* n_status: other than 200 */
    int64_t n_again;                     /* sent a second time over a fresh connection */
    int64_t tok_in, tok_out;             /* of good requests */
    int64_t n_no_usage;                  /* good ones whose tokens nobody counted but we */
    int64_t begin_us, end_us;            /* monotonic: the first set out, the last ended */
    int64_t cpu_us;                      /* of this process meanwhile */
    struct hist first, between, whole;   /* of good requests; between: of all */
    struct hist refused;                 /* of requests that had a status other than 200 */
    char fault[ANSWER_FAULT_BYTES + 32]; /* the first one */
};

void tally_note(struct tally *t, const struct conn *c, enum conn_end end, int64_t now_us);
int64_t tally_bad(const struct tally *t);
double tally_seconds(const struct tally *t);

#endif
