/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reference attention and its reference gradient share: rows as plain f32 vectors.
 *
 * Thread: any.
 */
#ifndef KERNELS_REF_ATTN_H
#define KERNELS_REF_ATTN_H

#include "kernels/attention.h"
#include "kernels/float16.h"

/* x as a product of a cache of this type takes it. */
static inline float attn_ref_round(enum k_type type, float x)
{
    return attn_rows_type(type) == K_BF16 ? bf16_to_f32(bf16_from_f32(x)) : x;
}

/* A key or a value of a sequence, for a K/V head; a rounded query: [d_head] */
void attn_ref_key(const struct k_attn *a, int64_t seq, int64_t head, int64_t key, float *k);
void attn_ref_value(const struct k_attn *a, int64_t seq, int64_t head, int64_t key, float *v);
void attn_ref_query(const struct k_attn *a, int64_t tok, int64_t head, float *q);

float attn_ref_dot(const float *a, const float *b, int32_t d);

/* Score of q k^T, natural logarithm's domain. */
float attn_ref_score(const struct k_attn *a, float dot);

#endif
