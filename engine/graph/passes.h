/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes. Each reads one graph and writes another; none changes a bit of any result. They can
 * be switched off one by one (tests compare on with off) and looked at one by one
 * (`tandem graph MODEL --after PASS`).
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAPH_PASSES_H
#define ENGINE_GRAPH_PASSES_H

#include "engine/device/device.h"
#include "engine/graph/graph.h"

enum pass_id {
#define PASS(name, text) PASS_##name,
#include "engine/graph/passes.def"
#undef PASS
    PASS_COUNT
};

#define PASS_ALL ((1u << PASS_COUNT) - 1)

const char *pass_name(enum pass_id id);
const char *pass_about(enum pass_id id);
int pass_find(const char *name); /* -1: no such pass */

/* Of a mask, the passes whose result a device can run: a gated product is not in every table. */
unsigned passes_of_device(unsigned mask, const struct device *d);

/* Runs the passes of `mask` up to and including `last` over g, in place of it; verifies the result
 * (after each pass in debug builds). */
int passes_run(struct graph *g, unsigned mask, enum pass_id last, struct err *e);

/* What the passes are written with: a walk over the old graph that copies nodes into the new one
 * under new value ids. */
struct rewrite {
    const struct graph *in;
    struct graph *out;
    int32_t *map;   /* owned: new id of each old value; -1: not made (yet) */
    int32_t *n_use; /* owned: readers of each old value, outputs included */
    const char *pass;
};

void rewrite_init(struct rewrite *r, const struct graph *in, struct graph *out, enum pass_id pass);
int rewrite_copy(struct rewrite *r, size_t node, struct err *e); /* the node as it is */
/* A changed node, inputs in new ids, in place of node `node`; its outputs replace that node's. */
int rewrite_emit(struct rewrite *r, size_t node, struct graph_node *n, struct err *e);
void rewrite_finish(struct rewrite *r); /* maps the outputs, frees the maps */

/* The whole walk of a pass that puts one node in the place of another: fn makes it, with old ids
 * and of as many outputs, or leaves that one as it is (false). */
typedef bool rewrite_fn(const struct rewrite *r, const struct op_node *n, struct op_node *made);
int rewrite_each(const struct graph *in, struct graph *out, enum pass_id pass, rewrite_fn *fn,
                 struct err *e);

typedef int graph_pass_fn(const struct graph *in, struct graph *out, struct err *e);

#define PASS(name, text) graph_pass_fn graph_pass_##name;
#include "engine/graph/passes.def"
#undef PASS

#endif
