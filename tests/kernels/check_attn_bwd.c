/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of attention. In f64 on the numbers as the cells round them: wrong mask, head,
 * scale, transposition, softcap's slope. The f64 formula itself is held against finite differences
 * of the f64 forward. Bit for bit: units, and other sequences in the call. Where parts of dq are
 * allowed, all of it once with and once without: a part that is missing, added twice, or of other
 * keys.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/attn_case.h"

static const struct attn_spec specs[] = {
    {.d = 64,
     .n_head = 9,
     .n_kv_head = 3,
     .n_seq = 3,
     .n_row = {33, 1, 100},
     .kv_len = {33, 1, 100}},
    {.d = 16, .n_head = 1, .n_kv_head = 1, .n_seq = 1, .n_row = {1}, .kv_len = {1}},
    {.d = 20,
     .n_head = 4,
     .n_kv_head = 4,
     .n_seq = 4,
     .n_row = {31, 0, 32, 65},
     .kv_len = {31, 9, 32, 65}},
    {.d = 36, .n_head = 4, .n_kv_head = 2, .n_seq = 1, .n_row = {300}, .kv_len = {300}},
    {.d = 80, .n_head = 5, .n_kv_head = 1, .n_seq = 2, .n_row = {7, 129}, .kv_len = {300, 132}},
    {.d = 128, .n_head = 4, .n_kv_head = 2, .n_seq = 1, .n_row = {128}, .kv_len = {128}},
    {.d = 48, /* tiles that lack one key, and with it part of a block of rows */
     .n_head = 2,
     .n_kv_head = 1,
     .n_seq = 2,
     .n_row = {255, 127},
     .kv_len = {255, 127}},
    {.d = 256, .n_head = 2, .n_kv_head = 1, .n_seq = 2, .n_row = {70, 2}, .kv_len = {270, 2}},
    {.d = 46, .n_head = 100, .n_kv_head = 1, .n_seq = 1, .n_row = {5}, .kv_len = {5}},
    {.d = 64, .n_head = 3, .n_kv_head = 3, .window = 1, .n_seq = 1, .n_row = {33}, .kv_len = {33}},
    {.d = 64,
     .n_head = 6,
     .n_kv_head = 3,
     .window = 33,
     .n_seq = 2,
     .n_row = {300, 20},
     .kv_len = {300, 20}},
    {.d = 32,
     .n_head = 2,
     .n_kv_head = 1,
     .window = 40,
     .softcap = 2,
     .n_seq = 1,
     .n_row = {100},
     .kv_len = {100}},
    {.d = 48,
     .n_head = 4,
     .n_kv_head = 4,
     .softcap = 30,
     .n_seq = 1,
     .n_row = {40},
     .kv_len = {40}},
    {.d = 64,
     .n_head = 4,
     .n_kv_head = 4,
     .full = true,
     .n_seq = 3,
     .n_row = {33, 128, 1},
     .kv_len = {33, 128, 1}},
    {.d = 64,
     .n_head = 2,
     .n_kv_head = 2,
     .full = true,
     .window = 20,
     .n_seq = 1,
     .n_row = {200},
     .kv_len = {200}},
    {.d = 16, .n_head = 2, .n_kv_head = 1, .n_seq = 1, .n_row = {1100}, .kv_len = {1100}},
    {.d = 16,
     .n_head = 1,
     .n_kv_head = 1,
     .window = 70,
     .n_seq = 2,
     .n_row = {1030, 140},
     .kv_len = {1030, 140}},
    {.d = 15, .n_head = 3, .n_kv_head = 3, .n_seq = 2, .n_row = {40, 3}, .kv_len = {40, 70}},
};

enum { N_SPEC = sizeof specs / sizeof *specs };

/* The gradient in f64; size: sums of the absolute values of what each element adds up. Borrowed:
 * kept by the check. */
struct grads {
    double *dq, *dk, *dv;
    double *size_q, *size_k, *size_v;
    double *dy; /* as a product takes it */
};

struct bwd_case {
    struct attn_case t;
    struct attn_truth truth;
    struct k_attn_bwd args;
    struct grads want;
    int64_t n_q, n_kv; /* elements of dq, of dk */
};

/* y += s x, size += |s| |x| */
static void add(double *restrict y, double *restrict size, double s, double s_size, const double *x,
                int32_t d)
{
    for (int32_t i = 0; i < d; i++) {
        y[i] += s * x[i];
        size[i] += s_size * fabs(x[i]);
    }
}

