/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's cut. The best n_max entries of a row are kept in a heap, in its own output with the
 * worst on top, and sorted in place; then the row is cut to its first entries by top-k, top-p and
 * min-p, each of which leaves a beginning of the sorted row.
 */
#include <math.h>

#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct select {
    const float *x;
    int32_t *id; /* heap, then sorted */
    int64_t n;   /* in the heap */
    float max;
};

/* Does entry a come before b? NaN and -infinity are never entered. */
static bool is_before(const struct select *s, int32_t a, int32_t b)
{
    return s->x[a] > s->x[b] || (s->x[a] == s->x[b] && a < b);
}

static void sift_down(struct select *s, int64_t i, int64_t n)
{
    int32_t id = s->id[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_before(s, s->id[child], s->id[child + 1]))
            child++;
        if (!is_before(s, id, s->id[child]))
            break;
        s->id[i] = s->id[child];
    }
    s->id[i] = id;
}

static void push(struct select *s, int32_t id, int64_t cap)
{
    if (s->n == cap) {
        if (is_before(s, id, s->id[0])) {
            s->id[0] = id;
            sift_down(s, 0, s->n);
        }
        return;
    }
    int64_t i = s->n++;
    for (int64_t up; i > 0 && is_before(s, s->id[up = (i - 1) / 2], id); i = up)
        s->id[i] = s->id[up];
    s->id[i] = id;
}

static void sort(struct select *s)
{
    for (int64_t n = s->n - 1; n > 0; n--) {
        int32_t last = s->id[n];
        s->id[n] = s->id[0];
        s->id[0] = last;
        sift_down(s, 0, n);
    }
}

/* exp(x - max), where infinite maxima count one each */
static double weight(const struct select *s, float x)
{
    return x == s->max ? 1.0 : x > -INFINITY ? exp((double)x - s->max) : 0.0;
}

/* The sum that top-p is a share of: of what top-k left, or of the whole row. */
static double total_get(const struct select *s, int64_t n, bool is_cut)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight(s, s->x[is_cut ? s->id[i] : i]);
    return sum;
}

static int64_t cut(const struct select *s, int64_t n_left, double target, double min_p)
{
    double sum = 0;
    for (int64_t i = 0; i < n_left; i++) {
        double w = weight(s, s->x[s->id[i]]);
        if (i > 0 && (sum >= target || w < min_p))
            return i;
        sum += w;
    }
    return n_left;
}

static void row_select(const struct k_top_select *a, int64_t row)
{
    struct select s = {
        .x = a->logits + row * a->ld, .id = a->id + row * a->n_max, .max = -INFINITY};
    float *prob = a->prob + row * a->n_max;
    for (int64_t j = 0; j < a->n; j++) {
        if (s.x[j] > -INFINITY)
            push(&s, (int32_t)j, a->n_max);
    }
    if (s.n == 0)
        s.id[s.n++] = 0;
    sort(&s);
    s.max = s.x[s.id[0]];
    bool is_cut = a->top_k[row] > 0 && a->top_k[row] <= s.n;
    int64_t left = is_cut ? a->top_k[row] : s.n;
    double total = a->top_p[row] >= 1 ? INFINITY : total_get(&s, is_cut ? left : a->n, is_cut);
    left = cut(&s, left, a->top_p[row] * total, a->min_p[row]);
    double sum = left == 1 ? 1 : total_get(&s, left, true);
    for (int64_t i = 0; i < left; i++)
        prob[i] = left == 1 ? 1.0f : (float)(weight(&s, s.x[s.id[i]]) / sum);
    a->n_left[row] = (int32_t)left;
}

void argmax_ref(const void *args, const struct k_slice *s)
{
    const struct k_argmax *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct k_best b = {.max = -INFINITY, .id = -1, .is_finite = 1};
        for (int64_t j = 0; j < a->n; j++) {
            float x = a->x[i * a->ld + j];
            b.is_finite &= isfinite(x) != 0;
            if (x > b.max) {
                b.max = x;
                b.id = (int32_t)j;
            }
        }
        a->best[i] = b;
    }
}

void top_select_ref(const void *args, const struct k_slice *s)
{
    for (int64_t i = s->lo; i < s->hi; i++)
        row_select(args, i);
}
