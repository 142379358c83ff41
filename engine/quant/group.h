/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of numbers as codes of few bits and the scale that they share: number = scale * what the
 * code counts, a whole number or, of fp8, what e4m3 says.
 *
 * The scale is searched for. Candidates are the number furthest from zero divided by each of some
 * reaches; the codes that one gives have a scale of least squares, which is tried as well; the one
 * with the least sum of weighted squared errors stays. Scales of whole numbers are numbers that the
 * file's type and f16 both hold, so that whatever reads them multiplies with the same; those of fp8
 * are f32, and positive.
 *
 * Thread: any; pure functions.
 */
#ifndef ENGINE_QUANT_GROUP_H
#define ENGINE_QUANT_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/types.h"

enum { QUANT_WORD_BITS = 32 };

/* What numbers become: a row of the table in group.c. */
struct quant_target {
    const char *name; /* "int4" */
    int bits, lo, hi; /* codes count from lo to hi */
    bool is_float;    /* e4m3; all of a row share a scale */
};

const struct quant_target *quant_target_find(const char *name); /* NULL: none */
extern const char quant_target_choices[];                       /* "int4|int8|fp8" */

/* `type`: what scales are stored as, K_BF16 or K_F16, or K_F32 of fp8. weight[i]: what error i
 * counts; NULL: all the same. 0 where all numbers are. */
float quant_scale(const struct quant_target *t, enum k_type type, const float *x,
                  const float *weight, int64_t n);
int quant_code(const struct quant_target *t, float x, float scale);
float quant_value(const struct quant_target *t, int code); /* what it counts */

/* n codes, whole words of them, the first in the lowest bits: of whole numbers each less t's half
 * range below 0, of fp8 as they are. */
void quant_pack(const struct quant_target *t, const int8_t *code, int64_t n, uint32_t *word);

#endif
