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
    const struct k_lora_group *group; /* borrowed */
    int64_t row_lo, row_hi;
};

/* A slice's way through the groups: {.unit = lo, .hi = hi}. */
struct lora_walk {
    int64_t unit, hi;
    int64_t group, first; /* where it is, and that group's first unit */
};

static inline bool lora_has(const struct k_lora_group *g)
{
    return g->a || g->a_bf16;
}

static inline int64_t lora_groups(const struct k_lora *a)
{
    return a->n_used ? *a->n_used : a->n_group;
}

int64_t lora_row_units(const struct k_lora *a);

/* What the walk's next units have in one group; false: none is left. */
bool lora_rows_next(const struct k_lora *a, struct lora_walk *w, struct lora_rows *rows);

/* Columns [lo, hi) of da [rank, k], or of db [n, rank]: there they are rows. */
struct lora_cols {
    const struct k_lora_group *group; /* borrowed */
    bool is_db;
    int64_t lo, hi;
};

int64_t lora_dw_units(const struct k_lora *a);
struct lora_cols lora_dw_unit(const struct k_lora *a, int64_t unit);

#endif
