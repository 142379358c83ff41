/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate between two products of codes, without a way through memory: what swiglu_avx512 and
 * rows_q8 do one after the other, for the outputs of a panel, which are a group of inputs. Four
 * rows at a time, whose sums and largest numbers are found in the lanes of one vector.
 */
#include "kernels/x86/act.h"
#include "kernels/x86/linear_q8.h"
#include "kernels/x86/tile_avx512.h"

enum { FOUR = 4 };

TILE_INLINE __m512i joined(bool adds, __m512i a, __m512i b)
{
    return adds ? _mm512_add_epi32(a, b) : _mm512_max_epi32(a, b);
}

/* The sums, or the largest, of four rows' lanes: a lane each. */
TILE_INLINE __m128i lanes(bool adds, const __m512i v[FOUR])
{
    __m512i a = joined(adds, _mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i b = joined(adds, _mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    a = joined(adds, _mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    a = joined(adds, a, _mm512_shuffle_i64x2(a, a, _MM_SHUFFLE(1, 0, 3, 2)));
    a = joined(adds, a, _mm512_shuffle_i64x2(a, a, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm512_castsi512_si128(a);
}

/* What a group has besides codes, of each row. */
TILE_INLINE void put_sums(int h, __m128 most, __m128i half, __m128i all, struct q8_group *to)
{
    __m128 scale = _mm_div_ps(most, _mm_set1_ps(Q8_MOST));
    __m128 weighed = _mm_mul_ps(scale, _mm_cvtepi32_ps(all));
    __m128 minus_half = _mm_castsi128_ps(_mm_sub_epi32(_mm_setzero_si128(), half));
    __m128 minus_all = _mm_castsi128_ps(_mm_sub_epi32(_mm_setzero_si128(), all));
    _MM_TRANSPOSE4_PS(scale, weighed, minus_half, minus_all);
    const __m128 v[FOUR] = {scale, weighed, minus_half, minus_all};
#pragma GCC unroll 4
    for (int r = 0; r < h; r++)
        _mm_storeu_ps(&to[r].scale, v[r]);
}

/* q8_round of h rows, finite and not all small; else false. Of the bits of a number without its
 * sign the largest are those of the largest number, or of one that is none. */
TILE_INLINE bool round_groups(int h, const __m512 lo[FOUR], const __m512 hi[FOUR],
                              struct q8_group *to)
{
    __m512i v[FOUR], c[FOUR], d[FOUR];
    float per[FOUR];
#pragma GCC unroll 4
    for (int r = 0; r < FOUR; r++)
        v[r] = _mm512_max_epi32((__m512i)_mm512_abs_ps(lo[r]), (__m512i)_mm512_abs_ps(hi[r]));
    __m128 most = _mm_castsi128_ps(lanes(false, v));
    __m128 fits = _mm_and_ps(_mm_cmplt_ps(most, _mm_set1_ps(INFINITY)),
                             _mm_cmpge_ps(most, _mm_set1_ps(Q8_LEAST)));
    if (_mm_movemask_ps(fits) != 15)
        return false;
    _mm_storeu_ps(per, _mm_div_ps(_mm_set1_ps(Q8_MOST), most));
#pragma GCC unroll 4
    for (int r = 0; r < FOUR; r++) {
        __m512 times = _mm512_set1_ps(per[r]);
        c[r] = _mm512_cvtps_epi32(_mm512_mul_ps(lo[r], times));
        d[r] = _mm512_cvtps_epi32(_mm512_mul_ps(hi[r], times));
        if (r >= h)
            continue;
        _mm_storeu_si128((__m128i *)(void *)to[r].code, _mm512_cvtepi32_epi8(c[r]));
        _mm_storeu_si128((__m128i *)(void *)(to[r].code + 16), _mm512_cvtepi32_epi8(d[r]));
        d[r] = _mm512_add_epi32(c[r], d[r]);
    }
    put_sums(h, most, lanes(true, c), lanes(true, d), to);
    return true;
}

/* h rows, a constant. */
TILE_INLINE void some_rows(int h, const float *gate, const float *up, struct q8_group *to)
{
    _Alignas(64) float y[K_NR];
    __m512 lo[FOUR], hi[FOUR];
#pragma GCC unroll 4
    for (int r = 0; r < FOUR; r++) {
        int64_t at = r < h ? r * K_NR : 0;
        lo[r] = swiglu_of(_mm512_load_ps(gate + at), _mm512_load_ps(up + at));
        hi[r] = swiglu_of(_mm512_load_ps(gate + at + 16), _mm512_load_ps(up + at + 16));
    }
    if (round_groups(h, lo, hi, to))
        return;
    for (int r = 0; r < h; r++) {
        _mm512_store_ps(y, lo[r]);
        _mm512_store_ps(y + 16, hi[r]);
        q8_round(y, K_NR, to + r);
    }
}

void q8_gate_avx512(const float *gate, const float *up, int64_t h, struct q8_group *to)
{
    int64_t r = 0;
    for (; r + FOUR <= h; r += FOUR)
        some_rows(FOUR, gate + r * K_NR, up + r * K_NR, to + r);
    for (; r < h; r++)
        some_rows(1, gate + r * K_NR, up + r * K_NR, to + r);
}
