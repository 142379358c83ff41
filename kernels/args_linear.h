/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of packed linear algebra: weights, rows, products, adapters. Pointers are borrowed for
 * the call. Part of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_LINEAR_H
#define KERNELS_ARGS_LINEAR_H

#include "kernels/types.h"

struct k_weight {
    enum k_type type; /* its format */
    int64_t n, k;     /* outputs, inputs */
    void *data;       /* the first stream: panels; 64-aligned; k_weight_bytes for all of them */
    void *scale; /* the second: [panel, group, K_NR], f32 or of int4 f16; NULL: a format without */
};

size_t k_weight_bytes(enum k_type type, int64_t n, int64_t k); /* panels and scales */
void k_weight_bind(struct k_weight *w, enum k_type type, int64_t n, int64_t k, void *data);

/* Streams one by one, for weights of which each stream is to follow another's: whether all of them
 * do is k_weight_follows. put gives where the stream ends. */
size_t k_weight_stream_bytes(enum k_type type, int stream, int64_t n, int64_t k);
void *k_weight_put_stream(struct k_weight *w, int stream, void *at);
bool k_weight_follows(const struct k_weight *w, const struct k_weight *next);

struct k_weight_pack {    /* unit: a panel */
    const void *src;      /* [n, k] row-major, or [k, n] when transposed */
    enum k_type src_type; /* K_F32, K_BF16, K_F16; or, not transposed and of whole blocks, the
                           * weight's own: codes as kernels/coded.h has them. Nested scales come
                           * from codes alone */
    int64_t ld_src;
    bool transposed;
    struct k_weight w;
    int64_t panel_lo; /* the source becomes panels [panel_lo, panel_lo + ceil(n_src / K_NR)) */
    int64_t n_src;    /* rows of the source; w.n when it is the whole weight */
};

struct k_weight_unpack { /* unit: a panel */
    struct k_weight w;
    float *dst; /* [n, k] */
    int64_t ld_dst;
};

/* Blocked rows: what a product reads, as its weight's format wants them (k_format.rows): f32, or
 * rounded to bf16. k_rows_bytes(type, m, k) bytes, 64-aligned. */
struct k_rows_pack { /* unit: a block of rows */
    const float *x;  /* [m, k] */
    int64_t ld_x, m, k;
    enum k_type type; /* K_F32 or K_BF16 */
    void *rows;
};

size_t k_rows_bytes(enum k_type type, int64_t m, int64_t k);

/* rows_q8 has the same arguments, of type K_Q8, and leaves rows of kernels/q8.h. */

struct k_lora_group;

/* What the adapters of a product will be read from next: n_table tables of groups, of the products
 * that stand joined in it. A product that waits for arithmetic may ask memory for it meanwhile; no
 * result depends on it. */
struct k_prefetch {
    const struct k_lora_group *group; /* NULL: nothing */
    int64_t n_group, n_table, stride; /* groups from a table to the next */
};

/* linear_<format>: y[m, :] (+)= x w^T + bias over panels [panel_lo, panel_hi)
 * of w; column 0 of y is the first output of panel_lo. The bias joins the finished sum, and what
 * is in y joins last.
 *
 * With `gated`, of formats whose rows are bf16, where kernel_table.gates: the panels are those of
 * gates and then as many of what they gate, all of them whole, and in place of y rows are left that
 * are ready for the next product, with the bits of swiglu and rows_pack: of silu(first half) *
 * second half, rounded to bf16; of linear_q8 with those of swiglu and rows_q8. */
struct k_linear {
    const void *rows; /* of rows_pack or, of linear_q8, of rows_q8: [m, w.k] */
    struct k_weight w;
    const float *bias; /* [w.n] or NULL */
    float *y;
    int64_t ld_y, m;
    int64_t panel_lo, panel_hi;
    bool add;
    struct k_prefetch prefetch; /* not with gated */
    void *gated; /* [m, half the outputs] as of rows_pack, or rows_q8; NULL: y is wanted */
};

