/* SPDX-License-Identifier: Apache-2.0
 *
 * Root-mean-square norm, of whole rows, of each head (Qwen3's q and k) or of groups of columns that
 * have weights of their own (Mamba-2); by its weights, or (Gemma) by 1 + them.
 */
#include "engine/op/norm.h"

struct val op_rmsnorm(struct builder *b, struct val x, const struct param *weight, float eps,
                      bool plus_one)
{
    struct norm_attr a = {.weight = weight, .eps = eps, .plus_one = plus_one};
    return norm_add(b, OP_rmsnorm, x, &a);
}

struct val op_rmsnorm_bare(struct builder *b, struct val x, int64_t d, float eps)
{
    return norm_add(b, OP_rmsnorm, x, &(struct norm_attr){.d = d, .eps = eps});
}

struct val op_rmsnorm_groups(struct builder *b, struct val x, const struct param *weight, int64_t d,
                             float eps)
{
    return norm_add(b, OP_rmsnorm, x, &(struct norm_attr){.weight = weight, .d = d, .eps = eps});
}

static size_t save(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    return norm_save(n, in, cap, 1); /* the root */
}

static void forward(struct op_ctx *c)
{
    norm_forward(c, K_rmsnorm);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    norm_backward(c, g, K_rmsnorm_bwd, K_rmsnorm_dw);
}

const struct op_def op_rmsnorm_def = {.shape = norm_shape,
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
