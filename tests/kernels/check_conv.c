/* SPDX-License-Identifier: Apache-2.0
 *
 * The short convolution over ragged sequences. Faults they can catch: a tap of another place or of
 * the sequence before, a row that reads its neighbour unrounded where a cell would have rounded it,
 * a row of a cell that was overwritten too early or not kept, a prompt whose rows depend on how it
 * is cut, a guess that was dropped and is still read, a gradient that crosses sequences, weights'
 * gradients that replace instead of adding.
 */
#include <math.h>
#include <string.h>

#include "kernels/conv.h"
#include "kernels/float16.h"
#include "tests/kernels/attn_case.h"

static const struct conv_spec {
    int32_t d, n_tap, n_seq, len[3];
    bool bias;
} specs[] = {
    {12, 3, 3, {5, 1, 9}, true},   {64, 3, 2, {70, 33}, false}, {1, 4, 1, {40}, false},
    {45, 1, 2, {3, 8}, true},      {33, 8, 2, {66, 7}, false},  {513, 2, 1, {37}, true},
    {1030, 3, 2, {32, 64}, false},
};

struct conv_case {
    struct attn_case t; /* for its sequences and its table of cells */
    struct k_conv args; /* every token as a row */
    size_t cells;
    int64_t n;
};

static void conv_make(struct check *c, struct conv_case *v, const struct conv_spec *s,
                      enum k_type type, enum check_kind kind)
{
    struct attn_spec a = {.type = K_F32, .d = 2, .n_head = 1, .n_kv_head = 1, .n_seq = s->n_seq};
    for (int i = 0; i < s->n_seq; i++)
        a.n_row[i] = a.kv_len[i] = s->len[i];
    check_begin(c);
    attn_case_make(c, &v->t, &a);
    check_case(c, "%s %s d %d, %d taps, %d sequences, first of %d", type == K_BF16 ? "bf16" : "f32",
               check_kind_name(kind), s->d, s->n_tap, s->n_seq, s->len[0]);
    int64_t ld = s->d + 3;
    v->n = v->t.all.n_tok * ld;
    v->cells = (size_t)v->t.cache.n_cell * conv_cell_bytes(type, s->d);
    v->args = (struct k_conv){.batch = v->t.all,
                              .cache = {.type = type,
                                        .k = check_buf(c, v->cells, 64),
                                        .n_kv_head = 1,
                                        .d_head = s->d,
                                        .n_cell = v->t.cache.n_cell},
                              .x = check_floats(c, v->n, kind),
                              .weight = check_floats(c, (int64_t)s->d * s->n_tap, CHECK_RANDOM),
                              .bias = s->bias ? check_floats(c, s->d, CHECK_RANDOM) : NULL,
                              .y = check_floats(c, v->n, CHECK_NAN),
                              .ld_x = ld,
                              .ld_y = ld,
                              .d = s->d,
                              .n_tap = s->n_tap};
    memset(v->args.cache.k, 0xff, v->cells);
}

typedef void spec_fn(struct check *c, const struct conv_spec *s, enum k_type type,
                     enum check_kind kind);

static void each_spec(struct check *c, spec_fn *f)
{
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        for (int kind = 0; kind < (i ? 1 : CHECK_KINDS); kind++) {
            f(c, &specs[i], K_F32, (enum check_kind)kind);
            f(c, &specs[i], K_BF16, (enum check_kind)kind);
        }
    }
}

/* ---- forward ---- */

static double x_of(const struct k_conv *a, int64_t t, int64_t j)
{
    float x = a->x[t * a->ld_x + j];
    return (double)(a->cache.type == K_BF16 ? bf16_to_f32(bf16_from_f32(x)) : x);
}

