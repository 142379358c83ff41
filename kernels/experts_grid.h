/* SPDX-License-Identifier: Apache-2.0
 *
 * How routed rows are cut into calls of the products that there are. A run is some routed rows of
 * one expert; its product is one of linear's, whose bits do not hang on how many rows there are, so
 * neither do these on how an expert's rows are cut. Experts without rows cost nothing: neither
 * their weights nor their bounds are read for them.
 *
 * A variant gives its own function for the product; what is here only calls it.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_EXPERTS_GRID_H
#define KERNELS_EXPERTS_GRID_H

#include "kernels/linear.h"

/* Many, since each run passes over its expert's weight; few enough to be shared out. A multiple of
 * LINEAR_MR, so that full blocks stay full. */
enum { EXPERTS_RUN_ROWS = 16 * LINEAR_MR };

struct experts_run {
    int64_t expert, lo, hi; /* routed rows */
};

/* A way through the runs: {.n_expert, .start, .saved} begins. False: none is left. */
struct experts_walk {
    const int32_t *start;
    int64_t n_expert;
    const struct k_saved *saved; /* of the stack */
    int64_t expert, at;          /* where it goes on */
};

bool experts_next(struct experts_walk *w, struct experts_run *r);

/* All runs; without a map as many as m rows can have. */
int64_t experts_runs(const int32_t *start, int64_t n_expert, const struct k_saved *saved,
                     int64_t m);
/* A stack's experts that have rows, and these rows; without a map as many as there can be. */
int64_t experts_active(const struct k_stack *s, int64_t m, int64_t *n_row);

/* Units of a product: its panels for each run. dx: panels are runs of K_NR inputs. */
int64_t experts_units(const struct k_experts *a, bool is_dx);

/* The slice's units by a level's functions: of linear_<format>, of linear_dx_<format>, of
 * rows_pack. */
void experts_products(const struct k_experts *a, const struct k_slice *s, kernel_fn *linear);
void experts_gradients(const struct k_experts *a, const struct k_slice *s, kernel_fn *dx);
void experts_pack_runs(const struct k_experts_pack *a, const struct k_slice *s, kernel_fn *pack);

/* Which row of x a routed row is. */
static inline int64_t experts_row(const int32_t *from, int64_t top, int64_t i)
{
    return from ? from[i] / top : i;
}

#endif
