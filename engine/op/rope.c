/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding of queries or keys, from the model's table of cosines and sines.
 */
#include "engine/op/ops.h"

#include <string.h>

static const struct op_rope_attr *attr_of(const struct op_node *n)
{
    return (const struct op_rope_attr *)(const void *)n->attr;
}

struct val op_rope(struct builder *b, struct val x, const struct op_rope_attr *attr)
{
    struct op_node n = {.op = OP_rope, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_rope_attr *a = attr_of(n);
    if (in[0].rows != DIM_TOK || in[0].cols != (int64_t)a->n_head * a->d_head)
        return err_set(e, ERR_BAD_INPUT, "%lld columns are not %d heads of %d",
                       (long long)in[0].cols, a->n_head, a->d_head);
    return op_shape_same(n, in, out, e);
}

static void turn(struct op_ctx *c, struct op_view x, struct op_view y, bool inverse)
{
    const struct op_rope_attr *at = attr_of(c->node);
    struct k_rope a = {.x = x.p,
                       .y = y.p,
                       .ld_x = x.ld,
                       .ld_y = y.ld,
                       .m = op_rows(c, DIM_TOK),
                       .n_head = at->n_head,
                       .d_head = at->d_head,
                       .d_rot = at->d_rot,
                       .at = at->at,
                       .pos = c->batch->turn,
                       .cos = at->cos,
                       .sin = at->sin,
                       .interleaved = at->interleaved,
                       .inverse = inverse};
    OP_LAUNCH_M(c, K_rope, a, DIM_TOK);
}

static void forward(struct op_ctx *c)
{
    turn(c, c->in[0], c->out[0], false);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    ASSERT(!g->din_add[0]);
    turn(c, g->dout[0], g->din[0], true);
}

static int64_t pieces(const struct op_node *n, const struct op_shape *in)
{
    (void)in;
    return attr_of(n)->n_head;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_rope_attr a = *attr_of(n);
    a.n_head = (int32_t)(l->in[0].cols / a.d_head);
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_rope_def = {.shape = shape,
                                   .forward = forward,
                                   .backward = backward,
                                   .only_overwrites = true,
                                   .may_overwrite = {1},
                                   .pieces = pieces,
                                   .localise = localise,
                                   .shard = shard};
