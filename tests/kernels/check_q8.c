/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_q8 and linear_q8. Their sums are of integers, so every variant has the reference's bits; the
 * reference is held to f64. Faults they can catch: a tail of inputs or outputs that is skipped,
 * read past or written past; scales, mins or sums of a neighbouring group; a sum of bytes that
 * saturates; a row that does not say that a number of it is not finite; bits that depend on the
 * number of rows or on how units are cut.
 */
#include <math.h>
#include <string.h>

#include "kernels/linear.h"
#include "tests/kernels/check_linear.h"

static const enum k_type types[] = {K_INT8, K_INT8G, K_INT8C, K_INT4, K_INT4K, K_INT5K, K_INT6K};

enum { N_TYPES = sizeof types / sizeof *types };

/* Of a GPU a number that is none may be any. */
static bool same_group(const struct q8_group *a, const struct q8_group *b)
{
    if (isnan(b->scale))
        return isnan(a->scale) && isnan(a->weighed) &&
               memcmp(a->code, b->code, sizeof a->code) == 0;
    return memcmp(a, b, sizeof *a) == 0;
}

static void rows_case(struct check *c, int64_t m, int64_t k, enum check_kind kind)
{
    int64_t ld = k + 3, groups = q8_groups(k);
    check_begin(c);
    check_case(c, "m %d k %d %s", (int)m, (int)k, check_kind_name(kind));
    float *x = check_floats(c, m > 0 ? m * ld - 3 : 0, kind);
    size_t bytes = (size_t)m * linear_row_bytes(K_Q8, k);
    struct q8_group *rows = check_buf(c, bytes, 64);
    struct k_rows_pack a = {.x = x, .ld_x = ld, .m = m, .k = k, .type = K_Q8, .rows = rows};
    check_slices(c, &a, (struct check_out[]){{rows, bytes}}, 1);
    for (int64_t at = 0; at < m * groups; at++) {
        int64_t row = at % m, i = at / m * K_Q8_GROUP, n = linear_min(k - i, K_Q8_GROUP);
        struct q8_group want;
        q8_round(x + row * ld + i, n, &want);
        check_true(c, same_group(&rows[at], &want), "row %d, inputs from %d", (int)row, (int)i);
        for (int64_t j = 0; j < n && !isnan(want.scale); j++) {
            double far = fabs((double)want.scale * want.code[j] - x[row * ld + i + j]);
            check_true(c, far <= 0.5001 * (double)want.scale + (double)Q8_LEAST,
                       "row %d, %d: %g away", (int)row, (int)(i + j), far);
        }
    }
}

void check_rows_q8(struct check *c)
{
    static const int64_t rows[] = {0, 1, 2, 5, 12, 13, 37};
    int n_size;
    const int64_t *inputs = check_sizes(&n_size);
    for (int i = 0; i < n_size; i++)
        for (int r = 0; r < 7; r++)
            rows_case(c, rows[r], inputs[i], (enum check_kind)((i + r) % CHECK_KINDS));
    rows_case(c, 4, 96, CHECK_NAN);
}

struct q8_case {
    int64_t m, n, k, panel_lo, panel_hi, pad;
    bool bias, add;
};

/* A weight in the order of the reference and in that of what is checked. */
struct both {
    struct k_weight w, ref;
    float *value; /* [n, k] */
};

static struct both weight_of(struct check *c, enum k_type type, int64_t n, int64_t k,
                             const void *src, enum k_type src_type)
{
    struct both b = {.value = check_floats(c, n * k, CHECK_NAN)};
    struct k_weight *w[] = {&b.w, &b.ref};
    for (int i = 0; i < 2; i++) {
        k_weight_bind(w[i], type, n, k, check_buf(c, k_weight_bytes(type, n, k), 64));
        struct k_weight_pack pack = {
            .src = src, .src_type = src_type, .ld_src = k, .w = *w[i], .n_src = n};
        kernel_run(i == 0 && c->is_gpu ? c->table : c->ref, K_weight_pack, &pack, c->scratch);
    }
    struct k_weight_unpack unpack = {.w = b.ref, .dst = b.value, .ld_dst = k};
    kernel_run(c->ref, K_weight_unpack, &unpack, c->scratch);
    return b;
}

