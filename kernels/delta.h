/* SPDX-License-Identifier: Apache-2.0
 *
 * How a call of the gated delta rule is cut, and where states lie. The recurrence runs row by row,
 * in prompts as in decode: so a row's bits follow from the rows before it alone, however its
 * sequence is cut into steps, and a state that goes through memory between two steps is the f32
 * that it was. Columns of a state know nothing of each other: a unit is a block of them, which
 * stays in the first cache for all rows of its sequence, and lies in memory in one piece.
 *
 * On the way back a block's states are made again from those at borders of runs of rows, which a
 * first pass leaves.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_DELTA_H
#define KERNELS_DELTA_H

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define DELTA_FN static __host__ __device__ inline
#else
#define DELTA_FN static inline
#endif

enum {
    DELTA_COLS = 32,     /* columns of a block; the last of a head may have fewer */
    DELTA_BACK_COLS = 16 /* halves of a head on the way back are whole runs of so many */
};

#define DELTA_EPS 1e-6f /* beside the sum of squares of what gets unit length */

/* Columns [col, col + width) of a head of a sequence. */
struct delta_unit {
    int64_t seq, head, part;
    int32_t col, width;
};

DELTA_FN int64_t delta_blocks(int32_t d_v)
{
    return (d_v + DELTA_COLS - 1) / DELTA_COLS;
}

DELTA_FN struct delta_unit delta_unit_of(const struct k_delta *a, int64_t i)
{
    int64_t n = delta_blocks(a->d_v), of_head = i / n;
    struct delta_unit u = {of_head / a->n_v, of_head % a->n_v, i % n, (int32_t)(i % n) * DELTA_COLS,
                           DELTA_COLS};
    if (u.width > a->d_v - u.col)
        u.width = a->d_v - u.col;
    return u;
}

/* Half of the columns of a head: whole runs of DELTA_BACK_COLS, the second may be empty. */
DELTA_FN struct delta_unit delta_half_of(const struct k_delta *a, int64_t i)
{
    int32_t runs = (a->d_v + DELTA_BACK_COLS - 1) / DELTA_BACK_COLS;
    int32_t first = (runs + 1) / 2 * DELTA_BACK_COLS;
    int64_t of_head = i / K_DELTA_PARTS;
    struct delta_unit u = {of_head / a->n_v, of_head % a->n_v, i % K_DELTA_PARTS, 0, 0};
    first = first < a->d_v ? first : a->d_v;
    u.col = u.part ? first : 0;
    u.width = u.part ? a->d_v - first : first;
    return u;
}

DELTA_FN int64_t delta_key_head(const struct k_delta *a, int64_t head)
{
    return head / (a->n_v / a->n_k);
}

/* Floats from the start of an array of states to the block of a head's columns from `col` on. */
DELTA_FN int64_t delta_state_at(const struct k_delta *a, int64_t slot, int64_t head, int32_t col)
{
    return ((slot * a->n_v + head) * a->d_v + col) * a->d_k;
}

/* Where a unit's rows begin from: NULL for zeros. */
DELTA_FN const float *delta_from(const struct k_delta *a, const struct delta_unit *u)
{
    const struct k_states *s = &a->state;
    if (!s->at || s->from[u->seq] < 0)
        return NULL;
    return s->at + delta_state_at(a, s->from[u->seq], u->head, u->col);
}

/* Where it leaves its state behind its last row, and behind row t of the call: NULL for nowhere. */
DELTA_FN float *delta_to(const struct k_delta *a, const struct delta_unit *u)
{
    const struct k_states *s = &a->state;
    if (!s->at || s->to[u->seq] < 0)
        return NULL;
    return s->at + delta_state_at(a, s->to[u->seq], u->head, u->col);
}

DELTA_FN float *delta_kept(const struct k_delta *a, const struct delta_unit *u, int64_t t)
{
    const struct k_states *s = &a->state;
    if (!s->at || s->kept[u->seq] < 0 || a->batch.pos[t] + 1 != s->kept_len[u->seq])
        return NULL;
    return s->at + delta_state_at(a, s->kept[u->seq], u->head, u->col);
}

/* ---- what delta_rates leaves of a row ---- */

DELTA_FN int64_t delta_rate_cols(int32_t n_k, int32_t n_v)
{
    return 2 * ((int64_t)n_v + n_k);
}

struct delta_rate {
    float decay, beta, q, k, skip;
    bool is_scan;
};

DELTA_FN struct delta_rate delta_rate_of(const struct k_delta *a, int64_t t, int64_t head)
{
    const float *r = a->rate + t * delta_rate_cols(a->n_k, a->n_v);
    int64_t key = delta_key_head(a, head);
    return (struct delta_rate){r[head],
                               r[a->n_v + head],
                               r[2 * a->n_v + key],
                               r[2 * a->n_v + a->n_k + key],
                               a->skip ? a->skip[head] : 0,
                               a->skip != NULL};
}

/* ---- the way back ---- */

/* Rows from one border to the next: their states, of up to DELTA_BACK_COLS columns, are at most
 * half of K_SCRATCH_BYTES. */
DELTA_FN int64_t delta_run_rows(int32_t d_k)
{
    return d_k > K_DELTA_D_MAX / 2 ? 32 : 64;
}

/* Borders of all sequences of a call of at most so many rows and sequences. */
DELTA_FN int64_t delta_borders(int32_t d_k, int64_t n_tok, int64_t n_seq)
{
    return n_tok / delta_run_rows(d_k) + n_seq;
}

/* Runs of a sequence of n rows. */
DELTA_FN int64_t delta_runs(int32_t d_k, int64_t n)
{
    return (n + delta_run_rows(d_k) - 1) / delta_run_rows(d_k);
}

/* The state from which run `run` of a sequence begins: sequences before it have taken fewer. */
DELTA_FN float *delta_border(const struct k_delta_bwd *g, const struct delta_unit *u, int64_t run,
                             int32_t col)
{
    const struct k_delta *a = &g->fwd;
    int64_t first = a->batch.q_start[u->seq] / delta_run_rows(a->d_k) + u->seq;
    return g->border + delta_state_at(a, first + run, u->head, col);
}

/* Where the gradients of row t lie in `part`. */
DELTA_FN float *delta_part_at(const struct k_delta_bwd *g, const struct delta_unit *u, int64_t t)
{
    const struct k_delta *a = &g->fwd;
    return g->part + ((t * a->n_v + u->head) * K_DELTA_PARTS + u->part) * (2 * a->d_k + 2);
}

/* What row t of a key head has in `part`, of all its heads of values: n runs, `cols` apart. */
struct delta_key_parts {
    const float *at; /* dq; dk behind it */
    int64_t n, cols;
};

DELTA_FN struct delta_key_parts delta_key_parts_of(const float *part, int32_t n_k, int32_t n_v,
                                                   int32_t d_k, int64_t t, int64_t key)
{
    int64_t n = (int64_t)(n_v / n_k) * K_DELTA_PARTS, cols = 2 * d_k + 2;
    return (struct delta_key_parts){part + (t * n_k + key) * n * cols, n, cols};
}

/* Gradients of g and beta in `part`, of row t and a head of values. */
struct delta_rate_grad {
    float g, beta;
};

DELTA_FN struct delta_rate_grad delta_rate_grad_of(const float *part, int32_t n_v, int32_t d_k,
                                                   int64_t t, int64_t head)
{
    int64_t cols = 2 * d_k + 2;
    const float *p = part + (t * n_v + head) * K_DELTA_PARTS * cols + 2 * d_k;
    return (struct delta_rate_grad){p[0] + p[cols], p[1] + p[cols + 1]};
}

#endif
