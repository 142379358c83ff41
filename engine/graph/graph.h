/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as data: nodes in an order that can be executed, values defined once. A graph is
 * recorded from a model's builder function, rewritten by passes (each a pure graph -> graph),
 * given memory (engine/graph/memory.h) and turned into a plan (engine/graph/plan.h).
 *
 * The law, which graph_verify checks after every pass: a value is defined by one node, before its
 * uses; shapes are what the op's shape rule says; a node that works in place overwrites nothing
 * that anybody still reads; outputs are defined and never overwritten.
 *
 * Thread: one at a time while it is made; any number of readers then.
 */
#ifndef ENGINE_GRAPH_GRAPH_H
#define ENGINE_GRAPH_GRAPH_H

#include "engine/base/vec.h"
#include "engine/op/builder.h"
#include "engine/op/collective.h"

struct graph_node {
    struct op_node op;
    int8_t in_place[OP_OUT_MAX]; /* input whose memory the output takes; -1: its own */
    int16_t layer;               /* -1: before the first or after the last */
    const char *pass;            /* borrowed: which pass made it; "record" */
};

struct graph_value {
    struct op_shape shape;
    int32_t def; /* node */
};

/* How the ranks share what a graph computes: one of them, and its parts. */
struct graph_ranks {
    struct op_ranks at;
    const struct param *part;        /* borrowed: this rank's, by index */
    const struct param_share *share; /* borrowed: by index */
    bool trains;                     /* a tape of it is walked back */
};

struct graph {
    VEC(struct graph_node) node;
    VEC(struct graph_value) value;
    VEC(int32_t) output;
    const struct graph_ranks *ranks; /* borrowed; NULL: nobody shares it */
};

void graph_init(struct graph *g);
void graph_release(struct graph *g);

/* Adds a node; takes its op's inputs as they are, makes values for its outputs. */
int graph_add(struct graph *g, struct graph_node *n, const struct op_shape *out);

/* Appends a copy of n under new inputs and infers its shapes: what passes build with. */
int graph_emit(struct graph *g, struct graph_node *n, struct err *e);

int graph_verify(const struct graph *g, struct err *e);

/* The builder that records. Values made by it are values of the graph. */
struct graph_recorder {
    struct builder b; /* first: makers take &r->b */
    struct graph *g;  /* borrowed */
    int layer;
};

/* Hands the builder every node of g as it is; *out becomes the first output. */
int graph_replay(const struct graph *g, struct builder *b, struct val *out, struct err *e);

void graph_recorder_init(struct graph_recorder *r, struct graph *g);
void graph_mark_output(struct graph *g, struct val v);

const char *graph_dim_name(enum dim d);

/* "[tokens, 576]", "[rows, 576] for bf16" into text; returns text. */
const char *graph_shape_text(struct op_shape s, char *text, size_t size);

/* Where a value's memory lies: in which value of its own, at which columns. */
struct graph_place {
    int32_t root;
    int64_t col;
};

/* The place of each value, views and in-place nodes followed; free() it. */
struct graph_place *graph_places(const struct graph *g);

/* For each value the last node that reads it: -1 nobody, n_node for an output; free() it. */
int32_t *graph_last_uses(const struct graph *g);

#endif