/* linear_q8: the same, rows of rows_q8, of a weight whose format has codes (q8_has): codes are
 * multiplied with codes. */

/* linear_dx_*: dx[m, k] (+)= dy w over panels [panel_lo, panel_hi). A weight with scales is taken
 * as bf16(scale * code). */
struct k_linear_dx {
    const void *rows; /* of rows_pack: dy [m, outputs of those panels] */
    int64_t m;
    struct k_weight w;
    int64_t panel_lo, panel_hi;
    float *dx;
    int64_t ld_dx;
    bool add;
};

/* Columns of rows as an operand of linear_dw, where they are what rows and outputs are elsewhere:
 * as blocked rows (dy) or as panels (x). Rounded as rows_pack rounds. k_cols_bytes, 64-aligned. */
struct k_cols_pack { /* unit: some rows */
    const float *x;  /* [m, n] */
    int64_t ld_x, m, n;
    enum k_type type; /* K_F32 or K_BF16 */
    bool is_panels;
    void *cols;
};

size_t k_cols_bytes(enum k_type type, int64_t m, int64_t n, bool is_panels);

/* linear_dw_*: dw[n, k] += dy[m, n]^T x[m, k], row-major f32. Runs of LINEAR_DW_ROWS rows are
 * summed, each sum is added (kernels/linear.h), or where dw holds nothing yet the first is put
 * there. */
struct k_linear_dw {
    const void *dy, *x; /* of cols_pack: blocked rows of n, panels of k */
    int64_t m, n, k;
    float *dw;
    int64_t ld_dw;
    bool fills; /* m > 0: what dw holds is no number */
};

struct k_lora_group {
    int64_t row_lo, row_hi;
    int64_t rank;
    const float *a, *b; /* [rank, k], [n, rank] row-major; no a at all: rows without an adapter */
    const float *b_panels; /* b as panels of an f32 weight, for lora alone, which then has less to
                            * do and does not read b; NULL: none */
    /* a and b_panels as bf16 in their places, for lora alone, which then reads half as much and
     * neither of those; widened, so with their bits. NULL: none */
    const k_bf16 *a_bf16, *b_panels_bf16;
    const void *stored; /* the run in memory that has all that lora reads; NULL: unknown */
    size_t stored_bytes;
    float scale;
    float *da, *db; /* lora_dw: added to; NULL: frozen */
    /* of dora (kernels/args_dora.h), [n] each: what it makes its rows, NULL: it has none; and what
     * dora_dw reads, and adds to where it is not NULL */
    const float *gain, *norm;
    float *dmagnitude;
};

/* Rows of a step whose adapter has a matrix of its own in place of a model's, of its format and
 * shape. */
struct k_saved {
    int64_t row_lo, row_hi; /* tokens */
    void *data, *scale;     /* as of struct k_weight; no data: these rows have the model's */
};

struct k_lora { /* the product with a stays in t for the backward */
    const float *x;
    int64_t ld_x, m, k, n;
    const struct k_lora_group *group; /* disjoint, ascending rows */
    int64_t n_group;
    const int32_t *n_used; /* how many of them there are, made by experts_groups; NULL: all */
    float *t;              /* [m, rank_max] */
    int64_t rank_max;
    float *y; /* [m, n], added to */
    int64_t ld_y;
};

/* lora_bwd: dt and dx, units of rows. Once it is whole, lora_dw: da and db of the groups, from x,
 * dy, t and dt, units of columns. Two rows because their sums run across each other.
 *
 * Beside a product that rounds what it multiplies these may do so too: then what they multiply may
 * be taken as bf16. dt is f32 as it is kept. */
struct k_lora_bwd {
    struct k_lora fwd; /* y unused */
    const float *dy;
    int64_t ld_dy;
    float *dt; /* [m, rank_max] */
    float *dx; /* [m, k], added to; NULL: not wanted */
    int64_t ld_dx;
    bool rounds;
};

#endif
