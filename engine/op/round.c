/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows rounded to the compute type of the weight that reads them, and blocked for the product. This
 * is the one place where an activation loses bits. The gradient passes straight through.
 */
#include "engine/op/ops.h"

#include <string.h>

struct round_attr {
    int64_t type;
};

struct val op_round(struct builder *b, struct val x, enum k_type type)
{
    struct op_node n = {.op = OP_round, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct round_attr){.type = (int64_t)type}, sizeof(struct round_attr));
    return builder_add(b, &n);
}

static enum k_type type_of(const struct op_node *n)
{
    return (enum k_type)((const struct round_attr *)(const void *)n->attr)->type;
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    if (in[0].blocked)
        return err_set(e, ERR_BAD_INPUT, "the input is rounded already");
    out[0] = in[0];
    out[0].blocked = true;
    out[0].type = type_of(n);
    return 0;
}

static void forward(struct op_ctx *c)
{
    struct k_rows_pack a = {.x = c->in[0].p,
                            .ld_x = c->in[0].ld,
                            .m = op_rows(c, c->in[0].shape.rows),
                            .k = c->in[0].shape.cols,
                            .type = type_of(c->node),
                            .rows = c->out[0].p};
    if (a.type == K_Q8)
        OP_LAUNCH_M(c, K_rows_q8, a, c->in[0].shape.rows);
    else
        OP_LAUNCH_M(c, K_rows_pack, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_round_def = {
    .shape = shape, .forward = forward, .grad_same = 1, .shard = shard};
