/* SPDX-License-Identifier: Apache-2.0
 *
 * Neighbourhood of parameters.
 */
#include "engine/op/param.h"

#include "kernels/linear.h"

bool param_follows(const struct param *p, const struct param *q)
{
    int64_t panels = linear_panels(p->n);
    if (p->is_vector || q->is_vector)
        return p->is_vector && q->is_vector && p->vec + p->n == q->vec;
    if (p->w.type != q->w.type || p->k != q->k || p->n % K_NR)
        return false;
    if (p->w.type == K_INT8 && p->w.scale + panels * linear_groups(p->k) * K_NR != q->w.scale)
        return false;
    return (char *)p->w.data + (size_t)panels * linear_panel_bytes(p->w.type, p->k) ==
           (char *)q->w.data;
}
