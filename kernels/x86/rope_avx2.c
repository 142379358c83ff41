/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding with AVX2, the reference's roundings: both products of a result are
 * rounded before they are added. Stores under a mask are slow here, so that only the end of a head
 * which does not fill its vectors has them.
 */
#include <string.h>

#include "kernels/variants.h"
#include "kernels/x86/vec.h"

#define ROPE_INLINE static inline __attribute__((always_inline))

/* n of the pairs (i, i + half). */
ROPE_INLINE void turn_apart(const float *x, float *y, const float *cos, const float *sin, int half,
                            int n, vf sign)
{
    vf c = vf_load(cos, n), s = vf_mul(vf_load(sin, n), sign);
    vf x0 = vf_load(x, n), x1 = vf_load(x + half, n);
    vf_store(y, vf_sub(vf_mul(x0, c), vf_mul(x1, s)), n);
    vf_store(y + half, vf_add(vf_mul(x1, c), vf_mul(x0, s)), n);
}

/* n of the table's numbers, at most four. */
ROPE_INLINE vf table4(const float *x, int n)
{
    return n == 4 ? _mm256_castps128_ps256(_mm_loadu_ps(x)) : vf_load(x, n);
}

/* n of the pairs (2i, 2i + 1), at most four: the even one subtracts its crossed product, the odd
 * one adds it. */
ROPE_INLINE void turn_beside(const float *x, float *y, const float *cos, const float *sin, int n,
                             vf sign)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    vf c = _mm256_permutevar8x32_ps(table4(cos, n), twice);
    vf s = _mm256_permutevar8x32_ps(table4(sin, n), twice);
    vf v = vf_load(x, 2 * n), w = _mm256_permute_ps(v, 0xb1);
    vf_store(y, _mm256_addsub_ps(vf_mul(v, c), vf_mul(w, vf_mul(s, sign))), 2 * n);
}

static void turn_halves(const float *x, float *y, const float *cos, const float *sin, int half,
                        vf sign)
{
    int i = 0;
    for (; i + VF <= half; i += VF)
        turn_apart(x + i, y + i, cos + i, sin + i, half, VF, sign);
    if (i < half)
        turn_apart(x + i, y + i, cos + i, sin + i, half, half - i, sign);
}

static void turn_pairs(const float *x, float *y, const float *cos, const float *sin, int half,
                       vf sign)
{
    int i = 0;
    for (; i + 4 <= half; i += 4)
        turn_beside(x + 2 * i, y + 2 * i, cos + i, sin + i, 4, sign);
    if (i < half)
        turn_beside(x + 2 * i, y + 2 * i, cos + i, sin + i, half - i, sign);
}

void rope_avx2(const void *args, const struct k_slice *s)
{
    const struct k_rope *a = args;
    int half = a->d_rot / 2, end = a->at + a->d_rot;
    vf sign = vf_set(a->inverse ? -1 : 1);
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
