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

enum { LOAD_HIST_SUB_BITS = 7, LOAD_HIST_TOP_BITS = 40 };
enum { LOAD_HIST_SLOTS = (LOAD_HIST_TOP_BITS - LOAD_HIST_SUB_BITS + 2) << LOAD_HIST_SUB_BITS };

struct load_hist {
    int64_t n, sum, min, max;
    int64_t slot[LOAD_HIST_SLOTS];
};

void load_hist_add(struct load_hist *h, int64_t us); /* below 0 counts as 0 */
void load_hist_merge(struct load_hist *h, const struct load_hist *from);
int64_t load_hist_at(const struct load_hist *h,
                     double share); /* 0.99: the 99th percentile; 0 of nothing */
double load_hist_mean(const struct load_hist *h);

#endif
