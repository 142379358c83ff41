/* SPDX-License-Identifier: Apache-2.0
 *
 * What recorder and executor share: shapes are inferred and checked in one place.
 */
#include "engine/op/builder.h"

#include <stdarg.h>
#include <stdio.h>

static const struct val val_none = {.id = -1};

struct val builder_fail(struct builder *b, enum err_code code, const char *fmt, ...)
{
    if (!b->failed) {
        char text[sizeof b->err.msg];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        err_set(&b->err, code, "%s", text);
        b->failed = true;
    }
    return val_none;
}

struct val builder_add(struct builder *b, struct op_node *n)
{
    const struct op_def *def = op_get(n->op);
    struct op_shape in[OP_IN_MAX], out[OP_OUT_MAX];
    if (b->failed)
        return val_none;
    for (int i = 0; i < n->n_in; i++)
        in[i] = b->shape_of(b, (struct val){.id = n->in[i]});
    if (n->n_out == 0)
        n->n_out = 1;
    if (def->shape(n, in, out, &b->err) || b->add(b, n, out)) {
        err_wrap(&b->err, "%s", op_name(n->op));
        b->failed = true;
        return val_none;
    }
    return (struct val){.id = n->out[0]};
}
