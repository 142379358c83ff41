/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments in 8 bits (kernels/moments.h), for the width of kernels/x86/vec.h, with the same bits.
 * What is no whole vector goes number by number.
 */
#ifndef KERNELS_X86_MOMENTS_H
#define KERNELS_X86_MOMENTS_H

#include "kernels/kernels.h"
#include "kernels/moments.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/vec.h"

_Static_assert(K_MOMENT % VF == 0, "a block is whole vectors");

/* Draws for places from `low` on, whose upper halves give `high`. */
static inline vi moment_draws(vi low, uint32_t high, uint32_t seed)
{
    vi h = vi_add(vi_xor(low, vi_set((int32_t)high)), vi_set((int32_t)seed));
    h = vi_mul(vi_xor(h, vi_shr(h, 16)), vi_set((int32_t)0x85ebca6bu));
    h = vi_mul(vi_xor(h, vi_shr(h, 13)), vi_set((int32_t)0xc2b2ae35u));
    return vi_shr(vi_xor(h, vi_shr(h, 16)), 32 - MOMENT_CUT);
}

/* moment_code of a block whose power is not zero. */
static inline vi moment_codes(vf x, uint8_t power, bool is_second, vi draw)
{
    vf unit = vf_set(moment_float((uint32_t)(254 - power) << 23));
    vf down = vf_set(moment_float((uint32_t)(127 - moment_shift(is_second)) << 23));
    vi u = vf_bits(vf_mul(vf_mul(x, unit), down)), one = vi_set(1);
    vi size = vi_shr(vi_add(vi_and(u, vi_set(0x7fffffff)), draw), MOMENT_CUT);
    vi top = vi_set(is_second ? 0xff : MOMENT_TOP);
    size = vi_select(vi_less(size, top), size, top);
    if (!is_second)
        return vi_add(size, vi_shl(vi_shr(u, 31), 7));
    vi least = vi_select(vf_gt(x, vf_zero()), one, vi_set(0));
    return vi_select(vi_less(size, one), least, size);
}

/* What codes stand for; up and unit: moment_value's two powers of two. */
static inline vf moment_values(vi code, bool is_second, vf up, vf unit)
{
    vi u = is_second ? vi_shl(code, MOMENT_CUT)
                     : vi_add(vi_shl(vi_and(code, vi_set(MOMENT_TOP)), MOMENT_CUT),
                              vi_shl(vi_shr(code, 7), 31));
    return vf_mul(vf_mul(vf_from_bits(u), up), unit);
}

static inline void moments_unpack_chunks(const struct k_moments *a, int64_t lo, int64_t hi)
{
    const vf up = vf_set(moment_float((uint32_t)(127 + moment_shift(a->is_second)) << 23));
    const int64_t end = rows_min(hi * K_SUM_CHUNK, a->n);
    int64_t i = lo * K_SUM_CHUNK;
    for (; i + VF <= end; i += VF) {
        vf unit = vf_set(moment_float((uint32_t)a->power[i / K_MOMENT] << 23));
        vf_store(a->x + i, moment_values(vi_load8(a->code + i), a->is_second, up, unit), VF);
    }
    for (; i < end; i++)
        a->x[i] = moment_value(a->code[i], a->power[i / K_MOMENT], a->is_second);
}

static inline float moments_largest(const float *x, int64_t n)
{
    vf most = vf_zero();
    for (int64_t i = 0; i < n; i += VF)
        most = vf_max(vf_abs(vf_load(x + i, vf_count(n, i))), most);
    return vf_max_lane(most);
}

/* n numbers from i on, of one block. */
static inline void moments_block(const struct k_moments *a, int64_t i, int64_t n)
{
    uint8_t power = moment_power(moments_largest(a->x + i, n));
    int64_t at = a->first + i, j = 0;
    uint32_t low = (uint32_t)at, high = (uint32_t)(at >> 32) * 0x27d4eb2fu;
    a->power[i / K_MOMENT] = power;
    if (power > 0 && low <= UINT32_MAX - K_MOMENT) /* one upper half for all places */
        for (; j + VF <= n; j += VF) {
            vi place = vi_add(vi_set((int32_t)(low + (uint32_t)j)), vi_iota());
            vi code = moment_codes(vf_load(a->x + i + j, VF), power, a->is_second,
                                   moment_draws(place, high, a->seed));
            vi_store8(a->code + i + j, code);
        }
    for (; j < n; j++)
        a->code[i + j] =
            moment_code(a->x[i + j], power, a->is_second, moment_draw(a->seed, at + j));
}

static inline void moments_pack_chunks(const struct k_moments *a, int64_t lo, int64_t hi)
{
    const int64_t end = rows_min(hi * K_SUM_CHUNK, a->n);
    for (int64_t i = lo * K_SUM_CHUNK; i < end; i += K_MOMENT)
        moments_block(a, i, rows_min(K_MOMENT, end - i));
}

#endif
