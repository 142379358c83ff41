/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of columns of a value: a view, nothing is copied. It takes apart the output of a joined
 * product.
 */
#include "engine/op/slice.h"

#include <string.h>

#include "engine/op/ops.h"

struct slice_attr {
    int64_t lo, n;
};

static const struct slice_attr *attr_of(const struct op_node *n)
{
    return (const struct slice_attr *)(const void *)n->attr;
}

int64_t op_slice_lo(const struct op_node *n)
{
    return attr_of(n)->lo;
}

void op_slice_set(struct op_node *n, int64_t lo, int64_t n_col)
{
    struct slice_attr a = {.lo = lo, .n = n_col};
    memcpy(n->attr, &a, sizeof a);
}

struct val op_slice(struct builder *b, struct val x, int64_t lo, int64_t n_col)
{
    struct op_node n = {.op = OP_slice, .n_in = 1, .in = {x.id}};
    op_slice_set(&n, lo, n_col);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct slice_attr *a = attr_of(n);
    if (in[0].blocked || a->lo < 0 || a->n < 1 || a->lo + a->n > in[0].cols)
        return err_set(e, ERR_BAD_INPUT, "columns %lld to %lld of %lld", (long long)a->lo,
                       (long long)(a->lo + a->n), (long long)in[0].cols);
    out[0] = in[0];
    out[0].cols = a->n;
    return 0;
}

static struct op_view view(const struct op_node *n, struct op_view in)
{
    struct op_view v = in;
    v.shape.cols = attr_of(n)->n;
    v.p = in.p ? in.p + attr_of(n)->lo : NULL;
    return v;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    op_slice_set(n, l->lo, l->cols);
}

/* Of a value whose sections are split one by one, a section is split like it. */
static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.in = {SPLIT_PARTIAL}, .out = SPLIT_PARTIAL},
                                        {.out = SPLIT_END}};

const struct op_def op_slice_def = {
    .shape = shape, .view = view, .localise = localise, .shard = shard};
