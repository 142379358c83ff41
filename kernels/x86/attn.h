/* SPDX-License-Identifier: Apache-2.0
 *
 * How attention is split on x86. attn_fwd.c and attn_bwd.c walk tiles, chunks and cells and know no
 * instruction set; attn_avx2.c and attn_avx512.c are the arithmetic on blocks, as a table of
 * operations. All of attention is one product, c = a b with b a panel of up to 32 columns (a K
 * cell, a piece of a V cell, either transposed, or query rows laid out the same way), and a few
 * element-wise steps between products.
 *
 * Left operands ("rows") lie at a fixed stride with their inputs ascending, so that the product
 * addresses all of them from one register. Their element is the variant's: bf16 where there is a
 * dot product for it, else f32 that was rounded through bf16.
 *
 * Scores are kept in units of log 2 here: exp is 2^x, the constant is folded into the scale.
 * The sum of an output runs over its inputs in order, from zero, in one chain, whatever the number
 * of rows beside it. An exponent of zero gives exactly one.
 *
 * Cells of codes are read as the cells of bf16 that they stand for: `widen` makes these, a cell at
 * a time, in scratch, and everything behind it knows bf16 alone.
 *
 * Thread: any; scratch is the caller's.
 */
#ifndef KERNELS_X86_ATTN_H
#define KERNELS_X86_ATTN_H

#include "kernels/attention.h"

enum {
    ATTN_LD = K_ATTN_CHUNK + 16, /* floats from a row of scores to the next: 17 cache lines */
    ATTN_MR = 12,                /* rows of a block at most; ops->mr is the variant's */
    ATTN_WAVE = 16,              /* chunks of which a single row takes all K and then all V */
    ATTN_WAVE_LD = ATTN_WAVE * K_ATTN_CHUNK + 32, /* probabilities from a row to the next */
    ATTN_RING = 2 * K_CHUNK_CELLS, /* cells whose scores wait for their probabilities, at most */
    ATTN_RING_LD = ATTN_RING * K_CELL + 16,
    ATTN_ROW_WIDE = 2 /* cells that a row's loops want wide at a time: of K, of V */
};

static const float attn_log2e = 0x1.715476p+0f, attn_ln2 = 0x1.62e430p-1f;

/* c[n_row, w] = factor * a b; with take: c = c keep[row] + (a b) take[row]. */
struct attn_product {
    const void *rows;         /* n_row rows of n_panel * n_in inputs */
    const void *const *panel; /* n_panel panels [n_in][w] or [n_in / 2][w][2] */
    int n_row, n_panel, n_in, w;
    /* Not 0: inputs of the last panel behind these are zeros of the rows; columns behind these are
     * of no use. A variant may look at them all the same. */
    int n_in_last, n_col;
    float *c;
    int ld_c;
    float factor;
    const float *keep, *take; /* [n_row] or NULL */
};

/* What is asked of a cell: nothing, every other line (the hardware brings the one beside it), all.
 */
enum attn_ask { ATTN_ASK_NONE, ATTN_ASK_HALF, ATTN_ASK_ALL };

/* A K cell, or a V cell, of codes as one of bf16. `ahead`: memory to ask for meanwhile, as much as
 * is read. */
typedef void attn_widen_fn(void *cell, const void *codes, int d, const char *ahead);

/* A row's heads against the cells of a wave of chunks. */
struct attn_row {
    enum k_type type; /* of rows */
    /* Of cells of codes, else NULL; and room for ATTN_ROW_WIDE cells that are made of them */
    attn_widen_fn *widen_k, *widen_v;
    char *wide;
    const void *const *k, *const *v; /* [n_cell] */
    /* From a cell to the one to ask memory for meanwhile, and how much of that to ask for: advice,
     * which changes no number. A variant may ask for less of it, or for other cells. */
    const ptrdiff_t *k_away, *v_away;
    enum attn_ask ask;
    int n_row, n_cell, d;
    int n_first;        /* cells of the first chunk; those behind it begin with their first cell */
    const void *q;      /* [n_row] left operands */
    float factor;       /* of scores */
    struct k_span seen; /* within the n_cell cells; what lies behind is not looked at */
    float cap, cap_scale; /* as in attn_probs */
    float *s;             /* [n_row, ATTN_RING_LD], scratch */
    void *p;              /* [n_row, ATTN_WAVE_LD] numbers of left operands, scratch */
    float *o, *m, *l;     /* [n_row, d], [n_row], [n_row]: sums so far; the wave is added */
};

/* Rows of scores over n_key keys (a multiple of 32) to rows of probabilities. */
struct attn_probs {
    float *s;                  /* [n_row, ATTN_LD], log2 units; spoilt */
    void *rows;                /* out */
    const struct k_span *seen; /* [n_row] within [0, n_key); elsewhere the probability is 0 */
    int n_row, n_key;
    float cap, cap_scale; /* cap 0: s are scores; else score = cap tanh(s cap_scale) */
    float *m, *l;         /* out [n_row] */
};

/* Scores and dp = dy v of pairs to p = exp(score - lse) and ds = p (dp - delta), as left operands.
 * Rows are queries and columns keys, or the other way round. */
struct attn_grad {
    float *s, *dp;             /* [n_row, ATTN_LD], s in log2 units; spoilt */
    void *p_rows, *ds_rows;    /* out; p_rows may be NULL */
    const struct k_span *seen; /* [n_row] within [0, n_col); elsewhere both are 0 */
    int n_row, n_col;          /* n_col a multiple of 32 */
    float cap, cap_scale;      /* as in attn_probs */
    const float *lse, *delta;  /* of the queries; lse in log2 units */
    bool query_is_col;         /* lse and delta go with columns, not rows */
};

