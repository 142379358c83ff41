/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_<format>. Faults they can catch: a tail of outputs or inputs that is skipped,
 * read past or written past; a panel range that is off by one; bias or addition in the wrong place
 * or order; scales of a neighbouring group; sums that depend on the number of rows, on a row's
 * place in its block, on how units are cut, or on what scratch held.
 */
#include "tests/kernels/check_linear.h"

#include <math.h>
#include <string.h>

#include "kernels/coded.h"
#include "kernels/linear.h"

enum k_type linear_type(const struct check *c)
{
    for (int t = 0; t < K_TYPE_COUNT; t++)
        if (k_formats[t].linear == c->id || k_formats[t].dx == c->id)
            return (enum k_type)t;
    return c->id == K_linear_dw_f32 ? K_F32 : K_BF16;
}

int64_t linear_inputs(enum k_type type, int64_t k)
{
    int64_t block = k_format(type)->trained == FORMAT_CODED ? coded_inputs(type) : 1;
    block = format_is_nested(type) ? K_NESTED : block;
    return linear_ceil_div(k, block) * block;
}

const uint8_t *linear_codes_make(struct check *c, enum k_type type, int64_t n)
{
    size_t bytes = (size_t)coded_bytes(type, n),
           block = (size_t)coded_bytes(type, coded_inputs(type));
    uint8_t *src = check_buf(c, bytes, 2);
    for (size_t i = 0; i < bytes; i++)
        src[i] = (uint8_t)check_below(c, 256);
    for (size_t i = 0; i < bytes; i++) {
        size_t in = i % block;
        bool is_wide = coded_is_wide(type) || type == K_NF4;
        bool has_dmin = format_is_nested(type) && nested_has_mins(type);
        bool is_half = !is_wide && (in == 1 || (has_dmin && in == 3));
        if (is_half) /* the upper byte of an f16: at most 2^-6 */
            src[i] = (src[i] & 0x83) | 0x20;
        if (is_wide && in == 3) /* of an f32: at most 2^-6 */
            src[i] = (src[i] & 0x80) | 0x3c;
        if (type == K_FP8 && in >= CODED_WIDE_SCALE_BYTES && (src[i] & 0x7f) == 0x7f)
            src[i] ^= 1;
        if (type == K_INT8G && src[i] == 0x80)
            src[i] = 0x81;
        if (type == K_INT8K && (in == 4 || in == 5)) /* with codes of eight bits scales of six */
            src[i] = (uint8_t)((int8_t)src[i] / 4);
        if (type == K_INT6K && in >= CODED_INT6K_HEAD)
            src[i] &= 63;
        if (type == K_INT5K && in >= CODED_INT5K_HEAD)
            src[i] &= 31;
        if (nested_is_dense(type) && in >= 4 && in < CODED_INT4K_HEAD) /* scales and mins */
            src[i] &= 63;
    }
    return src;
}

struct linear_weight linear_weight_make(struct check *c, enum k_type type, int64_t n, int64_t k)
{
    bool is_coded = k_format(type)->trained == FORMAT_CODED;
    const void *src = is_coded ? (const void *)linear_codes_make(c, type, n * k)
                               : check_floats(c, n * k, CHECK_SMALL);
    float *value = check_floats(c, n * k, CHECK_NAN);
    struct linear_weight w = {.value = value};
    k_weight_bind(&w.w, type, n, k, check_buf(c, k_weight_bytes(type, n, k), 64));
    struct k_weight_pack pack = {
        .src = src, .src_type = is_coded ? type : K_F32, .ld_src = k, .w = w.w, .n_src = n};
    struct k_weight_unpack unpack = {.w = w.w, .dst = value, .ld_dst = k};
    kernel_run(c->ref, K_weight_pack, &pack, c->scratch);
    kernel_run(c->ref, K_weight_unpack, &unpack, c->scratch);
    if (c->is_gpu) /* the same numbers, in its order */
        kernel_run(c->table, K_weight_pack, &pack, c->scratch);
    return w;
}

struct linear_rows linear_rows_make(struct check *c, enum k_type type, const float *x, int64_t m,
                                    int64_t k)
{
    void *rows = check_buf(c, (size_t)m * linear_row_bytes(type, k), 64);
    float *value = check_floats(c, m * k, CHECK_NAN);
    struct k_rows_pack pack = {.x = x, .ld_x = k, .m = m, .k = k, .type = type, .rows = rows};
    check_run_layout(c, K_rows_pack, &pack);
    for (int64_t i = 0; i < m * k; i++)
        value[i] = format_rows(type) == K_F32 ? x[i] : bf16_to_f32(bf16_from_f32(x[i]));
    return (struct linear_rows){rows, value};
}

