/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_q8 with vpdpbusd, which adds four products of a byte without and one with a sign: codes of
 * weights are taken as what they are above the least that there is, and the rows' sums take that
 * away. A group of 32 outputs is 16 vectors, which stay in registers while the rows pass, four at a
 * time, for a product takes five cycles and two begin in each. Up to four rows have their totals in
 * registers over all of a panel, and read it without a call between its groups.
 */
#include "kernels/variants.h"
#include "kernels/x86/linear_q8.h"
#include "kernels/x86/tile_nested_avx512.h"

enum { QUADS = K_Q8_GROUP / 4, ROWS = 4 };

/* Of four inputs: outputs [0, 16) and [16, 32), four bytes each. */
TILE_INLINE void quad_int4(const char *codes, __m512i w[2])
{
    const __m512i low = _mm512_set1_epi32(0x0f0f0f0f);
    __m512i both = _mm512_mullo_epi32(tile_lanes(), _mm512_set1_epi32(0x00010001));
    __m512i turn = _mm512_add_epi32(both, _mm512_set1_epi32(16 << 16));
    __m512i v = _mm512_permutexvar_epi16(turn, _mm512_loadu_si512(codes));
    w[0] = _mm512_and_si512(v, low);
    w[1] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
}

/* 128 more than what a byte of sign and magnitude counts; of int8c -0 is -128. */
TILE_INLINE __m512i int8_above(enum k_type type, __m512i v)
{
    const __m512i sign = _mm512_set1_epi32((int)0x80808080);
    __m512i up = _mm512_or_si512(v, sign);
    __m512i w = _mm512_mask_sub_epi8(up, _mm512_movepi8_mask(v), _mm512_setzero_si512(), up);
    if (type == K_INT8C)
        w = _mm512_mask_mov_epi8(w, _mm512_cmpeq_epi8_mask(v, sign), _mm512_setzero_si512());
    return w;
}

TILE_INLINE void quad_int8(enum k_type type, const char *codes, __m512i w[2])
{
    __m512i a = _mm512_loadu_si512(codes), b = _mm512_loadu_si512(codes + TILE_INT8_STEP_BYTES);
    w[0] = int8_above(type, _mm512_unpacklo_epi16(a, b));
    w[1] = int8_above(type, _mm512_unpackhi_epi16(a, b));
}

TILE_INLINE void quad_at(enum k_type type, const struct q8_call *q, int i, __m512i w[2])
{
    if (format_is_nested(type))
        tile_nested_stored(type, q->codes, q->at + 4 * i, w);
    else if (type == K_INT4)
        quad_int4(q->codes + i * 2 * TILE_INT4_STEP_BYTES, w);
    else
        quad_int8(type, q->codes + i * 2 * TILE_INT8_STEP_BYTES, w);
}

/* By how much codes are above what they count: a power of two. */
TILE_INLINE int above_bits(enum k_type type)
{
    return type == K_INT4 ? 3 : type == K_INT6K ? 5 : 7;
}

/* What the sums of a row begin with, so that they end as those of what codes count; half: 0, 1, or
 * both of a group at once. */
TILE_INLINE __m512i begin(enum k_type type, const struct q8_group *x, int half)
{
    if (nested_is_dense(type))
        return _mm512_setzero_si512();
    int32_t minus = type != K_INT6K ? x->minus_all
                    : half == 0     ? x->minus_half
                                    : x->minus_all - x->minus_half;
    return _mm512_slli_epi32(_mm512_set1_epi32(minus), above_bits(type));
}

/* What a group's outputs have besides codes. */
struct q8_scales {
    __m512 scale[2][2], min[2]; /* scale: of int6k two; halves of the outputs */
};

TILE_INLINE struct q8_scales scales_of(enum k_type type, const struct q8_call *q)
{
    struct q8_scales s = {0};
    if (!format_is_nested(type)) {
        s.scale[0][0] = tile_scale(type, q->scale, 0);
        s.scale[0][1] = tile_scale(type, q->scale, 1);
        return s;
    }
    for (int i = 0; i < K_Q8_GROUP / q8_span(type); i++) {
        struct tile_nested n = tile_nested_at(type, q->codes, q->at + i * q8_span(type));
        for (int half = 0; half < 2; half++) {
            s.scale[i][half] = n.scale[half];
            s.min[half] = n.min[half];
        }
    }
    return s;
}