/* One row and head against all keys of its sequence. dy y is of the y that the variants read. */
static void want_row(struct bwd_case *b, int64_t seq, int64_t row, int64_t head)
{
    const struct attn_case *t = &b->t;
    const struct attn_spec *s = &t->spec;
    int32_t d = s->d;
    int64_t tok = t->batch.q_start[seq] + row, kvh = head / (s->n_head / s->n_kv_head);
    int64_t past = s->kv_len[seq] - s->n_row[seq];
    const double *q = b->truth.q + tok * t->ld_q + head * d;
    const double *dy = b->want.dy + tok * b->args.ld_dy + head * d;
    double delta = 0, size = 0, lse = b->truth.lse[tok * s->n_head + head];
    for (int32_t i = 0; i < d; i++) {
        double x = (double)b->args.dy[tok * b->args.ld_dy + head * d + i];
        delta += x * (double)t->y[tok * t->ld_y + head * d + i];
        size += fabs(x * (double)t->y[tok * t->ld_y + head * d + i]);
    }
    for (int64_t j = 0; j < s->kv_len[seq]; j++) {
        if (!attn_sees(s, s->kv_len[seq], s->n_row[seq], row, j))
            continue;
        int64_t at = (t->all.q_start[seq] + j) * t->ld_k + kvh * d;
        const double *k = b->truth.k + at, *v = b->truth.v + at;
        double slope, p, dp, ds, dp_size, unused;
        p = exp(attn_score(s, t->args.scale, attn_dot(q, k, d, &unused), &slope) - lse);
        dp = attn_dot(dy, v, d, &dp_size);
        ds = p * (dp - delta) * slope;
        dp_size = p * (fabs(dp - delta) + 0.1 * (dp_size + size)) * slope;
        add(b->want.dq + (tok * s->n_head + head) * d,
            b->want.size_q + (tok * s->n_head + head) * d, ds, dp_size, k, d);
        if (j < past)
            continue;
        int64_t to = ((t->batch.q_start[seq] + j - past) * s->n_kv_head + kvh) * d;
        add(b->want.dk + to, b->want.size_k + to, ds, dp_size, q, d);
        add(b->want.dv + to, b->want.size_v + to, p, p, dy, d);
    }
}

/* Room for the parts of dq, filled by the kernel that is run before attn_bwd_q. */
static void take_parts(struct check *c, struct k_attn_bwd *a, const struct attn_spec *spec)
{
    int64_t n = (int64_t)attn_part_floats(a->fwd.batch.n_tok, spec->n_head, spec->d);
    a->part = check_floats(c, n, CHECK_NAN);
    if (c->id == K_attn_bwd_q)
        check_run_row(c, K_attn_bwd_kv, a);
}

static bool may_take_parts(const struct attn_spec *spec)
{
    bool may = true;
    for (int64_t s = 0; s < spec->n_seq; s++)
        may = may && spec->n_row[s] == spec->kv_len[s];
    return may;
}

/* The forward pass's results as they would be without its errors, so that every level is given the
 * same, and has one gradient. */
static void give_forward(struct bwd_case *b)
{
    struct attn_case *t = &b->t;
    int64_t n_head = t->spec.n_head, width = n_head * t->spec.d;
    for (int64_t tok = 0; tok < t->batch.n_tok; tok++) {
        for (int64_t i = 0; i < width; i++)
            t->y[tok * t->ld_y + i] = (float)b->truth.y[tok * width + i];
        for (int64_t h = 0; h < n_head; h++)
            t->lse[tok * n_head + h] = (float)b->truth.lse[tok * n_head + h];
    }
}

static void want_fill(struct bwd_case *b)
{
    const struct attn_spec *spec = &b->t.spec;
    attn_round(spec->type, b->args.dy, b->t.batch.n_tok * b->args.ld_dy, b->want.dy);
    for (int64_t s = 0; s < spec->n_seq; s++) {
        for (int64_t i = 0; i < spec->n_row[s]; i++) {
            for (int64_t h = 0; h < spec->n_head; h++)
                want_row(b, s, i, h);
        }
    }
}

