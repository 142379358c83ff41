/* SPDX-License-Identifier: Apache-2.0
 *
 * How the products of packed linear algebra are cut into units of output. Shapes, reference and
 * variants ask the same functions, so what a unit is stands in one place.
 *
 * Units depend on the number of rows, which is harmless: no sum crosses a unit, and the order
 * within a sum knows nothing of them.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_LINEAR_GRID_H
#define KERNELS_LINEAR_GRID_H

#include "kernels/linear.h"

/* A product of m rows by n_panel panels. Units are numbered [span of rows][panel][chunk of the
 * span]: a span is passed over the whole weight, and the rows of a long call are several, so that
 * threads who share the units out in order each have rows of their own, here as in the kernels
 * before and behind that go by rows: what one core wrote comes slowly to another. Within a span a
 * panel stays in a core's cache while its chunks pass. Chunks exist so that a small weight still
 * gives many threads work. */
struct linear_grid {
    int64_t n_block, n_panel;
    int64_t n_span, n_chunk; /* spans of blocks; chunks in a span */
};

/* A run of units that share a panel: blocks [block_lo, block_hi) of rows. */
struct linear_piece {
    int64_t panel, block_lo, block_hi;
};

enum { LINEAR_SPAN_ROWS = 1024 }; /* no piece has more rows */

/* Of a gated product a panel stands for itself and for the one that it gates. */
struct linear_grid linear_grid(const struct k_linear *a);
/* The panels are runs of K_NR inputs. */
struct linear_grid linear_dx_grid(const struct k_linear_dx *a);
/* The rows are outputs, the panels runs of K_NR inputs. */
struct linear_grid linear_dw_grid(const struct k_linear_dw *a);
int64_t linear_grid_units(const struct linear_grid *g);

/* The piece that starts at unit *u, ending at hi at the latest; moves *u behind it. */
struct linear_piece linear_grid_next(const struct linear_grid *g, int64_t *u, int64_t hi);

/* A weight gradient is a product for each run of rows, all of them cut alike: one whose rows are
 * the columns of dy, and whose weight has those of x for outputs. */
struct k_linear linear_dw_run_of(const struct k_linear_dw *a, enum k_type type, int64_t row);

/* cols_pack: rows of a unit. Few, so that a core reads whole rows, those that it wrote. */
enum { COLS_UNIT_ROWS = 8 };

#endif
