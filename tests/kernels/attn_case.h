/* SPDX-License-Identifier: Apache-2.0
 *
 * A ragged attention call for the checks: sequences of given lengths over a cache whose cells are
 * shuffled and hold NaN wherever nothing was written, and the same attention in f64, pair by pair,
 * on the numbers as the cells round them.
 *
 * All arrays are buffers of the case (check_buf), freed by check_begin.
 *
 * Thread: main only.
 */
#ifndef TESTS_KERNELS_ATTN_CASE_H
#define TESTS_KERNELS_ATTN_CASE_H

#include "kernels/attention.h"
#include "tests/kernels/check.h"

enum { ATTN_SEQ_MAX = 8 };

/* What a case is made from. */
struct attn_spec {
    enum k_type type;
    int32_t d, n_head, n_kv_head, window;
    float softcap;
    bool full; /* not causal */
    int n_seq;
    int32_t n_row[ATTN_SEQ_MAX], kv_len[ATTN_SEQ_MAX];
    enum check_kind kind;
};

struct attn_case {
    struct attn_spec spec;
    struct k_ragged batch; /* the rows of the call */
    struct k_ragged all;   /* every key as a row: what kv_write is given */
    struct k_kv_cache cache;
    size_t cache_bytes;       /* of k, and of v */
    float *q, *y, *lse;       /* rows of the call */
    float *k, *v;             /* rows of `all`, [n_kv_head, d] with a gap behind */
    int64_t ld_q, ld_y, ld_k; /* wider than a row */
    struct k_attn args;
};

/* The formats of cells. */
static const enum k_type attn_types[] = {
#define CELL(name, ID, ...) K_##ID,
#include "kernels/cell.def"
#undef CELL
};
enum { ATTN_TYPES = sizeof attn_types / sizeof *attn_types };

/* Cells of bf16 and of codes hold pairs of a key's numbers: there are none of odd heads. */
static inline bool attn_has_type(const struct attn_spec *s, enum k_type type)
{
    return s->d % 2 == 0 || type == K_F32;
}

/* Whether it is this type's turn where specs have one type each: number i's. */
static inline bool attn_type_turn(const struct attn_spec *s, int i, enum k_type type)
{
    return s->d % 2 || attn_types[i % ATTN_TYPES] == type;
}

/* Fills the cells through kv_write of the level under check; y and lse are marked NaN. What it is
 * made of, and all that is drawn after, follows from the spec and the seed of the command line:
 * other levels and rows try the same numbers, and need one truth. */
void attn_case_make(struct check *c, struct attn_case *t, const struct attn_spec *spec);
void attn_case_name(struct check *c, const struct attn_spec *spec);

/* A batch of sequences [lo, hi) of `from`, with rows [row_lo, row_hi) of each: arrays of its own,
 * the same cells. Keys are those up to its last row. */
struct k_ragged attn_batch_of(struct check *c, const struct k_ragged *from, int64_t lo, int64_t hi,
                              int64_t row_lo, int64_t row_hi);

/* y: numbers as a product with cells of the type takes them, in f64. */
void attn_round(enum k_type type, const float *x, int64_t n, double *y);
/* Sum of a b; *size: of their absolute values. */
double attn_dot(const double *a, const double *b, int32_t d, double *size);

/* y and lse in f64; size: sum of p |v|, what y's error is measured by. [n_tok, n_head, d], lse
 * [n_tok, n_head]. q, k, v: the case's, rounded, laid out as there. sum: of all that it follows
 * from. Kept by the check; worked out when the case's numbers were not seen before. */
struct attn_truth {
    double *y, *size, *lse; /* borrowed */
    double *q, *k, *v;      /* borrowed */
    uint64_t sum;
};
struct attn_truth attn_truth_of(struct check *c, const struct attn_case *t);

/* Score and its derivative by the dot product, in f64. */
double attn_score(const struct attn_spec *s, float scale, double dot, double *slope);

/* Row `row` of a sequence sees key `key`: the plain definition. */
bool attn_sees(const struct attn_spec *s, int64_t kv_len, int64_t n_row, int64_t row, int64_t key);

/* A packed copy of rows with a gap, [n_tok, width]. */
float *attn_dense(struct check *c, const float *x, int64_t ld, int64_t n, int64_t width);

#endif