static void conv_truth(struct check *c, const struct k_conv *a)
{
    for (int64_t t = 0; t < a->batch.n_tok; t++) {
        double want[2048], size[2048];
        for (int64_t j = 0; j < a->d; j++) {
            want[j] = a->bias ? (double)a->bias[j] : 0;
            size[j] = fabs(want[j]);
            for (int64_t back = 0; back < a->n_tap && back <= a->batch.pos[t]; back++) {
                double term =
                    (double)a->weight[(j + 1) * a->n_tap - 1 - back] * x_of(a, t - back, j);
                want[j] += term;
                size[j] += fabs(term);
            }
        }
        check_near_scaled(c, "y", a->y + t * a->ld_y, want, size, a->d, 1e-6, 1e-37);
    }
}

/* Rows [lo, hi) of sequence `seq` in a call of their own, which then are kept; x and y at the rows'
 * places among all. */
static void run_rows(struct check *c, const struct conv_case *v, const float *x, float *y,
                     int64_t seq, int64_t lo, int64_t hi)
{
    struct k_conv a = v->args;
    int64_t at = v->t.all.q_start[seq] + lo;
    a.batch = attn_batch_of(c, &v->t.all, seq, seq + 1, lo, hi);
    a.x = x + at * a.ld_x;
    a.y = y + at * a.ld_y;
    check_run(c, &a);
    check_run_row(c, K_conv_keep, &a);
}

/* Sequences in chunks, behind each of which so many wrong rows run and are dropped: the bits of
 * all at once. */
static void run_cut(struct check *c, const struct conv_case *v, int64_t chunk, int64_t n_wrong)
{
    const struct k_conv *a = &v->args;
    float *y = check_floats(c, v->n, CHECK_NAN), *junk = check_floats(c, v->n, CHECK_NAN);
    float *wrong = check_floats(c, v->n, CHECK_RANDOM);
    memset(a->cache.k, 0xff, v->cells);
    for (int64_t s = 0; s < a->batch.n_seq; s++) {
        int64_t n = attn_row_count(&a->batch, s);
        for (int64_t lo = 0; lo < n; lo += chunk) {
            int64_t hi = lo + chunk < n ? lo + chunk : n;
            run_rows(c, v, a->x, y, s, lo, hi);
            if (n_wrong > 0 && hi < n)
                run_rows(c, v, wrong, junk, s, hi, hi + n_wrong < n ? hi + n_wrong : n);
        }
    }
    for (int64_t t = 0; t < a->batch.n_tok; t++)
        check_bits(c, "y of parts", y + t * a->ld_y, a->y + t * a->ld_y, (size_t)a->d * sizeof *y);
}

static void forward_one(struct check *c, const struct conv_spec *s, enum k_type type,
                        enum check_kind kind)
{
    struct conv_case v;
    conv_make(c, &v, s, type, kind);
    check_slices(c, &v.args, (struct check_out[]){{v.args.y, (size_t)v.n * sizeof(float)}}, 1);
    conv_truth(c, &v.args);
    float *y = v.args.y;
    struct k_conv ref = v.args;
    ref.y = check_floats(c, v.n, CHECK_NAN);
    check_run_ref(c, &ref);
    check_bits(c, "the reference's", y, ref.y, (size_t)v.n * sizeof *y);
    run_cut(c, &v, 1, 0);
    run_cut(c, &v, 7, conv_cut_most(s->n_tap));
    run_cut(c, &v, 1, conv_cut_most(s->n_tap));
    run_cut(c, &v, 40, 0);
}

void check_conv(struct check *c)
{
    each_spec(c, forward_one);
}

/* ---- what is kept ---- */

