/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the short convolution, for the width of kernels/x86/vec.h. Weights lie tap by tap
 * for each column: some columns at a time they are turned over for all rows of a slice.
 */
#ifndef KERNELS_X86_CONV_H
#define KERNELS_X86_CONV_H

#include <string.h>

#include "kernels/conv.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/elem.h"

enum { CONV_SPAN = 512 }; /* columns; a multiple of VF */

struct conv_taps {
    float at[K_CONV_ROWS][CONV_SPAN];
};

/* Columns [lo, hi) of all taps. */
static inline void conv_turn(const struct k_conv *a, int64_t lo, int64_t hi, struct conv_taps *w)
{
    for (int64_t j = lo; j < hi; j++)
        for (int32_t i = 0; i < a->n_tap; i++)
            w->at[i][j - lo] = a->weight[j * a->n_tap + i];
}

/* A row that a tap reads: of the call, as it is or to be rounded, or of a cell. */
struct conv_row {
    const void *p;
    enum k_type type;
    bool rounds;
};

static inline struct conv_row conv_row_of(const struct k_conv *a, int64_t t, int64_t back)
{
    int64_t seq = a->batch.seq_of[t];
    if (t - back >= a->batch.q_start[seq])
        return (struct conv_row){a->x + (t - back) * a->ld_x, K_F32, a->cache.type == K_BF16};
    return (struct conv_row){(const char *)a->cache.k + conv_row_at(a, seq, a->batch.pos[t] - back),
                             a->cache.type, false};
}

static inline vf conv_load(const struct conv_row *r, int64_t j, int n)
{
    vf x = cast_load(r->p, r->type, j, n);
    return r->rounds ? vf_from_bits(vi_shl(bf16_of(x), 16)) : x;
}

/* Columns [lo, hi) of row t. */
static inline void conv_row_span(const struct k_conv *a, const struct conv_taps *w, int64_t t,
                                 int64_t lo, int64_t hi)
{
    struct conv_row row[K_CONV_ROWS];
    int32_t first = a->n_tap - 1 - (int32_t)rows_min(a->n_tap - 1, a->batch.pos[t]);
    for (int32_t i = first; i < a->n_tap; i++)
        row[i] = conv_row_of(a, t, a->n_tap - 1 - i);
    for (int64_t j = lo; j < hi; j += VF) {
        int n = vf_count(hi, j);
        vf sum = a->bias ? vf_load(a->bias + j, n) : vf_zero();
        for (int32_t i = first; i < a->n_tap; i++)
            sum = vf_fma(vf_load(&w->at[i][j - lo], n), conv_load(&row[i], j, n), sum);
        vf_store(a->y + t * a->ld_y + j, sum, n);
    }
}

static inline void conv_rows(const struct k_conv *a, int64_t lo, int64_t hi)
{
    struct conv_taps w;
    for (int64_t j = 0; j < a->d; j += CONV_SPAN) {
        int64_t end = rows_min(j + CONV_SPAN, a->d);
        conv_turn(a, j, end, &w);
        for (int64_t t = lo; t < hi; t++)
            conv_row_span(a, &w, t, j, end);
    }
}

static inline void conv_keep_rows(const struct k_conv *a, int64_t lo, int64_t hi)
{
    for (int64_t t = lo; t < hi; t++) {
        if (!conv_is_kept(a, t))
            continue;
        char *row = (char *)a->cache.k + conv_row_at(a, a->batch.seq_of[t], a->batch.pos[t]);
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            cast_store(row, a->cache.type, j, vf_load(a->x + t * a->ld_x + j, n), n);
        }
    }
}

static inline void conv_bwd_span(const struct k_conv_bwd *g, const struct conv_taps *w, int64_t t,
                                 int64_t lo, int64_t hi)
{
    const struct k_conv *a = &g->fwd;
    int64_t n_row = rows_min(a->n_tap, a->batch.q_start[a->batch.seq_of[t] + 1] - t);
    for (int64_t j = lo; j < hi; j += VF) {
        int n = vf_count(hi, j);
        vf sum = vf_zero();
        for (int64_t i = 0; i < n_row; i++)
            sum = vf_fma(vf_load(&w->at[a->n_tap - 1 - i][j - lo], n),
                         vf_load(g->dy + (t + i) * g->ld_dy + j, n), sum);
        vf_store(g->dx + t * g->ld_dx + j, sum, n);
    }
}

static inline void conv_bwd_rows(const struct k_conv_bwd *g, int64_t lo, int64_t hi)
{
    struct conv_taps w;
    for (int64_t j = 0; j < g->fwd.d; j += CONV_SPAN) {
        int64_t end = rows_min(j + CONV_SPAN, g->fwd.d);
        conv_turn(&g->fwd, j, end, &w);
        for (int64_t t = lo; t < hi; t++)
            conv_bwd_span(g, &w, t, j, end);
    }
}

/* Adds rows [lo, hi) of the columns at j to part, a vector for each tap. */
static inline void conv_dw_block(const struct k_conv_bwd *g, int64_t lo, int64_t hi, int64_t j,
                                 int n, vf *part)
{
    const struct k_conv *a = &g->fwd;
    for (int64_t t = lo; t < hi; t++) {
        int64_t first = a->batch.q_start[a->batch.seq_of[t]];
        vf dy = vf_load(g->dy + t * g->ld_dy + j, n);
        for (int32_t back = 0; back < a->n_tap && t - back >= first; back++) {
            struct conv_row x = conv_row_of(a, t, back);
            part[back] = vf_fma(dy, conv_load(&x, j, n), part[back]);
        }
    }
}

/* The columns at j, n <= VF of them: sums of ROWS_BLOCK rows, which join the total. */
static inline void conv_dw_cols(const struct k_conv_bwd *g, int64_t j, int n)
{
    const struct k_conv *a = &g->fwd;
    vf total[K_CONV_ROWS], part[K_CONV_ROWS];
    float sum[VF];
    for (int32_t i = 0; i < a->n_tap; i++)
        total[i] = vf_zero();
    for (int64_t t = 0; t < a->batch.n_tok; t += ROWS_BLOCK) {
        for (int32_t i = 0; i < a->n_tap; i++)
            part[i] = vf_zero();
        conv_dw_block(g, t, rows_min(t + ROWS_BLOCK, a->batch.n_tok), j, n, part);
        for (int32_t i = 0; i < a->n_tap; i++)
            total[i] = vf_add(total[i], part[i]);
    }
    for (int32_t back = 0; back < a->n_tap; back++) {
        vf_store(sum, total[back], VF);
        for (int i = 0; i < n; i++)
            g->dweight[(j + i + 1) * a->n_tap - 1 - back] += sum[i];
    }
}

static inline void conv_dw_runs(const struct k_conv_bwd *g, int64_t lo, int64_t hi)
{
    int64_t end = rows_min(hi * ROWS_COLS, g->fwd.d);
    for (int64_t j = lo * ROWS_COLS; j < end; j += VF)
        conv_dw_cols(g, j, vf_count(end, j));
}

#endif
