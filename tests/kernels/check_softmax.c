/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and cross-entropy. Faults they can catch: a maximum that a tail's zeros win, an overflow
 * on huge logits, a chunk of nothing but -infinity that makes NaN, a tie that goes to the higher
 * id, a target in another chunk that is read here, a result that depends on how rows are grouped;
 * of tokens that a teacher names a share that is another token's, others that are pushed as one of
 * them, a row of one token of which the label's own gradient differs by a bit.
 */
#include <math.h>
#include <string.h>

#include "tests/kernels/check.h"

static void softmax_run(struct check *c, int64_t d, int64_t pad, enum check_kind kind)
{
    int64_t ld = d + pad, m = 3, n = m * ld;
    size_t bytes = (size_t)n * sizeof(float);
    bool is_log = c->id == K_log_softmax;
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    float *x = check_floats(c, n, kind), *y = check_floats(c, n, CHECK_NAN);
    float *want = check_floats(c, n, CHECK_NAN);
    if (d > 20) /* entries that cannot be */
        x[3] = x[d - 1] = -INFINITY;
    struct k_softmax a = {x, y, ld, ld, m, d}, ref = a;
    ref.y = want;
    check_slices(c, &a, (struct check_out[]){{y, bytes}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++)
        check_near(c, "y", y + i * ld, want + i * ld, d, 3e-6, is_log ? 2e-6 : 1e-36);
    struct k_softmax in_place = a;
    in_place.y = x;
    check_run(c, &in_place);
    for (int64_t i = 0; i < m; i++)
        check_bits(c, "in place", x + i * ld, y + i * ld, (size_t)d * sizeof *y);
}

static void softmax_check(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            softmax_run(c, sizes[i], i % 3, kind);
    }
}

void check_softmax(struct check *c)
{
    softmax_check(c);
}

void check_log_softmax(struct check *c)
{
    softmax_check(c);
}

/* ---- cross-entropy ---- */

struct ce_case {
    int64_t m, n_vocab, chunk, pad;
    enum check_kind kind;
    float cap; /* ce_bwd: of logits that were capped */
};

static struct k_ce_state *states_new(struct check *c, int64_t m)
{
    struct k_ce_state *st = check_buf(c, (size_t)m * sizeof *st, 4);
    for (int64_t i = 0; i < m; i++)
        st[i] = (struct k_ce_state){NAN, NAN, NAN, NAN, 7}; /* what stood there does not count */
    return st;
}

static float *logits_new(struct check *c, const struct ce_case *k)
{
    float *x = check_floats(c, k->m * (k->n_vocab + k->pad), k->kind);
    for (int64_t j = 0; j < k->n_vocab && k->m > 0 && k->kind == CHECK_RANDOM; j++) {
        x[j] *= 5;
        if (j < k->chunk && k->n_vocab > k->chunk) /* the first chunk of the first row: masked */
            x[j] = -INFINITY;
    }
    return x;
}

static int32_t *targets_new(struct check *c, const struct ce_case *k)
{
    int32_t *t = check_buf(c, (size_t)k->m * sizeof *t, 4);
    for (int64_t i = 0; i < k->m; i++)
        t[i] = i % 4 == 3 ? -1 : (int32_t)(k->n_vocab - 1 - check_below(c, k->n_vocab / 2 + 1));
    return t;
}

static struct k_ce ce_args(const struct ce_case *k, float *x, const int32_t *target,
                           struct k_ce_state *st, int64_t lo)
{
    return (struct k_ce){.logits = x + lo,
                         .ld = k->n_vocab + k->pad,
                         .m = k->m,
                         .lo = lo,
                         .n = k->n_vocab - lo < k->chunk ? k->n_vocab - lo : k->chunk,
                         .target = target,
                         .state = st,
                         .cap = k->cap};
}

/* The definition, in f64, over the whole row at once. */
static void ce_judge(struct check *c, const struct ce_case *k, const float *x,
                     const int32_t *target, const struct k_ce_state *st)
{
    for (int64_t i = 0; i < k->m; i++, x += k->n_vocab + k->pad) {
        double max = -INFINITY, sum = 0;
        int64_t best = -1;
        for (int64_t j = 0; j < k->n_vocab; j++) {
            if (x[j] > max)
                max = x[j], best = j;
        }
        for (int64_t j = 0; j < k->n_vocab; j++)
            sum += exp(x[j] - max);
        float lse = k_ce_lse(&st[i]);
        double want = max + log(sum);
        check_near_f64(c, "lse", &lse, &want, 1, 1e-6, 1e-6);
        check_true(c, st[i].best_id == best, "row %lld: best %d, not %lld", (long long)i,
                   st[i].best_id, (long long)best);
        if (target[i] >= 0)
            check_bits(c, "target", &st[i].target_logit, &x[target[i]], sizeof *x);
    }
}

