/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices that stand in files as codes, scales and zero points: the weight is
 * scale * (code - zero) in f32. In place of NAME.weight [n, k] of numbers there are, of
 * compressed-tensors (`pack-quantized`)
 *
 *   NAME.weight_packed      I32 [n, k * bits / 32], codes of 4 or 8 bits, the first in the lowest
 *   NAME.weight_scale       [n, groups] of F16, BF16 or F32; one group: a scale for each output
 *   NAME.weight_shape       I64 [2]: n, k
 *   NAME.weight_zero_point  I32 [n * bits / 32, groups], packed down the outputs; none: half of the
 *                           codes' range
 *   NAME.weight_g_idx       I32 [k], the group of each input; none, or -1: in their order
 *
 * of GPTQ (AutoGPTQ, GPTQModel), the other way around
 *
 *   NAME.qweight  I32 [k * bits / 32, n], packed down the inputs
 *   NAME.qzeros   I32 [groups, n * bits / 32], packed along the outputs, one less than the zero
 *                 point but in files of `gptq_v2`
 *   NAME.scales   [groups, n]
 *   NAME.g_idx    I32 [k], the group of each input; none: in their order
 *
 * and of AWQ (AutoAWQ's `gemm`)
 *
 *   NAME.qweight  I32 [k, n / 8], packed along the outputs, of each eight 0 2 4 6 1 3 5 7
 *   NAME.qzeros   I32 [groups, n / 8], likewise
 *   NAME.scales   [groups, n]
 *
 * and where a code is a byte (`float-quantized`, `int-quantized`, and `fp8` as DeepSeek and Qwen
 * publish it)
 *
 *   NAME.weight            F8_E4M3 or I8 [n, k]
 *   NAME.weight_scale      one, one for each output, or for each and group, or for blocks; or
 *   NAME.weight_scale_inv  for blocks; it is multiplied with, too
 *
 * and of bitsandbytes' nf4 NAME.weight, U8, with the parts that packed_bnb.c tells of.
 *
 * Such a weight reads as F32, or as the codes of a format that holds them (packed_weight.coded),
 * which then has these values. Where inputs are grouped in an order of their own the codes come
 * with each group's inputs side by side (packed_weight.order); numbers come as the file has them.
 *
 * Thread: one makes it, any reads.
 */
#ifndef ENGINE_LOAD_PACKED_WEIGHT_H
#define ENGINE_LOAD_PACKED_WEIGHT_H

#include "engine/load/packing.h"
#include "engine/load/weights.h"

struct packed_layout; /* of one maker (packed_layout.h) */

struct packed_weight {
    struct st_tensor t; /* NAME.weight as it reads: F32 [n, k] */
    const struct packed_layout *layout;
    const struct weight *codes, *scale, *zero; /* zero: NULL without */
    int32_t *group_of;                         /* owned: of each input; NULL: in their order */
    int32_t *order;      /* owned: which input each code of a row is of; NULL: that of its place */
    int bits, zero_more; /* a zero point is so much more than what is stored */
    int zero_same;       /* the zero point that all have; negative: each its own */
    int64_t n, k;
    int64_t group;                  /* inputs that share a scale */
    int64_t scale_rows, scale_cols; /* of bytes: outputs that share one; scales of these */
    bool is_fp8;                    /* codes are e4m3 */
    bool is_nf4;                    /* codes are places in its table */
    int64_t block, nested_block;    /* of nf4: numbers, and scales, that share one */
    const struct weight *nested;    /* of nf4: the scales' scales; NULL: they are numbers */
    float *table, nested_more;      /* owned; those of nested scales */
    enum k_type coded;              /* K_F32: none holds them */
    int64_t dim[2];
    char name[ST_MAX_NAME_BYTES];
};

/* Whether a tensor is such a matrix's codes. */
bool packed_weight_is(const struct st_tensor *t);

/* What t, of w, counts as: itself, for codes their matrix, NULL for the other parts of one. */
const struct st_tensor *packed_weight_counted(const struct weights *w, const struct st_tensor *t);

/* The matrix whose codes these are; its other parts are those of w. */
int packed_weight_init(struct packed_weight *p, const struct weights *w, const struct weight *codes,
                       const struct packing *how, struct err *e);
void packed_weight_release(struct packed_weight *p);

/* Rows that had better be read at once: what they share in the file is read with each. */
int64_t packed_weight_rows_together(const struct packed_weight *p);

/* n elements from column col of row `row` on, over as many rows as that takes. */
int packed_weight_read(const struct packed_weight *p, int64_t row, int64_t col, int64_t n,
                       float *dst, struct err *e);

/* The same, whole blocks, as codes of packed_weight.coded; col and n count them by their order. */
int packed_weight_read_coded(const struct packed_weight *p, int64_t row, int64_t col, int64_t n,
                             void *dst, struct err *e);

#endif
