/* SPDX-License-Identifier: Apache-2.0
 *
 * What the AVX2 files of linear_q8 have together: codes of four and six bits as bytes, for the
 * table of the others.
 *
 * Thread: any; no state. Included by linear_q8_*avx2.c only.
 */
#ifndef KERNELS_X86_LINEAR_Q8_AVX2_H
#define KERNELS_X86_LINEAR_Q8_AVX2_H

#include "kernels/x86/linear_q8.h"

#define Q8_INLINE static inline __attribute__((always_inline))

enum { Q8_FEW_AVX2 = 2 }; /* rows */

void q8_few_int4_avx2(const struct q8_call *q, int64_t m, int64_t n);
void q8_few_int4k_avx2(const struct q8_call *q, int64_t m, int64_t n);
void q8_few_int6k_avx2(const struct q8_call *q, int64_t m, int64_t n);
void q8_group_int4_avx2(const struct q8_call *q);
void q8_group_int4k_avx2(const struct q8_call *q);
void q8_group_int6k_avx2(const struct q8_call *q);

#endif
