/* SPDX-License-Identifier: Apache-2.0
 *
 * What the AVX2 files of linear_q8 have together: codes of four and six bits as bytes, for the
 * table of the others.
 *
 * Thread: any; no state. Included by linear_q8_*avx2.c only.
 */
#ifndef KERNELS_X86_LINEAR_Q8_AVX2_H
#define KERNELS_X86_LINEAR_Q8_AVX2_H

#include <immintrin.h>

#include "kernels/x86/linear_q8.h"

#define Q8_INLINE static inline __attribute__((always_inline))

enum { Q8_FEW_AVX2 = 2, Q8_VECTORS = K_NR / 8 }; /* rows; of eight outputs in a panel */

/* A group joins the totals t of h rows. */
typedef void q8_joins(enum k_type type, int h, const struct q8_call *q, __m256 t[2][Q8_VECTORS]);

/* A row or two over n groups; type and joins are constants. */
Q8_INLINE void q8_few_rows(enum k_type type, q8_joins *joins, int h, const struct q8_call *first,
                           int64_t m, int64_t n)
{
    const struct q8_step step = q8_step_of(type, m);
    struct q8_call q = *first;
    __m256 t[2][Q8_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < h * Q8_VECTORS; i++)
        t[i / Q8_VECTORS][i % Q8_VECTORS] = _mm256_load_ps(q.total + i * 8);
    for (int64_t g = 0; g < n; g++, q8_next_group(&step, &q)) {
        q8_ask(type, &q);
        joins(type, h, &q, t);
    }
#pragma GCC unroll 8
    for (int i = 0; i < h * Q8_VECTORS; i++)
        _mm256_store_ps(q.total + i * 8, t[i / Q8_VECTORS][i % Q8_VECTORS]);
}

Q8_INLINE void q8_few(enum k_type type, q8_joins *joins, const struct q8_call *q, int64_t m,
                      int64_t n)
{
    if (q->h == 1)
        q8_few_rows(type, joins, 1, q, m, n);
    else
        q8_few_rows(type, joins, 2, q, m, n);
}

void q8_few_int4_avx2(const struct q8_call *q, int64_t m, int64_t n);
void q8_few_int4k_avx2(const struct q8_call *q, int64_t m, int64_t n);
void q8_few_int5k_avx2(const struct q8_call *q, int64_t m, int64_t n);
void q8_few_int6k_avx2(const struct q8_call *q, int64_t m, int64_t n);
void q8_group_int4_avx2(const struct q8_call *q);
void q8_group_int4k_avx2(const struct q8_call *q);
void q8_group_int5k_avx2(const struct q8_call *q);
void q8_group_int6k_avx2(const struct q8_call *q);

#endif
