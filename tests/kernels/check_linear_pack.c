/* SPDX-License-Identifier: Apache-2.0
 *
 * weight_pack, weight_unpack, rows_pack, cols_pack. Faults they can catch: a number in the wrong
 * place of a panel or block, rounding that is not to even, padding that is not zero, a source that
 * is read past its end, panels of a joined weight that spill into a neighbour's, int8 codes that
 * are further from the number than half a scale, numbers that are not finite and vanish.
 */
#include "tests/kernels/check_linear.h"

#include <math.h>
#include <string.h>

#include "kernels/coded.h"
#include "kernels/cols_run.h"
#include "kernels/cuda/layout.h"
#include "kernels/linear.h"

/* linear_stored_at, linear_scale_at, in the order of the level. */
static float stored_at(const struct check *c, const struct k_weight *w, int64_t o, int64_t i)
{
    int64_t at = cuda_weight_at(w->type, cuda_k_stored(w->type, w->k), o, i);
    if (!c->is_gpu || format_rows(w->type) == K_F32)
        return linear_stored_at(w, o, i);
    if (coded_is_four(w->type))
        return (float)coded_four(w->type, ((const uint8_t *)w->data)[at / 2] >> at % 2 * 4 & 15);
    return w->type == K_BF16        ? bf16_to_f32(((const k_bf16 *)w->data)[at])
           : coded_is_wide(w->type) ? coded_wide_value(w->type, ((const uint8_t *)w->data)[at])
                                    : (float)linear_int8_code(((const uint8_t *)w->data)[at]);
}

static int64_t place(enum k_type type, int64_t o, int64_t i)
{
    switch (type) {
#define FORMAT(name, ID, ...)                                                                      \
    case K_##ID:                                                                                   \
        return linear_##name##_at(o, i);
#include "kernels/format.def"
#undef FORMAT
    default:
        return 0;
    }
}

/* Rewrites panels [lo, hi) of a weight that a GPU packed into the order of the reference. */
static void to_reference(struct check *c, const struct k_weight *w, int64_t lo, int64_t hi)
{
    if (format_is_nested(w->type) || w->type == K_NF4) /* is it already */
        return;
    size_t elem = k_type_bytes(w->type);
    int64_t stored = linear_k_stored(w->type, w->k);
    char *own = check_dup(c, w->data, k_weight_stream_bytes(w->type, 0, hi * K_NR, w->k), 64);
    char *to = w->data;
    for (int64_t at = lo * K_NR * stored; at < hi * K_NR * stored; at++) {
        int64_t o = at / stored, i = at % stored, ref = o / K_NR * K_NR * stored;
        int64_t gpu = cuda_weight_at(w->type, stored, o, i);
        ref += place(w->type, o % K_NR, i);
        if (coded_is_four(w->type)) {
            int code = (uint8_t)own[gpu / 2] >> gpu % 2 * 4 & 15;
            to[ref / 2] = (char)((to[ref / 2] & 0xf0 >> ref % 2 * 4) | code << ref % 2 * 4);
        } else {
            memcpy(to + (size_t)ref * elem, own + (size_t)gpu * elem, elem);
        }
    }
}

/* A source of the type, and what it means. */
static const void *source_make(struct check *c, enum k_type type, int64_t n, enum check_kind kind,
                               float *value)
{
    check_fill(c, value, n, kind);
    uint16_t *half = check_buf(c, (size_t)n * sizeof *half, 2);
    for (int64_t i = 0; i < n; i++) {
        half[i] = type == K_F16 ? f16_from_f32(value[i]) : bf16_from_f32(value[i]);
        if (type != K_F32)
            value[i] = type == K_F16 ? f16_to_f32(half[i]) : bf16_to_f32(half[i]);
    }
    return type == K_F32 ? (const void *)check_dup(c, value, (size_t)n * sizeof *value, 4) : half;
}

