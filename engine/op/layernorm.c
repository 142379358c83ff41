/* SPDX-License-Identifier: Apache-2.0
 *
 * Mean and variance norm.
 */
#include "engine/op/norm.h"

struct val op_layernorm(struct builder *b, struct val x, const struct param *weight,
                        const struct param *bias, float eps)
{
    return norm_add(b, OP_layernorm, x,
                    &(struct norm_attr){.weight = weight, .bias = bias, .eps = eps});
}

static size_t save(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    return norm_save(n, in, cap, 2); /* the mean and the deviation */
}

static void forward(struct op_ctx *c)
{
    norm_forward(c, K_layernorm);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    norm_backward(c, g, K_layernorm_bwd, K_layernorm_dw);
}

const struct op_def op_layernorm_def = {.shape = norm_shape,
                                        .save = save,
                                        .forward = forward,
                                        .backward = backward,
                                        .param = norm_param,
                                        .need_in = 1,
                                        .may_overwrite = {0, 1},
                                        .is_cheap = true,
                                        .pieces = norm_pieces,
                                        .localise = norm_localise,
                                        .shard = norm_shard};