/* The sums of h rows over part `part` of a group, which has `n` quads; w: all of the group opened,
 * NULL: opened here. A row alone has its quads by turns in two pairs of sums. */
TILE_INLINE void part_sums(enum k_type type, int h, int part, int n, const __m512i (*w)[2],
                           const struct q8_call *q, __m512i sum[ROWS * 2])
{
    const int second = h == 1 && n == QUADS ? 2 : 0;
    sum[2] = sum[3] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int r = 0; r < h; r++)
        sum[r * 2] = sum[r * 2 + 1] = begin(type, q->x + r, part);
#pragma GCC unroll 8
    for (int i = part * n; i < part * n + n; i++) {
        __m512i open[2];
        if (w) {
            open[0] = w[i][0];
            open[1] = w[i][1];
        } else {
            quad_at(type, q, i, open);
        }
#pragma GCC unroll 4
        for (int r = 0; r < h; r++) {
            __m512i *to = sum + r * 2 + i % 2 * second;
            int32_t four;
            memcpy(&four, q->x[r].code + 4 * i, sizeof four);
            __m512i v = _mm512_set1_epi32(four);
            to[0] = _mm512_dpbusd_epi32(to[0], open[0], v);
            to[1] = _mm512_dpbusd_epi32(to[1], open[1], v);
        }
    }
    if (second) {
        sum[0] = _mm512_add_epi32(sum[0], sum[2]);
        sum[1] = _mm512_add_epi32(sum[1], sum[3]);
    }
}

/* h rows, a constant, over a group: what it adds to their totals t. */
TILE_INLINE void rows_group(enum k_type type, int h, const __m512i (*w)[2],
                            const struct q8_scales *s, const struct q8_call *q, __m512 *t)
{
    const int parts = K_Q8_GROUP / q8_span(type), n = QUADS / parts;
#pragma GCC unroll 2
    for (int part = 0; part < parts; part++) {
        __m512i sum[ROWS * 2];
        part_sums(type, h, part, n, w, q, sum);
#pragma GCC unroll 8
        for (int r = 0; r < h * 2; r++) {
            __m512 v = _mm512_mul_ps(_mm512_set1_ps(q->x[r / 2].scale), _mm512_cvtepi32_ps(sum[r]));
            t[r] = _mm512_fmadd_ps(s->scale[part][r % 2], v, t[r]);
        }
    }
    const int mins = format_is_nested(type) && nested_has_mins(type) ? h * 2 : 0;
#pragma GCC unroll 8
    for (int r = 0; r < mins; r++)
        t[r] = _mm512_fnmadd_ps(s->min[r % 2], _mm512_set1_ps(q->x[r / 2].weighed), t[r]);
}

/* Rows [r, r + h) of a call, whose group is open. */
TILE_INLINE void rows_open(enum k_type type, int h, int64_t r, const __m512i (*w)[2],
                           const struct q8_scales *s, const struct q8_call *q)
{
    struct q8_call some = *q;
    __m512 t[ROWS * 2];
    some.x += r;
    for (size_t i = 0; i < (size_t)h * sizeof *some.x; i += LINE_BYTES)
        __builtin_prefetch((const char *)(some.x + q->stride) + i);
    tile_load(h * 2, t, q->total + r * K_NR);
    rows_group(type, h, w, s, &some, t);
    tile_store(h * 2, t, q->total + r * K_NR);
}

TILE_INLINE void group(enum k_type type, const struct q8_call *q)
{
    q8_ask(type, q);
    const struct q8_scales s = scales_of(type, q);
    __m512i w[QUADS][2];
#pragma GCC unroll 8
    for (int i = 0; i < QUADS; i++) {
        quad_at(type, q, i, w[i]);
    }
    int64_t r = 0;
    for (; r + ROWS <= q->h; r += ROWS)
        rows_open(type, ROWS, r, w, &s, q);
    switch (q->h - r) {
    case 3:
        return rows_open(type, 3, r, w, &s, q);
    case 2:
        return rows_open(type, 2, r, w, &s, q);
    case 1:
        return rows_open(type, 1, r, w, &s, q);
    }
}

