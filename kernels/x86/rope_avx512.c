/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding with AVX-512, the reference's roundings: both products of a result are
 * rounded before they are added.
 */
#include <immintrin.h>
#include <string.h>

#include "kernels/variants.h"

static __mmask16 lanes(int n)
{
    return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1 << n) - 1);
}

/* Pairs (i, i + half). */
static void turn_halves(const float *x, float *y, const float *cos, const float *sin, int half,
                        __m512 sign)
{
    for (int i = 0; i < half; i += 16) {
        __mmask16 in = lanes(half - i);
        __m512 c = _mm512_maskz_loadu_ps(in, cos + i);
        __m512 s = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, sin + i), sign);
        __m512 x0 = _mm512_maskz_loadu_ps(in, x + i), x1 = _mm512_maskz_loadu_ps(in, x + half + i);
        __m512 y0 = _mm512_sub_ps(_mm512_mul_ps(x0, c), _mm512_mul_ps(x1, s));
        __m512 y1 = _mm512_add_ps(_mm512_mul_ps(x1, c), _mm512_mul_ps(x0, s));
        _mm512_mask_storeu_ps(y + i, in, y0);
        _mm512_mask_storeu_ps(y + half + i, in, y1);
    }
}

/* Pairs (2i, 2i + 1). -(x1 s) + x0 c has the bits of x0 c - x1 s. */
static void turn_pairs(const float *x, float *y, const float *cos, const float *sin, int half,
                       __m512 sign)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512 even_minus = _mm512_mask_sub_ps(sign, 0x5555, _mm512_setzero_ps(), sign);
    for (int i = 0; i < half; i += 8) {
        __mmask16 in = lanes(half - i) & 0xff, in2 = lanes(2 * (half - i));
        __m512 c = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(in, cos + i));
        __m512 s = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(in, sin + i));
        __m512 v = _mm512_maskz_loadu_ps(in2, x + 2 * i), w = _mm512_permute_ps(v, 0xb1);
        __m512 crossed = _mm512_mul_ps(w, _mm512_mul_ps(s, even_minus));
        _mm512_mask_storeu_ps(y + 2 * i, in2, _mm512_add_ps(_mm512_mul_ps(v, c), crossed));
    }
}

void rope_avx512(const void *args, const struct k_slice *s)
{
    const struct k_rope *a = args;
    int half = a->d_rot / 2, end = a->at + a->d_rot;
    __m512 sign = _mm512_set1_ps(a->inverse ? -1 : 1);
    for (int64_t r = s->lo; r < s->hi; r++) {
        const float *cos = a->cos + (int64_t)a->pos[r] * half;
        const float *sin = a->sin + (int64_t)a->pos[r] * half;
        for (int64_t h = 0; h < a->n_head; h++) {
            const float *x = a->x + r * a->ld_x + h * a->d_head;
            float *y = a->y + r * a->ld_y + h * a->d_head;
            if (a->interleaved)
                turn_pairs(x + a->at, y + a->at, cos, sin, half, sign);
            else
                turn_halves(x + a->at, y + a->at, cos, sin, half, sign);
            if (y == x)
                continue;
            memcpy(y, x, (size_t)a->at * sizeof *y);
            memcpy(y + end, x + end, (size_t)(a->d_head - end) * sizeof *y);
        }
    }
}
