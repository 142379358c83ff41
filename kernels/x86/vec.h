/* SPDX-License-Identifier: Apache-2.0
 *
 * A vector of f32 as wide as the instruction set at hand: what the kernels on rows are written in.
 * Each such kernel has one body, in kernels/x86/<family>.h, and two files of a few lines that
 * compile it: <family>_avx2.c and <family>_avx512.c. The compiler's flags choose the width here.
 *
 * vf: VF numbers; vm: a mask of them; vi: VF int32. The names say what they do; where an operand's
 * order matters for NaN it is said. Loads and stores of n < VF lanes touch nothing else and fill
 * with zeros, so a tail runs through the same arithmetic as the rest of the row and a number's
 * result does not depend on its place.
 *
 * Sums of a vector are by one fixed tree.
 */
#ifndef KERNELS_X86_VEC_H
#define KERNELS_X86_VEC_H

#if !defined(__AVX2__) /* so that the header compiles alone */
#pragma GCC target("avx2,fma,f16c")
#endif

#include <immintrin.h>

#if defined(__AVX512F__)
#include "kernels/x86/vec_avx512_int.h"
#else
#include "kernels/x86/vec_avx2_int.h"
#endif

/* How many of the n numbers that begin at j a vector there holds. */
static inline int vf_count(int64_t n, int64_t j)
{
    return n - j < VF ? (int)(n - j) : VF;
}

static inline vf vf_zero(void)
{
    return vf_set(0.0f);
}

static inline vf vf_abs(vf a)
{
    return vf_and(a, vf_from_bits(vi_set(0x7fffffff)));
}

/* |a| with the sign of s */
static inline vf vf_copysign(vf a, vf s)
{
    return vf_or(vf_abs(a), vf_and(s, vf_from_bits(vi_set((int32_t)0x80000000u))));
}

/* Four running sums, so that additions overlap; the order is a function of the length alone. */
struct vf_sums {
    vf v[4];
};

static inline float vf_sums_total(const struct vf_sums *s)
{
    return vf_sum(vf_add(vf_add(s->v[0], s->v[1]), vf_add(s->v[2], s->v[3])));
}

#endif
