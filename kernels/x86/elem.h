/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the element-wise kernels, for the width of kernels/x86/vec.h.
 */
#ifndef KERNELS_X86_ELEM_H
#define KERNELS_X86_ELEM_H

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/philox.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/vec.h"

static inline void add_rows(const struct k_binary *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *p = a->a + i * a->ld_a, *q = a->b + i * a->ld_b;
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf_store(a->y + i * a->ld_y + j, vf_add(vf_load(p + j, n), vf_load(q + j, n)), n);
        }
    }
}

static inline void mul_rows(const struct k_binary *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *p = a->a + i * a->ld_a, *q = a->b + i * a->ld_b;
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf_store(a->y + i * a->ld_y + j, vf_mul(vf_load(p + j, n), vf_load(q + j, n)), n);
        }
    }
}

static inline void scale_chunks(const struct k_scale *a, int64_t lo, int64_t hi)
{
    int64_t end = rows_min(hi * K_SUM_CHUNK, a->n);
    vf s = vf_set(a->s);
    for (int64_t j = lo * K_SUM_CHUNK; j < end; j += VF) {
        int n = vf_count(end, j);
        vf_store(a->y + j, vf_mul(s, vf_load(a->x + j, n)), n);
    }
}

/* ---- conversions ---- */

/* To nearest even by integer arithmetic: unlike the conversion instructions it keeps denormals. */
static inline vi bf16_of(vf v)
{
    vi u = vf_bits(v), odd = vi_and(vi_shr(u, 16), vi_set(1));
    vi rounded = vi_shr(vi_add(u, vi_add(odd, vi_set(0x7fff))), 16);
    vi quiet = vi_shr(vf_bits(vf_or(v, vf_from_bits(vi_set(0x400000)))), 16);
    return vi_select(vf_ordered(v), rounded, quiet);
}

static inline vf cast_load(const void *x, enum k_type type, int64_t j, int n)
{
    switch (type) {
    case K_BF16:
        return vf_from_bits(vi_shl(vi_load16((const k_bf16 *)x + j, n), 16));
    case K_F16:
        return vf_load_f16((const k_f16 *)x + j, n);
    default:
        return vf_load((const float *)x + j, n);
    }
}

static inline void cast_store(void *y, enum k_type type, int64_t j, vf v, int n)
{
    switch (type) {
    case K_BF16:
        vi_store16((k_bf16 *)y + j, bf16_of(v), n);
        break;
    case K_F16:
        vf_store_f16((k_f16 *)y + j, v, n);
        break;
    default:
        vf_store((float *)y + j, v, n);
    }
}

static inline void cast_chunks(const struct k_cast *a, int64_t lo, int64_t hi)
{
    int64_t end = rows_min(hi * K_SUM_CHUNK, a->n);
    for (int64_t j = lo * K_SUM_CHUNK; j < end; j += VF) {
        int n = vf_count(end, j);
        cast_store(a->y, a->to, j, cast_load(a->x, a->from, j, n), n);
    }
}

/* ---- dropout ---- */

struct philox_vec {
    vi v[4];
};

/* Blocks first + lane of a row. */
static inline struct philox_vec philox_at(const struct k_dropout *a, uint64_t row_key,
                                          int64_t first)
{
    uint32_t k0 = (uint32_t)a->seed, k1 = (uint32_t)(a->seed >> 32);
    vi c0 = vi_add(vi_set((int32_t)first), vi_iota()), c1 = vi_set((int32_t)a->site);
    vi c2 = vi_set((int32_t)row_key), c3 = vi_set((int32_t)(row_key >> 32));
    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        vi a_hi, a_lo, b_hi, b_lo;
        vi_mul_wide(c0, vi_set((int32_t)PHILOX_A), &a_hi, &a_lo);
        vi_mul_wide(c2, vi_set((int32_t)PHILOX_B), &b_hi, &b_lo);
        c0 = vi_xor(vi_xor(b_hi, c1), vi_set((int32_t)k0));
        c1 = b_lo;
        c2 = vi_xor(vi_xor(a_hi, c3), vi_set((int32_t)k1));
        c3 = a_lo;
        k0 += PHILOX_K0;
        k1 += PHILOX_K1;
    }
    return (struct philox_vec){{c0, c1, c2, c3}};
}

static inline void dropout_put(const float *x, float *y, int n, vm drop, vf scale)
{
    vf_store(y, vf_select(drop, vf_zero(), vf_mul(vf_load(x, n), scale)), n);
}

/* Each vector of blocks decides four vectors of columns, 16 columns apart. */
static inline void dropout_rows(const struct k_dropout *a, int64_t lo, int64_t hi)
{
    vf scale = vf_set(1.0f / (1.0f - a->p));
    vi threshold = vi_set((int32_t)philox_threshold(a->p));
    for (int64_t i = lo; i < hi; i++) {
        const float *x = a->x + i * a->ld_x;
        float *y = a->y + i * a->ld_y;
        for (int64_t b = 0; b < (a->d + 63) / 64 * 16; b += VF) {
            struct philox_vec r = philox_at(a, a->row_key[i], b);
            int64_t j = b / 16 * 64 + b % 16;
            for (int w = 0; w < 4 && j < a->d; w++, j += 16)
                dropout_put(x + j, y + j, vf_count(a->d, j), vi_less(r.v[w], threshold), scale);
        }
    }
}

#endif
