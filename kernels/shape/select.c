/* SPDX-License-Identifier: Apache-2.0
 *
 * Unit and cost of what the sampler asks of a row, which is the unit and read once. Edits cost as
 * the lists behind them are long, which no number here tells: a row counts as one.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape argmax_shape(const void *args)
{
    const struct k_argmax *a = args;
    return rows_shape(a->m, a->n, 1, sizeof(struct k_best) * (double)a->m, 2);
}

struct k_shape top_select_shape(const void *args)
{
    const struct k_top_select *a = args;
    return rows_shape(a->m, a->n, 1, 12 * (double)a->m, 15);
}

struct k_shape logit_edit_shape(const void *args)
{
    const struct k_logit_edit *a = args;
    return rows_shape(a->m, 1, 1, sizeof(struct k_edit_row) * (double)a->m, 8);
}

struct k_shape sample_shape(const void *args)
{
    const struct k_sample *a = args;
    return rows_shape(a->m, a->n, 1, (sizeof(struct k_sample_how) + 4) * (double)a->m, 15);
}

struct k_shape pick_shape(const void *args)
{
    const struct k_pick *a = args;
    return rows_shape(a->m, a->n_id, 3, 0, 0);
}

struct k_shape token_feed_shape(const void *args)
{
    const struct k_token_feed *a = args;
    return rows_shape(a->n, 1, 3, 0, 0);
}
