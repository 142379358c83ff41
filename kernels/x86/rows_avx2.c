/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_pack: eight steps of a block at a time are loaded by rows, rounded, turned over, and stored
 * by steps, h numbers each. A block has more rows than a vector numbers, so that a step is stored
 * in two parts.
 */
#include "kernels/linear.h"
#include "kernels/variants.h"
#include "kernels/x86/transpose_avx2.h"
#include "kernels/x86/vec.h"

enum { STEPS = 8, LOW = 8 /* rows in the first part */, HIGH = LINEAR_MR - LOW };

/* As many of the eight numbers as are there. */
TURN_INLINE __m256 load8(const float *x, int64_t left)
{
    return left >= 8 ? _mm256_loadu_ps(x) : left > 0 ? vf_load(x, (int)left) : vf_zero();
}

/* Eight steps of a row; step i is in lane bf16_row_at(i), or of f32 in lane i. */
TURN_INLINE __m256i row_steps(enum k_type type, const float *x, int64_t left)
{
    if (type == K_F32)
        return _mm256_castps_si256(load8(x, left));
    return bf16_row(load8(x, left), load8(x + 8, left - 8));
}

/* Steps of a block, rows [0, 8) and [8, 12); rows that it does not have are zeros. */
struct steps {
    __m256i low[STEPS];
    __m128i high[STEPS];
};

/* h, and whether all inputs of the steps are there, may be constants where this is called. */
TURN_INLINE void load_steps(enum k_type type, const float *x, int64_t ld, int64_t h, int64_t left,
                            struct steps *v)
{
    __m256i high[HIGH];
#pragma GCC unroll 8
    for (int r = 0; r < LOW; r++)
        v->low[r] = r < h ? row_steps(type, x + r * ld, left) : _mm256_setzero_si256();
    transpose8(v->low);
    if (h <= LOW)
        return;
#pragma GCC unroll 4
    for (int r = 0; r < HIGH; r++)
        high[r] = LOW + r < h ? row_steps(type, x + (LOW + r) * ld, left) : _mm256_setzero_si256();
    transpose4x8(high, v->high);
}

/* n steps, one behind the other, each whole: what it spills the next ones cover. */
TURN_INLINE void store_steps(enum k_type type, const struct steps *v, int64_t h, char *out)
{
#pragma GCC unroll 8
    for (int i = 0; i < STEPS; i++, out += h * 4) {
        int at = type == K_F32 ? i : bf16_row_at(i);
        _mm256_storeu_si256((__m256i *)(void *)out, v->low[at]);
        if (h > LOW)
            _mm_storeu_si128((__m128i *)(void *)(out + LOW * 4), v->high[at]);
    }
}

/* The same for the last n, which may spill nothing. */
static void store_last(enum k_type type, const struct steps *v, int64_t n, int64_t h, char *out)
{
    for (int i = 0; i < n; i++, out += h * 4) {
        int at = type == K_F32 ? i : bf16_row_at(i);
        memcpy(out, &v->low[at], (size_t)linear_min(h, LOW) * 4);
        if (h > LOW)
            memcpy(out + LOW * 4, &v->high[at], (size_t)(h - LOW) * 4);
    }
}

/* A single row is in its place as it lies. */
static void pack_row(enum k_type type, const float *x, int64_t k, char *out)
{
    int64_t per_step = type == K_F32 ? 1 : LINEAR_STEP, steps = linear_ceil_div(k, per_step);
    for (int64_t s = 0; s < steps; s += STEPS) {
        __m256i v = row_steps(type, x + s * per_step, k - s * per_step);
        if (type != K_F32)
            v = _mm256_permute4x64_epi64(v, 0xd8);
        if (steps - s >= STEPS)
            _mm256_storeu_si256((__m256i *)(void *)(out + s * 4), v);
        else
            memcpy(out + s * 4, &v, (size_t)(steps - s) * 4);
    }
}

TURN_INLINE void pack_block(enum k_type type, const struct k_rows_pack *a, const float *x,
                            int64_t h, char *out)
{
    int64_t per_step = type == K_F32 ? 1 : LINEAR_STEP, s = 0;
    int64_t steps = linear_ceil_div(a->k, per_step), spill = (h > LOW ? LINEAR_MR : LOW) - h;
    struct steps v;
    /* so many steps cover what one spills, as each has at least a number */
    for (; (s + STEPS) * per_step <= a->k && s + STEPS + spill <= steps; s += STEPS) {
        load_steps(type, x + s * per_step, a->ld_x, h, STEPS * per_step, &v);
        store_steps(type, &v, h, out + s * h * 4);
    }
    for (; s < steps; s += STEPS) {
        load_steps(type, x + s * per_step, a->ld_x, h, a->k - s * per_step, &v);
        store_last(type, &v, linear_min(steps - s, STEPS), h, out + s * h * 4);
    }
}

TURN_INLINE void pack_rows(enum k_type type, const struct k_rows_pack *a, const struct k_slice *s)
{
    size_t bytes = linear_row_bytes(a->type, a->k);
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct rows_block b = rows_block_at(a->m, i);
        const float *x = a->x + b.row * a->ld_x;
        char *out = (char *)a->rows + (size_t)b.row * bytes;
        if (b.h == LINEAR_MR)
            pack_block(type, a, x, LINEAR_MR, out);
        else if (b.h == 1)
            pack_row(type, x, a->k, out);
        else
            pack_block(type, a, x, b.h, out);
    }
}

void rows_pack_avx2(const void *args, const struct k_slice *s)
{
    const struct k_rows_pack *a = args;
    if (format_rows(a->type) == K_F32)
        pack_rows(K_F32, a, s);
    else
        pack_rows(K_BF16, a, s);
}