struct linear_want linear_want_make(struct check *c, int64_t m, int64_t n)
{
    size_t bytes = (size_t)(m * n) * sizeof(double);
    struct linear_want w = {check_buf(c, bytes, 8), check_buf(c, bytes, 8)};
    memset(w.y, 0, bytes);
    memset(w.size, 0, bytes);
    return w;
}

struct linear_case {
    int64_t m, n, k, panel_lo, panel_hi, pad;
    enum check_kind kind;
    bool bias, add;
};

enum { BESIDE = 8 }; /* outputs of a row at once: one sum waits for each of its terms */

/* x[k] times n of the rows of w[n, k], and the sums of the absolute values of their terms. */
static void dots(const float *x, const float *w, int64_t k, int64_t n, double *y, double *size)
{
    double sum[BESIDE] = {0}, abs[BESIDE] = {0};
    const float *at[BESIDE];
    for (int64_t j = 0; j < BESIDE; j++)
        at[j] = w + (j < n ? j : 0) * k;
    for (int64_t i = 0; i < k; i++) {
        for (int64_t j = 0; j < BESIDE; j++) {
            double term = (double)x[i] * at[j][i];
            sum[j] += term;
            abs[j] += fabs(term);
        }
    }
    memcpy(y, sum, (size_t)n * sizeof *y);
    memcpy(size, abs, (size_t)n * sizeof *size);
}

/* want = x w^T + bias + y */
static struct linear_want want_of(struct check *c, const struct k_linear *a, const float *x,
                                  const float *w)
{
    int64_t lo = a->panel_lo * K_NR, n = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    int64_t k = a->w.k;
    struct linear_want want = linear_want_make(c, a->m, n);
    for (int64_t row = 0; row < a->m; row++)
        for (int64_t o = 0; o < n; o += BESIDE)
            dots(x + row * k, w + (lo + o) * k, k, linear_min(n - o, BESIDE), want.y + row * n + o,
                 want.size + row * n + o);
    for (int64_t at = 0; at < a->m * n; at++) {
        int64_t row = at / n, o = at % n;
        double extra[2] = {a->bias ? a->bias[lo + o] : 0, a->add ? a->y[row * a->ld_y + o] : 0};
        for (int e = 0; e < 2; e++) {
            want.y[at] += extra[e];
            want.size[at] += fabs(extra[e]);
        }
    }
    return want;
}

static void compare(struct check *c, const struct k_linear *a, const struct linear_want *want)
{
    int64_t n = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    for (int64_t row = 0; row < a->m; row++)
        check_near_scaled(c, "y", a->y + row * a->ld_y, want->y + row * n, want->size + row * n, n,
                          2e-6, 1e-34);
}

/* Columns past the outputs are the caller's. */
static void compare_pad(struct check *c, const struct k_linear *a, int64_t n, const float *before)
{
    for (int64_t row = 0; row < a->m; row++)
        check_bits(c, "beside y", a->y + row * a->ld_y + n, before + row * a->ld_y + n,
                   (size_t)(a->ld_y - n) * sizeof *before);
}

static void run_case(struct check *c, const struct linear_case *of)
{
    struct linear_case whole = *of, *k = &whole;
    whole.k = linear_inputs(linear_type(c), of->k);
    check_begin(c);
    check_case(c, "%s m %d n %d k %d panels %d to %d pad %d bias %d add %d",
               check_kind_name(k->kind), (int)k->m, (int)k->n, (int)k->k, (int)k->panel_lo,
               (int)k->panel_hi, (int)k->pad, k->bias, k->add);
    enum k_type type = linear_type(c);
    struct linear_weight w = linear_weight_make(c, type, k->n, k->k);
    const float *x = check_floats(c, k->m * k->k, k->kind);
    struct linear_rows rows = linear_rows_make(c, type, x, k->m, k->k);
    int64_t n = linear_outputs(&w.w, k->panel_lo, k->panel_hi), ld = n + k->pad;
    float *y = check_floats(c, k->m * ld, k->add ? CHECK_RANDOM : CHECK_NAN);
    const float *before = check_dup(c, y, (size_t)(k->m * ld) * sizeof *y, 4);
    struct k_linear a = {.rows = rows.rows,
                         .w = w.w,
                         .bias = k->bias ? check_floats(c, k->n, CHECK_RANDOM) : NULL,
                         .y = y,
                         .ld_y = ld,
                         .m = k->m,
                         .panel_lo = k->panel_lo,
                         .panel_hi = k->panel_hi,
                         .add = k->add};
    struct linear_want want = want_of(c, &a, rows.value, w.value);
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(k->m * ld) * sizeof *y}}, 1);
    compare(c, &a, &want);
    compare_pad(c, &a, n, before);
}

