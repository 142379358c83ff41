/* SPDX-License-Identifier: Apache-2.0
 *
 * What packed linear algebra on x86 is made of: one block of packed rows against one panel of a
 * packed weight, and a few ways to bring operands into that form. Each instruction set fills a
 * struct linear_isa; linear.c, linear_dx.c, linear_dw.c and lora.c say once, for all of
 * them, what is multiplied with what and in which order memory is walked.
 *
 * The layouts are those of kernels/linear.h. A step is one input or a pair, as the format stores
 * them.
 *
 * Thread: any; no state.
 */
#ifndef KERNELS_X86_BLOCK_H
#define KERNELS_X86_BLOCK_H

#include "kernels/linear.h"
#include "kernels/lora_grid.h"

enum {
    TILE_STEP_BYTES = 128, /* of a panel of f32 or bf16 */
    TILE_F16_STEP_BYTES = 64,
    TILE_INT8_STEP_BYTES = 64,
    TILE_INT4_STEP_BYTES = 32,
};

/* Steps of a group of codes. */
static inline int64_t tile_group_steps(enum k_type type)
{
    return format_group(type) / format_stream(type, 0).inputs;
}

/* Memory that is wanted soon, asked for at `pace` bytes per step alongside a loop: into the second
 * level, because what waits for the first would hold up the loop's own misses there. May run past
 * what is mapped (a prefetch does not fault), but not for long: that costs a page walk each. Two
 * such runs: of `at` a step asks for one line, of `also` for two half a pace apart. */
struct tile_prefetch {
    const char *at;
    int64_t pace;
    const char *also;
    int64_t also_pace;
};

/* One run. */
static inline struct tile_prefetch tile_prefetch_at(const char *at, int64_t pace)
{
    return (struct tile_prefetch){at, pace, at, pace};
}

/* What is left of it behind so many steps. */
static inline struct tile_prefetch tile_prefetch_behind(const struct tile_prefetch *a,
                                                        int64_t steps)
{
    return (struct tile_prefetch){a->at + steps * a->pace, a->pace, a->also + steps * a->also_pace,
                                  a->also_pace};
}

/* Where a panel's outputs go: y[row][cols of 32], plus bias, plus what is there. */
struct tile_out {
    float *y;
    int64_t ld_y, cols;
    const float *bias; /* NULL: none */
    bool add;
};

struct block {
    int64_t h, np;              /* rows; panels: at most linear_isa.panels[h] */
    const char *rows, *panel;   /* panel: 64-aligned */
    int64_t stride, steps;      /* bytes between panels; steps of inputs */
    const float *from;          /* [np][h][32] sums so far, 64-aligned; NULL: zero */
    float *to;                  /* where sums go that are not yet complete; NULL: out */
    struct tile_out out;        /* of the first panel */
    struct tile_prefetch ahead; /* looked at when np is 1; set in any case */
    int64_t ahead_n;            /* 0: one run; else runs, each over an equal part of the steps, */
    int64_t ahead_stride;       /* this many bytes from one to the next */
};

/* The same from codes, over all inputs: from and to are not used. A group's sums are taken alone
 * and join `total` by a fused multiply-add with their scales. */
struct block_codes {
    struct block b;       /* panel: codes */
    const char *scale;    /* of the first panel, [group][32] as stored */
    int64_t scale_stride; /* bytes from panel to panel */
    float *total;         /* room for [np][h][32], 64-aligned */
};

/* The same for one of several blocks of rows, np 1, over whole groups of inputs: from and to are
 * totals. The first block turns the codes to bf16 as it goes and leaves them to the others. */
struct block_widen {
    struct block b;    /* its panel: codes of the first block, bf16 of the others */
    char *widened;     /* of the first block: where bf16 goes; else NULL */
    const char *scale; /* [group][32] as stored */
};

/* A tile of 32 inputs by 32 outputs of a panel, to be turned over: what was an output becomes a
 * step (or half of one), what was an input an output. */
struct turn {
    enum k_type type;
    const char *tile;  /* its first step; of nested scales the block that it is of */
    int64_t first;     /* of those: its first input in there */
    int64_t left;      /* steps that are there; the rest are zeros */
    const void *scale; /* of codes: the tile's group's, [32]; bf16(scale * code) is turned */
    char *to;          /* as the rows are: [32][32] f32 or [16][32][2] bf16; 64-aligned */
};

/* Some rows of 32 gates and of what they gate: their products, rounded, become 32 inputs of a block
 * of packed rows. */
struct gating {
    const float *gate, *up; /* [h, ld], 64-aligned */
    int64_t ld, h;
    char *to; /* [16][h][2] bf16 */
};

