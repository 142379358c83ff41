/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_dx and linear_dw. Faults they can catch: a transposition that swaps or drops a number, at
 * tails above all; a panel range that is off; a scale of the wrong group; sums that are started
 * anew or not between pieces; bits that depend on other rows or on how units are cut; a gradient
 * that is not the forward's; a gradient that adds to what was to be overwritten, or the reverse.
 */
#include "tests/kernels/check_linear.h"

#include <math.h>
#include <string.h>

#include "kernels/linear.h"

struct dx_case {
    int64_t m, n, k, panel_lo, panel_hi;
    enum check_kind kind;
    bool add;
};

/* As the kernel may see a weight with scales: scaled, then rounded. */
static double weight_seen(const struct linear_weight *w, int64_t o, int64_t i)
{
    float v = w->value[o * w->w.k + i];
    return format_folds(w->w.type) ? bf16_to_f32(bf16_from_f32(v)) : v;
}

static struct linear_want dx_want(struct check *c, const struct k_linear_dx *a,
                                  const struct linear_weight *w, const float *dy)
{
    int64_t k = a->w.k, n = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    struct linear_want want = linear_want_make(c, a->m, k);
    for (int64_t at = 0; at < a->m * k; at++) {
        if (a->add)
            want.y[at] = a->dx[at / k * a->ld_dx + at % k];
        want.size[at] = fabs(want.y[at]);
        for (int64_t o = 0; o < n; o++) {
            double term = dy[at / k * n + o] * weight_seen(w, a->panel_lo * K_NR + o, at % k);
            want.y[at] += term;
            want.size[at] += fabs(term);
        }
    }
    return want;
}

static void dx_run(struct check *c, const struct dx_case *of)
{
    enum k_type type = linear_type(c);
    struct dx_case whole = *of, *d = &whole;
    whole.k = linear_inputs(type, of->k);
    check_begin(c);
    check_case(c, "m %d n %d k %d panels %d to %d %s add %d", (int)d->m, (int)d->n, (int)d->k,
               (int)d->panel_lo, (int)d->panel_hi, check_kind_name(d->kind), d->add);
    struct linear_weight w = linear_weight_make(c, type, d->n, d->k);
    int64_t n = linear_outputs(&w.w, d->panel_lo, d->panel_hi), ld = d->k + 3;
    const float *dy = check_floats(c, d->m * n, d->kind);
    struct linear_rows rows = linear_rows_make(c, type, dy, d->m, n);
    int64_t size = d->m > 0 ? d->m * ld - 3 : 0;
    float *dx = check_floats(c, size, d->add ? CHECK_RANDOM : CHECK_NAN);
    struct k_linear_dx a = {.rows = rows.rows,
                            .m = d->m,
                            .w = w.w,
                            .panel_lo = d->panel_lo,
                            .panel_hi = d->panel_hi,
                            .dx = dx,
                            .ld_dx = ld,
                            .add = d->add};
    struct linear_want want = dx_want(c, &a, &w, rows.value);
    check_slices(c, &a, (struct check_out[]){{dx, (size_t)size * sizeof *dx}}, 1);
    for (int64_t row = 0; row < d->m; row++)
        check_near_scaled(c, "dx", dx + row * ld, want.y + row * d->k, want.size + row * d->k, d->k,
                          2e-6, 1e-34);
}

/* A row's bits among 1 to 100 rows. */
static void dx_invariance(struct check *c, int64_t n, int64_t k)
{
    enum { MOST = 100 };
    enum k_type type = linear_type(c);
    k = linear_inputs(type, k);
    check_begin(c);
    struct linear_weight w = linear_weight_make(c, type, n, k);
    const float *dy = check_floats(c, MOST * n, CHECK_RANDOM);
    float *want = check_floats(c, MOST * k, CHECK_NAN), *dx = check_floats(c, MOST * k, CHECK_NAN);
    struct k_linear_dx a = {.m = MOST, .w = w.w, .panel_hi = linear_panels(n), .ld_dx = k};
    a.rows = linear_rows_make(c, type, dy, MOST, n).rows;
    a.dx = want;
    check_run(c, &a);
    a.dx = dx;
    for (a.m = 1; a.m < MOST; a.m += a.m < 30 ? 1 + 3 * c->is_short : 17) {
        int64_t first = check_below(c, MOST + 1 - a.m);
        check_case(c, "%d rows against %d, n %d k %d", (int)a.m, MOST, (int)n, (int)k);
        a.rows = linear_rows_make(c, type, dy + first * n, a.m, n).rows;
        check_run(c, &a);
        check_bits(c, "dx", dx, want + first * k, (size_t)(a.m * k) * sizeof *dx);
    }
}

