/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs steps of a model: owns the batch's arrays, the K/V cells and the plans. Who calls decides
 * which tokens of which sequences a step holds and which cells a sequence has; the runner copies
 * the step's numbers to the device and runs the plan, or, in eager mode, the same function op by
 * op with the same bits.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_RUN_RUNNER_H
#define ENGINE_RUN_RUNNER_H

#include "engine/model/model.h"

struct runner;

struct runner_options {
    int64_t cap[DIM_COUNT]; /* the most tokens, wanted rows, sequences, adapter groups of a step */
    int64_t n_cell;         /* K/V cells, K_CELL tokens each, shared by all sequences */
    int64_t n_state; /* recurrent states, whose numbers stand in the batch; 0: one for each sequence
                      * of a step, by their order in it */
    size_t beside_bytes;   /* of the device's memory, kept for adapters and trainings */
    int64_t n_feed;        /* tokens that runner_feed's sequence may come to; 0: the context */
    bool is_eager;         /* op by op instead of a plan */
    unsigned passes;       /* mask of graph passes; PASS_ALL */
    int32_t lora_rank_max; /* 0: no adapters */
    enum model_output output;
};

struct runner *runner_new(const struct model *m, const struct runner_options *o, struct stream *s,
                          struct err *e);
void runner_free(struct runner *r);

/* The arrays to fill for the next step, on the host, at capacity; n counts what is in them. Rows of
 * a sequence ascend in position; out_row ascends. The cells of sequence s stand at
 * cell + s * cell_stride. */
struct batch *runner_batch(struct runner *r);

/* A step can be filled and given while the one before is on its way: the device has memory of its
 * own, and no other rank wants the step's tokens from the host. */
bool runner_goes_ahead(const struct runner *r);

/* Then the next step is filled in other arrays than the last, whose copies may not be done; and
 * where its batch->from says so its tokens are those of `id`, the device's memory. */
void runner_go_ahead(struct runner *r, const int32_t *id);

/* Runs the step; the result (device memory: rows of DIM_OUT, or as the output says) stays until the
 * next. */
int runner_step(struct runner *r, struct op_view *out, struct err *e);

/* One sequence's whole or next part, alone: fills the batch and runs it. Tokens [pos, pos + n),
 * cells 0, 1, ... of the cache; the answer is wanted for the last n_out of them. */
int runner_feed(struct runner *r, const int32_t *token, int64_t n, int64_t pos, int64_t n_out,
                struct op_view *out, struct err *e);

size_t runner_bytes(const struct runner *r); /* activations, cells and states */

#endif
