/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_q8: a group of a row in four vectors; one that is not whole, not finite or all small by the
 * definition itself.
 */
#include <immintrin.h>

#include "kernels/linear.h"
#include "kernels/variants.h"

#define Q8_INLINE static inline __attribute__((always_inline))

Q8_INLINE float most_of(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_movehdup_ps(m));
    return _mm_cvtss_f32(m);
}

Q8_INLINE int32_t sum_of(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

/* q8_round of a whole group of finite numbers that are not all small; else false. */
Q8_INLINE bool round_group(const float *x, struct q8_group *to)
{
    const __m256 size = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256 most = _mm256_setzero_ps(), finite = size;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256 a = _mm256_and_ps(size, _mm256_loadu_ps(x + 8 * i));
        finite = _mm256_and_ps(finite, _mm256_cmp_ps(a, _mm256_set1_ps(INFINITY), _CMP_LT_OQ));
        most = _mm256_max_ps(most, a);
    }
    float amax = most_of(most);
    if (_mm256_movemask_epi8(
            _mm256_cmpeq_epi32(_mm256_castps_si256(finite), _mm256_castps_si256(size))) != -1 ||
        amax < Q8_LEAST)
        return false;
    __m256 per = _mm256_set1_ps(Q8_MOST / amax);
    __m256i c[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        c[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), per));
    int32_t half = sum_of(_mm256_add_epi32(c[0], c[1]));
    int32_t all = half + sum_of(_mm256_add_epi32(c[2], c[3]));
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)to->code, bytes);
    to->scale = amax / Q8_MOST;
    to->weighed = to->scale * (float)all;
    to->minus_half = -half;
    to->minus_all = -all;
    return true;
}

void rows_q8_avx2(const void *args, const struct k_slice *s)
{
    const struct k_rows_pack *a = args;
    struct q8_group *to = a->rows;
    for (int64_t block = s->lo; block < s->hi; block++) {
        struct rows_block b = rows_block_at(a->m, block);
        for (int64_t r = b.row; r < b.row + b.h; r++) {
            const float *x = a->x + r * a->ld_x;
            for (int64_t i = 0; i < a->k; i += K_Q8_GROUP) {
                struct q8_group *g = &to[i / K_Q8_GROUP * a->m + r];
                if (a->k - i < K_Q8_GROUP || !round_group(x + i, g))
                    q8_round(x + i, linear_min(a->k - i, K_Q8_GROUP), g);
            }
        }
    }
}