/* The weight itself is multiplied: the bits of an f32 weight of its values. */
static void dx_as_f32(struct check *c, int64_t m, int64_t n, int64_t k)
{
    enum k_type type = linear_type(c);
    check_begin(c);
    check_case(c, "as f32, m %d n %d k %d", (int)m, (int)n, (int)k);
    struct linear_weight w = linear_weight_make(c, type, n, k);
    struct k_weight plain;
    k_weight_bind(&plain, K_F32, n, k, check_buf(c, k_weight_bytes(K_F32, n, k), 64));
    struct k_weight_pack pack = {.src = w.value, .ld_src = k, .w = plain, .n_src = n};
    check_run_layout(c, K_weight_pack, &pack);
    float *want = check_floats(c, m * k, CHECK_NAN), *dx = check_floats(c, m * k, CHECK_NAN);
    struct k_linear_dx a = {
        .m = m, .w = plain, .panel_hi = linear_panels(n), .dx = want, .ld_dx = k};
    a.rows = linear_rows_make(c, type, check_floats(c, m * n, CHECK_RANDOM), m, n).rows;
    check_run_row(c, K_linear_dx_f32, &a);
    a.w = w.w;
    a.dx = dx;
    check_run(c, &a);
    check_bits(c, "dx", dx, want, (size_t)(m * k) * sizeof *dx);
}

static void check_dx(struct check *c)
{
    static const int64_t outputs[] = {1, 2, 31, 32, 33, 67, 161};
    static const int64_t rows[] = {1, 2, 4, 7, 11, 12, 13, 30};
    int n_size, turn = 0;
    const int64_t *inputs = check_sizes(&n_size);
    for (int i = 0; i < n_size; i++) {
        for (int o = 0; o < 7; o++, turn++)
            dx_run(c, &(struct dx_case){.m = rows[turn % 8],
                                        .n = outputs[o],
                                        .k = inputs[i],
                                        .panel_hi = linear_panels(outputs[o]),
                                        .kind = turn % 5 < CHECK_KINDS ? turn % 5 : CHECK_RANDOM,
                                        .add = turn % 2});
    }
    dx_run(c, &(struct dx_case){.m = 5, .n = 200, .k = 300, .panel_lo = 2, .panel_hi = 7});
    dx_run(c,
           &(struct dx_case){.m = 5, .n = 200, .k = 300, .panel_lo = 1, .panel_hi = 4, .add = 1});
    dx_run(c, &(struct dx_case){.m = 3, .n = 200, .k = 40, .panel_lo = 2, .panel_hi = 2});
    dx_run(c, &(struct dx_case){.m = 0, .n = 40, .k = 40, .panel_hi = 2});
    dx_run(c, &(struct dx_case){.m = 30, .n = 5000, .k = 40, .panel_hi = 157});
    dx_run(c, &(struct dx_case){.m = 2060, .n = 9, .k = 40, .panel_hi = 1, .add = true});
    dx_invariance(c, 161, check_is_plain(c) ? 33 : 200);
    if (!check_is_plain(c)) /* pieces of the outputs */
        dx_invariance(c, 4500, 33);
    if (format_rows(linear_type(c)) == K_F32) {
        dx_as_f32(c, 3, 200, 256);
        dx_as_f32(c, 40, 321, 384);
    }
}

#define FORMAT(name, ...)                                                                          \
    void check_linear_dx_##name(struct check *c)                                                   \
    {                                                                                              \
        check_dx(c);                                                                               \
    }
#include "kernels/format.def"
#undef FORMAT

/* ---- weight gradient ----------------------------------------------------------------------- */