static void ce_fwd_run(struct check *c, const struct ce_case *k)
{
    check_begin(c);
    check_case(c, "%s m %lld vocabulary %lld by %lld", check_kind_name(k->kind), (long long)k->m,
               (long long)k->n_vocab, (long long)k->chunk);
    float *x = logits_new(c, k);
    int32_t *target = targets_new(c, k);
    struct k_ce_state *st = states_new(c, k->m), *ref = states_new(c, k->m), *one;
    for (int64_t lo = 0; lo < k->n_vocab; lo += k->chunk) {
        struct k_ce a = ce_args(k, x, target, st, lo), r = ce_args(k, x, target, ref, lo);
        check_slices(c, &a, (struct check_out[]){{st, (size_t)k->m * sizeof *st}}, 1);
        check_run_ref(c, &r);
    }
    for (int64_t i = 0; i < k->m; i++) {
        check_near(c, "max", &st[i].max, &ref[i].max, 1, 0, 0);
        check_near(c, "sum", &st[i].sum, &ref[i].sum, 1, 3e-6, 0);
    }
    ce_judge(c, k, x, target, st);
    for (int64_t i = 0; i < k->m; i++) { /* each row alone */
        one = states_new(c, 1);
        for (int64_t lo = 0; lo < k->n_vocab; lo += k->chunk) {
            struct k_ce a = ce_args(k, x + i * (k->n_vocab + k->pad), target + i, one, lo);
            a.m = 1;
            check_run(c, &a);
        }
        check_bits(c, "a row alone", one, st + i, sizeof *st);
    }
}

void check_ce_fwd(struct check *c)
{
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        ce_fwd_run(c, &(struct ce_case){5, 1, K_CE_CHUNK, 0, kind, 0});
        ce_fwd_run(c, &(struct ce_case){4, 33, 16, 3, kind, 0});
        ce_fwd_run(c, &(struct ce_case){4, 1000, 256, 1, kind, 0});
        ce_fwd_run(c, &(struct ce_case){2, K_CE_CHUNK - 1, K_CE_CHUNK, 0, kind, 0});
        ce_fwd_run(c, &(struct ce_case){2, 2 * K_CE_CHUNK + 17, K_CE_CHUNK, 0, kind, 0});
    }
    ce_fwd_run(c, &(struct ce_case){0, 32, 32, 0, CHECK_RANDOM, 0});
}

struct ce_loss {
    int64_t n, target;
    double dloss, cap;
};

static double ce_capped(const struct ce_loss *l, double x)
{
    return l->cap > 0 ? l->cap * tanh(x / l->cap) : x;
}

static double ce_loss(const void *ctx, const double *x)
{
    const struct ce_loss *l = ctx;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < l->n; j++)
        max = fmax(max, ce_capped(l, x[j]));
    for (int64_t j = 0; j < l->n; j++)
        sum += exp(ce_capped(l, x[j]) - max);
    return (max + log(sum) - ce_capped(l, x[l->target])) * l->dloss;
}

static void states_fill(struct check *c, const struct ce_case *k, float *x, const int32_t *target,
                        struct k_ce_state *st)
{
    for (int64_t lo = 0; lo < k->n_vocab; lo += k->chunk) {
        struct k_ce a = ce_args(k, x, target, st, lo);
        check_run_row(c, K_ce_fwd, &a);
    }
}

