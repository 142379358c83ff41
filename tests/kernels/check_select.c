/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's kernels. Faults they can catch: a tie that goes to the higher id, one entry too
 * many or too few at a boundary, a top-p that is a share of the whole instead of what top-k left, a
 * NaN or a masked entry that is chosen, a row of nothing, a group or a bin that overflows when
 * thousands of logits are equal.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/logits.h"

struct cuts {
    int32_t top_k;
    float top_p, min_p;
};

/* The definition, over the sorted row. *margin: how near a cut passed by an entry, relative. */
static int64_t expect(struct entry *e, const float *x, int64_t n, const struct cuts *k,
                      int64_t n_max, double *margin)
{
    int64_t n_in = 0, left;
    double total = 0, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        if (x[j] > -INFINITY)
            e[n_in++] = (struct entry){0, x[j], (int32_t)j};
    }
    if (n_in == 0)
        e[n_in++] = (struct entry){1, 0, 0};
    qsort(e, (size_t)n_in, sizeof *e, entry_order);
    n_in = k->top_k > 0 && k->top_k < n_in ? k->top_k : n_in;
    for (int64_t i = 0; i < n_in; i++)
        total += e[i].w = e[i].v == e[0].v ? 1 : exp((double)e[i].v - e[0].v);
    *margin = 1;
    for (left = 0; left < n_in && left < n_max; left++) {
        double reach = k->top_p >= 1 ? INFINITY : (double)k->top_p * total;
        if (left > 0 && reach < INFINITY)
            *margin = fmin(*margin, fabs(sum / reach - 1));
        if (left > 0 && k->min_p > 0)
            *margin = fmin(*margin, fabs(e[left].w / k->min_p - 1));
        if (left > 0 && (sum >= reach || e[left].w < k->min_p))
            break;
        sum += e[left].w;
    }
    for (int64_t i = 0; i < left; i++)
        e[i].w /= sum;
    return left;
}

static void row_judge(struct check *c, const struct k_top_select *a, int64_t row, struct entry *e,
                      const struct cuts *k, bool is_exact)
{
    double margin;
    int64_t want = expect(e, a->logits + row * a->ld, a->n, k, a->n_max, &margin);
    const int32_t *id = a->id + row * a->n_max;
    const float *prob = a->prob + row * a->n_max;
    if (margin < 1e-5 && !is_exact) /* rounding may fall either way there */
        return;
    check_true(c, a->n_left[row] == want, "row %lld: %d left, not %lld", (long long)row,
               a->n_left[row], (long long)want);
    int64_t bad = -1;
    for (int64_t i = 0; i < want && bad < 0; i++) {
        if (id[i] != e[i].id || !(fabs(prob[i] - e[i].w) <= 3e-6 * e[i].w + 1e-37))
            bad = i;
    }
    check_true(c, bad < 0, "row %lld, entry %lld: id %d %g, not %d %g", (long long)row,
               (long long)bad, bad < 0 ? 0 : id[bad], bad < 0 ? 0 : (double)prob[bad],
               bad < 0 ? 0 : e[bad].id, bad < 0 ? 0 : e[bad].w);
}

static void select_run(struct check *c, enum logit_shape shape, int64_t n, int64_t n_max,
                       const struct cuts *k)
{
    int64_t ld = n + 1, m = n < 10000 ? 3 : 1;
    check_begin(c);
    check_case(c, "shape %d n %lld max %lld top_k %d top_p %g min_p %g", shape, (long long)n,
               (long long)n_max, k->top_k, (double)k->top_p, (double)k->min_p);
    float *x = check_floats(c, m * ld, CHECK_NAN);
    int32_t *top_k = check_buf(c, (size_t)m * sizeof *top_k, 4);
    float *top_p = check_buf(c, (size_t)m * sizeof *top_p, 4),
          *min_p = check_buf(c, (size_t)m * sizeof *min_p, 4);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            x[i * ld + j] = logit(c, shape, j, n);
        top_k[i] = k->top_k;
        top_p[i] = k->top_p;
        min_p[i] = k->min_p;
    }
    size_t ids = (size_t)(m * n_max) * sizeof(int32_t);
    struct k_top_select a = {.logits = x,
                             .ld = ld,
                             .m = m,
                             .n = n,
                             .top_k = top_k,
                             .top_p = top_p,
                             .min_p = min_p,
                             .id = check_buf(c, ids, 4),
                             .prob = check_buf(c, ids, 4),
                             .n_left = check_buf(c, (size_t)m * sizeof(int32_t), 4),
                             .n_max = n_max};
    struct check_out out[] = {{a.id, ids}, {a.prob, ids}, {a.n_left, (size_t)m * sizeof(int32_t)}};
    check_slices(c, &a, out, 3);
    struct entry *e = check_buf(c, (size_t)n * sizeof *e + sizeof *e, 8);
    for (int64_t i = 0; i < m; i++)
        row_judge(c, &a, i, e, k, shape == SHAPE_EQUAL); /* weights of one: sums are exact */
}

