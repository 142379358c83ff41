/* SPDX-License-Identifier: Apache-2.0
 *
 * linear, linear_dx, linear_dw: the specification. Products of bf16 are exact in f32; every sum is
 * one f32 chain over its ascending index, rounded at each step. The order within a chain is a
 * variant's own (a dot product may add its pair first), as long as it is the same for every row.
 */
#include <string.h>

#include "kernels/linear_grid.h"
#include "kernels/ref/act.h"
#include "kernels/variants.h"

/* Input i of a panel's outputs, as stored; a loop for each type, for one that asked for the type at
 * each number would be most of the tests' time. */
static void column_get(const struct k_weight *w, int64_t panel, int64_t i, float to[K_NR])
{
    const void *p = (const char *)w->data + (size_t)panel * linear_panel_bytes(w->type, w->k);
    switch (w->type) {
#define FORMAT(name, ID, ...)                                                                      \
    case K_##ID:                                                                                   \
        for (int64_t j = 0; j < K_NR; j++)                                                         \
            to[j] = linear_##name##_get(p, j, i);                                                  \
        return;
#include "kernels/format.def"
#undef FORMAT
    default:
        return;
    }
}

/* Chains over the inputs, side by side those of a block's rows and a panel's outputs; of a format
 * that folds total += scale * chain of a group, of others that have groups the weights are scaled.
 */
static void outputs(const struct k_linear *a, const struct rows_block *b, int64_t panel,
                    float total[LINEAR_MR][K_NR])
{
    const bool folds = format_folds(a->w.type);
    int64_t size = format_group(a->w.type), group = size ? size : a->w.k, o = panel * K_NR;
    memset(total, 0, sizeof(float[LINEAR_MR][K_NR]));
    for (int64_t lo = 0; lo < a->w.k; lo += group) {
        float sum[LINEAR_MR][K_NR] = {0}, w[K_NR], (*to)[K_NR] = folds ? sum : total;
        for (int64_t i = lo; i < linear_min(lo + group, a->w.k); i++) {
            column_get(&a->w, panel, i, w);
            for (int64_t j = 0; size && !folds && j < K_NR; j++)
                w[j] *= linear_scale_at(&a->w, o + j, i);
            for (int64_t r = 0; r < b->h; r++) {
                float x = rows_block_number(a->w.type, a->rows, a->w.k, b, r, i);
                for (int64_t j = 0; j < K_NR; j++)
                    to[r][j] += x * w[j];
            }
        }
        for (int64_t i = 0; folds && i < b->h * K_NR; i++)
            total[i / K_NR][i % K_NR] +=
                linear_scale_at(&a->w, o + i % K_NR, lo) * sum[i / K_NR][i % K_NR];
    }
    for (int64_t r = 0; r < b->h && a->bias; r++)
        for (int64_t j = 0; j < linear_min(K_NR, a->w.n - o); j++)
            total[r][j] += a->bias[o + j];
}

/* n_panel: of gates; as many follow */
static void gated_piece(const struct k_linear *a, const struct linear_piece *p, int64_t n_panel)
{
    int64_t k = n_panel * K_NR, panel = a->panel_lo + p->panel;
    for (int64_t block = p->block_lo; block < p->block_hi; block++) {
        struct rows_block b = rows_block_at(a->m, block);
        k_bf16 *to = (k_bf16 *)a->gated + b.row * k + p->panel * K_NR * b.h;
        float gate[LINEAR_MR][K_NR], up[LINEAR_MR][K_NR];
        outputs(a, &b, panel, gate);
        outputs(a, &b, panel + n_panel, up);
        for (int64_t i = 0; i < K_NR * b.h; i++) { /* [K_NR / 2][h][2] */
            int64_t r = i / 2 % b.h, j = i / (2 * b.h) * 2 + i % 2;
            to[i] = bf16_from_f32(ref_silu(gate[r][j]) * up[r][j]);
        }
    }
}