/* A run of rows whose columns are packed, and which of its steps now. */
struct columns {
    const float *at;
    int64_t ld, rows, cols;
    int64_t step_lo, step_hi; /* step_lo: a multiple of COLUMNS_STEPS */
};

enum { COLUMNS_STEPS = 4 };

/* Steps [step_lo, step_hi) of the columns, as packed rows or as panels. */
typedef void columns_fn(enum k_type type, const struct columns *x, char *to);

static inline int64_t columns_steps(enum k_type type, int64_t rows)
{
    return type == K_F32 ? rows : linear_ceil_div(rows, 2);
}

/* Lines of memory that are wanted soon, in the second level; may run past what is mapped. */
struct lines {
    const char *at;
    int64_t n;
};

enum { LINE_BYTES = 64 };

/* A block of what was widened (kernels/x86/linear_widened.h): np 1, the steps are inputs, the panel
 * is [2][steps][16], each half of its outputs by itself. */
struct block_widened {
    struct block b;              /* its `ahead` is not looked at */
    struct lines ahead;          /* as many of them as there is time for */
    int64_t to_second, to_third; /* of rows: numbers from an input to the next two; and so on */
    const float *scale;          /* [32], of the group of codes that the inputs are; NULL: none */
};

/* How panels and rows are widened. */
struct widening {
    void (*block)(const struct block_widened *b);
    /* n inputs of a panel, half of their outputs to [n][16] at `to`, half at `second` */
    void (*weight)(enum k_type type, const char *steps, int64_t n, float *to, float *second);
    /* The scales of a group of codes, [32]. */
    void (*scales)(enum k_type type, const void *scales, float *to);
    /* n pairs of h rows: [2][n][h]. */
    void (*rows)(const char *rows, int64_t h, int64_t n, float *to);
};

struct linear_isa {
    void (*block[K_TYPE_COUNT])(const struct block *b);       /* of weights without groups */
    void (*codes[K_TYPE_COUNT])(const struct block_codes *b); /* of those with */
    /* NULL: of no use, codes are widened (below) */
    void (*codes_widen[K_TYPE_COUNT])(const struct block_widen *b);
    void (*gate)(const struct gating *g); /* NULL: no product is gated */
    const struct widening *widening; /* NULL: there is no need; else only few_max rows go without */
    int64_t few_max;
    /* Panels [lo, hi) of a call without groups, with more rows than few_max, up to mid_max; NULL:
     * widened */
    void (*mid)(const struct k_linear *a, int64_t lo, int64_t hi, void *scratch);
    int64_t mid_max;
    uint8_t
        panels[LINEAR_MR + 1]; /* that this many rows should take at once when there are enough */
    void (*turn)(const struct turn *t);
    /* t = x a^T and dt = scale (dy b) of some rows of a group */
    void (*lora_inner)(const struct k_lora *a, const struct lora_rows *rows);
    void (*lora_inner_bwd)(const struct k_lora_bwd *a, const struct lora_rows *rows);
    /* block of f32 that adds to y, of few steps and any np; NULL: that is good at it */
    void (*lora_outer)(const struct block *b);
    /* w[rows, rank], rows at most 16, as half a panel: to[r * 32 + row] */
    void (*lora_across)(const float *w, int64_t rows, int64_t rank, float *to);
    /* y[0, cols) += t[rank] times panels, as f32 does it with them widened; NULL: widened first */
    void (*lora_row)(const k_bf16 *panels, const float *t, int64_t rank, float *y, int64_t cols);
    /* n numbers, a multiple of K_NR */
    void (*lora_widen)(const k_bf16 *x, int64_t n, float *to);
};

extern const struct linear_isa linear_isa_avx2, linear_isa_avx512;

static inline void block_run(const struct linear_isa *isa, enum k_type type, const struct block *b)
{
    isa->block[type](b);
}

/* linear.c and its like: all of a kernel. */
void linear_run(const struct linear_isa *isa, const struct k_linear *a, const struct k_slice *s);
void linear_dx_run(const struct linear_isa *isa, const struct k_linear_dx *a,
                   const struct k_slice *s);
void linear_dw_run(const struct linear_isa *isa, enum k_type type, const struct k_linear_dw *a,
                   const struct k_slice *s);
void cols_pack_run(const struct k_cols_pack *a, const struct k_slice *s, columns_fn *left,
                   columns_fn *right);
void lora_run(const struct linear_isa *isa, const struct k_lora *a, const struct k_slice *s);
void lora_bwd_run(const struct linear_isa *isa, const struct k_lora_bwd *a,
                  const struct k_slice *s);

#endif
