/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns that ranks have split between them, at each rank.
 */
#include <string.h>

#include "engine/op/collective.h"
#include "engine/op/ops.h"

static const struct op_collect_attr *attr_of(const struct op_node *n)
{
    return (const struct op_collect_attr *)(const void *)n->attr;
}

struct val op_collect(struct builder *b, struct val x, const struct op_collect_attr *attr)
{
    struct op_node n = {.op = OP_collect, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static int64_t own_lo(const struct op_collect_attr *at)
{
    return param_bound(at->cols, at->pieces, at->ranks.rank, at->ranks.size);
}

static int64_t own_hi(const struct op_collect_attr *at)
{
    return param_bound(at->cols, at->pieces, at->ranks.rank + 1, at->ranks.size);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_collect_attr *at = attr_of(n);
    if (in[0].blocked || in[0].cols != own_hi(at) - own_lo(at))
        return err_set(e, ERR_BAD_INPUT, "%lld columns, rank %d has %lld of %lld",
                       (long long)in[0].cols, at->ranks.rank, (long long)(own_hi(at) - own_lo(at)),
                       (long long)at->cols);
    out[0] = in[0];
    out[0].cols = at->cols;
    return 0;
}

static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    const struct op_collect_attr *at = attr_of(n);
    int64_t widest = op_collective_widest(&at->ranks, at->cols, at->pieces);
    return (size_t)(cap[in[0].rows] * widest * at->ranks.size) * sizeof(float);
}

static void forward(struct op_ctx *c)
{
    const struct op_collect_attr *at = attr_of(c->node);
    struct op_collective a = {.ranks = at->ranks,
                              .kind = COMM_ALL_GATHER,
                              .x = c->in[0].p,
                              .y = c->out[0].p,
                              .work = c->work,
                              .ld_x = c->in[0].ld,
                              .ld_y = c->out[0].ld,
                              .m = op_rows(c, c->in[0].shape.rows),
                              .n = at->cols,
                              .pieces = at->pieces};
    c->sink->collective(c->sink, &a, c->in[0].shape.rows);
}

/* Of the gradient, which all ranks have, each takes what belongs to its columns. */
static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct op_view part = g->dout[0];
    part.p += own_lo(attr_of(c->node));
    part.shape.cols = c->in[0].shape.cols;
    op_copy(c, part, g->din[0]);
}

static const struct op_shard shard[] = {{.in = {SPLIT_COLS}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_collect_def = {.shape = shape,
                                      .work = work,
                                      .forward = forward,
                                      .backward = backward,
                                      .only_overwrites = true,
                                      .shard = shard};