/* Memory that a product asks for beside its own, for adapters in pieces of any length, some of them
 * nowhere: each output has the bits that it has without. */
static void run_soon(struct check *c, int64_t m, int64_t n, int64_t k, int64_t n_group)
{
    enum { N_TABLE = 3 };
    enum k_type type = linear_type(c);
    k = linear_inputs(type, k);
    check_begin(c);
    check_case(c, "%d adapters to come, m %d n %d k %d", (int)n_group, (int)m, (int)n, (int)k);
    struct linear_weight w = linear_weight_make(c, type, n, k);
    const char *stored = (const char *)check_floats(c, 20000, CHECK_RANDOM);
    struct k_lora_group *g = check_buf(c, (size_t)(n_group * N_TABLE) * sizeof *g, 64);
    for (int64_t i = 0; i < n_group * N_TABLE; i++)
        g[i] = (struct k_lora_group){.stored_bytes = (size_t)check_below(c, 40000),
                                     .stored = i % 5 ? stored + check_below(c, 40000) : NULL};
    float *want = check_floats(c, m * n, CHECK_NAN), *y = check_floats(c, m * n, CHECK_NAN);
    struct k_linear a = {.w = w.w, .y = want, .ld_y = n, .m = m, .panel_hi = linear_panels(n)};
    a.rows = linear_rows_make(c, type, check_floats(c, m * k, CHECK_RANDOM), m, k).rows;
    check_run(c, &a);
    a.y = y;
    a.prefetch =
        (struct k_prefetch){.group = g, .n_group = n_group, .n_table = N_TABLE, .stride = n_group};
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(m * n) * sizeof *y}}, 1);
    check_bits(c, "y", y, want, (size_t)(m * n) * sizeof *y);
}

/* Gates and what they gate, in one product, have the bits of the product, the gate and the rounding
 * one after the other, in rows that the next product can read. */
static void run_gated(struct check *c, int64_t m, int64_t half, int64_t k, bool bias)
{
    enum k_type type = linear_type(c);
    k = linear_inputs(type, k);
    size_t bytes = (size_t)(m * half) * sizeof(k_bf16);
    int64_t n = 2 * half;
    check_begin(c);
    check_case(c, "gated, m %d n %d k %d bias %d", (int)m, (int)n, (int)k, bias);
    struct linear_weight w = linear_weight_make(c, type, n, k);
    float *y = check_floats(c, m * n, CHECK_NAN);
    struct k_linear a = {.w = w.w, .y = y, .ld_y = n, .m = m, .panel_hi = linear_panels(n)};
    a.rows = linear_rows_make(c, type, check_floats(c, m * k, CHECK_RANDOM), m, k).rows;
    a.bias = bias ? check_floats(c, n, CHECK_RANDOM) : NULL;
    check_run(c, &a);
    struct k_swiglu gate = {
        .gate = y, .up = y + half, .y = y, .ld_gate = n, .ld_up = n, .ld_y = n, .m = m, .d = half};
    struct k_rows_pack pack = {.x = y, .ld_x = n, .m = m, .k = half, .type = K_BF16};
    void *want = pack.rows = check_buf(c, bytes, 64), *got = check_buf(c, bytes, 64);
    check_run_row(c, K_swiglu, &gate);
    check_run_row(c, K_rows_pack, &pack);
    a.y = NULL;
    a.gated = got;
    check_slices(c, &a, (struct check_out[]){{got, bytes}}, 1);
    check_bits(c, "gated", got, want, bytes);
}

