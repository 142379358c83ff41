/* SPDX-License-Identifier: Apache-2.0
 *
 * What is multiplied by blocks of f32 becomes f32 (kernels/x86/linear_widened.h).
 */
#include "kernels/x86/widen_avx2.h"
#include "kernels/x86/block_avx2.h"

OPEN_INLINE void inputs_open(enum k_type type, const char *steps, int64_t n, float *to,
                             float *second)
{
    const struct k_stream numbers = format_stream(type, 0);
    const int64_t bytes = numbers.bytes;
    const int per_step = numbers.inputs;
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

/* Inputs [lo, lo + n) of a block, whole groups, `ld` numbers apart. */
OPEN_INLINE void block_open(enum k_type type, const char *block, int64_t lo, int64_t n, int64_t ld,
                            float *to, float *second)
{
    const int group = nested_group(type);
    for (int64_t at = lo; at < lo + n; at += group) {
        struct open_nested s[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            s[v] = open_nested(type, block, v, at);
        for (int64_t i = at; i < at + group; i++, to += ld, second += ld) {
            _mm256_store_ps(to, open_nested_vector(type, block, 0, i, &s[0]));
            _mm256_store_ps(to + 8, open_nested_vector(type, block, 1, i, &s[1]));
            _mm256_store_ps(second, open_nested_vector(type, block, 2, i, &s[2]));
            _mm256_store_ps(second + 8, open_nested_vector(type, block, 3, i, &s[3]));
        }
    }
}

OPEN_INLINE void blocks_open(enum k_type type, const char *blocks, int64_t n, float *to,
                             float *second)
{
    const int64_t ld = K_NR / 2;
    for (int64_t i = 0; i < n; i += K_NESTED, blocks += nested_bytes(type))
        block_open(type, blocks, 0, K_NESTED, ld, to + i * ld, second + i * ld);
}

void open_nested_tile_avx2(enum k_type type, const char *block, int64_t lo, float *to)
{
    if (type == K_INT4K)
        block_open(K_INT4K, block, lo, K_NR, K_NR, to, to + K_NR / 2);
    else if (type == K_INT5K)
        block_open(K_INT5K, block, lo, K_NR, K_NR, to, to + K_NR / 2);
    else if (type == K_INT6K)
        block_open(K_INT6K, block, lo, K_NR, K_NR, to, to + K_NR / 2);
    else
        block_open(K_INT8K, block, lo, K_NR, K_NR, to, to + K_NR / 2);
}

static void open_weight(enum k_type type, const char *steps, int64_t n, float *to, float *second)
{
    switch (type) {
#define FORMAT(name, ID, ...)                                                                      \
    case K_##ID:                                                                                   \
        return format_is_nested(K_##ID) ? blocks_open(K_##ID, steps, n, to, second)                \
                                        : inputs_open(K_##ID, steps, n, to, second);
#include "kernels/format.def"
#undef FORMAT
    default:
        return;
    }
}

static void open_scales(enum k_type type, const void *scales, float *to)
{
    for (int v = 0; v < 4; v++)
        _mm256_storeu_ps(to + v * 8, open_scale(type, scales, v));
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

const struct widening opening_avx2 = {
    .block = block_widened_avx2, .weight = open_weight, .scales = open_scales, .rows = open_rows};
