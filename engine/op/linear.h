/* SPDX-License-Identifier: Apache-2.0
 *
 * What the passes that fold things into a product need to see of it.
 */
#ifndef ENGINE_OP_LINEAR_H
#define ENGINE_OP_LINEAR_H

#include "engine/op/op.h"

enum op_linear_second { OP_LINEAR_NONE, OP_LINEAR_UNROUNDED, OP_LINEAR_RESIDUAL };

struct op_linear_attr {
    const struct param *w;    /* the first, when neighbours are joined */
    const struct param *bias; /* the first's, folded in; NULL: none */
    int64_t n;                /* outputs: of w and the neighbours joined to it */
    int32_t n_joined;         /* neighbours joined to w */
    int32_t is_adapted;       /* adapters come behind it */
    int64_t second;           /* enum op_linear_second: what input 1 is */
    int32_t is_gated;         /* outputs are a gate and what it gates, and become rounded rows: */
    int32_t gated_type;       /* enum k_type: what they are rounded for */
};

struct op_linear_attr *op_linear_attr(struct op_node *n);
const struct op_linear_attr *op_linear_attr_get(const struct op_node *n);
struct k_weight op_linear_weight(const struct op_node *n); /* joined */

#endif
