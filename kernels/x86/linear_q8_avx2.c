/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_q8, and linear_q8 with vpmaddwd: codes are opened to words of 16 bits, pairs of inputs side
 * by side, so that no sum of products can saturate, as those of bytes by vpmaddubsw can. A group of
 * 32 outputs is 2 KB in the first cache, which the rows pass two at a time.
 */
#include <immintrin.h>

#include "kernels/variants.h"
#include "kernels/x86/block_avx2.h"
#include "kernels/x86/linear_q8.h"

#define Q8_INLINE static inline __attribute__((always_inline))

enum { PAIRS = K_Q8_GROUP / 2, VECTORS = K_NR / 8, ROWS = 2 };

/* [pair of inputs][output][2] */
typedef int16_t opened[PAIRS][K_NR][2];

/* Eight outputs of a pair. */
Q8_INLINE void put8(int16_t (*to)[2], __m128i bytes)
{
    _mm256_store_si256((__m256i *)(void *)to, _mm256_cvtepi8_epi16(bytes));
}

Q8_INLINE __m128i load16(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

/* 16 bytes, of two inputs for eight outputs, hold the codes of as many more 16 outputs on. */
Q8_INLINE void open_nibbles(__m128i v, __m128i high[2], int less, int16_t (*to)[2])
{
    const __m128i low = _mm_set1_epi8(15), minus = _mm_set1_epi8((char)less);
    __m128i first = _mm_or_si128(_mm_and_si128(v, low), high[0]);
    __m128i second = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(v, 4), low), high[1]);
    put8(to, _mm_sub_epi8(first, minus));
    put8(to + 16, _mm_sub_epi8(second, minus));
}

Q8_INLINE void open_int4(const char *codes, int16_t (*to)[2])
{
    __m128i none[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
    open_nibbles(load16(codes), none, 8, to);
    open_nibbles(load16(codes + 16), none, 8, to + 8);
}

/* Two more bits of outputs 8 v and up, above their four. */
Q8_INLINE __m128i upper_bits(__m128i high, int v)
{
    return _mm_slli_epi16(_mm_and_si128(_mm_srli_epi16(high, 2 * v), _mm_set1_epi8(3)), 4);
}

Q8_INLINE void open_nested(enum k_type type, const char *block, int64_t i, int16_t (*to)[2])
{
    const char *at = block + nested_low_at(type, i);
    __m128i a = load16(at), b = load16(at + K_NR / 2);
    __m128i low[2] = {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
    __m128i both = _mm_setzero_si128();
    if (type == K_INT6K) {
        both = load16(block + nested_high_at(type, i));
        both = _mm_unpacklo_epi8(both, _mm_srli_si128(both, 8));
    }
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        __m128i high[2] = {upper_bits(both, v), upper_bits(both, v + 2)};
        open_nibbles(low[v], high, type == K_INT6K ? 32 : 0, to + 8 * v);
    }
}

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
    for (int i = 0; i < PAIRS; i++) {
        if (format_is_nested(type))
            open_nested(type, q->codes, q->at + 2 * i, w[i]);
        else if (type == K_INT4)
            open_int4(q->codes + i * TILE_INT4_STEP_BYTES, w[i]);
        else
            open_int8(type, q->codes + i * TILE_INT8_STEP_BYTES, w[i]);
    }
}

/* What a group's outputs have besides codes. */
struct q8_scales {
    __m256 scale[2][VECTORS], min[VECTORS]; /* scale: of int6k two */
};

Q8_INLINE __m256 f16x8(const void *at)
{
    return _mm256_cvtph_ps(load16(at));
}

Q8_INLINE __m256 bytes8(const char *at, bool is_signed)
{
    __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)at);
    return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
}

