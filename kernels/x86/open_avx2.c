/* SPDX-License-Identifier: Apache-2.0
 *
 * What is multiplied by blocks of f32 becomes f32 (kernels/x86/opened.h).
 */
#include "kernels/x86/open_avx2.h"
#include "kernels/x86/block_avx2.h"

OPEN_INLINE void steps_open(enum k_type type, const char *steps, int64_t n, float *to)
{
    int64_t bytes = type == K_INT8 ? TILE_INT8_STEP_BYTES : TILE_STEP_BYTES;
    for (int64_t i = 0; i < n; i++, steps += bytes) {
#pragma GCC unroll 2
        for (int e = 0; e < 2; e++, to += K_NR) {
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                _mm256_store_ps(to + v * 8, open_vector(type, steps, v, e));
        }
    }
}

static void open_weight(enum k_type type, const char *steps, int64_t n, float *to)
{
    if (type == K_INT8)
        steps_open(K_INT8, steps, n, to);
    else
        steps_open(K_BF16, steps, n, to);
}

/* Whole vectors are stored; what they write too much the next step overwrites. */
static void open_rows(const char *rows, int64_t h, int64_t n, float *to)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i first = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)h), lane);
    __m256i second = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)h - 8), lane);
    for (int64_t i = 0; i < n; i++, rows += h * 4, to += 2 * h) {
        const int *at = (const int *)(const void *)rows;
        __m256i a = _mm256_maskload_epi32(at, first);
        if (h <= 8) {
            _mm256_storeu_ps(to, open_lower(a));
            _mm256_storeu_ps(to + h, open_upper(a));
            continue;
        }
        __m256i b = _mm256_maskload_epi32(at + 8, second);
        _mm256_storeu_ps(to, open_lower(a));
        _mm256_storeu_ps(to + 8, open_lower(b));
        _mm256_storeu_ps(to + h, open_upper(a));
        _mm256_storeu_ps(to + h + 8, open_upper(b));
    }
}

const struct opening opening_avx2 = {.weight = open_weight, .rows = open_rows};
