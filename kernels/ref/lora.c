/* SPDX-License-Identifier: Apache-2.0
 *
 * lora, lora_bwd, lora_dw: f32 throughout.
 *
 *   t = x a^T                    kept for the backward
 *   y += (scale t) b^T           each sum is finished before it joins y
 *   dt = scale (dy b), dx += dt a
 *   da += dt^T x, db += scale (dy^T t): sums over runs of LINEAR_DW_ROWS rows, each added
 */
#include "kernels/lora_grid.h"
#include "kernels/variants.h"

static float a_at(const struct k_lora_group *g, int64_t at)
{
    return g->a_bf16 ? bf16_to_f32(g->a_bf16[at]) : g->a[at];
}

static float b_at(const struct k_lora_group *g, int64_t o, int64_t r)
{
    int64_t at = o / K_NR * g->rank * K_NR + linear_f32_at(o % K_NR, r);
    if (g->b_panels_bf16)
        return bf16_to_f32(g->b_panels_bf16[at]);
    return g->b_panels ? g->b_panels[at] : g->b[o * g->rank + r];
}

static void forward_row(const struct k_lora *a, const struct k_lora_group *g, int64_t row)
{
    const float *x = a->x + row * a->ld_x;
    float *t = a->t + row * a->rank_max;
    for (int64_t r = 0; r < g->rank; r++) {
        float sum = 0;
        for (int64_t i = 0; i < a->k; i++)
            sum += x[i] * a_at(g, r * a->k + i);
        t[r] = sum;
    }
    for (int64_t o = 0; o < a->n; o++) {
        float sum = 0;
        for (int64_t r = 0; r < g->rank; r++)
            sum += g->scale * t[r] * b_at(g, o, r);
        a->y[row * a->ld_y + o] += sum;
    }
}

void lora_ref(const void *args, const struct k_slice *s)
{
    const struct k_lora *a = args;
    struct lora_walk w = {.unit = s->lo, .hi = s->hi};
    for (struct lora_rows r; lora_rows_next(a, &w, &r);) {
        for (int64_t row = r.row_lo; row < r.row_hi; row++)
            forward_row(a, r.group, row);
    }
}

static void backward_row(const struct k_lora_bwd *a, const struct k_lora_group *g, int64_t row)
{
    const float *dy = a->dy + row * a->ld_dy;
    float *dt = a->dt + row * a->fwd.rank_max;
    for (int64_t r = 0; r < g->rank; r++) {
        float sum = 0;
        for (int64_t o = 0; o < a->fwd.n; o++)
            sum += dy[o] * g->b[o * g->rank + r];
        dt[r] = g->scale * sum;
    }
    for (int64_t i = 0; a->dx && i < a->fwd.k; i++) {
        float sum = 0;
        for (int64_t r = 0; r < g->rank; r++)
            sum += dt[r] * g->a[r * a->fwd.k + i];
        a->dx[row * a->ld_dx + i] += sum;
    }
}

void lora_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_lora_bwd *a = args;
    struct lora_walk w = {.unit = s->lo, .hi = s->hi};
    for (struct lora_rows r; lora_rows_next(&a->fwd, &w, &r);) {
        for (int64_t row = r.row_lo; row < r.row_hi; row++)
            backward_row(a, r.group, row);
    }
}

/* Sum over rows [lo, hi) of left[row, i] * right[row, j]. */
static float rows_sum(const float *left, int64_t ld_left, const float *right, int64_t ld_right,
                      int64_t lo, int64_t hi)
{
    float sum = 0;
    for (int64_t row = lo; row < hi; row++)
        sum += left[row * ld_left] * right[row * ld_right];
    return sum;
}

static void gradient_rows(const struct k_lora_bwd *a, const struct lora_cols *c, int64_t lo,
                          int64_t hi)
{
    const struct k_lora_group *g = c->group;
    const struct k_lora *f = &a->fwd;
    for (int64_t r = 0; r < g->rank; r++) {
        for (int64_t i = c->lo; i < c->hi; i++) {
            if (c->is_db)
                g->db[i * g->rank + r] +=
                    g->scale * rows_sum(a->dy + i, a->ld_dy, f->t + r, f->rank_max, lo, hi);
            else
                g->da[r * f->k + i] += rows_sum(a->dt + r, f->rank_max, f->x + i, f->ld_x, lo, hi);
        }
    }
}

void lora_dw_ref(const void *args, const struct k_slice *s)
{
    const struct k_lora_bwd *a = args;
    for (int64_t u = s->lo; u < s->hi; u++) {
        struct lora_cols c = lora_dw_unit(&a->fwd, u);
        for (int64_t lo = c.group->row_lo; lo < c.group->row_hi; lo += LINEAR_DW_ROWS)
            gradient_rows(a, &c, lo, linear_min(c.group->row_hi, lo + LINEAR_DW_ROWS));
    }
}
