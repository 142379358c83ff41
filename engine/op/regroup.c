/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of heads by what they are: where a product gives, head after head, a few parts of each
 * (query and gate; q, k, v and z), all heads' first parts come first, then all second ones. What
 * reads a part then reads a slice, and the product's weight stays as files have it.
 */
#include "engine/op/ops.h"

#include <string.h>

struct regroup_attr {
    int32_t n_head, n_part, part[K_REGROUP_PARTS];
};

static const struct regroup_attr *attr_of(const struct op_node *n)
{
    return (const struct regroup_attr *)(const void *)n->attr;
}

struct val op_regroup(struct builder *b, struct val x, int32_t n_head, const int32_t *part,
                      int n_part)
{
    struct op_node n = {.op = OP_regroup, .n_in = 1, .in = {x.id}};
    struct regroup_attr a = {.n_head = n_head, .n_part = n_part};
    ASSERT(n_part > 0 && n_part <= K_REGROUP_PARTS);
    memcpy(a.part, part, (size_t)n_part * sizeof *part);
    memcpy(n.attr, &a, sizeof a);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct regroup_attr *a = attr_of(n);
    int64_t cols = 0;
    for (int i = 0; i < a->n_part; i++)
        cols += (int64_t)a->n_head * a->part[i];
    if (in[0].blocked || in[0].cols != cols)
        return err_set(e, ERR_BAD_INPUT, "the input has %lld columns, %lld expected",
                       (long long)in[0].cols, (long long)cols);
    out[0] = in[0];
    return 0;
}

static void regroup(struct op_ctx *c, struct op_view x, struct op_view y, bool inverse)
{
    const struct regroup_attr *at = attr_of(c->node);
    struct k_regroup a = {.x = x.p,
                          .y = y.p,
                          .ld_x = x.ld,
                          .ld_y = y.ld,
                          .m = op_rows(c, x.shape.rows),
                          .n_head = at->n_head,
                          .n_part = at->n_part,
                          .inverse = inverse};
    memcpy(a.part, at->part, sizeof a.part);
    OP_LAUNCH_M(c, K_regroup, a, x.shape.rows);
}

static void forward(struct op_ctx *c)
{
    regroup(c, c->in[0], c->out[0], false);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    regroup(c, g->dout[0], g->din[0], true);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_regroup_def = {.shape = shape,
                                      .forward = forward,
                                      .backward = backward,
                                      .only_overwrites = true,
                                      .is_cheap = true,
                                      .shard = shard};
