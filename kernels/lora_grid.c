/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the groups of a batch to find a unit. A walk goes once through the groups, however many
 * rows they have: a step may hold as many adapters as sequences.
 */
#include "kernels/lora_grid.h"

static int64_t rows_units(const struct k_lora_group *g)
{
    return lora_has(g) && g->rank > 0 ? linear_ceil_div(g->row_hi - g->row_lo, LORA_ROWS) : 0;
}

int64_t lora_row_units(const struct k_lora *a)
{
    int64_t units = 0;
    for (int64_t i = 0; i < lora_groups(a); i++)
        units += rows_units(&a->group[i]);
    return units;
}

bool lora_rows_next(const struct k_lora *a, struct lora_walk *w, struct lora_rows *rows)
{
    for (; w->unit < w->hi && w->group < lora_groups(a); w->group++) {
        const struct k_lora_group *g = &a->group[w->group];
        int64_t units = rows_units(g), at = w->unit - w->first;
        if (at < units) {
            int64_t end = linear_min(w->hi - w->first, units);
            *rows = (struct lora_rows){g, g->row_lo + at * LORA_ROWS,
                                       linear_min(g->row_hi, g->row_lo + end * LORA_ROWS)};
            w->unit = w->first + end;
            return true;
        }
        w->first += units;
    }
    return false;
}

static int64_t da_units(const struct k_lora *a, const struct k_lora_group *g)
{
    return rows_units(g) && g->da ? linear_ceil_div(a->k, LORA_COLS) : 0;
}

static int64_t db_units(const struct k_lora *a, const struct k_lora_group *g)
{
    return rows_units(g) && g->db ? linear_ceil_div(a->n, LORA_COLS) : 0;
}

int64_t lora_dw_units(const struct k_lora *a)
{
    int64_t units = 0;
    for (int64_t i = 0; i < lora_groups(a); i++)
        units += da_units(a, &a->group[i]) + db_units(a, &a->group[i]);
    return units;
}

struct lora_cols lora_dw_unit(const struct k_lora *a, int64_t unit)
{
    const struct k_lora_group *g = a->group;
    while (unit >= da_units(a, g) + db_units(a, g)) {
        unit -= da_units(a, g) + db_units(a, g);
        g++;
    }
    struct lora_cols c = {.group = g, .is_db = unit >= da_units(a, g)};
    c.lo = (c.is_db ? unit - da_units(a, g) : unit) * LORA_COLS;
    c.hi = linear_min(c.is_db ? a->n : a->k, c.lo + LORA_COLS);
    return c;
}