static void ce_bwd_run(struct check *c, const struct ce_case *k)
{
    int64_t ld = k->n_vocab + k->pad;
    size_t bytes = (size_t)(k->m * ld) * sizeof(float);
    check_begin(c);
    check_case(c, "%s m %lld vocabulary %lld", check_kind_name(k->kind), (long long)k->m,
               (long long)k->n_vocab);
    float *logits = logits_new(c, k), *dloss = check_floats(c, k->m, CHECK_RANDOM);
    int32_t *target = targets_new(c, k);
    struct k_ce_state *st = states_new(c, k->m);
    float *free_logits = check_dup(c, logits, bytes, 4);
    for (int64_t j = 0; j < k->m * ld && k->cap > 0; j++)
        logits[j] = k->cap * tanhf(logits[j] / k->cap);
    states_fill(c, k, logits, target, st);
    float *x = check_dup(c, logits, bytes, 4), *want = check_dup(c, logits, bytes, 4);
    for (int64_t lo = 0; lo < k->n_vocab; lo += k->chunk) {
        struct k_ce a = ce_args(k, x, target, st, lo), r = ce_args(k, want, target, st, lo);
        a.dloss = r.dloss = dloss;
        size_t here = bytes - (size_t)lo * sizeof *x;
        check_slices(c, &a, (struct check_out[]){{x + lo, here}}, 1);
        check_run_ref(c, &r);
    }
    for (int64_t i = 0; i < k->m; i++) {
        check_near(c, "dlogits", x + i * ld, want + i * ld, k->n_vocab, 2e-5, 1e-7);
        struct ce_loss l = {k->n_vocab, target[i], dloss[i], k->cap};
        if (target[i] >= 0 && k->n_vocab < 100 && k->kind == CHECK_RANDOM && i > 0)
            check_gradient(c, "differences", x + i * ld, free_logits + i * ld, k->n_vocab, ce_loss,
                           &l, 1e-5);
    }
}

void check_ce_bwd(struct check *c)
{
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        if (kind == CHECK_HUGE) /* exp(logit - lse) has no digits left there */
            continue;
        ce_bwd_run(c, &(struct ce_case){5, 1, K_CE_CHUNK, 0, kind, 0});
        ce_bwd_run(c, &(struct ce_case){4, 33, 16, 3, kind, 4});
        ce_bwd_run(c, &(struct ce_case){4, 33, 16, 3, kind, 0});
        ce_bwd_run(c, &(struct ce_case){3, 1000, 256, 1, kind, 0});
        ce_bwd_run(c, &(struct ce_case){2, K_CE_CHUNK + 17, K_CE_CHUNK, 0, kind, 0});
    }
}

/* ---- tokens that a teacher names ---- */

enum { TOP = 5 };

struct ce_top {
    struct k_ce_top a;
    int32_t *target;
    float *plain; /* dlogits of the target alone */
};

/* Row i names i % (TOP + 1) tokens, the target among them; row 1, the target alone, is all of its
 * loss. */
static struct ce_top ce_top_new(struct check *c, const struct ce_case *k)
{
    int64_t n_top = k->m * TOP;
    int32_t *id = check_buf(c, (size_t)n_top * sizeof *id, 4);
    float *share = check_floats(c, n_top, CHECK_ZERO), *rest = check_floats(c, k->m, CHECK_ZERO);
    int32_t *target = check_buf(c, (size_t)k->m * sizeof *target, 4);
    for (int64_t i = 0; i < k->m; i++) {
        int64_t named = i % (TOP + 1), step = k->n_vocab / TOP;
        target[i] = (int32_t)check_below(c, step);
        for (int64_t t = 0; t < TOP; t++)
            id[i * TOP + t] = t < named ? target[i] + (int32_t)(t * step) : -1;
        for (int64_t t = 0; t < named; t++)
            share[i * TOP + t] = named == 1 ? 1 : t == 0 ? 0.5f : 0.25f / (float)(named - 1);
        rest[i] = named > 1 ? 0.25f : 0;
    }
    return (struct ce_top){.a = {.ld = k->n_vocab + k->pad,
                                 .m = k->m,
                                 .n = k->n_vocab,
                                 .n_top = TOP,
                                 .id = id,
                                 .share = share,
                                 .rest = rest,
                                 .logit = check_floats(c, n_top, CHECK_NAN),
                                 .state = states_new(c, k->m),
                                 .others = states_new(c, k->m),
                                 .dloss = check_floats(c, k->m, CHECK_RANDOM),
                                 .cap = k->cap},
                           .target = target};
}

void check_ce_take(struct check *c)
{
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        const struct ce_case k = {13, 100, 100, 3, kind, 0};
        check_begin(c);
        check_case(c, "%s m %lld", check_kind_name(kind), (long long)k.m);
        struct ce_top t = ce_top_new(c, &k);
        size_t bytes = (size_t)(k.m * t.a.ld) * sizeof(float);
        float *x = logits_new(c, &k), *was = check_dup(c, x, bytes, 4);
        t.a.logits = x;
        check_slices(c, &t.a,
                     (struct check_out[]){{x, bytes}, {t.a.logit, (size_t)k.m * TOP * sizeof *x}},
                     2);
        for (int64_t i = 0; i < k.m * TOP; i++) {
            int32_t id = t.a.id[i];
            float *at = was + i / TOP * t.a.ld, want = id < 0 ? 0 : at[id];
            check_bits(c, "a token's logit", &t.a.logit[i], &want, sizeof want);
        }
        for (int64_t i = 0; i < k.m * TOP; i++)
            if (t.a.id[i] >= 0)
                was[i / TOP * t.a.ld + t.a.id[i]] = -INFINITY;
        check_bits(c, "what is left", x, was, bytes);
    }
}

