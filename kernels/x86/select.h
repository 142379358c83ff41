/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's cut over a long row, for the width of kernels/x86/vec.h. Sorting 150,000 entries
 * to keep fifty is what must not happen, so the row is sorted lazily: a histogram of the entries'
 * leading bits says where the next best few hundred begin and end; these are picked out, sorted
 * and consumed until the cuts are satisfied. Only a flat distribution goes on to further, larger
 * groups.
 *
 * An entry's key is its logit's bits, turned so that ascending keys are descending logits, above
 * its id: keys differ, so any correct sort gives the one order. Both zeros have the same key; NaN
 * and -infinity have keys that no group reaches.
 *
 * A bin of the histogram that holds more than a group may is cut again by its next bits; entries
 * that are equal in all bits are already in the order of their ids and go out unsorted, in runs.
 *
 * Scratch: two arrays of SELECT_CAP keys, between which they are sorted.
 */
#ifndef KERNELS_X86_SELECT_H
#define KERNELS_X86_SELECT_H

#include <math.h>

#include "kernels/float16.h"
#include "kernels/kernels.h"
#include "kernels/x86/vmath.h"

enum {
    SELECT_CAP = K_SCRATCH_BYTES / 16, /* keys in a group */
    SELECT_BINS = 1 << 12,
    SELECT_DIGIT = 11,  /* bits of a pass of the sort */
    SELECT_FIRST = 256, /* entries of the first group, where the cut does not say how many */
    SELECT_FEW = 48,    /* so many are sorted by insertion */
    SELECT_BATCH = 64   /* entries whose weights are computed at once */
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

/* ---- consuming ---- */

/* exp(x - max) of up to SELECT_BATCH sorted entries; infinite maxima count one each. */
static inline void select_weights(const struct select_row *r, int64_t at, int64_t n, float *w)
{
    for (int64_t i = 0; i < n; i++) {
        float x = r->x[(uint32_t)r->keys[at + i]];
        w[i] = x == r->max ? 0.0f : x - r->max;
    }
    for (int64_t i = 0; i < n; i += VF)
        vf_store(w + i, vf_exp(vf_load(w + i, vf_count(n, i))), vf_count(n, i));
}

/* Puts out the first n of keys until a cut says enough. */
static inline void select_consume(struct select_row *r, int64_t n)
{
    float w[SELECT_BATCH];
    for (int64_t i = 0; i < n; i++) {
        if (i % SELECT_BATCH == 0)
            select_weights(r, i, n - i < SELECT_BATCH ? n - i : SELECT_BATCH, w);
        float here = w[i % SELECT_BATCH];
        r->is_done =
            r->left == r->most || (r->left > 0 && (r->sum >= r->target || here < r->min_p));
        if (r->is_done)
            return;
        r->id[r->left] = (int32_t)(uint32_t)r->keys[i];
        r->prob[r->left++] = here;
        r->sum += here;
    }
}

/* ---- walking the row in the order of its keys ---- */

/* Entries of [lo, hi), at most SELECT_CAP, sorted and consumed. */
static inline void select_group(struct select_row *r, uint64_t lo, uint64_t hi)
{
    int64_t n = 0;
    for (int64_t j = 0; j < r->n; j += VF) {
        vi rel;
        uint32_t in =
            select_mask(r->x + j, vf_count(r->n, j), (uint32_t)lo, (uint32_t)(hi - lo), &rel);
        if (!in)
            continue;
        int32_t key[VF];
        vi_store(key, rel);
        for (; in; in &= in - 1) {
            int lane = __builtin_ctz(in);
            r->keys[n++] = (uint64_t)(uint32_t)key[lane] << 32 | (uint64_t)(j + lane);
        }
    }
    select_sort(r, n, hi - lo - 1);
    select_consume(r, n);
}

/* Entries that all have the key: any number, in the order of their ids. */
static inline void select_equal(struct select_row *r, uint64_t key)
{
    int64_t n = 0;
    for (int64_t j = 0; j < r->n && !r->is_done; j++) {
        if (r->x[j] > -INFINITY && select_key(r->x[j]) == key)
            r->keys[n++] = (uint64_t)j;
        if (n == SELECT_CAP) {
            select_consume(r, n);
            n = 0;
        }
    }
    if (!r->is_done)
        select_consume(r, n);
}

static inline void select_count(const struct select_row *r, uint64_t lo, uint64_t hi, int shift,
                                uint32_t *bin)
{
    for (int64_t j = 0; j < r->n; j += VF) {
        vi rel;
        uint32_t in =
            select_mask(r->x + j, vf_count(r->n, j), (uint32_t)lo, (uint32_t)(hi - lo), &rel);
        if (!in)
            continue;
        int32_t at[VF];
        vi_store(at, vi_shr(rel, shift));
        for (; in; in &= in - 1)
            bin[at[__builtin_ctz(in)]]++;
    }
}

/* All of [lo, hi) in order, until done. Each level is SELECT_BINS times finer, so three suffice. */
static void select_walk(struct select_row *r, uint64_t lo, uint64_t hi)
{
    uint32_t bin[SELECT_BINS] = {0};
    int shift = 0;
    while ((hi - lo - 1) >> shift >= SELECT_BINS)
        shift++;
    select_count(r, lo, hi, shift, bin);
    for (int64_t b = 0; b < SELECT_BINS && !r->is_done;) {
        int64_t end = b + 1, count = bin[b];
        uint64_t from = lo + ((uint64_t)b << shift);
        while (end < SELECT_BINS && count < r->want && count + bin[end] <= SELECT_CAP)
            count += bin[end++];
        uint64_t to = lo + ((uint64_t)end << shift);
        to = to < hi ? to : hi;
        if (count > SELECT_CAP && shift == 0)
            select_equal(r, from);
        else if (count > SELECT_CAP)
            select_walk(r, from, to);
        else if (count > 0)
            select_group(r, from, to);
        r->want = r->want < SELECT_CAP ? 4 * r->want : r->want;
        b = end;
    }
}

/* ---- a row ---- */

static inline float select_max(const float *x, int64_t n) /* ignores NaN */
{
    vf m = vf_set(-INFINITY), m1 = m;
    int64_t j = 0;
    for (; j + 2 * VF <= n; j += 2 * VF) {
        m = vf_max(vf_load(x + j, VF), m);
        m1 = vf_max(vf_load(x + j + VF, VF), m1);
    }
    for (; j < n; j += VF) {
        int c = vf_count(n, j);
        m = vf_max(vf_select(vm_first(c), vf_load(x + j, c), vf_set(-INFINITY)), m);
    }
    return vf_max_lane(vf_max(m, m1));
}

/* The sum of exp(x - max) over the whole row. */
static inline double select_total(const float *x, int64_t n, float max)
{
    struct vf_sums s = {{vf_zero(), vf_zero(), vf_zero(), vf_zero()}};
    vf m = vf_set(max), none = vf_set(-INFINITY);
    for (int64_t j = 0; j < n; j += VF) {
        int c = vf_count(n, j);
        vf v = vf_select(vm_first(c), vf_load(x + j, c), none);
        vf e = vf_exp(vf_select(vf_ge(v, m), vf_zero(), vf_sub(v, m)));
        int t = (int)(j / VF % 4);
        s.v[t] = vf_add(s.v[t], vf_select(vf_gt(v, none), e, vf_zero()));
    }
    return vf_sums_total(&s);
}

/* How many of the sorted entries the cuts leave, and the sum of their weights. */
static inline int64_t select_cut(const struct select_row *r, double target, double min_p,
                                 double *sum)
{
    int64_t i = 0;
    for (*sum = 0; i < r->left; i++) {
        if (i > 0 && (*sum >= target || r->prob[i] < min_p))
            break;
        *sum += r->prob[i];
    }
    return i;
}

static inline int64_t select_run(struct select_row *r, int64_t top_k, double top_p, double min_p)
{
    bool is_cut = top_k > 0 && top_k <= r->most;
    double total = INFINITY, sum;
    if (is_cut)
        r->most = top_k;
    else if (top_p < 1)
        total = select_total(r->x, r->n, r->max);
    /* where top-p is a share of what top-k leaves, all of that must be known before it cuts */
    bool is_later = is_cut && top_p < 1;
    r->target = is_cut ? INFINITY : top_p * total;
    r->min_p = is_later ? 0 : min_p;
    r->want = is_cut ? top_k : SELECT_FIRST;
    select_walk(r, select_key(r->max), SELECT_END);
    for (int64_t i = 0; is_later && i < r->left; i++)
        total = (i > 0 ? total : 0) + r->prob[i];
    r->left = select_cut(r, top_p < 1 ? top_p * total : INFINITY, min_p, &sum);
    for (int64_t i = 0; i < r->left; i++)
        r->prob[i] = r->left == 1 ? 1.0f : (float)(r->prob[i] / sum);
    return r->left;
}

static inline void top_select_rows(const struct k_top_select *a, const struct k_slice *s)
{
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct select_row r = {.x = a->logits + i * a->ld,
                               .n = a->n,
                               .keys = s->scratch,
                               .id = a->id + i * a->n_max,
                               .prob = a->prob + i * a->n_max,
                               .most = a->n_max};
        r.spare = r.keys + SELECT_CAP;
        r.max = select_max(r.x, r.n);
        if (r.max == -INFINITY) {
            r.id[0] = 0;
            r.prob[0] = 1;
            a->n_left[i] = 1;
            continue;
        }
        a->n_left[i] = (int32_t)select_run(&r, a->top_k[i], a->top_p[i], a->min_p[i]);
    }
}

#endif