struct pack_case {
    enum k_type from, to;
    int64_t n, k, pad;
    bool transposed;
    enum check_kind kind;
};

/* The variant against the reference, bit by bit, into the middle of a weight of 5 more panels. */
static void pack_run(struct check *c, const struct pack_case *p)
{
    check_begin(c);
    check_case(c, "type %d to %d n %d k %d pad %d transposed %d %s", p->from, p->to, (int)p->n,
               (int)p->k, (int)p->pad, p->transposed, check_kind_name(p->kind));
    int64_t lines = p->transposed ? p->k : p->n, ld = (p->transposed ? p->n : p->k) + p->pad;
    int64_t size = lines > 0 ? lines * ld - p->pad : 0; /* nothing is behind the last line */
    const void *src = source_make(c, p->from, size, p->kind, check_floats(c, size, CHECK_NAN));
    int64_t n_all = (linear_panels(p->n) + 5) * K_NR;
    size_t bytes = k_weight_bytes(p->to, n_all, p->k);
    struct k_weight_pack a = {.src = src,
                              .src_type = p->from,
                              .ld_src = ld,
                              .transposed = p->transposed,
                              .panel_lo = 3,
                              .n_src = p->n};
    char *got = check_buf(c, bytes, 64), *want = check_buf(c, bytes, 64);
    k_weight_bind(&a.w, p->to, n_all, p->k, want);
    check_run_ref(c, &a);
    k_weight_bind(&a.w, p->to, n_all, p->k, got);
    check_slices(c, &a, (struct check_out[]){{got, bytes}}, 1);
    if (c->is_gpu)
        to_reference(c, &a.w, a.panel_lo, a.panel_lo + linear_panels(p->n));
    check_bits(c, "panels", got, want, bytes);
}

/* What the reference itself must keep: each number within its format's error, zeros as padding. */
static void pack_meaning(struct check *c, enum k_type to, int64_t n, int64_t k)
{
    check_begin(c);
    check_case(c, "meaning of type %d n %d k %d", to, (int)n, (int)k);
    float *value = check_floats(c, n * k, CHECK_NAN);
    const void *src = source_make(c, K_F32, n * k, CHECK_RANDOM, value);
    struct k_weight_pack a = {.src = src, .ld_src = k, .n_src = n};
    k_weight_bind(&a.w, to, n, k, check_buf(c, k_weight_bytes(to, n, k), 64));
    check_run(c, &a);
    for (int64_t o = 0; o < n; o++) {
        for (int64_t i = 0; i < k; i++) {
            double v = value[o * k + i];
            double got = stored_at(c, &a.w, o, i) * linear_scale_at(&a.w, o, i);
            double most = to == K_F32    ? 0
                          : to == K_BF16 ? fabs(v) / 256
                          : to == K_F16  ? fabs(v) / 2048 + 0x1p-25
                          : to == K_INT4 ? 2.1 * fabs(linear_scale_at(&a.w, o, i))
                                         : 0.5001 * linear_scale_at(&a.w, o, i);
            check_true(c, fabs(got - v) <= most, "w[%d, %d] is %g, was %g", (int)o, (int)i, got, v);
        }
    }
    for (int64_t o = n; o < linear_panels(n) * K_NR; o++) {
        for (int64_t i = 0; i < linear_k_stored(to, k); i++)
            check_true(c, stored_at(c, &a.w, o, i) == 0, "padding at %d, %d", (int)o, (int)i);
    }
}

/* A number that is not finite must not be quantised to one that is. */
static void pack_not_finite(struct check *c, enum k_type to)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int b = 0; b < 3; b++) {
        check_begin(c);
        check_case(c, "type %d of %g", to, (double)bad[b]);
        float *src = check_floats(c, 3 * 300, CHECK_RANDOM);
        src[300 + 200] = bad[b];
        struct k_weight_pack a = {.src = src, .ld_src = 300, .n_src = 3};
        k_weight_bind(&a.w, to, 3, 300, check_buf(c, k_weight_bytes(to, 3, 300), 64));
        check_run(c, &a);
        check_true(c, isnan(linear_scale_at(&a.w, 1, 200)), "the group's scale hides it");
        check_true(c, isfinite(linear_scale_at(&a.w, 1, 100)), "another group's scale has it");
    }
}

