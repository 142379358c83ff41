/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the optimizer's kernels, for the width of kernels/x86/vec.h. Products and sums stay
 * apart where kernels/ref/optim.c has them apart: the bits are the same.
 */
#ifndef KERNELS_X86_OPTIM_H
#define KERNELS_X86_OPTIM_H

#include "kernels/halves.h"
#include "kernels/linear.h"
#include "kernels/optim.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/vec.h"

/* The constants of a step, a vector each. */
struct adamw_vec {
    vf g_scale, keep, m_in, v_keep, v_in, root, eps, step;
};

static inline struct adamw_vec adamw_vec(const struct k_adamw *a)
{
    struct adamw_const c = adamw_const(a);
    return (struct adamw_vec){vf_set(c.g_scale), vf_set(c.keep), vf_set(c.m_in), vf_set(c.v_keep),
                              vf_set(c.v_in),    vf_set(c.root), vf_set(c.eps),  vf_set(c.step)};
}

/* The new values of n numbers from j on, which were p. */
static inline vf adamw_step(const struct k_adamw *a, const struct adamw_vec *c, int64_t j, int n,
                            vf p)
{
    vf g = vf_mul(vf_load(a->g + j, n), c->g_scale), m = vf_load(a->m + j, n);
    m = vf_add(m, vf_mul(vf_sub(g, m), c->m_in));
    vf v = vf_mul(vf_load(a->v + j, n), c->v_keep);
    v = vf_add(v, vf_mul(vf_mul(c->v_in, g), g));
    vf denom = vf_add(vf_div(vf_sqrt(v), c->root), c->eps);
    vf_store(a->m + j, m, n);
    vf_store(a->v + j, v, n);
    return vf_sub(vf_mul(p, c->keep), vf_div(vf_mul(c->step, m), denom));
}

static inline void adamw_chunks(const struct k_adamw *a, int64_t lo, int64_t hi)
{
    struct adamw_vec c = adamw_vec(a);
    int64_t end = rows_min(hi * K_SUM_CHUNK, a->n);
    for (int64_t j = lo * K_SUM_CHUNK; j < end; j += VF) {
        int n = vf_count(end, j);
        vf_store(a->p + j, adamw_step(a, &c, j, n, vf_load(a->p + j, n)), n);
    }
}

/* ---- a packed weight ---------------------------------------------------------------------- */

/* Inputs of a panel that are taken at a time: unpacked they stay in the second-level cache, in rows
 * that do not all begin in the same lines of the first. */
enum { ADAMW_INPUTS = 1024, ADAMW_LD = ADAMW_INPUTS + 16 };

_Static_assert(sizeof(float[K_NR][ADAMW_LD]) <= K_SCRATCH_BYTES, "unpacked into scratch");

/* kernels/halves.h, a vector at a time. */
static inline vi halves_join_vec(vi high, vi low) /* high: the bf16 as f32 */
{
    vi down = vi_set((int32_t)0xffff0000u), u = vi_add(high, low);
    return vi_select(vi_less(vi_set(HALVES_MIDDLE), low), vi_add(u, down), u);
}

static inline vi halves_fit_vec(vi u)
{
    vi off = vi_xor(vi_and(u, vi_set(HALVES_TIE)), vi_set(HALVES_TIE_UP));
    return vi_select(vi_less(off, vi_set(1)), vi_add(u, vi_set(1)), u);
}

/* Elements [at, at + few) of the row-major arrays, whose numbers as packed are p. */
__attribute__((always_inline)) static inline void
adamw_few(const struct k_adamw_weight *a, const struct adamw_vec *c, int64_t at, int few, float *p)
{
    vf x = vf_load(p, few);
    if (!a->low) {
        vf_store(p, adamw_step(&a->a, c, at, few, x), few);
        return;
    }
    x = vf_from_bits(halves_join_vec(vf_bits(x), vi_load16(a->low + at, few)));
    vi u = halves_fit_vec(vf_bits(adamw_step(&a->a, c, at, few, x)));
    vi_store16(a->low + at, u, few);
    vf_store(p, vf_from_bits(u), few);
}

/* The same for n of them. */
static inline void adamw_run(const struct k_adamw_weight *a, const struct adamw_vec *c, int64_t at,
                             int64_t n, float *p)
{
    int64_t j = 0;
    for (; j + VF <= n; j += VF)
        adamw_few(a, c, at + j, VF, p + j);
    if (j < n)
        adamw_few(a, c, at + j, (int)(n - j), p + j);
}

/* Panels are turned to rows in scratch, stepped there, and packed again. Some inputs of a panel are
 * a weight of their own. */
static inline void adamw_panels(const struct k_adamw_weight *a, const struct k_slice *s,
                                kernel_fn *unpack, kernel_fn *pack)
{
    struct adamw_vec c = adamw_vec(&a->a);
    const struct k_slice one = {.hi = 1};
    int64_t stored = linear_k_stored(a->w.type, a->w.k);
    float *rows = s->scratch;
    for (int64_t panel = s->lo; panel < s->hi; panel++)
        for (int64_t i = 0; i < a->w.k; i += ADAMW_INPUTS) {
            struct k_weight w = {.type = a->w.type,
                                 .n = rows_min(a->w.n - panel * K_NR, K_NR),
                                 .k = rows_min(a->w.k - i, ADAMW_INPUTS)};
            w.data = (char *)a->w.data + linear_panel_bytes(a->w.type, panel * stored + i);
            unpack(&(struct k_weight_unpack){.w = w, .dst = rows, .ld_dst = ADAMW_LD}, &one);
            for (int64_t r = 0; r < w.n; r++)
                adamw_run(a, &c, (panel * K_NR + r) * a->w.k + i, w.k, rows + r * ADAMW_LD);
            pack(
                &(struct k_weight_pack){
                    .src = rows, .src_type = K_F32, .ld_src = ADAMW_LD, .w = w, .n_src = w.n},
                &one);
        }
}

static inline void sum_sq_chunks(const struct k_sum_sq *a, int64_t lo, int64_t hi)
{
    for (int64_t u = lo; u < hi; u++) {
        int64_t end = rows_min((u + 1) * K_SUM_CHUNK, a->n), j = u * K_SUM_CHUNK;
        struct vd s0 = vd_zero(), s1 = s0;
        for (; j + 2 * VF <= end; j += 2 * VF) {
            s0 = vd_add_squares(s0, vf_load(a->x + j, VF));
            s1 = vd_add_squares(s1, vf_load(a->x + j + VF, VF));
        }
        for (; j < end; j += VF)
            s0 = vd_add_squares(s0, vf_load(a->x + j, vf_count(end, j)));
        a->part[u] = vd_sum(s0) + vd_sum(s1);
    }
}

#endif