Q8_INLINE void scales_of(enum k_type type, const struct q8_call *q, struct q8_scales *s)
{
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        if (!format_is_nested(type)) {
            s->scale[0][v] = format_scale_is_f16(type)
                                 ? f16x8(q->scale + v * 16)
                                 : _mm256_loadu_ps((const float *)(const void *)q->scale + v * 8);
            continue;
        }
        const char *min = q->codes + nested_min_at(type, q->at) + v * 8;
        __m256 d = f16x8(q->codes + v * 16);
        for (int i = 0; i < K_Q8_GROUP / q8_span(type); i++) {
            const char *at = q->codes + nested_scale_at(type, q->at + i * q8_span(type)) + v * 8;
            s->scale[i][v] = _mm256_mul_ps(d, bytes8(at, true));
        }
        s->min[v] = _mm256_mul_ps(f16x8(q->codes + nested_dmin_at(type, q->at) + v * 16),
                                  bytes8(min, false));
    }
}

/* h rows, a constant. */
Q8_INLINE void rows_group(enum k_type type, int h, opened w, const struct q8_scales *s,
                          const struct q8_group *x, float *total)
{
    const int parts = K_Q8_GROUP / q8_span(type), n = PAIRS / parts;
    _Alignas(32) int16_t wide[ROWS][K_Q8_GROUP];
#pragma GCC unroll 2
    for (int r = 0; r < h; r++)
        for (int i = 0; i < K_Q8_GROUP; i += 16)
            _mm256_store_si256((__m256i *)(void *)(wide[r] + i),
                               _mm256_cvtepi8_epi16(load16(x[r].code + i)));
    for (int part = 0; part < parts; part++) {
        __m256i sum[ROWS][VECTORS];
#pragma GCC unroll 2
        for (int r = 0; r < h; r++)
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] = _mm256_setzero_si256();
        for (int i = part * n; i < part * n + n; i++) {
#pragma GCC unroll 2
            for (int r = 0; r < h; r++) {
                int32_t two;
                memcpy(&two, wide[r] + 2 * i, sizeof two);
                __m256i pair = _mm256_set1_epi32(two);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++) {
                    __m256i codes = _mm256_load_si256((const __m256i *)(void *)(w[i] + v * 8));
                    sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(codes, pair));
                }
            }
        }
#pragma GCC unroll 2
        for (int r = 0; r < h; r++) {
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++) {
                float *t = total + r * K_NR + v * 8;
                __m256 one =
                    _mm256_mul_ps(_mm256_set1_ps(x[r].scale), _mm256_cvtepi32_ps(sum[r][v]));
                __m256 to = _mm256_fmadd_ps(s->scale[part][v], one, _mm256_load_ps(t));
                if (format_is_nested(type) && part + 1 == parts)
                    to = _mm256_fnmadd_ps(s->min[v], _mm256_set1_ps(x[r].weighed), to);
                _mm256_store_ps(t, to);
            }
        }
    }
}

Q8_INLINE void group(enum k_type type, const struct q8_call *q)
{
    _Alignas(32) opened w;
    struct q8_scales s;
    scales_of(type, q, &s);
    open_group(type, q, w);
    int64_t r = 0;
    for (; r + ROWS <= q->h; r += ROWS)
        rows_group(type, ROWS, w, &s, q->x + r, q->total + r * K_NR);
    if (r < q->h)
        rows_group(type, 1, w, &s, q->x + r, q->total + r * K_NR);
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

static void group_int4(const struct q8_call *q)
{
    group(K_INT4, q);
}

static void group_int4k(const struct q8_call *q)
{
    group(K_INT4K, q);
}

static void group_int6k(const struct q8_call *q)
{
    group(K_INT6K, q);
}

void linear_q8_avx2(const void *args, const struct k_slice *s)
{
    static const struct q8_isa isa = {.group = {[K_INT8] = group_int8,
                                                [K_INT8G] = group_int8g,
                                                [K_INT8C] = group_int8c,
                                                [K_INT4] = group_int4,
                                                [K_INT4K] = group_int4k,
                                                [K_INT6K] = group_int6k},
                                      .out = block_finish_avx2};
    linear_q8_run(&isa, args, s);
}

/* ---- rows ------------------------------------------------------------------------------------ */

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
