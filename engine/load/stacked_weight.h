/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts of a layer that stand in files as one tensor, as gpt-oss has them: of each of E experts
 * the outputs of gate and up by turns, and those of down.
 *
 *   NAME.experts.gate_up_proj       [E, k, 2 n], by inputs
 *   NAME.experts.gate_up_proj_bias  [E, 2 n]
 *   NAME.experts.down_proj          [E, n, k], by inputs
 *   NAME.experts.down_proj_bias     [E, k]
 *
 * or, in MXFP4, in place of PROJ
 *
 *   PROJ_blocks  U8 [E, outputs, inputs / 32, 16]: codes of 4 bits, the first in the lower half
 *   PROJ_scales  U8 [E, outputs, inputs / 32]: a power of two for 32 inputs
 *
 * Others (Qwen3.5) have no biases, and all outputs of gate before those of up:
 *
 *   NAME.experts.gate_up_proj       [E, 2 n, k]
 *   NAME.experts.down_proj          [E, k, n]
 *
 * which Granite calls NAME.block_sparse_moe.input_linear.weight and output_linear.weight.
 *
 * Each expert's own are found beside them as NAME.experts.7.gate_proj.weight [n, k], up_proj,
 * down_proj, and .bias. Codes read as BF16, which holds each of them, or as codes of int8g: twice
 * what they count, times half of their scale, which must be one of f16's.
 *
 * Thread: one makes it, any reads.
 */
#ifndef ENGINE_LOAD_STACKED_WEIGHT_H
#define ENGINE_LOAD_STACKED_WEIGHT_H

#include "engine/load/weights.h"

struct stacked_weight {
    struct st_tensor t;                 /* as it reads: [n, k], or [n] */
    const struct weight *from, *scale;  /* borrowed; scale: of codes, else NULL */
    int64_t expert, n_all, first, step; /* output i is number first + i * step of n_all there */
    bool by_outputs; /* or, where this is so, first * dim[0] + i: rows of inputs */
    int64_t dim[2];
    char *name; /* owned */
};

/* How many of them a tensor of w is; 0: it is no such stack. */
size_t stacked_weight_count(const struct weights *w, const struct st_tensor *t);

/* Number `i` of those that `from` is. */
int stacked_weight_init(struct stacked_weight *s, const struct weights *w,
                        const struct weight *from, size_t i, struct err *e);
void stacked_weight_release(struct stacked_weight *s);

/* The numbers that a tensor stands for, where it is codes or their scales; else its own. */
uint64_t stacked_weight_numbers(const struct weights *w, const struct st_tensor *t);

/* Rows that had better be read at once: a stack by inputs has them side by side. */
int64_t stacked_weight_rows_together(const struct stacked_weight *s);

/* int8g, or K_F32: numbers. */
enum k_type stacked_weight_coded(const struct stacked_weight *s);

/* n elements from column col of row `row` on, over as many rows as that takes, of t's dtype. */
int stacked_weight_read(const struct stacked_weight *s, int64_t row, int64_t col, int64_t n,
                        void *dst, struct err *e);

/* The same, whole blocks, as codes of int8g (kernels/coded.h). */
int stacked_weight_read_coded(const struct stacked_weight *s, int64_t row, int64_t col, int64_t n,
                              void *dst, struct err *e);

#endif