static void want_make(struct check *c, struct bwd_case *b)
{
    int64_t n_dy = b->t.batch.n_tok * b->args.ld_dy;
    uint64_t sum = check_sum(b->truth.sum, b->args.dy, (size_t)n_dy * sizeof *b->args.dy);
    bool is_new;
    double *x = check_kept_take(c, sum, 2 * b->n_q + 4 * b->n_kv + n_dy, &is_new);
    struct grads *w = &b->want;
    w->dq = x;
    w->size_q = w->dq + b->n_q;
    w->dk = w->size_q + b->n_q;
    w->size_k = w->dk + b->n_kv;
    w->dv = w->size_k + b->n_kv;
    w->size_v = w->dv + b->n_kv;
    w->dy = w->size_v + b->n_kv;
    if (is_new)
        want_fill(b);
}

static void bwd_make(struct check *c, struct bwd_case *b, const struct attn_spec *spec)
{
    struct attn_case *t = &b->t;
    attn_case_make(c, t, spec);
    int64_t n = t->batch.n_tok, ld_kv = spec->n_kv_head * spec->d + 5;
    b->truth = attn_truth_of(c, t);
    give_forward(b);
    b->args = (struct k_attn_bwd){.fwd = t->args,
                                  .dy = check_floats(c, n * t->ld_q, spec->kind),
                                  .ld_dy = t->ld_q,
                                  .dq = check_floats(c, n * t->ld_y, CHECK_NAN),
                                  .dk = check_floats(c, n * ld_kv, CHECK_NAN),
                                  .dv = check_floats(c, n * ld_kv, CHECK_NAN),
                                  .ld_dq = t->ld_y,
                                  .ld_dk = ld_kv,
                                  .ld_dv = ld_kv};
    b->n_q = n * spec->n_head * spec->d;
    b->n_kv = n * spec->n_kv_head * spec->d;
    want_make(c, b);
}

static void compare(struct check *c, const struct bwd_case *b)
{
    const struct attn_spec *s = &b->t.spec;
    int64_t n = b->t.batch.n_tok, w_q = s->n_head * s->d, w_kv = s->n_kv_head * s->d;
    double rel = s->type == K_F32 ? 4e-5 : 0x1p-7;
    if (c->id == K_attn_bwd_q) {
        const float *dq = attn_dense(c, b->args.dq, b->args.ld_dq, n, w_q);
        check_near_scaled(c, "dq", dq, b->want.dq, b->want.size_q, b->n_q, rel, 1e-35);
        return;
    }
    const float *dk = attn_dense(c, b->args.dk, b->args.ld_dk, n, w_kv);
    const float *dv = attn_dense(c, b->args.dv, b->args.ld_dv, n, w_kv);
    check_near_scaled(c, "dk", dk, b->want.dk, b->want.size_k, b->n_kv, rel, 1e-35);
    check_near_scaled(c, "dv", dv, b->want.dv, b->want.size_v, b->n_kv, rel, 1e-35);
}

/* Each sequence alone: the bits of its rows must be those of the whole call. */
static void alone(struct check *c, const struct bwd_case *b)
{
    const struct attn_case *t = &b->t;
    for (int64_t s = 0; s < t->spec.n_seq; s++) {
        struct k_attn_bwd one = b->args;
        int64_t at = t->batch.q_start[s], n = attn_row_count(&t->batch, s);
        one.fwd.batch = attn_batch_of(c, &t->batch, s, s + 1, 0, n);
        one.fwd.q += at * t->ld_q;
        one.fwd.y += at * t->ld_y;
        one.fwd.lse += at * t->spec.n_head;
        one.dy += at * one.ld_dy;
        one.dq = check_floats(c, n * one.ld_dq, CHECK_NAN);
        one.dk = check_floats(c, n * one.ld_dk, CHECK_NAN);
        one.dv = check_floats(c, n * one.ld_dv, CHECK_NAN);
        if (one.part)
            take_parts(c, &one, &t->spec);
        check_run_row(c, c->id, &one);
        check_bits(c, "dq alone", one.dq, b->args.dq + at * one.ld_dq,
                   (size_t)(n * one.ld_dq) * sizeof(float));
        check_bits(c, "dk alone", one.dk, b->args.dk + at * one.ld_dk,
                   (size_t)(n * one.ld_dk) * sizeof(float));
        check_bits(c, "dv alone", one.dv, b->args.dv + at * one.ld_dv,
                   (size_t)(n * one.ld_dv) * sizeof(float));
    }
}

