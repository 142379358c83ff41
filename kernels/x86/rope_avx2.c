/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding with AVX2, the reference's roundings: both products of a result are
 * rounded before they are added.
 */
#include <immintrin.h>
#include <string.h>

#include "kernels/variants.h"

/* Ones in the lanes below n. */
static __m256i lanes(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Pairs (i, i + half). */
static void turn_halves(const float *x, float *y, const float *cos, const float *sin, int half,
                        __m256 sign)
{
    for (int i = 0; i < half; i += 8) {
        __m256i in = lanes(half - i);
        __m256 c = _mm256_maskload_ps(cos + i, in);
        __m256 s = _mm256_mul_ps(_mm256_maskload_ps(sin + i, in), sign);
        __m256 x0 = _mm256_maskload_ps(x + i, in), x1 = _mm256_maskload_ps(x + half + i, in);
        __m256 y0 = _mm256_sub_ps(_mm256_mul_ps(x0, c), _mm256_mul_ps(x1, s));
        __m256 y1 = _mm256_add_ps(_mm256_mul_ps(x1, c), _mm256_mul_ps(x0, s));
        _mm256_maskstore_ps(y + i, in, y0);
        _mm256_maskstore_ps(y + half + i, in, y1);
    }
}

/* Pairs (2i, 2i + 1): the even one subtracts its crossed product, the odd one adds it. */
static void turn_pairs(const float *x, float *y, const float *cos, const float *sin, int half,
                       __m256 sign)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (int i = 0; i < half; i += 4) {
        __m256i in = lanes(half - i < 4 ? half - i : 4), in2 = lanes(2 * (half - i));
        __m256 c = _mm256_permutevar8x32_ps(_mm256_maskload_ps(cos + i, in), twice);
        __m256 s = _mm256_permutevar8x32_ps(_mm256_maskload_ps(sin + i, in), twice);
        __m256 v = _mm256_maskload_ps(x + 2 * i, in2), w = _mm256_permute_ps(v, 0xb1);
        __m256 crossed = _mm256_mul_ps(w, _mm256_mul_ps(s, sign));
        _mm256_maskstore_ps(y + 2 * i, in2, _mm256_addsub_ps(_mm256_mul_ps(v, c), crossed));
    }
}

void rope_avx2(const void *args, const struct k_slice *s)
{
    const struct k_rope *a = args;
    int half = a->d_rot / 2;
    __m256 sign = _mm256_set1_ps(a->inverse ? -1 : 1);
    for (int64_t r = s->lo; r < s->hi; r++) {
        const float *cos = a->cos + (int64_t)a->pos[r] * half;
        const float *sin = a->sin + (int64_t)a->pos[r] * half;
        for (int64_t h = 0; h < a->n_head; h++) {
            const float *x = a->x + r * a->ld_x + h * a->d_head;
            float *y = a->y + r * a->ld_y + h * a->d_head;
            if (a->interleaved)
                turn_pairs(x, y, cos, sin, half, sign);
            else
                turn_halves(x, y, cos, sin, half, sign);
            if (y != x)
                memcpy(y + a->d_rot, x + a->d_rot, (size_t)(a->d_head - a->d_rot) * sizeof *y);
        }
    }
}
