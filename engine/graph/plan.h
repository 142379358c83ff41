/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan: a graph compiled to a flat array of kernel calls with resolved pointers. Only counts
 * change from step to step; they are patched into the arguments at the start of a run. Running
 * allocates nothing.
 *
 * The batch's arrays, the K/V caches and the parameters are pointed to, not copied: they stay where
 * they are for the plan's life. Activations live in one block that the plan owns.
 *
 * Thread: one run at a time.
 */
#ifndef ENGINE_GRAPH_PLAN_H
#define ENGINE_GRAPH_PLAN_H

#include "engine/device/device.h"
#include "engine/graph/graph.h"

struct plan;

/* cap: the most rows of each dim that a step may have. batch: the arrays that steps will fill; read
 * for its addresses only. */
struct plan *plan_new(const struct graph *g, const struct batch *batch, const int64_t *cap,
                      struct device *d, struct err *e);
void plan_free(struct plan *p);

/* Runs a step of batch->n rows; the caller keeps within cap. */
void plan_run(struct plan *p, const struct batch *batch, struct stream *s);

/* The i-th output: device memory, valid until the next run. */
struct op_view plan_output(const struct plan *p, int i);

size_t plan_bytes(const struct plan *p); /* of the block of activations */
size_t plan_n_call(const struct plan *p);

#endif