static void check_gated(struct check *c)
{
    static const int64_t rows[] = {0, 1, 2, 3, 7, 12, 13, 40, 259};
    for (int i = 0; i < 9; i++)
        run_gated(c, rows[i], i % 2 ? 96 : 32, check_is_plain(c) ? 30 : 300, i % 3 == 0);
    run_gated(c, 2, 32 * 40, 10, false);
    if (check_is_plain(c))
        return;
    run_gated(c, 12, 32 * 100, 34, true); /* more panels of one block than have room at once */
    run_gated(c, 64, 64, 2300, false);    /* codes widened in several runs */
    run_gated(c, 1100, 32, 9, false);     /* more rows than a span */
}

/* The bits of a row among `of` rows equal those it has among `m`, wherever it stands. */
static void run_invariance(struct check *c, int64_t n, int64_t k)
{
    enum { MOST = 300 };
    static const int counts[] = {64, 150, 299, 300};
    enum k_type type = linear_type(c);
    k = linear_inputs(type, k);
    check_begin(c);
    check_case(c, "rows alike among 1 to 300, n %d k %d", (int)n, (int)k);
    struct linear_weight w = linear_weight_make(c, type, n, k);
    const float *x = check_floats(c, MOST * k, CHECK_RANDOM);
    float *want = check_floats(c, MOST * n, CHECK_NAN), *y = check_floats(c, MOST * n, CHECK_NAN);
    struct k_linear a = {.w = w.w, .y = want, .ld_y = n, .m = MOST, .panel_hi = linear_panels(n)};
    a.rows = linear_rows_make(c, type, x, MOST, k).rows;
    check_run(c, &a);
    for (int i = 1; i <= 44; i += i > 13 && c->is_short ? 6 : 1) {
        a.m = i <= 40 ? i : counts[i - 41];
        a.y = y;
        int64_t first = check_below(c, MOST + 1 - a.m);
        a.rows = linear_rows_make(c, type, x + first * k, a.m, k).rows;
        check_run(c, &a);
        check_case(c, "%d rows against %d, from row %d, n %d k %d", (int)a.m, MOST, (int)first,
                   (int)n, (int)k);
        check_bits(c, "y", y, want + first * n, (size_t)(a.m * n) * sizeof *y);
    }
}

/* Every way to be small or odd, against each other only where they can meet. */
static void run_sizes(struct check *c)
{
    static const int64_t outputs[] = {1, 31, 32, 33, 67, 161};
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25, 40};
    enum { N_OUTPUTS = 6, N_ROWS = 15 };
    int n_size, turn = 0;
    const int64_t *inputs = check_sizes(&n_size);
    for (int i = 0; i < n_size; i++) {
        for (int o = 0; o < N_OUTPUTS; o++, turn++) {
            struct linear_case k = {.m = rows[turn % N_ROWS],
                                    .n = outputs[o],
                                    .k = inputs[i],
                                    .panel_hi = linear_panels(outputs[o]),
                                    .pad = turn % 3,
                                    .kind = turn % 5 < CHECK_KINDS ? turn % 5 : CHECK_RANDOM,
                                    .bias = turn % 2,
                                    .add = turn / 2 % 2};
            run_case(c, &k);
        }
    }
}

/* So many rows that a GPU takes its largest tiles: their bits are those of a few, which it does by
 * other kernels. */
static void run_many(struct check *c, int64_t n, int64_t k)
{
    enum { MANY = 12300 };
    static const int64_t few[] = {70, 64, 20, 9, 1};
    enum k_type type = linear_type(c);
    k = linear_inputs(type, k);
    check_begin(c);
    struct linear_weight w = linear_weight_make(c, type, n, k);
    const float *x = check_floats(c, MANY * k, CHECK_RANDOM);
    float *want = check_floats(c, MANY * n, CHECK_NAN), *y = check_floats(c, 70 * n, CHECK_NAN);
    struct k_linear a = {.w = w.w, .y = want, .ld_y = n, .m = MANY, .panel_hi = linear_panels(n)};
    a.rows = linear_rows_make(c, type, x, MANY, k).rows;
    check_run(c, &a);
    a.y = y;
    for (int i = 0; i < 10; i++) {
        a.m = few[i % 5];
        int64_t first = i < 5 ? MANY - a.m : check_below(c, MANY + 1 - a.m);
        check_case(c, "%d rows from %d against %d, n %d k %d", (int)a.m, (int)first, MANY, (int)n,
                   (int)k);
        a.rows = linear_rows_make(c, type, x + first * k, a.m, k).rows;
        check_run(c, &a);
        check_bits(c, "y", y, want + first * n, (size_t)(a.m * n) * sizeof *y);
    }
}