static struct both weight_make(struct check *c, enum k_type type, int64_t n, int64_t k)
{
    bool is_coded = k_format(type)->trained == FORMAT_CODED;
    const void *src = is_coded ? (const void *)linear_codes_make(c, type, n * k)
                               : check_floats(c, n * k, CHECK_SMALL);
    return weight_of(c, type, n, k, src, is_coded ? type : K_F32);
}

/* The reference's outputs, against the sums of what codes count. */
static void compare_f64(struct check *c, const struct k_linear *a, const float *value)
{
    const struct q8_group *x = a->rows;
    int64_t lo = a->panel_lo * K_NR, n = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    for (int64_t at = 0; at < a->m * n; at++) {
        int64_t row = at / n, o = at % n;
        const float *w = value + (lo + o) * a->w.k;
        double sum = a->bias ? (double)a->bias[lo + o] : 0, size = 0, most = 0;
        for (int64_t i = 0; i < a->w.k; i++) {
            const struct q8_group *g = &x[i / K_Q8_GROUP * a->m + row];
            double v = (double)g->scale * g->code[i % K_Q8_GROUP];
            sum += v * (double)w[i];
            size += fabs(v);
            most = fmax(most, fabs((double)w[i]));
        }
        double far = fabs((double)a->y[row * a->ld_y + o] - sum);
        check_true(c, far <= 1e-5 * size * most + 1e-30 + 1e-6 * fabs(sum),
                   "row %d, output %d: %g from %g", (int)row, (int)o, far, sum);
    }
}

static void run_case(struct check *c, enum k_type type, const struct q8_case *k)
{
    int64_t inputs = linear_inputs(type, k->k);
    check_begin(c);
    check_case(c, "%s m %d n %d k %d panels %d to %d pad %d bias %d add %d", k_format(type)->name,
               (int)k->m, (int)k->n, (int)inputs, (int)k->panel_lo, (int)k->panel_hi, (int)k->pad,
               k->bias, k->add);
    struct both w = weight_make(c, type, k->n, inputs);
    int64_t n = linear_outputs(&w.w, k->panel_lo, k->panel_hi), ld = n + k->pad;
    size_t bytes = (size_t)(k->m * ld) * sizeof(float);
    struct k_rows_pack pack = {.x = check_floats(c, k->m * inputs, CHECK_RANDOM),
                               .ld_x = inputs,
                               .m = k->m,
                               .k = inputs,
                               .type = K_Q8,
                               .rows =
                                   check_buf(c, (size_t)k->m * linear_row_bytes(K_Q8, inputs), 64)};
    kernel_run(c->ref, K_rows_q8, &pack, c->scratch);
    float *y = check_floats(c, k->m * ld, k->add ? CHECK_RANDOM : CHECK_ZERO);
    float *want = check_dup(c, y, bytes, 4);
    struct k_linear a = {.rows = pack.rows,
                         .w = w.ref,
                         .bias = k->bias ? check_floats(c, k->n, CHECK_RANDOM) : NULL,
                         .y = want,
                         .ld_y = ld,
                         .m = k->m,
                         .panel_lo = k->panel_lo,
                         .panel_hi = k->panel_hi,
                         .add = k->add};
    kernel_run(c->ref, K_linear_q8, &a, c->scratch);
    if (!k->add)
        compare_f64(c, &a, w.value);
    a.w = w.w;
    a.y = y;
    check_slices(c, &a, (struct check_out[]){{y, bytes}}, 1);
    check_bits(c, "y", y, want, bytes);
}