/* Numbers that are a scale of f16 times -8 to 7, the furthest of them -8 of it, are kept exactly:
 * each code, in a group that is whole and in one that is cut short. */
static void pack_grid(struct check *c)
{
    enum { N = 35, K = 83 };
    check_begin(c);
    check_case(c, "int4 of its own values");
    float *src = check_floats(c, N * K, CHECK_NAN);
    for (int64_t at = 0; at < N * K; at++) {
        int64_t o = at / K, i = at % K;
        float scale = f16_to_f32(f16_from_f32((o % 2 ? -0.37f : 1.9f) * (float)(1 + o + i / 32)));
        src[at] = scale * (float)(i % 32 ? (o * 5 + i * 7) % 16 - 8 : -8);
    }
    struct k_weight_pack a = {.src = src, .ld_src = K, .n_src = N};
    k_weight_bind(&a.w, K_INT4, N, K, check_buf(c, k_weight_bytes(K_INT4, N, K), 64));
    check_run(c, &a);
    for (int64_t at = 0; at < N * K; at++) {
        int64_t o = at / K, i = at % K;
        float got = stored_at(c, &a.w, o, i) * linear_scale_at(&a.w, o, i);
        check_true(c, got == src[at], "w[%d, %d] is %g, was %g", (int)o, (int)i, (double)got,
                   (double)src[at]);
    }
}

/* Of a block with a scale in f32. */
static float wide_value(enum k_type type, const uint8_t *block, int64_t i)
{
    uint8_t byte = block[CODED_WIDE_SCALE_BYTES + i];
    int exponent = byte >> 3 & 15, fraction = byte & 7;
    float scale,
        v = ldexpf((float)(exponent ? fraction + 8 : fraction), (exponent ? exponent : 1) - 10);
    memcpy(&scale, block, sizeof scale);
    if (type == K_INT8C)
        return scale * (float)(int8_t)byte;
    return scale * (byte & 0x80 ? -v : v);
}

/* Numbers of mxfp4, by their bits: 2^(exponent - 1) * 1.m, and m / 2 below; the scale is half. */
static float e2m1_value(int nibble)
{
    int exponent = nibble >> 1 & 3, m = nibble & 1;
    float v = exponent ? ldexpf((float)(2 + m), exponent - 2) : (float)m / 2;
    return nibble & 8 ? -v : v;
}

/* What a file's own formula gives for input i of output o. */
static float coded_value(const struct k_weight_pack *a, int64_t o, int64_t i)
{
    enum k_type type = a->src_type;
    int64_t size = coded_inputs(type), in = i % size;
    const uint8_t *block = coded_block(a, o, i - in);
    if (coded_is_wide(type))
        return wide_value(type, block, in);
    if (type == K_NF4) {
        static const float table[16] = CODED_NF4_TABLE;
        float scale;
        memcpy(&scale, block, sizeof scale);
        return scale * table[block[CODED_WIDE_SCALE_BYTES + in % 32] >> in / 32 * 4 & 15];
    }
    if (type == K_MXFP4)
        return 2 * f16_to_f32(coded_scale(block)) *
               e2m1_value(block[CODED_SCALE_BYTES + in % 16] >> in / 16 * 4 & 15);
    float d = f16_to_f32(coded_scale(block));
    int code = coded_code(type, block, in);
    if (!format_is_nested(type))
        return d * (float)code;
    if (type == K_INT6K)
        return d * (float)(int8_t)block[2 + in / 16] * (float)code;
    const int64_t group = type == K_INT8K ? 16 : 32;
    float scale = d * (float)(int8_t)block[4 + in / group];
    float dmin = f16_to_f32(coded_scale(block + 2));
    return scale * (float)code - dmin * (float)block[4 + size / group + in / group];
}

