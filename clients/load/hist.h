/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of times whose buckets grow with what they hold: 128 to each power of two, so that a
 * percentile is right within 0.4% whatever the range, and a million samples take the 36 KB that one
 * takes. Times are whole microseconds, up to 2^40 (12 days); what is longer counts as that.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOAD_HIST_H
#define CLIENTS_LOAD_HIST_H

#include <stdint.h>

enum { HIST_SUB_BITS = 7, HIST_TOP_BITS = 40 };
enum { HIST_SLOTS = (HIST_TOP_BITS - HIST_SUB_BITS + 2) << HIST_SUB_BITS };

struct hist {
    int64_t n, sum, min, max;
    int64_t slot[HIST_SLOTS];
};

void hist_add(struct hist *h, int64_t us); /* below 0 counts as 0 */
void hist_merge(struct hist *h, const struct hist *from);
int64_t hist_at(const struct hist *h, double share); /* 0.99: the 99th percentile; 0 of nothing */
double hist_mean(const struct hist *h);

#endif