/* The last rows of every cell, and nothing else. */
static void keep_one(struct check *c, const struct conv_spec *s, enum k_type type,
                     enum check_kind kind)
{
    struct conv_case v;
    conv_make(c, &v, s, type, kind);
    const struct k_conv *a = &v.args;
    char *want = check_dup(c, a->cache.k, v.cells, 64);
    for (int64_t t = 0; t < a->batch.n_tok; t++) { /* in order: later rows overwrite */
        char *row = want + conv_row_at(a, a->batch.seq_of[t], a->batch.pos[t]);
        for (int64_t j = 0; j < a->d; j++) {
            float x = a->x[t * a->ld_x + j];
            k_bf16 half = bf16_from_f32(x);
            if (type == K_BF16)
                memcpy(row + 2 * j, &half, sizeof half);
            else
                memcpy(row + 4 * j, &x, sizeof x);
        }
    }
    check_slices(c, a, (struct check_out[]){{a->cache.k, v.cells}}, 1);
    check_bits(c, "cells", a->cache.k, want, v.cells);
}

void check_conv_keep(struct check *c)
{
    each_spec(c, keep_one);
}

/* ---- backward ---- */

static struct k_conv_bwd bwd_of(struct check *c, const struct conv_case *v, enum check_kind kind)
{
    const struct k_conv *a = &v->args;
    return (struct k_conv_bwd){.fwd = *a,
                               .dy = check_floats(c, v->n, kind),
                               .dx = check_floats(c, v->n, CHECK_NAN),
                               .dweight = check_floats(c, a->d * a->n_tap, CHECK_RANDOM),
                               .ld_dy = a->ld_x,
                               .ld_dx = a->ld_x};
}

static void bwd_one(struct check *c, const struct conv_spec *s, enum k_type type,
                    enum check_kind kind)
{
    struct conv_case v;
    conv_make(c, &v, s, type, kind);
    struct k_conv_bwd g = bwd_of(c, &v, kind);
    const struct k_conv *a = &g.fwd;
    check_slices(c, &g, (struct check_out[]){{g.dx, (size_t)v.n * sizeof(float)}}, 1);
    for (int64_t t = 0; t < a->batch.n_tok; t++) {
        int64_t left = a->batch.q_start[a->batch.seq_of[t] + 1] - t;
        double want[2048], size[2048];
        for (int64_t j = 0; j < a->d; j++) {
            want[j] = size[j] = 0;
            for (int64_t i = 0; i < a->n_tap && i < left; i++) {
                double term = (double)a->weight[(j + 1) * a->n_tap - 1 - i] *
                              (double)g.dy[(t + i) * g.ld_dy + j];
                want[j] += term;
                size[j] += fabs(term);
            }
        }
        check_near_scaled(c, "dx", g.dx + t * g.ld_dx, want, size, a->d, 1e-6, 1e-37);
    }
}

void check_conv_bwd(struct check *c)
{
    each_spec(c, bwd_one);
}

static void dw_one(struct check *c, const struct conv_spec *s, enum k_type type,
                   enum check_kind kind)
{
    struct conv_case v;
    conv_make(c, &v, s, type, kind);
    struct k_conv_bwd g = bwd_of(c, &v, kind);
    const struct k_conv *a = &g.fwd;
    int64_t n = a->d * a->n_tap;
    double *want = check_buf(c, (size_t)n * sizeof *want, 8);
    double *size = check_buf(c, (size_t)n * sizeof *size, 8);
    for (int64_t i = 0; i < n; i++) {
        int64_t j = i / a->n_tap, back = a->n_tap - 1 - i % a->n_tap;
        want[i] = (double)g.dweight[i];
        size[i] = fabs(want[i]);
        for (int64_t t = 0; t < a->batch.n_tok; t++) {
            double term =
                back > a->batch.pos[t] ? 0 : (double)g.dy[t * g.ld_dy + j] * x_of(a, t - back, j);
            want[i] += term;
            size[i] += fabs(term);
        }
    }
    check_slices(c, &g, (struct check_out[]){{g.dweight, (size_t)n * sizeof(float)}}, 1);
    check_near_scaled(c, "dweight", g.dweight, want, size, n, 2e-6, 1e-37);
}

void check_conv_dw(struct check *c)
{
    each_spec(c, dw_one);
}
