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

#include "kernels/kernels.h"

struct adamw_const {
    float g_scale, keep, m_in, v_keep, v_in, root, eps, step;
};

struct adamw_const adamw_const(const struct k_adamw *a);

#endif
