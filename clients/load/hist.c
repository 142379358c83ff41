/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot's number is the time's upper bits: below 256 the time itself, above it seven bits behind
 * the highest one, and which that was.
 */
#include "clients/load/hist.h"

#include <math.h>

static const int64_t LONGEST = INT64_C(1) << LOAD_HIST_TOP_BITS;

static int slot_of(int64_t us)
{
    int top = 63 - __builtin_clzll((uint64_t)us | 1);
    int shift = top > LOAD_HIST_SUB_BITS ? top - LOAD_HIST_SUB_BITS : 0;
    return (shift << LOAD_HIST_SUB_BITS) + (int)(us >> shift);
}

/* The middle of what falls into the slot. */
static int64_t time_of(int slot)
{
    int shift = (slot >> LOAD_HIST_SUB_BITS) - 1;
    if (shift <= 0)
        return slot;
    int64_t upper = slot - (shift << LOAD_HIST_SUB_BITS);
    return (upper << shift) + (INT64_C(1) << (shift - 1));
}

void load_hist_add(struct load_hist *h, int64_t us)
{
    us = us < 0 ? 0 : us > LONGEST ? LONGEST : us;
    h->min = h->n == 0 || us < h->min ? us : h->min;
    h->max = us > h->max ? us : h->max;
    h->n++;
    h->sum += us;
    h->slot[slot_of(us)]++;
}

void load_hist_merge(struct load_hist *h, const struct load_hist *from)
{
    if (from->n == 0)
        return;
    h->min = h->n == 0 || from->min < h->min ? from->min : h->min;
    h->max = from->max > h->max ? from->max : h->max;
    h->n += from->n;
    h->sum += from->sum;
    for (int i = 0; i < LOAD_HIST_SLOTS; i++)
        h->slot[i] += from->slot[i];
}

int64_t load_hist_at(const struct load_hist *h, double share)
{
    /* 0.07 * 20000 is a little more than 1400: no share is meant to a billionth */
    int64_t want = (int64_t)ceil(share * (double)h->n - 1e-6), seen = 0;
    if (want >= h->n)
        return h->max;
    want = want < 1 ? 1 : want;
    for (int i = 0; i < LOAD_HIST_SLOTS; i++) {
        seen += h->slot[i];
        if (seen >= want) {
            int64_t us = time_of(i);
            return us < h->min ? h->min : us > h->max ? h->max : us;
        }
    }
    return 0;
}

double load_hist_mean(const struct load_hist *h)
{
    return h->n ? (double)h->sum / (double)h->n : 0;
}
