/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_q8 of codes of eight bits; those of fewer are in linear_q8_bytes_avx2.c. A row alone has
 * them as bytes: what they count without a sign times the row's codes with it, of which vpmaddubsw
 * adds two, 32,512 at the most. More rows have them opened to words of 16 bits, pairs of inputs
 * side by side, so that a step needs no signs: a group of 32 outputs is 2 KB in the first cache,
 * which the rows pass three at a time, for half of the outputs, then the others.
 */
#include <immintrin.h>

#include "kernels/variants.h"
#include "kernels/x86/block_avx2.h"
#include "kernels/x86/linear_q8_avx2.h"

enum { PAIRS = K_Q8_GROUP / 2, VECTORS = Q8_VECTORS, ROWS = 3, HALF = VECTORS / 2 };

/* [pair of inputs][output][2] */
typedef int16_t opened[PAIRS][K_NR][2];

Q8_INLINE __m128i load16(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

Q8_INLINE __m256i load32(const char *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

Q8_INLINE __m256 scale_of(enum k_type type, const struct q8_call *q, int v)
{
    return format_scale_is_f16(type)
               ? _mm256_cvtph_ps(load16(q->scale + v * 16))
               : _mm256_loadu_ps((const float *)(const void *)q->scale + v * 8);
}

/* ---- a row or two: the panel from end to end ------------------------------------------------- */

/* Four inputs of all outputs, eight to a vector, as sign and magnitude. */
Q8_INLINE void quad_at(const struct q8_call *q, int i, __m256i w[VECTORS])
{
    const char *at = q->codes + i * 2 * TILE_INT8_STEP_BYTES;
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        __m256i a = load32(at + v * 32), b = load32(at + TILE_INT8_STEP_BYTES + v * 32);
        w[v] = _mm256_unpacklo_epi16(a, b);
        w[v + 2] = _mm256_unpackhi_epi16(a, b);
    }
}

/* Without the sign; of int8c -0 is -128. */
Q8_INLINE __m256i size_of(enum k_type type, __m256i w)
{
    const __m256i sign = _mm256_set1_epi8((char)0x80);
    __m256i size = _mm256_andnot_si256(sign, w);
    if (type == K_INT8C)
        size = _mm256_or_si256(size, _mm256_and_si256(_mm256_cmpeq_epi8(w, sign), sign));
    return size;
}

/* A group joins the totals t of h rows. */
Q8_INLINE void group_joins(enum k_type type, int h, const struct q8_call *q, __m256 t[2][VECTORS])
{
    __m256i sum[2][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < h * VECTORS; i++)
        sum[i / VECTORS][i % VECTORS] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < K_Q8_GROUP / 4; i++) {
        __m256i w[VECTORS];
        quad_at(q, i, w);
#pragma GCC unroll 2
        for (int r = 0; r < h; r++) {
            int32_t four;
            memcpy(&four, q->x[r].code + 4 * i, sizeof four);
            __m256i x = _mm256_set1_epi32(four);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++) {
                __m256i two = _mm256_maddubs_epi16(size_of(type, w[v]), _mm256_sign_epi8(x, w[v]));
                __m256i all = _mm256_madd_epi16(two, _mm256_set1_epi16(1));
                sum[r][v] = _mm256_add_epi32(sum[r][v], all);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < h * VECTORS; i++) {
        int r = i / VECTORS, v = i % VECTORS;
        __m256 one = _mm256_mul_ps(_mm256_set1_ps(q->x[r].scale), _mm256_cvtepi32_ps(sum[r][v]));
        t[r][v] = _mm256_fmadd_ps(scale_of(type, q, v), one, t[r][v]);
    }
}

static void few_int8(const struct q8_call *q, int64_t m, int64_t n)
{
    q8_few(K_INT8, group_joins, q, m, n);
}

static void few_int8g(const struct q8_call *q, int64_t m, int64_t n)
{
    q8_few(K_INT8G, group_joins, q, m, n);
}

static void few_int8c(const struct q8_call *q, int64_t m, int64_t n)
{
    q8_few(K_INT8C, group_joins, q, m, n);
}

/* ---- more rows ------------------------------------------------------------------------------- */

/* Sign and magnitude to what it counts; of int8c -0 is -128. Each half of a lane is four outputs,
 * of the first sixteen and of the others. */
Q8_INLINE void open_int8(enum k_type type, const char *codes, int16_t (*to)[2])
{
    const __m128i sign = _mm_set1_epi8((char)0x80);
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        __m128i v = load16(codes + q * 16);
        __m128i count = _mm_sign_epi8(_mm_andnot_si128(sign, v), v);
        if (type == K_INT8C)
            count = _mm_or_si128(count, _mm_and_si128(_mm_cmpeq_epi8(v, sign), sign));
        __m256i w = _mm256_cvtepi8_epi16(count);
        _mm_store_si128((__m128i *)(void *)(to + q * 4), _mm256_castsi256_si128(w));
        _mm_store_si128((__m128i *)(void *)(to + 16 + q * 4), _mm256_extracti128_si256(w, 1));
    }
}