/* The largest codes of both, which saturate sums of 16 bits. */
static void run_most(struct check *c)
{
    enum { N = 32, K = 256, M = 2 };
    check_begin(c);
    check_case(c, "largest codes");
    float *src = check_floats(c, N * K, CHECK_ZERO), *x = check_floats(c, M * K, CHECK_ZERO);
    for (int i = 0; i < N * K; i++)
        src[i] = i / K % 2 ? -1 : 1;
    for (int i = 0; i < M * K; i++)
        x[i] = i < K ? 1 : -1;
    struct k_weight w;
    k_weight_bind(&w, K_INT8, N, K, check_buf(c, k_weight_bytes(K_INT8, N, K), 64));
    struct k_weight_pack pack = {.src = src, .ld_src = K, .w = w, .n_src = N};
    kernel_run(c->is_gpu ? c->table : c->ref, K_weight_pack, &pack, c->scratch);
    struct k_rows_pack rows = {.x = x, .ld_x = K, .m = M, .k = K, .type = K_Q8};
    rows.rows = check_buf(c, M * linear_row_bytes(K_Q8, K), 64);
    kernel_run(c->ref, K_rows_q8, &rows, c->scratch);
    float *y = check_floats(c, M * N, CHECK_NAN);
    struct k_linear a = {.rows = rows.rows, .w = w, .y = y, .ld_y = N, .m = M, .panel_hi = 1};
    check_run(c, &a);
    for (int i = 0; i < M * N; i++) {
        float want = (i / N) ^ (i % 2) ? -K : K;
        check_true(c, fabsf(y[i] - want) < 1e-3F, "row %d, output %d: %g", i / N, i % N,
                   (double)y[i]);
    }
}

/* The largest and the least codes of a format, as they are stored, an output each by turns. */
static const void *most_codes(struct check *c, enum k_type type, int64_t n, int64_t k)
{
    int64_t row = coded_bytes(type, k), block = coded_bytes(type, coded_inputs(type));
    int64_t head = type == K_INT4K   ? CODED_INT4K_HEAD
                   : type == K_INT5K ? CODED_INT5K_HEAD
                   : type == K_INT6K ? CODED_INT6K_HEAD
                   : type == K_INT8C ? CODED_WIDE_SCALE_BYTES
                                     : CODED_SCALE_BYTES;
    uint8_t most = 255, least = 0; /* bytes */
    if (type == K_INT5K || type == K_INT6K)
        most = type == K_INT5K ? 31 : 63;
    if (type == K_INT8G || type == K_INT8C) {
        most = 127;
        least = type == K_INT8C ? 128 : 129;
    }
    uint8_t *src = (uint8_t *)(uintptr_t)linear_codes_make(c, type, n * k);
    for (int64_t i = 0; i < n * row; i++)
        if (i % block >= head)
            src[i] = i / row % 2 ? most : least;
    return src;
}

/* Sums that are as large as they can be, of each length that a variant may keep: some of 16 bits
 * would not hold them. */
static void run_most_codes(struct check *c, enum k_type type, int64_t m)
{
    enum { N = 33, K = 256 };
    check_begin(c);
    check_case(c, "%s largest codes m %d", k_format(type)->name, (int)m);
    struct both w = weight_of(c, type, N, K, most_codes(c, type, N, K), type);
    float *x = check_floats(c, m * K, CHECK_ZERO), *y = check_floats(c, m * N, CHECK_NAN);
    for (int64_t i = 0; i < m * K; i++)
        x[i] = i / K % 2 ? -1 : 1;
    struct k_rows_pack rows = {.x = x, .ld_x = K, .m = m, .k = K, .type = K_Q8};
    rows.rows = check_buf(c, (size_t)m * linear_row_bytes(K_Q8, K), 64);
    kernel_run(c->ref, K_rows_q8, &rows, c->scratch);
    float *want = check_floats(c, m * N, CHECK_NAN);
    struct k_linear a = {
        .rows = rows.rows, .w = w.ref, .y = want, .ld_y = N, .m = m, .panel_hi = 2};
    kernel_run(c->ref, K_linear_q8, &a, c->scratch);
    compare_f64(c, &a, w.value);
    a.w = w.w;
    a.y = y;
    check_run(c, &a);
    check_bits(c, "y", y, want, (size_t)(m * N) * sizeof *y);
}

