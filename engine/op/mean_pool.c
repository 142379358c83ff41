/* SPDX-License-Identifier: Apache-2.0
 *
 * One row per sequence: the mean of its rows (sentence embeddings).
 */
#include "engine/op/ops.h"

struct val op_mean_pool(struct builder *b, struct val x)
{
    struct op_node n = {.op = OP_mean_pool, .n_in = 1, .in = {x.id}};
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    (void)n;
    if (in[0].blocked || in[0].rows != DIM_TOK)
        return err_set(e, ERR_BAD_INPUT, "the input is not one row per token");
    out[0] = (struct op_shape){.rows = DIM_SEQ, .cols = in[0].cols};
    return 0;
}

static void pool(struct op_ctx *c, enum kernel_id k, struct op_view x, struct op_view y)
{
    struct k_pool a = {.x = x.p,
                       .y = y.p,
                       .start = c->batch->q_start,
                       .ld_x = x.ld,
                       .ld_y = y.ld,
                       .n_seq = op_rows(c, DIM_SEQ),
                       .d = x.shape.cols};
    op_launch(c, k, &a, sizeof a,
              &(struct op_count){.offset = offsetof(struct k_pool, n_seq), .dim = DIM_SEQ}, 1);
}

static void forward(struct op_ctx *c)
{
    pool(c, K_mean_pool, c->in[0], c->out[0]);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    pool(c, K_mean_pool_bwd, g->dout[0], g->din[0]);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_mean_pool_def = {.shape = shape,
                                        .forward = forward,
                                        .backward = backward,
                                        .only_overwrites = true,
                                        .shard = shard};
