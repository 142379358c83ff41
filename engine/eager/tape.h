/* SPDX-License-Identifier: Apache-2.0
 *
 * What forward and backward share: the values of a step and the nodes that made them.
 *
 * Thread: that of the eager it belongs to.
 */
#ifndef ENGINE_EAGER_TAPE_H
#define ENGINE_EAGER_TAPE_H

#include "engine/base/vec.h"
#include "engine/eager/cache.h"
#include "engine/eager/eager.h"

struct eager_value {
    struct op_shape shape;
    int32_t def;            /* node */
    int32_t root;           /* the value whose memory it lies in: itself, or a slice's origin */
    int32_t grad_of;        /* the value whose gradient is its own: itself, or a rounding's input */
    struct op_view view;    /* p NULL once given back */
    struct eager_buf *buf;  /* counted, at a root */
    struct eager_buf *grad; /* counted, at a root; NULL: nothing arrived yet */
    bool needs_grad;        /* leads to a trainable parameter */
    bool is_kept;           /* the backward reads it */
    bool lasts;             /* later blocks read it */
};

struct eager_node {
    struct op_node op;
    struct eager_buf *save; /* counted */
    bool on_tape;
};

struct eager_block {
    size_t node_lo;   /* up to the next block's, or the end */
    int32_t value_in; /* the only value of before that it may read; -1: none */
    int layer;
};

/* What backwards that read the same value share (op_def.shared_back), within a block. */
struct eager_shared {
    struct eager_buf *buf; /* counted; NULL: nothing */
    size_t bytes;
    int32_t value;
};

struct eager {
    struct builder b; /* first */
    struct op_sink sink;
    struct stream *stream; /* borrowed */
    struct eager_cache cache;
    const struct batch *batch; /* borrowed */
    struct eager_options opt;
    struct eager_shared shared;
    VEC(struct eager_node) node;
    VEC(struct eager_value) value;
    VEC(struct eager_block) block;
};

/* Runs a node that stands on the list: at first, and again for a checkpointed block. */
int eager_run_node(struct eager *g, size_t i, struct err *e);

/* Memory for the gradients of what the node's op trains; what it put nothing into is zeros then. */
int eager_begin_grads(struct eager *g, const struct op_node *n, struct err *e);
void eager_end_grads(struct eager *g, const struct op_node *n);

/* Gives a value's memory back. */
void eager_drop_value(struct eager *g, int32_t v);

/* Puts inputs, outputs and kept space of node i into c; views whose memory is gone have p NULL. */
void eager_fill_ctx(struct eager *g, size_t i, struct op_ctx *c);

#endif
