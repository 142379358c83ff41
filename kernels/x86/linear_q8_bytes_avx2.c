/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_q8 of codes of four, five and six bits with vpmaddubsw, which adds the products of two
 * bytes without and two with a sign in 16 bits. Codes are taken as they are stored, from 0 on, and
 * the rows' sums take away what that is too much. Of four bits such a sum is 3,810 at the most, and
 * eight of them fit; of five 7,874, and four do; of six 16,002, and two do.
 *
 * Of four inputs eight outputs are a vector, two inputs in each of its halves: that is how
 * interleaving leaves what is stored. A row alone multiplies them so, and its sums' halves are
 * added when a group ends; for more rows they are laid out in the first cache with all four inputs
 * side by side, 1 KB to a group, and three rows pass at a time, for half of the outputs and then
 * for the others: more sums have no room in registers.
 */
#include <immintrin.h>

#include "kernels/x86/linear_q8_avx2.h"
#include "kernels/x86/widen_avx2.h"

enum { QUADS = K_Q8_GROUP / 4, VECTORS = Q8_VECTORS, ROWS = 3, HALF = VECTORS / 2 };

/* [quad of inputs][output][4] */
typedef uint8_t opened[QUADS][K_NR][4];

Q8_INLINE __m256i load32(const char *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* The lower four bits of outputs 8 v and up, and above them those of outputs 16 further on: inputs
 * 0 and 1 of four in the lower half of int4, 0 and 2 of nested ones. */
Q8_INLINE void lower_bits(enum k_type type, const struct q8_call *q, int i, __m256i both[2])
{
    const char *at = type == K_INT4 ? q->codes + i * 2 * TILE_INT4_STEP_BYTES
                                    : q->codes + nested_low_at(type, q->at + 4 * i);
    __m256i a = load32(at), b = load32(at + 32);
    if (type == K_INT4) {
        both[0] = _mm256_permute2x128_si256(a, b, 0x20);
        both[1] = _mm256_permute2x128_si256(a, b, 0x31);
    } else {
        both[0] = _mm256_unpacklo_epi8(a, b);
        both[1] = _mm256_unpackhi_epi8(a, b);
    }
}

/* The bits above them in the same places: those of outputs 8 v and up are at bit 2 v; of int5k at
 * that bit of the first four outputs, and at the next one of the others. */
Q8_INLINE __m256i upper_bits(enum k_type type, const struct q8_call *q, int i)
{
    const char *at = q->codes + nested_high_at(type, q->at + 4 * i);
    if (type == K_INT5K) { /* inputs 0 and 2 of four in the lower half */
        const __m128i *of = (const __m128i *)(const void *)at;
        const __m256i by = _mm256_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 0, 8, 1, 9, 2, 10, 3, 11, 4,
                                            12, 5, 13, 6, 14, 7, 15, 4, 12, 5, 13, 6, 14, 7, 15);
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(of)), by);
    }
    const __m128i by = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    return _mm256_shuffle_epi8(_mm256_permute4x64_epi64(load32(at), 0xd8),
                               _mm256_broadcastsi128_si256(by));
}

/* Of int5k: 16 where vector v's bit is set. */
Q8_INLINE __m256i fifth_bit(__m256i up, int v)
{
    const int64_t first = INT64_C(0x0101010101010101) << 2 * v;
    const __m256i bit = _mm256_setr_epi64x(first, first << 1, first, first << 1);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(up, bit), bit),
                            _mm256_set1_epi8(16));
}

/* Codes of inputs 4 i and up as they are stored, of all outputs. */
Q8_INLINE void quad_at(enum k_type type, const struct q8_call *q, int i, __m256i w[VECTORS])
{
    const __m256i low = _mm256_set1_epi8(15), high = _mm256_set1_epi8(0x30);
    __m256i both[2];
    lower_bits(type, q, i, both);
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
        w[v] = _mm256_and_si256(v < 2 ? both[v] : _mm256_srli_epi16(both[v - 2], 4), low);
    if (!format_is_nested(type) || !nested_upper(type))
        return;
    __m256i up = upper_bits(type, q, i);
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        __m256i at = v < 2 ? _mm256_slli_epi16(up, 4 - 2 * v) : _mm256_srli_epi16(up, 2 * v - 4);
        at = type == K_INT5K ? fifth_bit(up, v) : _mm256_and_si256(at, high);
        w[v] = _mm256_or_si256(w[v], at);
    }
}

/* Four codes of a row, as quad_at has those of an output. */
Q8_INLINE __m256i quad_of_row(enum k_type type, const struct q8_group *x, int i)
{
    const int half = 0x01000100, other = 0x03020302, even = 0x02000200, odd = 0x03010301;
    const __m256i by = type == K_INT4
                           ? _mm256_setr_epi32(half, half, half, half, other, other, other, other)
                           : _mm256_setr_epi32(even, even, even, even, odd, odd, odd, odd);
    int32_t four;
    memcpy(&four, x->code + 4 * i, sizeof four);
    return _mm256_shuffle_epi8(_mm256_set1_epi32(four), by);
}

/* ---- what a group's outputs have besides ----------------------------------------------------- */