Q8_INLINE void open_group(enum k_type type, const struct q8_call *q, opened w)
{
#pragma GCC unroll 2
    for (int i = 0; i < PAIRS; i++)
        open_int8(type, q->codes + i * TILE_INT8_STEP_BYTES, w[i]);
}

/* HALF vectors, from v on, of h rows, a constant: their sums have room in registers. */
Q8_INLINE void rows_half(int h, int v, opened w, const __m256 scale[VECTORS],
                         int16_t wide[ROWS][K_Q8_GROUP], const struct q8_group *x, float *total)
{
    __m256i sum[ROWS][HALF];
#pragma GCC unroll 6
    for (int i = 0; i < h * HALF; i++)
        sum[i / HALF][i % HALF] = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (int i = 0; i < PAIRS; i++) {
        const __m256i *codes = (const __m256i *)(const void *)w[i] + v;
        __m256i a = _mm256_load_si256(codes), b = _mm256_load_si256(codes + 1);
#pragma GCC unroll 3
        for (int r = 0; r < h; r++) {
            int32_t two;
            memcpy(&two, wide[r] + 2 * i, sizeof two);
            __m256i pair = _mm256_set1_epi32(two);
            sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(a, pair));
            sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(b, pair));
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < h * HALF; i++) {
        int r = i / HALF, of = v + i % HALF;
        float *at = total + r * K_NR + of * 8;
        __m256 one =
            _mm256_mul_ps(_mm256_set1_ps(x[r].scale), _mm256_cvtepi32_ps(sum[r][i % HALF]));
        _mm256_store_ps(at, _mm256_fmadd_ps(scale[of], one, _mm256_load_ps(at)));
    }
}

Q8_INLINE void rows_group(int h, opened w, const __m256 scale[VECTORS], const struct q8_group *x,
                          float *total)
{
    _Alignas(32) int16_t wide[ROWS][K_Q8_GROUP];
#pragma GCC unroll 3
    for (int r = 0; r < h; r++)
        for (int i = 0; i < K_Q8_GROUP; i += 16)
            _mm256_store_si256((__m256i *)(void *)(wide[r] + i),
                               _mm256_cvtepi8_epi16(load16(x[r].code + i)));
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v += HALF)
        rows_half(h, v, w, scale, wide, x, total);
}

Q8_INLINE void group(enum k_type type, const struct q8_call *q)
{
    _Alignas(32) opened w;
    __m256 scale[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
        scale[v] = scale_of(type, q, v);
    open_group(type, q, w);
    int64_t r = 0;
    for (; r + ROWS <= q->h; r += ROWS)
        rows_group(ROWS, w, scale, q->x + r, q->total + r * K_NR);
    for (; r < q->h; r++)
        rows_group(1, w, scale, q->x + r, q->total + r * K_NR);
}

static void group_int8(const struct q8_call *q)
{
    group(K_INT8, q);
}

static void group_int8g(const struct q8_call *q)
{
    group(K_INT8G, q);
}

static void group_int8c(const struct q8_call *q)
{
    group(K_INT8C, q);
}

void linear_q8_avx2(const void *args, const struct k_slice *s)
{
    static const struct q8_isa isa = {.group = {[K_INT8] = group_int8,
                                                [K_INT8G] = group_int8g,
                                                [K_INT8C] = group_int8c,
                                                [K_INT4] = q8_group_int4_avx2,
                                                [K_INT4K] = q8_group_int4k_avx2,
                                                [K_INT5K] = q8_group_int5k_avx2,
                                                [K_INT6K] = q8_group_int6k_avx2},
                                      .few = {[K_INT8] = few_int8,
                                              [K_INT8G] = few_int8g,
                                              [K_INT8C] = few_int8c,
                                              [K_INT4] = q8_few_int4_avx2,
                                              [K_INT4K] = q8_few_int4k_avx2,
                                              [K_INT5K] = q8_few_int5k_avx2,
                                              [K_INT6K] = q8_few_int6k_avx2},
                                      .few_max = Q8_FEW_AVX2,
                                      .out = block_finish_avx2};
    linear_q8_run(&isa, args, s);
}