void check_top_select(struct check *c)
{
    static const struct cuts cuts[] = {
        {0, 1, 0},        {1, 1, 0},     {40, 1, 0},    {0, 0.9f, 0},         {0, 0.999f, 0},
        {50, 0.8f, 0.1f}, {0, 1, 0.05f}, {0, 0.0f, 0},  {100, 0.95f, 0},      {0, 0.7f, 0.3f},
        {7, 1, 0.9f},     {16, 0.5f, 0}, {0, 1e-9f, 0}, {3000, 0.97f, 1e-4f},
    };
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 100, 3001};
    enum { N_CUTS = sizeof cuts / sizeof *cuts };
    for (int shape = 0; shape <= SHAPE_ODD; shape++) {
        for (int i = 0; i < 7; i++) {
            for (int k = 0; k < N_CUTS; k++)
                select_run(c, shape, sizes[i], sizes[i], &cuts[k]);
        }
        for (int k = 2 + shape % 3; k < N_CUTS; k += 6)
            select_run(c, shape, 150000, shape == SHAPE_NORMAL ? 150000 : 5000, &cuts[k]);
    }
    select_run(c, SHAPE_EQUAL, 140000, 140000, &cuts[0]); /* more equals than a group holds */
    select_run(c, SHAPE_NORMAL, 5000, 64, &cuts[0]);
    select_run(c, SHAPE_NORMAL, 5000, 64, &cuts[2]);
}

/* One row with what may be odd in it at `odd`, -1: nothing. */
static void argmax_run(struct check *c, enum logit_shape shape, int64_t n, int64_t odd, float value)
{
    int64_t ld = n + 3, m = 3;
    check_begin(c);
    check_case(c, "shape %d n %lld odd %lld %g", shape, (long long)n, (long long)odd,
               (double)value);
    float *x = check_floats(c, m * ld, CHECK_NAN);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            x[i * ld + j] = logit(c, shape, j + i, n);
    if (odd >= 0 && odd < n)
        x[ld + odd] = value;
    size_t bytes = (size_t)m * sizeof(struct k_best);
    struct k_argmax a = {.x = x, .ld = ld, .m = m, .n = n, .best = check_buf(c, bytes, 4)};
    struct check_out out[] = {{a.best, bytes}};
    check_slices(c, &a, out, 1);
    for (int64_t i = 0; i < m && n > 0; i++) {
        const struct k_best *b = &a.best[i];
        int32_t id = -1;
        bool is_finite = true;
        for (int64_t j = 0; j < n; j++) {
            float v = x[i * ld + j];
            is_finite = is_finite && isfinite(v);
            id = v > (id < 0 ? -INFINITY : x[i * ld + id]) ? (int32_t)j : id;
        }
        check_true(c, b->id == id && b->is_finite == is_finite, "row %lld: %d finite %d, not %d %d",
                   (long long)i, b->id, b->is_finite, id, is_finite);
        check_true(c, id < 0 ? b->max < 0 && isinf(b->max) : b->max == x[i * ld + id],
                   "row %lld: the largest is %g", (long long)i, (double)b->max);
    }
}

void check_argmax(struct check *c)
{
    static const float value[] = {NAN, INFINITY, -INFINITY, 1e38f, -1e38f};
    int n_size;
    const int64_t *size = check_sizes(&n_size);
    for (int i = 0; i < n_size; i++) {
        for (int shape = 0; shape <= SHAPE_ODD; shape++)
            argmax_run(c, shape, size[i], -1, 0);
        for (int k = 0; k < 5; k++) {
            argmax_run(c, SHAPE_NORMAL, size[i], 0, value[k]);
            argmax_run(c, SHAPE_STEPS, size[i], size[i] - 1, value[k]);
            argmax_run(c, SHAPE_EQUAL, size[i], check_below(c, size[i] + 1), value[k]);
        }
    }
    for (int64_t n = 1020; n < 1030; n++)
        argmax_run(c, SHAPE_PEAKED, n, n - 1, 50);
    argmax_run(c, SHAPE_PEAKED, 150000, 123456, 50);
}
