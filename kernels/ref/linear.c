/* SPDX-License-Identifier: Apache-2.0
 *
 * linear, linear_dx, linear_dw: the specification. Products of bf16 are exact in f32; every sum is
 * one f32 chain over its ascending index, rounded at each step. The order within a chain is a
 * variant's own (a dot product may add its pair first), as long as it is the same for every row.
 */
#include "kernels/linear_grid.h"
#include "kernels/variants.h"

/* Chain over the inputs; int8: total += scale * chain of a group. */
static float output(const struct k_linear *a, int64_t row, int64_t o)
{
    int64_t group = a->w.type == K_INT8 ? K_INT8_GROUP : a->w.k;
    struct rows_block b = rows_block_of(a->m, row);
    float total = 0;
    for (int64_t lo = 0; lo < a->w.k; lo += group) {
        float sum = 0;
        for (int64_t i = lo; i < linear_min(lo + group, a->w.k); i++)
            sum += rows_block_number(a->w.type, a->rows, a->w.k, &b, row - b.row, i) *
                   linear_stored_at(&a->w, o, i);
        total += linear_scale_at(&a->w, o, lo) * sum;
    }
    return total;
}

static void linear_piece(const struct k_linear *a, const struct linear_piece *p)
{
    int64_t first = (a->panel_lo + p->panel) * K_NR;
    int64_t row_lo = rows_block_at(a->m, p->block_lo).row;
    struct rows_block last = rows_block_at(a->m, p->block_hi - 1);
    for (int64_t row = row_lo; row < last.row + last.h; row++) {
        for (int64_t o = first; o < linear_min(first + K_NR, a->w.n); o++) {
            float *y = a->y + row * a->ld_y + (o - a->panel_lo * K_NR);
            float v = output(a, row, o);
            if (a->bias)
                v += a->bias[o];
            *y = a->add ? *y + v : v;
        }
    }
}

static void linear_ref(const void *args, const struct k_slice *s)
{
    const struct k_linear *a = args;
    struct linear_grid g = linear_grid(a);
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        linear_piece(a, &p);
    }
}

void linear_f32_ref(const void *args, const struct k_slice *s)
{
    linear_ref(args, s);
}

void linear_bf16_ref(const void *args, const struct k_slice *s)
{
    linear_ref(args, s);
}

void linear_int8_ref(const void *args, const struct k_slice *s)
{
    linear_ref(args, s);
}

/* ---- input gradient ----------------------------------------------------------------------- */

static float input_gradient(const struct k_linear_dx *a, int64_t row, int64_t i)
{
    int64_t first = a->panel_lo * K_NR, n = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    struct rows_block b = rows_block_of(a->m, row);
    float sum = 0;
    for (int64_t o = 0; o < n; o++) {
        float w = linear_weight_at(&a->w, first + o, i);
        if (a->w.type == K_INT8)
            w = bf16_to_f32(bf16_from_f32(w));
        sum += rows_block_number(a->w.type, a->rows, n, &b, row - b.row, o) * w;
    }
    return sum;
}

static void dx_ref(const void *args, const struct k_slice *s)
{
    const struct k_linear_dx *a = args;
    struct linear_grid g = linear_dx_grid(a);
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        int64_t row_lo = rows_block_at(a->m, p.block_lo).row;
        struct rows_block last = rows_block_at(a->m, p.block_hi - 1);
        for (int64_t row = row_lo; row < last.row + last.h; row++) {
            for (int64_t i = p.panel * K_NR; i < linear_min((p.panel + 1) * K_NR, a->w.k); i++) {
                float *dx = a->dx + row * a->ld_dx + i;
                float v = input_gradient(a, row, i);
                *dx = a->add ? *dx + v : v;
            }
        }
    }
}

void linear_dx_f32_ref(const void *args, const struct k_slice *s)
{
    dx_ref(args, s);
}

void linear_dx_bf16_ref(const void *args, const struct k_slice *s)
{
    dx_ref(args, s);
}

void linear_dx_int8_ref(const void *args, const struct k_slice *s)
{
    dx_ref(args, s);
}

/* ---- weight gradient ---------------------------------------------------------------------- */

static float round_to(enum k_type type, float v)
{
    return type == K_F32 ? v : bf16_to_f32(bf16_from_f32(v));
}

static float rows_sum(enum k_type type, const struct k_linear_dw *a, int64_t o, int64_t i,
                      int64_t lo, int64_t hi)
{
    float sum = 0;
    for (int64_t row = lo; row < hi; row++)
        sum += round_to(type, a->dy[row * a->ld_dy + o]) * round_to(type, a->x[row * a->ld_x + i]);
    return sum;
}

static void dw_ref(enum k_type type, const struct k_linear_dw *a, const struct k_slice *s)
{
    struct linear_tiles t = linear_dw_tiles(a);
    for (int64_t u = s->lo; u < s->hi; u++) {
        struct linear_rect r = linear_tile_at(&t, u);
        for (int64_t o = r.n_lo; o < r.n_hi; o++) {
            for (int64_t i = r.k_lo; i < r.k_hi; i++) {
                float *dw = a->dw + o * a->ld_dw + i;
                for (int64_t lo = 0; lo < a->m; lo += LINEAR_DW_ROWS) {
                    int64_t hi = linear_min(a->m, lo + LINEAR_DW_ROWS);
                    float sum = rows_sum(type, a, o, i, lo, hi);
                    *dw = a->fills && lo == 0 ? sum : *dw + sum;
                }
            }
        }
    }
}

void linear_dw_f32_ref(const void *args, const struct k_slice *s)
{
    dw_ref(K_F32, args, s);
}

void linear_dw_bf16_ref(const void *args, const struct k_slice *s)
{
    dw_ref(K_BF16, args, s);
}