/* h rows, a constant, over n groups. */
TILE_INLINE void few_rows(enum k_type type, int h, const struct q8_call *first, int64_t m,
                          int64_t n)
{
    const struct q8_step step = q8_step_of(type, m);
    struct q8_call q = *first;
    __m512 t[ROWS * 2];
    tile_load(h * 2, t, q.total);
    for (int64_t g = 0; g < n; g++, q8_next_group(&step, &q)) {
        q8_ask(type, &q);
        const struct q8_scales s = scales_of(type, &q);
        rows_group(type, h, NULL, &s, &q, t);
    }
    tile_store(h * 2, t, q.total);
}

TILE_INLINE void few(enum k_type type, const struct q8_call *q, int64_t m, int64_t n)
{
    switch (q->h) {
    case 4:
        return few_rows(type, 4, q, m, n);
    case 3:
        return few_rows(type, 3, q, m, n);
    case 2:
        return few_rows(type, 2, q, m, n);
    case 1:
        return few_rows(type, 1, q, m, n);
    }
}

static void group_int8(const struct q8_call *q)
{
    group(K_INT8, q);
}

static void few_int8(const struct q8_call *q, int64_t m, int64_t n)
{
    few(K_INT8, q, m, n);
}

static void group_int8g(const struct q8_call *q)
{
    group(K_INT8G, q);
}

static void few_int8g(const struct q8_call *q, int64_t m, int64_t n)
{
    few(K_INT8G, q, m, n);
}

static void group_int8c(const struct q8_call *q)
{
    group(K_INT8C, q);
}

static void few_int8c(const struct q8_call *q, int64_t m, int64_t n)
{
    few(K_INT8C, q, m, n);
}

static void group_int4(const struct q8_call *q)
{
    group(K_INT4, q);
}

static void few_int4(const struct q8_call *q, int64_t m, int64_t n)
{
    few(K_INT4, q, m, n);
}

static void group_int4k(const struct q8_call *q)
{
    group(K_INT4K, q);
}

static void few_int4k(const struct q8_call *q, int64_t m, int64_t n)
{
    few(K_INT4K, q, m, n);
}

static void group_int5k(const struct q8_call *q)
{
    group(K_INT5K, q);
}

static void few_int5k(const struct q8_call *q, int64_t m, int64_t n)
{
    few(K_INT5K, q, m, n);
}

static void group_int6k(const struct q8_call *q)
{
    group(K_INT6K, q);
}

static void few_int6k(const struct q8_call *q, int64_t m, int64_t n)
{
    few(K_INT6K, q, m, n);
}

static void out_rows(const struct tile_out *out, int64_t h, const float *total)
{
    struct tile_out to = *out;
    for (int64_t r = 0; r < h; r++, to.y += to.ld_y) {
        __m512 sum[2];
        tile_load(2, sum, total + r * K_NR);
        tile_out(1, sum, &to);
    }
}

void linear_q8_avx512(const void *args, const struct k_slice *s)
{
    static const struct q8_isa isa = {.group = {[K_INT8] = group_int8,
                                                [K_INT8G] = group_int8g,
                                                [K_INT8C] = group_int8c,
                                                [K_INT4] = group_int4,
                                                [K_INT4K] = group_int4k,
                                                [K_INT5K] = group_int5k,
                                                [K_INT6K] = group_int6k},
                                      .few = {[K_INT8] = few_int8,
                                              [K_INT8G] = few_int8g,
                                              [K_INT8C] = few_int8c,
                                              [K_INT4] = few_int4,
                                              [K_INT4K] = few_int4k,
                                              [K_INT5K] = few_int5k,
                                              [K_INT6K] = few_int6k},
                                      .few_max = ROWS,
                                      .out = out_rows,
                                      .gate = q8_gate_avx512};
    linear_q8_run(&isa, args, s);
}