static void linear_piece(const struct k_linear *a, const struct linear_piece *p)
{
    int64_t n = linear_min(K_NR, a->w.n - (a->panel_lo + p->panel) * K_NR);
    for (int64_t block = p->block_lo; block < p->block_hi; block++) {
        struct rows_block b = rows_block_at(a->m, block);
        float v[LINEAR_MR][K_NR];
        outputs(a, &b, a->panel_lo + p->panel, v);
        for (int64_t i = 0; i < b.h * n; i++) {
            float *y = a->y + (b.row + i / n) * a->ld_y + p->panel * K_NR + i % n;
            *y = a->add ? *y + v[i / n][i % n] : v[i / n][i % n];
        }
    }
}

static void linear_ref(const struct k_linear *a, const struct k_slice *s)
{
    struct linear_grid g = linear_grid(a);
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        if (a->gated)
            gated_piece(a, &p, g.n_panel);
        else
            linear_piece(a, &p);
    }
}

#define FORMAT(name, ...)                                                                          \
    void linear_##name##_ref(const void *args, const struct k_slice *s)                            \
    {                                                                                              \
        linear_ref(args, s);                                                                       \
    }
#include "kernels/format.def"
#undef FORMAT

/* ---- input gradient ----------------------------------------------------------------------- */

/* Inputs [first, first + n) of an output's weight, as a gradient is multiplied with them: scaled,
 * those of a format with groups are rounded as its rows are. Zeros behind them. */
static void row_get(const struct k_weight *w, int64_t o, int64_t first, int64_t n, float to[K_NR])
{
    const void *p = (const char *)w->data + (size_t)(o / K_NR) * linear_panel_bytes(w->type, w->k);
    memset(to, 0, K_NR * sizeof *to);
    switch (w->type) {
#define FORMAT(name, ID, ...)                                                                      \
    case K_##ID:                                                                                   \
        for (int64_t j = 0; j < n; j++)                                                            \
            to[j] = linear_##name##_get(p, o % K_NR, first + j);                                   \
        break;
#include "kernels/format.def"
#undef FORMAT
    default:
        break;
    }
    if (format_group(w->type) == 0)
        return;
    for (int64_t j = 0; j < n; j++) {
        to[j] *= linear_scale_at(w, o, first + j);
        if (format_rows(w->type) == K_BF16)
            to[j] = bf16_to_f32(bf16_from_f32(to[j]));
    }
}

/* Rows of a block, [first, first + n) of their inputs: each gradient a chain over the outputs. */
static void input_gradients(const struct k_linear_dx *a, const struct rows_block *b, int64_t first,
                            int64_t n, float sum[LINEAR_MR][K_NR])
{
    int64_t o = a->panel_lo * K_NR, n_out = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    memset(sum, 0, sizeof(float[LINEAR_MR][K_NR]));
    for (int64_t i = 0; i < n_out; i++) {
        float w[K_NR];
        row_get(&a->w, o + i, first, n, w);
        for (int64_t r = 0; r < b->h; r++) {
            float dy = rows_block_number(a->w.type, a->rows, n_out, b, r, i);
            for (int64_t j = 0; j < K_NR; j++)
                sum[r][j] += dy * w[j];
        }
    }
}

static void dx_ref(const void *args, const struct k_slice *s)
{
    const struct k_linear_dx *a = args;
    struct linear_grid g = linear_dx_grid(a);
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        int64_t first = p.panel * K_NR, n = linear_min(K_NR, a->w.k - first);
        for (int64_t block = p.block_lo; block < p.block_hi; block++) {
            struct rows_block b = rows_block_at(a->m, block);
            float v[LINEAR_MR][K_NR];
            input_gradients(a, &b, first, n, v);
            for (int64_t i = 0; i < b.h * n; i++) {
                float *dx = a->dx + (b.row + i / n) * a->ld_dx + first + i % n;
                *dx = a->add ? *dx + v[i / n][i % n] : v[i / n][i % n];
            }
        }
    }
}

#define FORMAT(name, ...)                                                                          \
    void linear_dx_##name##_ref(const void *args, const struct k_slice *s)                         \
    {                                                                                              \
        dx_ref(args, s);                                                                           \
    }
#include "kernels/format.def"
#undef FORMAT

/* ---- weight gradient ---------------------------------------------------------------------- */

static void dw_ref(enum k_type type, const struct k_linear_dw *a, const struct k_slice *s)
{
    for (int64_t row = 0; row < a->m; row += LINEAR_DW_ROWS) {
        struct k_linear run = linear_dw_run_of(a, type, row);
        linear_ref(&run, s);
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
