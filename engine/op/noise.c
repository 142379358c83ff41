/* SPDX-License-Identifier: Apache-2.0
 *
 * NEFTune's noise (Jain et al., 2023): uniform, of a size that falls with the length of the row it
 * is in. Its draws are dropout's (engine/op/dropout.c), under a site that no product has, and so
 * the same whatever a row is packed with, and behind a kill.
 */
#include <string.h>

#include "engine/op/ops.h"

static const uint32_t SITE = UINT32_MAX;

struct noise_attr {
    float alpha;
};

static float alpha_of(const struct op_node *n)
{
    return ((const struct noise_attr *)(const void *)n->attr)->alpha;
}

struct val op_noise(struct builder *b, struct val x, float alpha)
{
    struct op_node n = {.op = OP_noise, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct noise_attr){.alpha = alpha}, sizeof(struct noise_attr));
    return builder_add(b, &n);
}

static void forward(struct op_ctx *c)
{
    struct k_noise a = {.x = c->in[0].p,
                        .y = c->out[0].p,
                        .row_key = c->batch->dropout_key,
                        .seq_of = c->batch->seq_of,
                        .seq_len = c->batch->kv_len,
                        .ld_x = c->in[0].ld,
                        .ld_y = c->out[0].ld,
                        .m = op_rows(c, c->in[0].shape.rows),
                        .d = c->in[0].shape.cols,
                        .seed = c->batch->dropout_seed,
                        .site = SITE,
                        .alpha = alpha_of(c->node)};
    OP_LAUNCH_M(c, K_noise, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_copy a = {.x = g->dout[0].p,
                       .y = g->din[0].p,
                       .m = op_rows(c, c->in[0].shape.rows),
                       .d = c->in[0].shape.cols,
                       .ld_x = g->dout[0].ld,
                       .ld_y = g->din[0].ld};
    OP_LAUNCH_M(c, K_copy, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_noise_def = {.shape = op_shape_same,
                                    .forward = forward,
                                    .backward = backward,
                                    .only_overwrites = true,
                                    .may_overwrite = {1},
                                    .shard = shard};
