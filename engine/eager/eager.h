/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor: the builder that runs each op at once and, where a gradient is wanted, writes it on
 * the tape. eager_backward walks the tape in reverse.
 *
 * A step is: eager_begin, the model's function with eager_builder, reads of values, eager_backward
 * if wanted, eager_end. Parameters' gradients are added to param.grad, so steps accumulate.
 *
 * Blocks. A model marks its blocks with builder_block. Of the values made before a mark only the
 * last one, and those that builder_keep named, may be used behind it; the others are given back at
 * the mark unless the backward reads them. With checkpointing even those go, and backward runs the
 * block's forward again: the same kernels on the same inputs, so the same bits.
 *
 * Frozen weights cost nothing: an op that leads to no trainable parameter is not on the tape.
 *
 * Memory comes from a cache that grows to the largest step and stays; it may be given a ceiling.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_EAGER_EAGER_H
#define ENGINE_EAGER_EAGER_H

#include "engine/device/device.h"
#include "engine/op/builder.h"

struct eager;

struct eager_options {
    bool wants_grad, has_lora, checkpoint;
    int32_t lora_rank_max;
    bool has_dora, has_saved;
    const struct param *saved[SAVED_COUNT];
    float dropout, noise; /* the builder's */
    /* Told by the backward that it is done with a block, whose parameters that no other block has
     * then have all of their gradients; -1 ends it. NULL: nobody asks. */
    int (*block_done)(void *ctx, int layer, struct err *e);
    void *ctx;
};

struct eager *eager_new(struct stream *s, struct err *e); /* borrows the stream */
void eager_free(struct eager *g);

/* The most that the cache may hold; 0: as much as there is. Over it a step ends in ERR_NO_MEMORY
 * with the numbers. */
void eager_limit(struct eager *g, size_t bytes);
void eager_trim(struct eager *g); /* between steps: what none of them holds goes back */

/* Gives a late gradient its memory, zeros, where it has none; the tape does so for what it comes
 * to. eager_grad_end takes it back. */
int eager_grad_begin(struct eager *g, const struct param *p, struct err *e);
void eager_grad_end(struct eager *g, const struct param *p);

/* batch: borrowed until eager_end. */
void eager_begin(struct eager *g, const struct batch *batch, const struct eager_options *o);
struct builder *eager_builder(struct eager *g);
struct op_view eager_view(const struct eager *g, struct val v);
int eager_backward(struct eager *g, struct err *e);

/* Puts a gradient from above at a value, [rows, cols] in the host's memory, before eager_backward:
 * for losses that the caller computes. A model's own loss needs none. */
int eager_seed(struct eager *g, struct val v, const float *grad, struct err *e);
void eager_end(struct eager *g);

/* The gradient that arrived at a value, before eager_end: for tests. p is NULL when none did. */
struct op_view eager_grad(const struct eager *g, struct val v);

size_t eager_bytes(const struct eager *g);      /* held by the cache */
size_t eager_peak_bytes(const struct eager *g); /* most in use at once since eager_new */
size_t eager_n_tape(const struct eager *g);     /* nodes on the tape of this step */

#endif
