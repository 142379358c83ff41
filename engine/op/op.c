/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ops, and what they share.
 */
#include "engine/op/op.h"

#include <string.h>

#define OP(name, text) extern const struct op_def op_##name##_def;
#include "engine/op/op.def"
#undef OP

static const struct op_def *const op_table[OP_COUNT] = {
#define OP(name, text) [OP_##name] = &op_##name##_def,
#include "engine/op/op.def"
#undef OP
};

static const char *const op_text[OP_COUNT] = {
#define OP(name, text) [OP_##name] = text,
#include "engine/op/op.def"
#undef OP
};

static const char *const op_names[OP_COUNT] = {
#define OP(name, text) [OP_##name] = #name,
#include "engine/op/op.def"
#undef OP
};

const struct op_def *op_get(enum op_id id)
{
    ASSERT(id < OP_COUNT);
    return op_table[id];
}

const char *op_name(enum op_id id)
{
    ASSERT(id < OP_COUNT);
    return op_names[id];
}

const char *op_about(enum op_id id)
{
    ASSERT(id < OP_COUNT);
    return op_text[id];
}

size_t op_shape_bytes(struct op_shape s, int64_t n_row)
{
    if (s.blocked)
        return k_rows_bytes(s.type, n_row, s.cols);
    return (size_t)n_row * (size_t)s.cols * sizeof(float);
}

int op_shape_same(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                  struct err *e)
{
    for (int i = 0; i < n->n_in; i++)
        if (in[i].blocked || in[i].rows != in[0].rows || in[i].cols != in[0].cols)
            return err_set(e, ERR_BAD_INPUT, "input %d has %lld columns, input 0 has %lld", i,
                           (long long)in[i].cols, (long long)in[0].cols);
    out[0] = in[0];
    return 0;
}

int64_t op_count_of(const struct op_count *c, const int64_t *n)
{
    if (n[DIM_TOK] < c->tok_lo || (c->tok_hi && n[DIM_TOK] > c->tok_hi))
        return 0;
    return n[c->dim] * (c->times ? c->times : 1);
}

void op_launch(struct op_ctx *c, enum kernel_id k, const void *args, size_t bytes,
               const struct op_count *count, int n_count)
{
    ASSERT(bytes <= OP_LAUNCH_BYTES);
    c->sink->launch(c->sink, k, args, bytes, count, n_count);
}

void op_zero(struct op_ctx *c, struct op_view v)
{
    op_copy(c, (struct op_view){.shape = v.shape, .p = NULL}, v);
}

void op_copy(struct op_ctx *c, struct op_view from, struct op_view to)
{
    struct k_copy a = {.x = from.p,
                       .y = to.p,
                       .ld_x = from.ld,
                       .ld_y = to.ld,
                       .m = op_rows(c, to.shape.rows),
                       .d = to.shape.cols};
    OP_LAUNCH_M(c, K_copy, a, to.shape.rows);
}