/* Codes that were codes before, some outputs of a wider weight: the file's own values. */
static void pack_coded(struct check *c, enum k_type type, int64_t n, int64_t k, int64_t pad)
{
    check_begin(c);
    check_case(c, "codes of type %d n %d k %d pad %d", type, (int)n, (int)k, (int)pad);
    size_t bytes = k_weight_bytes(type, n + 64, k);
    struct k_weight_pack a = {.src_type = type, .ld_src = k + pad, .panel_lo = 1, .n_src = n};
    a.src = linear_codes_make(c, type, n > 0 ? n * (k + pad) - pad : 0);
    char *got = check_buf(c, bytes, 64), *want = check_buf(c, bytes, 64);
    k_weight_bind(&a.w, type, n + 64, k, want);
    check_run_ref(c, &a);
    for (int64_t o = 0; o < n; o++)
        for (int64_t i = 0; i < k; i++)
            check_true(c, linear_weight_at(&a.w, o + K_NR, i) == coded_value(&a, o, i),
                       "w[%d, %d] is another", (int)o, (int)i);
    k_weight_bind(&a.w, type, n + 64, k, got);
    check_slices(c, &a, (struct check_out[]){{got, bytes}}, 1);
    if (c->is_gpu)
        to_reference(c, &a.w, a.panel_lo, a.panel_lo + linear_panels(n));
    check_bits(c, "panels", got, want, bytes);
}

/* A group is done by the reach that fits it: codes up to 7 both ways need no clipping. */
static void pack_reach(struct check *c)
{
    check_begin(c);
    check_case(c, "int4 by another reach");
    float *src = check_floats(c, K_INT4_GROUP, CHECK_NAN);
    for (int i = 0; i < K_INT4_GROUP; i++)
        src[i] = 0.25f * (float)(i % 15 - 7);
    struct k_weight_pack a = {.src = src, .ld_src = K_INT4_GROUP, .n_src = 1};
    k_weight_bind(&a.w, K_INT4, 1, K_INT4_GROUP,
                  check_buf(c, k_weight_bytes(K_INT4, 1, K_INT4_GROUP), 64));
    check_run(c, &a);
    for (int i = 0; i < K_INT4_GROUP; i++)
        check_true(c, stored_at(c, &a.w, 0, i) * linear_scale_at(&a.w, 0, i) == src[i],
                   "w[%d] was %g", i, (double)src[i]);
}

void check_weight_pack(struct check *c)
{
    static const enum k_type from[] = {K_F32, K_BF16, K_F16};
    static const int64_t outputs[] = {0, 1, 15, 16, 17, 31, 32, 33, 67};
    int n_size, turn = 0;
    const int64_t *inputs = check_sizes(&n_size);
    for (int t = 0; t < 3 * K_TYPE_COUNT; t++) {
        if (k_format((enum k_type)(t / 3))->trained == FORMAT_CODED)
            continue;
        for (int i = 0; i < n_size; i++, turn++) {
            struct pack_case p = {.from = from[t % 3],
                                  .to = (enum k_type)(t / 3),
                                  .n = outputs[turn % 9],
                                  .k = inputs[i],
                                  .pad = turn % 2 * 3,
                                  .kind = turn % CHECK_KINDS};
            pack_run(c, &p);
            p.transposed = true;
            pack_run(c, &p);
            p = (struct pack_case){.from = p.from, .to = p.to, .n = 70, .k = inputs[i], .pad = 1};
            pack_run(c, &p);
        }
        pack_meaning(c, (enum k_type)(t / 3), 37, 259);
    }
    pack_not_finite(c, K_INT8);
    pack_not_finite(c, K_INT8G);
    pack_not_finite(c, K_INT4);
    for (int t = 0; t < K_TYPE_COUNT; t++)
        for (int i = 0; i < 9 && coded_has((enum k_type)t); i++)
            pack_coded(c, (enum k_type)t, outputs[i],
                       linear_inputs((enum k_type)t, coded_inputs((enum k_type)t)) *
                           (1 + i * i % 11),
                       i % 2 * 128);
    pack_grid(c);
    pack_reach(c);
}

