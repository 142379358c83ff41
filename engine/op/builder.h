/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model is written against. A model is one function that calls the makers of
 * engine/op/ops.h with a builder; the builder is a recorder (engine/graph: the nodes become a
 * graph) or an executor (engine/eager: each node runs at once and goes on the tape). Switching
 * between static and dynamic is choosing the builder.
 *
 * The first error sticks: later makers do nothing, and the caller looks once, at the end.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_OP_BUILDER_H
#define ENGINE_OP_BUILDER_H

#include "engine/op/op.h"

struct val {
    int32_t id; /* of the builder that made it; -1 after a failure */
};

struct builder {
    /* Takes a checked node, fills n->out. */
    int (*add)(struct builder *b, struct op_node *n, const struct op_shape *out);
    struct op_shape (*shape_of)(const struct builder *b, struct val v);
    /* Marks the start of a block: what activation checkpointing recomputes as one. */
    void (*block)(struct builder *b, int layer);
    /* A value that later blocks read as well; NULL: all may be. */
    void (*keep)(struct builder *b, struct val v);
    bool wants_grad; /* a tape will be walked back: keep what parameters' gradients need */
    bool has_lora;   /* put in the ops that apply adapters */
    int32_t lora_rank_max;
    bool has_dora;  /* and those for what they multiply outputs by */
    bool has_saved; /* and those for matrices that they have whole */
    /* In place of the model's, for all rows; NULL: the model's. Borrowed. */
    const struct param *saved[SAVED_COUNT];
    float dropout; /* of the adapters' inputs while training; 0: none */
    float noise;   /* of the tokens' embeddings while training (op_noise); 0: none */
    bool failed;
    struct err err;
};

/* Infers the shapes, adds the node, returns its first output. */
struct val builder_add(struct builder *b, struct op_node *n);
struct val builder_fail(struct builder *b, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static inline void builder_block(struct builder *b, int layer)
{
    if (b->block)
        b->block(b, layer);
}

static inline struct val builder_keep(struct builder *b, struct val v)
{
    if (b->keep && !b->failed)
        b->keep(b, v);
    return v;
}

#endif