static void bwd_one(struct check *c, const struct attn_spec *spec, bool has_parts)
{
    struct bwd_case b;
    check_begin(c);
    attn_case_name(c, spec);
    bwd_make(c, &b, spec);
    if (has_parts)
        take_parts(c, &b.args, spec);
    size_t n = (size_t)b.t.batch.n_tok * sizeof(float);
    struct check_out out[] = {{b.args.dq, n * (size_t)b.args.ld_dq},
                              {b.args.dk, n * (size_t)b.args.ld_dk},
                              {b.args.dv, n * (size_t)b.args.ld_dv}};
    check_slices(c, &b.args, out, 3);
    compare(c, &b);
    alone(c, &b);
}

/* d (sum of dy y) by x[i], by central differences of the f64 forward, against `got`. The step is
 * one that f32 holds exactly. */
static void difference(struct check *c, struct bwd_case *b, float *x, int64_t i, double got,
                       const char *name)
{
    const float step = 0x1p-7f, old = x[i];
    double sum[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
        x[i] = side ? old - step : old + step;
        struct attn_truth w = attn_truth_of(c, &b->t);
        for (int64_t tok = 0; tok < b->t.batch.n_tok; tok++) {
            int64_t width = b->t.spec.n_head * b->t.spec.d;
            for (int64_t j = 0; j < width; j++)
                sum[side] += (double)b->args.dy[tok * b->args.ld_dy + j] * w.y[tok * width + j];
        }
    }
    double want = (sum[0] - sum[1]) / ((double)(old + step) - (double)(old - step));
    x[i] = old;
    check_true(c, fabs(got - want) <= 1e-3 * (fabs(want) + 1), "%s: formula %.9g, difference %.9g",
               name, got, want);
}

/* f32 cells, so that a step is not rounded away. */
static void differences(struct check *c, const struct attn_spec *spec)
{
    struct bwd_case b;
    check_begin(c);
    attn_case_name(c, spec);
    bwd_make(c, &b, spec);
    int64_t w_q = spec->n_head * spec->d, w_kv = spec->n_kv_head * spec->d;
    for (int trial = 0; trial < 6; trial++) {
        int64_t tok = check_below(c, b.t.batch.n_tok), i = check_below(c, w_q);
        int64_t j = check_below(c, w_kv);
        difference(c, &b, b.t.q, tok * b.t.ld_q + i, b.want.dq[tok * w_q + i], "dq");
        difference(c, &b, b.t.k, tok * b.t.ld_k + j, b.want.dk[tok * w_kv + j], "dk");
        difference(c, &b, b.t.v, tok * b.t.ld_k + j, b.want.dv[tok * w_kv + j], "dv");
    }
}

/* Of what takes long, each size with one type for dq and the other for dk and dv. */
static bool is_slow(const struct check *c)
{
    return c->is_short || check_is_plain(c);
}

void check_attn_bwd_q(struct check *c)
{
    static const struct attn_spec small[] = {
        {.d = 6, .n_head = 4, .n_kv_head = 2, .n_seq = 2, .n_row = {9, 3}, .kv_len = {9, 3}},
        {.d = 4,
         .n_head = 2,
         .n_kv_head = 1,
         .window = 3,
         .softcap = 1.5f,
         .n_seq = 1,
         .n_row = {7},
         .kv_len = {7}},
        {.d = 4,
         .n_head = 1,
         .n_kv_head = 1,
         .full = true,
         .n_seq = 1,
         .n_row = {5},
         .kv_len = {5}},
    };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        differences(c, &small[i]);
    for (int i = 0; i < N_SPEC; i++) {
        for (int j = 0; j < ATTN_TYPES; j++) {
            struct attn_spec s = specs[i];
            s.type = attn_types[j];
            if (!attn_has_type(&s, s.type) ||
                (is_slow(c) && !attn_type_turn(&s, i + (c->id == K_attn_bwd_kv), s.type)))
                continue;
            bwd_one(c, &s, false);
            if (may_take_parts(&s) && !c->is_short)
                bwd_one(c, &s, true);
            s.kind = CHECK_DENORMAL;
            if (i == 0)
                bwd_one(c, &s, true);
        }
    }
}

void check_attn_bwd_kv(struct check *c)
{
    check_attn_bwd_q(c);
}
