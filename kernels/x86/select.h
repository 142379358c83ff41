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

#include "kernels/x86/select_sort.h"
#include "kernels/x86/vmath.h"

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

/* One more into a heap of the k largest so far, with the least on top. */
static inline void select_push(float *heap, int64_t *n, int64_t k, float x)
{
    int64_t i = 0;
    if (*n < k) {
        for (i = (*n)++; i > 0 && heap[(i - 1) / 2] > x; i = (i - 1) / 2)
            heap[i] = heap[(i - 1) / 2];
    } else if (x > heap[0]) {
        for (int64_t c; (c = 2 * i + 1) < k; i = c) {
            c += c + 1 < k && heap[c + 1] < heap[c];
            if (heap[c] >= x)
                break;
            heap[i] = heap[c];
        }
    } else {
        return;
    }
    heap[i] = x;
}

/* A number that at least k entries reach, and not many more: the k-th largest of the largest of
 * runs of SELECT_RUN entries. -infinity: there are not so many. */
static inline float select_floor(struct select_row *r, int64_t k)
{
    float *heap = (float *)(void *)r->spare;
    int64_t n = 0;
    if (k > r->n / SELECT_RUN || k > SELECT_CAP)
        return -INFINITY;
    for (int64_t j = 0; j < r->n; j += SELECT_RUN)
        select_push(heap, &n, k,
                    select_max(r->x + j, r->n - j < SELECT_RUN ? r->n - j : SELECT_RUN));
    return heap[0];
}

/* What is far below the largest is seldom wanted and always much: it is walked last, so that mostly
 * it is not even counted. */
static inline void select_stages(struct select_row *r, float floor)
{
    static const float below[] = {8, 24};
    uint64_t lo = select_key(r->max), hi = SELECT_END;
    for (int i = 0; i < 3 && !r->is_done && r->left < r->most; i++, lo = hi) {
        if (floor > -INFINITY)
            hi = i == 0 ? select_key(floor) + 1 : SELECT_END;
        else
            hi = i < 2 ? select_key(r->max - below[i]) : SELECT_END;
        if (hi > lo) /* else too large to have neighbours, or all was walked */
            select_walk(r, lo, hi);
        else
            hi = lo;
    }
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
    select_stages(r, is_cut ? select_floor(r, top_k) : -INFINITY);
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
