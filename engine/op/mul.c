/* SPDX-License-Identifier: Apache-2.0
 *
 * The product of two values, element by element.
 */
#include "engine/op/ops.h"

struct val op_mul(struct builder *b, struct val x, struct val y)
{
    struct op_node n = {.op = OP_mul, .n_in = 2, .in = {x.id, y.id}};
    return builder_add(b, &n);
}

static struct k_binary args_of(const struct op_ctx *c, struct op_view x, struct op_view y,
                               struct op_view out)
{
    return (struct k_binary){.a = x.p,
                             .b = y.p,
                             .y = out.p,
                             .ld_a = x.ld,
                             .ld_b = y.ld,
                             .ld_y = out.ld,
                             .m = op_rows(c, out.shape.rows),
                             .d = out.shape.cols};
}

static void forward(struct op_ctx *c)
{
    struct k_binary a = args_of(c, c->in[0], c->in[1], c->out[0]);
    OP_LAUNCH_M(c, K_mul, a, c->out[0].shape.rows);
}

/* din[i] (+)= dout * in[1 - i] */
static void backward(struct op_ctx *c, const struct op_grad *g)
{
    for (int i = 0; i < 2; i++) {
        struct op_view part = g->din[i];
        if (!g->din[i].p)
            continue;
        if (g->din_add[i]) {
            part.p = c->work;
            part.ld = part.shape.cols;
        }
        struct k_binary a = args_of(c, g->dout[0], c->in[1 - i], part);
        OP_LAUNCH_M(c, K_mul, a, part.shape.rows);
        if (g->din_add[i]) {
            struct k_binary sum = args_of(c, g->din[i], part, g->din[i]);
            OP_LAUNCH_M(c, K_add, sum, part.shape.rows);
        }
    }
}

static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    (void)n;
    return op_shape_bytes(in[0], cap[in[0].rows]);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS, SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_mul_def = {.shape = op_shape_same,
                                  .work_back = work,
                                  .forward = forward,
                                  .backward = backward,
                                  .need_in = 3,
                                  .may_overwrite = {3},
                                  .shard = shard};
