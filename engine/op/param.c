/* SPDX-License-Identifier: Apache-2.0
 *
 * Neighbourhood of parameters, and what multiplies them.
 */
#include "engine/op/param.h"

#include "kernels/format.h"

enum k_type param_reads(const struct param *p)
{
    return p->reads_q8 ? K_Q8 : k_format(p->w.type)->rows;
}

enum kernel_id param_linear(const struct param *p)
{
    return p->reads_q8 ? K_linear_q8 : k_format(p->w.type)->linear;
}

bool param_follows(const struct param *p, const struct param *q)
{
    if (p->is_vector || q->is_vector)
        return p->is_vector && q->is_vector && p->vec + p->n == q->vec;
    return k_weight_follows(&p->w, &q->w);
}
