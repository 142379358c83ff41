/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of an AdamW step as f32, the same for every variant.
 *
 *     g = g g_scale;  m += (g - m) m_in;  v = v v_keep + v_in g g
 *     p = p keep - step m / (sqrt(v) / root + eps)
 *
 * Thread: any; a pure function.
 */
#ifndef KERNELS_OPTIM_H
#define KERNELS_OPTIM_H

#include <math.h>

#include "kernels/kernels.h"

struct adamw_const {
    float g_scale, keep, m_in, v_keep, v_in, root, eps, step;
};

static inline struct adamw_const adamw_const(const struct k_adamw *a)
{
    struct adamw_const c;
    c.g_scale = (float)a->g_scale;
    c.keep = (float)(1 - a->lr * a->decay);
    c.m_in = (float)(1 - a->beta1);
    c.v_keep = (float)a->beta2;
    c.v_in = (float)(1 - a->beta2);
    c.root = (float)sqrt(a->corr2);
    c.eps = (float)a->eps;
    c.step = (float)(a->lr / a->corr1);
    return c;
}

#endif
