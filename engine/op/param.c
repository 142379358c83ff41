/* SPDX-License-Identifier: Apache-2.0
 *
 * Neighbourhood of parameters.
 */
#include "engine/op/param.h"

bool param_follows(const struct param *p, const struct param *q)
{
    if (p->is_vector || q->is_vector)
        return p->is_vector && q->is_vector && p->vec + p->n == q->vec;
    return k_weight_follows(&p->w, &q->w);
}
