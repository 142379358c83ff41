/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs the columns of both sides, as the format's rows are, and multiplies them.
 */
#include "engine/op/weight_grad.h"

#include "kernels/format.h"

size_t op_weight_grad_dy_bytes(const struct param *w, int64_t m)
{
    return k_cols_bytes(k_format(w->w.type)->rows, m, w->n, false);
}

size_t op_weight_grad_x_bytes(const struct param *w, int64_t m)
{
    return k_cols_bytes(k_format(w->w.type)->rows, m, w->k, true);
}

void op_weight_grad(struct op_ctx *c, const struct op_weight_grad *g)
{
    const struct k_format *format = k_format(g->w->w.type);
    enum k_type type = format->rows;
    struct k_cols_pack dy = {
        .x = g->dy, .ld_x = g->ld_dy, .m = g->m, .n = g->w->n, .type = type, .cols = g->dy_cols};
    struct k_cols_pack x = {.x = g->x,
                            .ld_x = g->ld_x,
                            .m = g->m,
                            .n = g->w->k,
                            .type = type,
                            .is_panels = true,
                            .cols = g->x_cols};
    struct k_linear_dw a = {.dy = dy.cols,
                            .x = x.cols,
                            .m = g->m,
                            .n = dy.n,
                            .k = x.n,
                            .dw = g->w->grad,
                            .ld_dw = x.n,
                            .fills = param_fills_grad(g->w)};
    ASSERT(!format_is_frozen(g->w->w.type));
    op_launch(c, K_cols_pack, &dy, sizeof dy, NULL, 0);
    if (!g->has_x_cols)
        op_launch(c, K_cols_pack, &x, sizeof x, NULL, 0);
    op_launch(c, format->dw, &a, sizeof a, NULL, 0);
}
