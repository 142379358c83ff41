/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that move or add up: embedding, gather, scatter, sums over rows, means over sequences. Sums
 * run in f64 where they are the kernel's own, and in the order of the rows where each step is an
 * addition in memory.
 */
#include <string.h>

#include "kernels/embed.h"
#include "kernels/linear.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

/* One output of a packed weight is the embedding of one token. */
static void weight_row(const struct k_weight *w, int64_t o, float *y)
{
    const char *panel =
        (const char *)w->data + (size_t)(o / K_NR) * linear_panel_bytes(w->type, w->k);
    switch (w->type) {
#define FORMAT(name, ID, ...)                                                                      \
    case K_##ID:                                                                                   \
        for (int64_t i = 0; i < w->k; i++)                                                         \
            y[i] = linear_##name##_get(panel, o % K_NR, i);                                        \
        break;
#include "kernels/format.def"
#undef FORMAT
    default:
        break;
    }
    for (int64_t i = 0; i < w->k && format_group(w->type); i++)
        y[i] *= linear_scale_at(w, o, i);
}

/* The table that row i reads. */
static struct k_weight table_of(const struct k_embed *a, int64_t i)
{
    struct k_weight w = a->table;
    for (int64_t g = 0; g < a->n_saved; g++) {
        const struct k_saved *own = &a->saved[g];
        if (!own->data || i < own->row_lo || i >= own->row_hi)
            continue;
        w.data = own->data;
        w.scale = own->scale;
    }
    return w;
}

void embed_ref(const void *args, const struct k_slice *s)
{
    const struct k_embed *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const struct k_weight w = table_of(a, i);
        int64_t at = embed_known(a->token[i], a->known) - a->lo;
        if (at < 0 || at >= w.n) {
            for (int64_t j = 0; j < w.k; j++)
                a->y[i * a->ld_y + j] = 0;
            continue;
        }
        weight_row(&w, at, a->y + i * a->ld_y);
    }
}

void embed_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_embed_bwd *a = args;
    int64_t hi = rows_min(s->hi * ROWS_COLS, a->k);
    for (int64_t i = 0; i < a->m; i++) {
        int64_t at = a->token[i] - a->lo;
        float *to = a->dtable + at * a->k;
        for (int64_t j = s->lo * ROWS_COLS; j < hi && at >= 0 && at < a->n; j++)
            to[j] += a->dy[i * a->ld_dy + j];
    }
}

void gather_ref(const void *args, const struct k_slice *s)
{
    const struct k_gather *a = args;
    for (int64_t i = s->lo; i < s->hi; i++)
        memcpy(a->y + i * a->ld_y, a->x + a->index[i] * a->ld_x, (size_t)a->d * sizeof *a->y);
}

void scatter_add_ref(const void *args, const struct k_slice *s)
{
    const struct k_gather *a = args;
    int64_t hi = rows_min(s->hi * ROWS_COLS, a->d);
    for (int64_t i = 0; i < a->m; i++) {
        for (int64_t j = s->lo * ROWS_COLS; j < hi; j++)
            a->y[a->index[i] * a->ld_y + j] += a->x[i * a->ld_x + j];
    }
}

void col_sum_ref(const void *args, const struct k_slice *s)
{
    const struct k_col_sum *a = args;
    int64_t hi = rows_min(s->hi * ROWS_COLS, a->d);
    for (int64_t j = s->lo * ROWS_COLS; j < hi; j++) {
        double sum = 0;
        for (int64_t i = 0; i < a->m; i++)
            sum += a->x[i * a->ld_x + j];
        a->y[j] = (float)(a->y[j] + sum);
    }
}

/* Unit u of a pool: run u % runs of sequence u / runs. */
void mean_pool_ref(const void *args, const struct k_slice *s)
{
    const struct k_pool *a = args;
    int64_t runs = rows_runs(a->d);
    for (int64_t u = s->lo; u < s->hi; u++) {
        int64_t seq = u / runs, lo = u % runs * ROWS_COLS, hi = rows_min(lo + ROWS_COLS, a->d);
        int64_t n = a->start[seq + 1] - a->start[seq];
        for (int64_t j = lo; j < hi; j++) {
            double sum = 0;
            for (int64_t i = a->start[seq]; i < a->start[seq + 1]; i++)
                sum += a->x[i * a->ld_x + j];
            a->y[seq * a->ld_y + j] = n > 0 ? (float)sum / (float)n : 0.0f;
        }
    }
}

void mean_pool_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_pool *a = args;
    int64_t runs = rows_runs(a->d);
    for (int64_t u = s->lo; u < s->hi; u++) {
        int64_t seq = u / runs, lo = u % runs * ROWS_COLS, hi = rows_min(lo + ROWS_COLS, a->d);
        float n = (float)(a->start[seq + 1] - a->start[seq]);
        for (int64_t i = a->start[seq]; i < a->start[seq + 1]; i++) {
            for (int64_t j = lo; j < hi; j++)
                a->y[i * a->ld_y + j] = a->x[seq * a->ld_x + j] / n;
        }
    }
}
