/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_dw: the forward's product once more, for each run of rows (kernels/linear_grid.h), of
 * columns that cols_pack laid out.
 */
#include "kernels/cols_run.h"
#include "kernels/linear_grid.h"
#include "kernels/x86/block.h"

void linear_dw_run(const struct linear_isa *isa, enum k_type type, const struct k_linear_dw *a,
                   const struct k_slice *s)
{
    for (int64_t row = 0; row < a->m; row += LINEAR_DW_ROWS) {
        struct k_linear run = linear_dw_run_of(a, type, row);
        linear_run(isa, &run, s);
    }
}

void cols_pack_run(const struct k_cols_pack *a, const struct k_slice *s, columns_fn *left,
                   columns_fn *right)
{
    int64_t per_step = a->type == K_F32 ? 1 : LINEAR_STEP;
    for (int64_t u = s->lo, end; u < s->hi; u = end) {
        int64_t row = u * COLS_UNIT_ROWS, lo = row / LINEAR_DW_ROWS * LINEAR_DW_ROWS;
        end = linear_min(s->hi, (lo + LINEAR_DW_ROWS) / COLS_UNIT_ROWS);
        int64_t rows = cols_run_rows(a->m, lo), hi = linear_min(end * COLS_UNIT_ROWS - lo, rows);
        struct columns x = {.at = a->x + lo * a->ld_x,
                            .ld = a->ld_x,
                            .rows = rows,
                            .cols = a->n,
                            .step_lo = (row - lo) / per_step,
                            .step_hi = linear_ceil_div(hi, per_step)};
        char *to = (char *)a->cols + cols_run_at(a->type, a->n, a->is_panels, lo);
        (a->is_panels ? right : left)(a->type, &x, to);
    }
}