struct ce_top_loss {
    const struct k_ce_top *a;
    int64_t row;
};

/* The definition, in f64. */
static double ce_top_loss(const void *ctx, const double *x)
{
    const struct ce_top_loss *l = ctx;
    const struct k_ce_top *a = l->a;
    const struct ce_loss cap = {.cap = a->cap};
    double max = -INFINITY, sum = 0, others = 0, loss = 0;
    for (int64_t j = 0; j < a->n; j++)
        max = fmax(max, ce_capped(&cap, x[j]));
    for (int64_t j = 0; j < a->n; j++)
        sum += exp(ce_capped(&cap, x[j]) - max);
    others = sum;
    for (int64_t t = l->row * TOP; t < (l->row + 1) * TOP && a->id[t] >= 0; t++) {
        double p = exp(ce_capped(&cap, x[a->id[t]]) - max);
        others -= p;
        loss -= a->share[t] * log(p / sum);
    }
    return (loss - a->rest[l->row] * log(others / sum)) * a->dloss[l->row];
}

/* The rows' states, and the others' dlogits, in x. */
static void ce_top_fill(struct check *c, const struct ce_case *k, struct ce_top *t, float *x)
{
    struct k_ce a = ce_args(k, x, t->target, (struct k_ce_state *)(uintptr_t)t->a.state, 0);
    a.dloss = t->a.dloss;
    check_run_row(c, K_ce_fwd, &a);
    t->plain = check_dup(c, x, (size_t)(k->m * t->a.ld) * sizeof *x, 4);
    t->a.logits = x;
    check_run_row(c, K_ce_take, &t->a);
    a.state = (struct k_ce_state *)(uintptr_t)t->a.others;
    check_run_row(c, K_ce_fwd, &a);
    a.state = (struct k_ce_state *)(uintptr_t)t->a.state;
    check_run_row(c, K_ce_bwd, &a);
    a.logits = t->plain;
    check_run_row(c, K_ce_bwd, &a);
}

static void ce_put_run(struct check *c, const struct ce_case *k)
{
    check_begin(c);
    check_case(c, "%s m %lld vocabulary %lld cap %g", check_kind_name(k->kind), (long long)k->m,
               (long long)k->n_vocab, (double)k->cap);
    struct ce_top t = ce_top_new(c, k);
    size_t bytes = (size_t)(k->m * t.a.ld) * sizeof(float);
    float *free_logits = logits_new(c, k), *x = check_dup(c, free_logits, bytes, 4);
    for (int64_t j = 0; j < k->m * t.a.ld && k->cap > 0; j++)
        x[j] = k->cap * tanhf(x[j] / k->cap);
    ce_top_fill(c, k, &t, x);
    struct k_ce_top ref = t.a;
    ref.logits = check_dup(c, x, bytes, 4);
    check_slices(c, &t.a, (struct check_out[]){{x, bytes}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < k->m; i++) {
        float *got = x + i * t.a.ld;
        struct ce_top_loss l = {&t.a, i};
        check_near(c, "dlogits", got, ref.logits + i * t.a.ld, k->n_vocab, 2e-5, 1e-6);
        if (i % (TOP + 1) < 2) /* none named, or all of the loss is the target's */
            check_bits(c, "of the target alone", got, t.plain + i * t.a.ld,
                       (size_t)k->n_vocab * sizeof *got);
        else if (k->n_vocab <= 100 && k->kind == CHECK_RANDOM)
            check_gradient(c, "differences", got, free_logits + i * t.a.ld, k->n_vocab, ce_top_loss,
                           &l, 1e-5);
    }
}

void check_ce_put(struct check *c)
{
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        if (kind == CHECK_HUGE) /* as of ce_bwd */
            continue;
        ce_put_run(c, &(struct ce_case){7, 33, 33, 3, kind, 4});
        ce_put_run(c, &(struct ce_case){13, 100, 100, 0, kind, 0});
        ce_put_run(c, &(struct ce_case){7, 2017, 2017, 1, kind, 0});
    }
}
