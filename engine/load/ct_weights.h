/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices as compressed-tensors packs them (`pack-quantized`): in place of NAME.weight [n, k]
 * there are
 *
 *   NAME.weight_packed      I32 [n, k * bits / 32], codes of 4 or 8 bits, the first in the lowest
 *   NAME.weight_scale       [n, groups] of F16, BF16 or F32; one group: a scale for each output
 *   NAME.weight_shape       I64 [2]: n, k
 *   NAME.weight_zero_point  I32 [n * bits / 32, groups], packed down the outputs; none: half of the
 *                           codes' range
 *
 * and the weight is scale * (code - zero). Such a weight reads as F32, or as the codes of a format
 * that holds them (ct_weight.coded), which then has these values.
 *
 * Thread: one makes it, any reads.
 */
#ifndef ENGINE_LOAD_CT_WEIGHTS_H
#define ENGINE_LOAD_CT_WEIGHTS_H

#include "engine/load/weights.h"

struct ct_weight {
    struct st_tensor t;                         /* NAME.weight as it reads: F32 [n, k] */
    const struct weight *packed, *scale, *zero; /* zero: NULL without */
    int bits;
    int64_t n, k, group;
    enum k_type coded; /* K_F32: none holds them */
    int64_t dim[2];
    char name[ST_MAX_NAME_BYTES];
};

/* Whether a tensor of that name is such a matrix's codes. */
bool ct_is_packed(const char *name);

/* What t, of w, counts as: itself, for codes their matrix, NULL for the other parts of one. */
const struct st_tensor *ct_counted(const struct weights *w, const struct st_tensor *t);

/* The matrix whose codes `packed` are; its other parts are those of w. */
int ct_weight_init(struct ct_weight *c, const struct weights *w, const struct weight *packed,
                   struct err *e);

/* n elements from column col of row `row` on, over as many rows as that takes. */
int ct_weight_read(const struct ct_weight *c, int64_t row, int64_t col, int64_t n, float *dst,
                   struct err *e);

/* The same, whole blocks, as codes of ct_weight.coded. */
int ct_weight_read_coded(const struct ct_weight *c, int64_t row, int64_t col, int64_t n, void *dst,
                         struct err *e);

#endif
