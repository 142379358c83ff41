/* SPDX-License-Identifier: Apache-2.0
 *
 * What is multiplied by blocks of f32 becomes f32 (kernels/x86/opened.h).
 */
#include "kernels/x86/open_avx2.h"
#include "kernels/x86/block_avx2.h"

OPEN_INLINE void inputs_open(enum k_type type, const char *steps, int64_t n, float *to,
                             float *second)
{
    int64_t bytes = type == K_INT8 ? TILE_INT8_STEP_BYTES : TILE_STEP_BYTES;
    int per_step = type == K_F32 ? 1 : LINEAR_STEP;
    for (int64_t i = 0; i < n; i += per_step, steps += bytes) {
#pragma GCC unroll 2
        for (int e = 0; e < per_step; e++, to += K_NR / 2, second += K_NR / 2) {
            _mm256_store_ps(to, open_vector(type, steps, 0, e));
            _mm256_store_ps(to + 8, open_vector(type, steps, 1, e));
            _mm256_store_ps(second, open_vector(type, steps, 2, e));
            _mm256_store_ps(second + 8, open_vector(type, steps, 3, e));
        }
    }
}

static void open_weight(enum k_type type, const char *steps, int64_t n, float *to, float *second)
{
    if (type == K_F32)
        inputs_open(K_F32, steps, n, to, second);
    else if (type == K_BF16)
        inputs_open(K_BF16, steps, n, to, second);
    else
        inputs_open(K_INT8, steps, n, to, second);
}

static void open_rows(const char *rows, int64_t h, int64_t n, float *to)
{
    int64_t all = h * n, i = 0;
    float *second = to + all;
    for (; i + 8 <= all; i += 8) {
        __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)(rows + i * 4));
        _mm256_storeu_ps(to + i, open_lower(pairs));
        _mm256_storeu_ps(second + i, open_upper(pairs));
    }
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i left = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(all - i)), lane);
    __m256i pairs = _mm256_maskload_epi32((const int *)(const void *)(rows + i * 4), left);
    _mm256_maskstore_ps(to + i, left, open_lower(pairs));
    _mm256_maskstore_ps(second + i, left, open_upper(pairs));
}

const struct opening opening_avx2 = {
    .block = block_opened_avx2, .weight = open_weight, .rows = open_rows};