static void run_type(struct check *c, enum k_type type)
{
    static const int64_t outputs[] = {1, 31, 32, 33, 67, 161};
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 63, 64, 65, 150};
    int n_size;
    const int64_t *inputs = check_sizes(&n_size);
    for (int i = 0, turn = 0; i < n_size; i++) {
        for (int o = 0; o < 6; o++, turn++)
            run_case(c, type,
                     &(struct q8_case){.m = rows[turn % 14],
                                       .n = outputs[o],
                                       .k = inputs[i],
                                       .panel_hi = linear_panels(outputs[o]),
                                       .pad = turn % 3,
                                       .bias = turn % 2,
                                       .add = turn / 2 % 2});
    }
    run_case(c, type, &(struct q8_case){.m = 0, .n = 40, .k = 8, .panel_hi = 2});
    run_case(c, type, &(struct q8_case){.m = 3, .n = 40, .k = 8, .panel_lo = 1, .panel_hi = 1});
    run_case(c, type, &(struct q8_case){.m = 26, .n = 200, .k = 330, .panel_lo = 3, .panel_hi = 6});
}

/* Gates and what they gate, in one product, have the bits of the product, the gate and the rounding
 * one after the other, in rows that the next product can read. */
static void run_gated(struct check *c, enum k_type type, int64_t m, int64_t half, int64_t inputs,
                      bool bias)
{
    int64_t k = linear_inputs(type, inputs), n = 2 * half;
    size_t bytes = (size_t)m * linear_row_bytes(K_Q8, half);
    check_begin(c);
    check_case(c, "%s gated, m %d n %d k %d bias %d", k_format(type)->name, (int)m, (int)n, (int)k,
               bias);
    float *x = check_floats(c, m * k, CHECK_RANDOM), *y = check_floats(c, m * n, CHECK_NAN);
    for (int64_t i = 0; i < k && m > 2;
         i++) /* a row that is all small, and one that is not finite */
        x[i] = 0;
    if (m > 3)
        x[3 * k] = NAN;
    struct k_rows_pack rows = {.x = x, .ld_x = k, .m = m, .k = k, .type = K_Q8};
    rows.rows = check_buf(c, (size_t)m * linear_row_bytes(K_Q8, k), 64);
    kernel_run(c->ref, K_rows_q8, &rows, c->scratch);
    struct k_linear a = {
        .rows = rows.rows, .y = y, .ld_y = n, .m = m, .panel_hi = linear_panels(n)};
    a.w = weight_make(c, type, n, k).w;
    a.bias = bias ? check_floats(c, n, CHECK_RANDOM) : NULL;
    check_run(c, &a);
    struct k_swiglu gate = {
        .gate = y, .up = y + half, .y = y, .ld_gate = n, .ld_up = n, .ld_y = n, .m = m, .d = half};
    struct k_rows_pack pack = {.x = y, .ld_x = n, .m = m, .k = half, .type = K_Q8};
    void *want = pack.rows = check_buf(c, bytes, 64), *got = check_buf(c, bytes, 64);
    check_run_row(c, K_swiglu, &gate);
    check_run_row(c, K_rows_q8, &pack);
    a.y = NULL;
    a.gated = got;
    check_slices(c, &a, (struct check_out[]){{got, bytes}}, 1);
    check_bits(c, "gated", got, want, bytes);
}

static void check_gated(struct check *c, enum k_type type)
{
    static const int64_t rows[] = {0, 1, 2, 4, 5, 13, 64, 67, 259};
    for (int i = 0; i < 9; i++)
        run_gated(c, type, rows[i], i % 2 ? 96 : 32, 150, i % 3 == 0);
    run_gated(c, type, 1100, 32, 9, false); /* more rows than a span */
}

void check_linear_q8(struct check *c)
{
    run_most(c);
    for (int t = 0; t < N_TYPES; t++) {
        for (int64_t m = 1; m <= 7 && coded_has(types[t]); m++)
            run_most_codes(c, types[t], m);
        run_type(c, types[t]);
        if (c->table->gates)
            check_gated(c, types[t]);
    }
}