struct q8_scales {
    __m256 scale[2][VECTORS], min[VECTORS]; /* scale: of int6k two */
};

/* Of vector v of a group: its scales, and its mins. */
Q8_INLINE __m256 scale_of(enum k_type type, const struct q8_call *q, int part, int v)
{
    if (!format_is_nested(type))
        return open_scale(type, q->scale, v);
    return open_nested(type, q->codes, v, q->at + part * q8_span(type)).scale;
}

Q8_INLINE __m256 min_of(enum k_type type, const struct q8_call *q, int v)
{
    return open_nested(type, q->codes, v, q->at).min;
}

Q8_INLINE bool has_mins(enum k_type type)
{
    return format_is_nested(type) && nested_has_mins(type);
}

/* What a sum of stored codes is too large by, negative; half: 0 or 1 where a group has two sums. */
Q8_INLINE __m256i too_much(enum k_type type, const struct q8_group *x, int half)
{
    int32_t minus = type != K_INT6K ? x->minus_all
                    : half == 0     ? x->minus_half
                                    : x->minus_all - x->minus_half;
    return _mm256_slli_epi32(_mm256_set1_epi32(minus), type == K_INT4 ? 3 : 5);
}

/* A sum of what codes count, times the row's scale. */
Q8_INLINE __m256 scaled(enum k_type type, const struct q8_group *x, int half, __m256i sum)
{
    if (!nested_is_dense(type))
        sum = _mm256_add_epi32(sum, too_much(type, x, half));
    return _mm256_mul_ps(_mm256_set1_ps(x->scale), _mm256_cvtepi32_ps(sum));
}

/* ---- a row or two: the panel from end to end ------------------------------------------------- */

/* Halves of a sum, of eight outputs each. */
Q8_INLINE __m256i halves(__m256i sum)
{
    return _mm256_add_epi32(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(sum)),
                            _mm256_cvtepi16_epi32(_mm256_extracti128_si256(sum, 1)));
}

/* Those of two sums. */
Q8_INLINE __m256i halves_of_two(__m256i a, __m256i b)
{
    const __m256i one = _mm256_set1_epi16(1);
    __m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), one);
    __m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), one);
    return _mm256_add_epi32(_mm256_permute2x128_si256(lo, hi, 0x20),
                            _mm256_permute2x128_si256(lo, hi, 0x31));
}

/* The sums of h rows over n quads from quad `at` on, as many as 16 bits hold. */
Q8_INLINE void short_sums(enum k_type type, int h, int at, int n, const struct q8_call *q,
                          __m256i sum[2][VECTORS])
{
#pragma GCC unroll 8
    for (int i = at; i < at + n; i++) {
        __m256i w[VECTORS];
        quad_at(type, q, i, w);
#pragma GCC unroll 2
        for (int r = 0; r < h; r++) {
            __m256i x = quad_of_row(type, q->x + r, i);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++) {
                __m256i two = _mm256_maddubs_epi16(w[v], x);
                sum[r][v] = i == at ? two : _mm256_add_epi16(sum[r][v], two);
            }
        }
    }
}

/* Quads whose sums 16 bits hold. */
Q8_INLINE int short_quads(enum k_type type)
{
    return type == K_INT6K ? 2 : type == K_INT5K ? 4 : QUADS;
}

/* A group joins the totals t of h rows. */
Q8_INLINE void group_joins(enum k_type type, int h, const struct q8_call *q, __m256 t[2][VECTORS])
{
    const int parts = K_Q8_GROUP / q8_span(type), n = QUADS / parts, some = short_quads(type);
#pragma GCC unroll 2
    for (int part = 0; part < parts; part++) {
        __m256i a[2][VECTORS], b[2][VECTORS];
        short_sums(type, h, part * n, some, q, a);
        if (some < n)
            short_sums(type, h, part * n + some, some, q, b);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            __m256 scale = scale_of(type, q, part, v);
#pragma GCC unroll 2
            for (int r = 0; r < h; r++) {
                __m256i sum = some < n ? halves_of_two(a[r][v], b[r][v]) : halves(a[r][v]);
                t[r][v] = _mm256_fmadd_ps(scale, scaled(type, q->x + r, part, sum), t[r][v]);
            }
        }
    }
    const int mins = has_mins(type) ? VECTORS : 0;
#pragma GCC unroll 4
    for (int v = 0; v < mins; v++) {
        __m256 min = min_of(type, q, v);
#pragma GCC unroll 2
        for (int r = 0; r < h; r++)
            t[r][v] = _mm256_fnmadd_ps(min, _mm256_set1_ps(q->x[r].weighed), t[r][v]);
    }
}

void q8_few_int4_avx2(const struct q8_call *q, int64_t m, int64_t n)
{
    q8_few(K_INT4, group_joins, q, m, n);
}

void q8_few_int4k_avx2(const struct q8_call *q, int64_t m, int64_t n)
{
    q8_few(K_INT4K, group_joins, q, m, n);
}

void q8_few_int5k_avx2(const struct q8_call *q, int64_t m, int64_t n)
{
    q8_few(K_INT5K, group_joins, q, m, n);
}