/* Panels from one that is not the first on, more of them than are taken at once, for every number
 * of rows that a variant may do by code of its own. */
static void run_panels(struct check *c)
{
    for (int64_t m = 1; m <= 2 * LINEAR_MR + 1; m++) {
        struct linear_case k = {.m = m,
                                .n = 20 * K_NR + 9,
                                .k = 131,
                                .panel_lo = 1 + m % 3,
                                .panel_hi = 21 - m % 4,
                                .pad = m % 3,
                                .bias = m % 2,
                                .add = m / 2 % 2};
        run_case(c, &k);
    }
}

/* What is multiplied is the weight, by the same chain: the bits of an f32 weight of its values, and
 * so of any other that has them. */
static void run_as_f32(struct check *c, int64_t m, int64_t n, int64_t k)
{
    enum k_type type = linear_type(c);
    check_begin(c);
    check_case(c, "as f32, m %d n %d k %d", (int)m, (int)n, (int)k);
    struct linear_weight w = linear_weight_make(c, type, n, k);
    struct k_weight plain;
    k_weight_bind(&plain, K_F32, n, k, check_buf(c, k_weight_bytes(K_F32, n, k), 64));
    struct k_weight_pack pack = {.src = w.value, .ld_src = k, .w = plain, .n_src = n};
    check_run_layout(c, K_weight_pack, &pack);
    float *want = check_floats(c, m * n, CHECK_NAN), *y = check_floats(c, m * n, CHECK_NAN);
    struct k_linear a = {.w = plain, .y = want, .ld_y = n, .m = m, .panel_hi = linear_panels(n)};
    a.rows = linear_rows_make(c, type, check_floats(c, m * k, CHECK_RANDOM), m, k).rows;
    check_run_row(c, K_linear_f32, &a);
    a.w = w.w;
    a.y = y;
    check_run(c, &a);
    check_bits(c, "y", y, want, (size_t)(m * n) * sizeof *y);
}

static void check_linear(struct check *c)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 13, 40};
    if (c->is_gpu) {
        if (!c->is_short)
            run_many(c, 40, 300);
        run_many(c, 168, 328); /* whole tiles, rows at multiples of 16 bytes */
        run_case(c, &(struct linear_case){.m = 130, .n = 72, .k = 520, .panel_hi = 3});
    }
    run_sizes(c);
    run_case(c, &(struct linear_case){.m = 0, .n = 40, .k = 8, .panel_hi = 2});
    run_case(c, &(struct linear_case){.m = 3, .n = 40, .k = 8, .panel_lo = 1, .panel_hi = 1});
    run_case(c, &(struct linear_case){
                    .m = 3, .n = 200, .k = 130, .panel_lo = 2, .panel_hi = 7, .bias = true});
    run_case(c, &(struct linear_case){
                    .m = 26, .n = 200, .k = 130, .panel_lo = 3, .panel_hi = 5, .add = true});
    /* longer than a piece of inputs, and more rows than a span */
    run_case(c, &(struct linear_case){.m = 26, .n = 40, .k = 8300, .panel_hi = 2});
    run_case(c, &(struct linear_case){.m = 2060, .n = 40, .k = 9, .panel_hi = 2, .bias = true});
    if (!c->is_gpu) {
        run_panels(c);
        run_soon(c, 26, 161, 300, 40);
        run_soon(c, 64, 72, 1030, 3);
        run_soon(c, 13, 33, 5, 200);
        run_soon(c, 64, 33, 0, 4);
        run_soon(c, 64, 40, 4500, 20);
    }
    if (c->table->gates && format_rows(linear_type(c)) != K_F32)
        check_gated(c);
    run_invariance(c, 161, check_is_plain(c) ? 30 : 300);
    if (!check_is_plain(c)) /* pieces of the inputs */
        run_invariance(c, 32, 4500);
    for (int i = 0; i < 7 && format_rows(linear_type(c)) == K_F32; i++)
        run_as_f32(c, rows[i], 200, 384);
}

#define FORMAT(name, ...)                                                                          \
    void check_linear_##name(struct check *c)                                                      \
    {                                                                                              \
        check_linear(c);                                                                           \
    }
#include "kernels/format.def"
#undef FORMAT
