/* SPDX-License-Identifier: Apache-2.0
 *
 * How the adapters of a batch are cut into units. Rows: runs of up to LORA_ROWS rows of one group,
 * group after group; a group without an adapter has none. Weight gradients: runs of LORA_COLS
 * columns of a group's da, then of its db.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_LORA_GRID_H
#define KERNELS_LORA_GRID_H

#include "kernels/linear.h"

enum {
    LORA_ROWS = 4, /* few, so that a small step is shared out evenly; neighbours run as one */
    LORA_COLS = 64 /* a multiple of K_NR */
};

/* Rows [row_lo, row_hi) of one group. */
struct lora_rows {
    const struct k_lora_group *group; /* borrowed; NULL: no units are left */
    int64_t row_lo, row_hi;
};

int64_t lora_row_units(const struct k_lora *a);

/* What units from *u on have in one group, ending at hi at the latest; moves *u behind it. */
struct lora_rows lora_rows_next(const struct k_lora *a, int64_t *u, int64_t hi);

/* Columns [lo, hi) of da [rank, k], or of db [n, rank]: there they are rows. */
struct lora_cols {
    const struct k_lora_group *group; /* borrowed */
    bool is_db;
    int64_t lo, hi;
};

int64_t lora_dw_units(const struct k_lora *a);
struct lora_cols lora_dw_unit(const struct k_lora *a, int64_t unit);

#endif