static double seen(enum k_type type, float v)
{
    return type == K_F32 ? v : bf16_to_f32(bf16_from_f32(v));
}

static const void *cols_make(struct check *c, const struct k_cols_pack *of)
{
    struct k_cols_pack pack = *of;
    pack.type = linear_type(c);
    pack.cols = check_buf(c, k_cols_bytes(pack.type, pack.m, pack.n, pack.is_panels), 64);
    check_run_layout(c, K_cols_pack, &pack);
    return pack.cols;
}

static void dw_put(struct check *c, int64_t m, int64_t n, int64_t k, int64_t pad,
                   enum check_kind kind, bool fills)
{
    enum k_type type = linear_type(c);
    check_begin(c);
    check_case(c, "m %d n %d k %d pad %d %s fills %d", (int)m, (int)n, (int)k, (int)pad,
               check_kind_name(kind), fills);
    int64_t ld_dy = n + pad, ld_x = k + pad, ld = k + pad;
    const float *dy = check_floats(c, m > 0 ? m * ld_dy - pad : 0, kind);
    const float *x = check_floats(c, m > 0 ? m * ld_x - pad : 0, CHECK_RANDOM);
    int64_t size = n > 0 && k > 0 ? n * ld - pad : 0;
    float *dw = check_floats(c, size, fills ? CHECK_NAN : CHECK_RANDOM);
    struct linear_want want = linear_want_make(c, n, k);
    for (int64_t at = 0; at < n * k; at++) {
        want.y[at] = fills ? 0 : dw[at / k * ld + at % k];
        want.size[at] = fabs(want.y[at]);
        for (int64_t row = 0; row < m; row++) {
            double term = seen(type, dy[row * ld_dy + at / k]) * seen(type, x[row * ld_x + at % k]);
            want.y[at] += term;
            want.size[at] += fabs(term);
        }
    }
    struct k_linear_dw a = {.m = m, .n = n, .k = k, .dw = dw, .ld_dw = ld, .fills = fills};
    a.dy = cols_make(c, &(struct k_cols_pack){.x = dy, .ld_x = ld_dy, .m = m, .n = n});
    a.x = cols_make(c,
                    &(struct k_cols_pack){.x = x, .ld_x = ld_x, .m = m, .n = k, .is_panels = true});
    check_slices(c, &a, (struct check_out[]){{dw, (size_t)size * sizeof *dw}}, 1);
    for (int64_t o = 0; o < n; o++)
        check_near_scaled(c, "dw", dw + o * ld, want.y + o * k, want.size + o * k, k, 2e-6, 1e-34);
}

/* Onto what is there; and, as far as there are rows, in the place of anything. */
static void dw_run(struct check *c, int64_t m, int64_t n, int64_t k, int64_t pad,
                   enum check_kind kind)
{
    dw_put(c, m, n, k, pad, kind, false);
    if (m > 0)
        dw_put(c, m, n, k, pad, kind, true);
}

static void check_dw(struct check *c)
{
    static const int64_t outputs[] = {1, 11, 12, 13, 33, 97};
    static const int64_t rows[] = {1, 2, 3, 16, 31, 64, 7};
    int n_size, turn = 0;
    const int64_t *inputs = check_sizes(&n_size);
    for (int i = 0; i < n_size; i++) {
        for (int o = 0; o < 6; o++, turn++)
            dw_run(c, rows[turn % 7], outputs[o], inputs[i], turn % 3, turn % CHECK_KINDS);
    }
    dw_run(c, 0, 20, 40, 0, CHECK_RANDOM);
    dw_run(c, 5, 0, 40, 0, CHECK_RANDOM);
    dw_run(c, LINEAR_DW_ROWS + 1, 30, 40, 1, CHECK_RANDOM);
    dw_run(c, 2 * LINEAR_DW_ROWS, 14, 33, 0, CHECK_SMALL);
    dw_run(c, 9, 500, 700, 0, CHECK_SMALL);
}

void check_linear_dw_f32(struct check *c)
{
    check_dw(c);
}

void check_linear_dw_bf16(struct check *c)
{
    check_dw(c);
}