void check_weight_unpack(struct check *c)
{
    static const int64_t outputs[] = {1, 31, 32, 33, 67};
    int n_size;
    const int64_t *inputs = check_sizes(&n_size);
    for (int t = 0; t < 5 * K_TYPE_COUNT * n_size; t++) {
        enum k_type type = (enum k_type)(t % K_TYPE_COUNT);
        int64_t n = outputs[t / K_TYPE_COUNT % 5];
        int64_t k = linear_inputs(type, inputs[t / K_TYPE_COUNT / 5]);
        int64_t ld = k + t / K_TYPE_COUNT % 2;
        check_begin(c);
        check_case(c, "type %d n %d k %d ld %d", type, (int)n, (int)k, (int)ld);
        struct linear_weight w = linear_weight_make(c, type, n, k);
        float *dst = check_floats(c, n * ld, CHECK_NAN), *want = check_floats(c, n * ld, CHECK_NAN);
        for (int64_t o = 0; o < n; o++) {
            for (int64_t i = 0; i < k; i++)
                want[o * ld + i] = c->is_gpu ? w.value[o * k + i] : linear_weight_at(&w.w, o, i);
        }
        struct k_weight_unpack a = {.w = w.w, .dst = dst, .ld_dst = ld};
        check_slices(c, &a, (struct check_out[]){{dst, (size_t)(n * ld) * sizeof *dst}}, 1);
        check_bits(c, "w", dst, want, (size_t)(n * ld) * sizeof *dst);
    }
}

/* The hardware's rounding may take a denormal for zero. */
static bool same_number(enum k_type type, float got, float want)
{
    bool tiny = format_rows(type) != K_F32 && fabsf(want) <= 0x1p-126f && got == 0;
    return tiny || f32_bits(got) == f32_bits(want);
}

static float gpu_row_number(enum k_type type, const void *rows, int64_t at)
{
    return format_rows(type) == K_F32 ? ((const float *)rows)[at]
                                      : bf16_to_f32(((const k_bf16 *)rows)[at]);
}

static void rows_run(struct check *c, enum k_type type, int64_t m, int64_t k, enum check_kind kind)
{
    int64_t ld = k + 2, stored = linear_row_stored(type, k);
    check_begin(c);
    check_case(c, "type %d m %d k %d %s", type, (int)m, (int)k, check_kind_name(kind));
    float *x = check_floats(c, m > 0 ? m * ld - 2 : 0, kind);
    size_t bytes = (size_t)m * linear_row_bytes(type, k);
    void *rows = check_buf(c, bytes, 64);
    struct k_rows_pack a = {.x = x, .ld_x = ld, .m = m, .k = k, .type = type, .rows = rows};
    check_slices(c, &a, (struct check_out[]){{rows, bytes}}, 1);
    for (int64_t at = 0; at < m * stored; at++) {
        int64_t row = at / stored, i = at % stored;
        struct rows_block b = rows_block_of(m, row);
        float want = i < k ? x[row * ld + i] : 0;
        if (format_rows(type) != K_F32)
            want = bf16_to_f32(bf16_from_f32(want));
        float got = c->is_gpu ? gpu_row_number(type, rows, at)
                              : rows_block_number(type, rows, k, &b, row - b.row, i);
        check_true(c, same_number(type, got, want), "row %d, %d: %g, not %g", (int)row, (int)i,
                   (double)got, (double)want);
    }
}