void q8_few_int6k_avx2(const struct q8_call *q, int64_t m, int64_t n)
{
    q8_few(K_INT6K, group_joins, q, m, n);
}

/* ---- more rows ------------------------------------------------------------------------------- */

Q8_INLINE void open_group(enum k_type type, const struct q8_call *q, opened to)
{
    const __m128i apart = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    const __m128i across = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    const __m256i by = _mm256_broadcastsi128_si256(type == K_INT4 ? apart : across);
    for (int i = 0; i < QUADS; i++) {
        __m256i w[VECTORS];
        quad_at(type, q, i, w);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            __m256i all = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(w[v], 0xd8), by);
            _mm256_store_si256((__m256i *)(void *)to[i][v * 8], all);
        }
    }
}

Q8_INLINE void scales_of(enum k_type type, const struct q8_call *q, struct q8_scales *s)
{
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        for (int part = 0; part < K_Q8_GROUP / q8_span(type); part++)
            s->scale[part][v] = scale_of(type, q, part, v);
        if (has_mins(type))
            s->min[v] = min_of(type, q, v);
    }
}

/* HALF vectors, from v on, of the sums of h rows over n quads from quad `at` on, which 16 bits
 * hold.
 */
Q8_INLINE void short_sums_open(int h, int v, int at, int n, opened w, const struct q8_group *x,
                               __m256i sum[ROWS][HALF])
{
    __m256i some[ROWS][HALF];
#pragma GCC unroll 8
    for (int i = 0; i < h * HALF; i++)
        some[i / HALF][i % HALF] = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (int i = at; i < at + n; i++) {
        const __m256i *codes = (const __m256i *)(const void *)w[i] + v;
        __m256i a = _mm256_load_si256(codes), b = _mm256_load_si256(codes + 1);
#pragma GCC unroll 4
        for (int r = 0; r < h; r++) {
            int32_t code;
            memcpy(&code, x[r].code + 4 * i, sizeof code);
            __m256i four = _mm256_set1_epi32(code);
            some[r][0] = _mm256_add_epi16(some[r][0], _mm256_maddubs_epi16(a, four));
            some[r][1] = _mm256_add_epi16(some[r][1], _mm256_maddubs_epi16(b, four));
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < h * HALF; i++)
        sum[i / HALF][i % HALF] = _mm256_madd_epi16(some[i / HALF][i % HALF], _mm256_set1_epi16(1));
}

/* All of them over a part of a group, of which 16 bits may hold half. */
Q8_INLINE void sums(enum k_type type, int h, int v, int part, opened w, const struct q8_group *x,
                    __m256i sum[ROWS][HALF])
{
    const int n = QUADS / (K_Q8_GROUP / q8_span(type)), some = short_quads(type);
    short_sums_open(h, v, part * n, some, w, x, sum);
    if (some == n)
        return;
    __m256i more[ROWS][HALF];
    short_sums_open(h, v, part * n + some, some, w, x, more);
#pragma GCC unroll 8
    for (int i = 0; i < h * HALF; i++) {
        __m256i *to = &sum[i / HALF][i % HALF];
        *to = _mm256_add_epi32(*to, more[i / HALF][i % HALF]);
    }
}

/* HALF vectors, from v on, of h rows: constants. All of their sums have room in registers. */
Q8_INLINE void rows_half(enum k_type type, int h, int v, opened w, const struct q8_scales *s,
                         const struct q8_group *x, float *total)
{
    const int parts = K_Q8_GROUP / q8_span(type);
#pragma GCC unroll 2
    for (int part = 0; part < parts; part++) {
        __m256i sum[ROWS][HALF];
        sums(type, h, v, part, w, x, sum);
#pragma GCC unroll 8
        for (int i = 0; i < h * HALF; i++) {
            const struct q8_group *row = x + i / HALF;
            const int of = v + i % HALF;
            float *at = total + i / HALF * K_NR + of * 8;
            __m256 t = _mm256_fmadd_ps(s->scale[part][of],
                                       scaled(type, row, part, sum[i / HALF][i % HALF]),
                                       _mm256_load_ps(at));
            if (has_mins(type) && part + 1 == parts)
                t = _mm256_fnmadd_ps(s->min[of], _mm256_set1_ps(row->weighed), t);
            _mm256_store_ps(at, t);
        }
    }
}

Q8_INLINE void rows_group(enum k_type type, int h, opened w, const struct q8_scales *s,
                          const struct q8_group *x, float *total)
{
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v += HALF)
        rows_half(type, h, v, w, s, x, total);
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
    for (; r < q->h; r++)
        rows_group(type, 1, w, &s, q->x + r, q->total + r * K_NR);
}

void q8_group_int4_avx2(const struct q8_call *q)
{
    group(K_INT4, q);
}

void q8_group_int4k_avx2(const struct q8_call *q)
{
    group(K_INT4K, q);
}

void q8_group_int5k_avx2(const struct q8_call *q)
{
    group(K_INT5K, q);
}

void q8_group_int6k_avx2(const struct q8_call *q)
{
    group(K_INT6K, q);
}
