/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of kernels/x86/select.h and their order: a row's state, which entries lie in a range of
 * keys, and the sort of a group of them, by insertion where they are few, else by digits.
 */
#ifndef KERNELS_X86_SELECT_SORT_H
#define KERNELS_X86_SELECT_SORT_H

#include <math.h>

#include "kernels/float16.h"
#include "kernels/kernels.h"
#include "kernels/x86/vec.h"

enum {
    SELECT_CAP = K_SCRATCH_BYTES / 32, /* keys in a group */
    SELECT_BINS = 1 << 12,
    SELECT_DIGIT = 11,  /* bits of a pass of the sort */
    SELECT_FIRST = 256, /* entries of the first group, where the cut does not say how many */
    SELECT_FEW = 48,    /* so many are sorted by insertion */
    SELECT_BATCH = 64,  /* entries whose weights are computed at once */
    SELECT_RUN = 64     /* entries whose largest stands for them, where top-k wants few */
};

#define SELECT_END UINT64_C(0xff800000) /* the key of -infinity */

/* A row on its way through the cuts. */
struct select_row {
    const float *x;
    int64_t n;
    float max;
    uint64_t *keys, *spare; /* borrowed: scratch */
    int32_t *id;            /* the row's outputs */
    float *prob;            /* exp(x - max) until all are known */
    int64_t left, most;     /* entries put out; the most there may be */
    int64_t want;           /* entries of the next group */
    double sum, target, min_p;
    bool is_done;
};

static inline vi select_keys(vf x)
{
    vi u = vf_bits(vf_add(x, vf_zero())), flip = vi_set(0x7fffffff); /* -0 becomes 0 */
    vi sign = vi_shr(u, 31), positive = vi_add(sign, vi_set(-1));    /* all ones where x >= 0 */
    return vi_xor(u, vi_and(positive, flip));
}

static inline uint32_t select_key(float x)
{
    uint32_t u = f32_bits(x + 0.0f);
    return u >> 31 ? u : u ^ 0x7fffffffu;
}

/* Which of the n numbers at x have keys in [lo, hi), and those keys less lo. */
static inline uint32_t select_mask(const float *x, int n, uint32_t lo, uint32_t span, vi *rel)
{
    vf v = vf_load(x, n);
    *rel = vi_add(select_keys(v), vi_set((int32_t)(0u - lo)));
    uint32_t in = vm_bits(vi_less(*rel, vi_set((int32_t)span)));
    return in & vm_bits(vf_gt(v, vf_set(-INFINITY))) & ((1u << n) - 1u);
}

/* ---- sorting ---- */

static inline void select_insertion(uint64_t *key, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t k = key[i];
        int64_t j = i;
        for (; j > 0 && key[j - 1] > k; j--)
            key[j] = key[j - 1];
        key[j] = k;
    }
}

/* One stable pass by the digit at `shift`. */
static inline void select_pass(const uint64_t *from, uint64_t *to, int64_t n, int shift)
{
    enum { SIZE = 1 << SELECT_DIGIT };
    uint32_t at[SIZE] = {0};
    for (int64_t i = 0; i < n; i++)
        at[from[i] >> shift & (SIZE - 1)]++;
    for (uint32_t d = 0, sum = 0; d < SIZE; d++) {
        uint32_t count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++)
        to[at[from[i] >> shift & (SIZE - 1)]++] = from[i];
}

/* Ids ascend already, so only the bits of the keys' range are sorted by. Leaves them in r->keys. */
static inline void select_sort(struct select_row *r, int64_t n, uint64_t span)
{
    if (n <= SELECT_FEW) {
        select_insertion(r->keys, n);
        return;
    }
    for (int shift = 32; span > 0; shift += SELECT_DIGIT, span >>= SELECT_DIGIT) {
        select_pass(r->keys, r->spare, n, shift);
        uint64_t *sorted = r->spare;
        r->spare = r->keys;
        r->keys = sorted;
    }
}

#endif