struct attn_keys;

struct attn_ops {
    int mr;
    size_t row_bytes[2]; /* from one left operand to the next, by K_F32 and K_BF16 */
    size_t in_bytes[2];  /* from one input of a left operand to the next */

    /* d numbers to a left operand, rounded as the type says */
    void (*pack_row)(enum k_type type, void *row, const float *x, int d);
    void (*product[2])(const struct attn_product *p);
    void (*row)(const struct attn_row *p); /* of ATTN_MR heads at most */
    void (*probs[2])(const struct attn_probs *p);
    /* Folds maxima m and sums l of up to 16 rows into big_m, big_l, and says what weights their
     * vectors take. All arrays [16], of which n are looked at and written. */
    void (*fold)(int n, float *big_m, float *big_l, const float *m, const float *l, float *keep,
                 float *take);
    /* o = o keep + part take, as the product does it */
    void (*fold_vec)(float *o, const float *part, float keep, float take, int d);
    /* y = o * inv + 0 */
    void (*finish)(float *y, const float *o, float inv, int d);
    /* A V cell with zeros in the slots outside of `slots`; whether all inside are finite */
    bool (*copy_values)(enum k_type type, void *dst, const void *src, int d, struct k_span slots);

    void (*grad[2])(const struct attn_grad *g);
    /* sum of x y */
    float (*dot)(const float *x, const float *y, int d);
    /* Cells to K_CELL left operands of d inputs, and back: a K cell of the rows of a V cell is its
     * transpose. Rows that are not `valid` become zeros in a V cell, where they are inputs; in a
     * K cell they are columns that nobody looks at. */
    void (*rows_of_k)(enum k_type type, void *rows, const void *cell, int d);
    void (*rows_of_v)(enum k_type type, void *rows, const void *cell, int d);
    void (*k_of_rows)(enum k_type type, void *cell, const void *rows, int d);
    void (*v_of_rows)(enum k_type type, void *cell, const void *rows, int d, struct k_span valid);
    attn_widen_fn *widen_k, *widen_v;
    /* NULL, or the variant's own tile of keys (attn_bwd.h) */
    void (*keys)(const struct attn_keys *k, void *scratch);
};

void attn_x86(const struct attn_ops *ops, const struct k_attn *a, const struct k_slice *s);
void attn_part_x86(const struct attn_ops *ops, const struct k_attn_part *a,
                   const struct k_slice *s);
void attn_merge_x86(const struct attn_ops *ops, const struct k_attn_part *a,
                    const struct k_slice *s);
void attn_bwd_q_x86(const struct attn_ops *ops, const struct k_attn_bwd *a,
                    const struct k_slice *s);
void attn_bwd_kv_x86(const struct attn_ops *ops, const struct k_attn_bwd *a,
                     const struct k_slice *s);

static inline struct k_span attn_span_and(struct k_span a, struct k_span b)
{
    return (struct k_span){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

/* A cell as products read it, by way of `to` where it is one of codes. */
static inline const void *attn_wide(const struct attn_ops *ops, const struct k_kv_cache *c,
                                    const void *cell, bool is_v, void *to)
{
    if (c->type != K_INT8)
        return cell;
    (is_v ? ops->widen_v : ops->widen_k)(to, cell, c->d_head, cell);
    return to;
}

/* What of a span lies in [lo, lo + n), counted from lo; empty spans stay within. */
static inline struct k_span attn_span_in(struct k_span a, int64_t lo, int64_t n)
{
    struct k_span in = attn_span_and(a, (struct k_span){lo, lo + n});
    return in.lo < in.hi ? (struct k_span){in.lo - lo, in.hi - lo} : (struct k_span){0, 0};
}

/* Asks for d numbers that will soon be read. */
static inline void attn_fetch(const float *x, int d)
{
    for (int i = 0; i < d; i += 16)
        __builtin_prefetch(x + i);
}

/* Asks memory for the cells of decoding rows, some way ahead of those that are read. */
struct attn_prefetch {
    struct k_attn_iter it;
    struct k_attn_unit u;
    int64_t n_unit;     /* left behind u */
    struct k_span keys; /* of u */
    struct k_span wave; /* of keys, from a cell's first on: of K, then of V */
    int64_t key;        /* of the next cell */
    bool is_v;          /* it is of V */
    bool follows;       /* the hardware can, where keys are many */
    bool rests;         /* it is left to it: nothing is asked for */
    size_t cell_bytes;
};

void attn_prefetch_init(struct attn_prefetch *w, const struct k_attn *a, enum k_attn_cut cut,
                        const struct k_slice *s);
/* Few heads leave the hardware time to find some of it in memory by itself, and long runs let it
 * learn. There, asking for less is a tenth faster, or for nothing; out of a cache it is a third
 * slower. */
enum attn_ask attn_prefetch_how(const struct attn_prefetch *w, struct k_span seen);
/* Before n cells are read: how far from each is the one to ask for meanwhile. */
void attn_prefetch_next(struct attn_prefetch *w, int n, const void *const *cell, ptrdiff_t *away);

/* The scratch of a slice, handed out from its start in 64-aligned pieces. Each driver asserts that
 * what it takes at most fits. */
struct attn_scratch {
    char *at;
};

static inline void *attn_take(struct attn_scratch *s, size_t bytes)
{
    void *p = s->at;
    s->at += (bytes + 63) / 64 * 64;
    return p;
}

#endif
