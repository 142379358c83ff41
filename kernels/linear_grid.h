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
 * span]: a span is what a shared cache holds, and is passed over the whole weight; within it a
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

struct linear_grid linear_grid(const struct k_linear *a);
/* The panels are runs of K_NR inputs. */
struct linear_grid linear_dx_grid(const struct k_linear_dx *a);
int64_t linear_grid_units(const struct linear_grid *g);

/* The piece that starts at unit *u, ending at hi at the latest; moves *u behind it. */
struct linear_piece linear_grid_next(const struct linear_grid *g, int64_t *u, int64_t hi);

/* A weight gradient dw[n, k] in tiles, numbered with k fastest: neighbours share their n, whose
 * columns of dy are laid out once for them, while those of x are laid out again for each part of n.
 * So parts of n are as large as they may be, and where tiles are too few, parts of k get narrower.
 */
struct linear_tiles {
    int64_t n, k;
    int64_t n_parts, k_parts;
};

struct linear_rect {
    int64_t n_lo, n_hi, k_lo, k_hi; /* lower ends: multiples of LINEAR_MR and K_NR */
};

enum { LINEAR_TILE_N = 192, LINEAR_TILE_K = 256 }; /* no tile is larger */

struct linear_tiles linear_dw_tiles(const struct k_linear_dw *a);
struct linear_rect linear_tile_at(const struct linear_tiles *t, int64_t unit);

#endif