void check_rows_pack(struct check *c)
{
    static const int64_t rows[] = {0, 1, 2, 3, 5, 8, 11, 12, 13, 16, 24, 25, 37};
    int n_size;
    const int64_t *inputs = check_sizes(&n_size);
    for (int i = 0; i < n_size; i++) {
        for (int r = 0; r < 13; r++)
            rows_run(c, (enum k_type)((i + r) % K_TYPE_COUNT), rows[r], inputs[i],
                     (i + 2 * r) % CHECK_KINDS);
    }
    for (int64_t m = 1; m <= 30; m++)
        rows_run(c, K_BF16, m, 70, CHECK_RANDOM);
}

/* ---- columns ------------------------------------------------------------------------------ */

/* Number `row` of column o as packed: by the order of rows or of a weight, of the run it is in. */
static float column_number(const struct check *c, const struct k_cols_pack *a, int64_t row,
                           int64_t o)
{
    int64_t lo = row / LINEAR_DW_ROWS * LINEAR_DW_ROWS, rows = cols_run_rows(a->m, lo);
    char *run = (char *)a->cols + cols_run_at(a->type, a->n, a->is_panels, lo);
    if (c->is_gpu)
        return gpu_row_number(a->type, a->cols, row * linear_k_stored(a->type, a->n) + o);
    if (a->is_panels) {
        struct k_weight w;
        k_weight_bind(&w, a->type, a->n, rows, run);
        return linear_stored_at(&w, o, row - lo);
    }
    struct rows_block b = rows_block_of(a->n, o);
    return rows_block_number(a->type, run, rows, &b, o - b.row, row - lo);
}

static void cols_run(struct check *c, const struct k_cols_pack *of, enum check_kind kind)
{
    struct k_cols_pack a = *of;
    check_begin(c);
    check_case(c, "type %d m %d n %d panels %d %s", a.type, (int)a.m, (int)a.n, a.is_panels,
               check_kind_name(kind));
    a.ld_x = a.n + 3;
    a.x = check_floats(c, a.m > 0 ? a.m * a.ld_x - 3 : 0, kind);
    size_t bytes = k_cols_bytes(a.type, a.m, a.n, a.is_panels);
    a.cols = check_buf(c, bytes, 64);
    check_slices(c, &a, (struct check_out[]){{a.cols, bytes}}, 1);
    int64_t rows = c->is_gpu ? a.m : linear_k_stored(a.type, a.m), wide = a.n;
    if (c->is_gpu)
        wide = linear_k_stored(a.type, a.n);
    else if (a.is_panels)
        wide = linear_panels(a.n) * K_NR;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t o = 0; o < wide; o++) {
            float want = row < a.m && o < a.n ? a.x[row * a.ld_x + o] : 0;
            float got = column_number(c, &a, row, o);
            if (a.type != K_F32)
                want = bf16_to_f32(bf16_from_f32(want));
            check_true(c, same_number(a.type, got, want), "row %d, column %d: %g, not %g", (int)row,
                       (int)o, (double)got, (double)want);
        }
    }
}

void check_cols_pack(struct check *c)
{
    static const int64_t rows[] = {0, 1, 2, 3, 7, 8, 9, 16, 31, 64};
    int n_size, turn = 0;
    const int64_t *columns = check_sizes(&n_size);
    for (int i = 0; i < n_size; i++) {
        for (int r = 0; r < 10; r++, turn++)
            cols_run(c,
                     &(struct k_cols_pack){.type = turn % 3 ? K_BF16 : K_F32,
                                           .m = rows[r],
                                           .n = columns[i],
                                           .is_panels = turn / 3 % 2},
                     turn % CHECK_KINDS);
    }
    for (int i = 0; i < 4; i++)
        cols_run(c,
                 &(struct k_cols_pack){.type = i % 2 ? K_BF16 : K_F32,
                                       .m = LINEAR_DW_ROWS + 13,
                                       .n = 45,
                                       .is_panels = i / 2},
                 CHECK_RANDOM);
}
