/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of a training give each other in a step: sums of gradients, the losses of the rows
 * that each had, the norm, and new values.
 *
 * Gradients of a data group are summed a layer at a time, from the last to the first, as the tape
 * of a step's last micro-batch leaves them; what belongs to no layer comes at the end. The order is
 * the model's, so a rank without rows keeps it too. Where GPUs exchange without the host the sums
 * have a stream of their own and run beside the backward that makes the next ones; but not where a
 * tensor group has collectives in that backward, since a GPU that lacks room for both at once might
 * begin them in another order than the next. Of a tensor that all ranks of a tensor group
 * have whole while each saw a part of its use, the sum over these is taken as well.
 *
 * Ranks of a data group may come late: their rows are others. They are waited for ten times as long
 * as their rows would take the slowest rank so far, and a collective's deadline longer; in a
 * group's first step, as long as it takes.
 *
 * Alone, or on paper, nothing happens here.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_EXCHANGE_H
#define ENGINE_TRAIN_EXCHANGE_H

#include "engine/eager/eager.h"
#include "engine/model/model.h"
#include "engine/train/tensors.h"

struct exchange {
    struct train_tensors *on; /* borrowed */
    struct eager *eager;      /* borrowed */
    struct stream *stream;    /* borrowed */
    struct stream *beside;    /* owned: of the sums; NULL: they are in the order of stream */
    struct event *made;       /* owned: what is summed next stands; NULL as beside */
    int32_t *layer;           /* owned: [n_list] of each tensor; -1: none */
    int64_t *cut;             /* owned: [n_data + 1] where ranks' elements begin; NULL: alone */
    int64_t n_layer, next;    /* the layer whose gradients go next */
    int n_flight;
    bool is_out; /* sums were given to `beside` and not waited for */
    char *stage; /* owned: device memory, [n_data, stage_bytes], where values meet; NULL: alone */
    size_t stage_bytes;
    int64_t begin_ns, own_tok, most_tok; /* of a step; own_tok 0: timed already, or none */
    double tok_ns, all_ns; /* the longest that a token took here so far, and, by the end of the
                            * step before, anywhere; 0: not known */
};

int exchange_init(struct exchange *x, struct train_tensors *on, const struct model *m,
                  struct eager *eager, struct stream *s, struct err *e);
void exchange_release(struct exchange *x);

/* A step's numbers begin to come, of so many tokens here, and at the rank that has most. */
void exchange_begin(struct exchange *x, int64_t own_tok, int64_t most_tok);

/* For eager_options.block_done of the last micro-batch. */
int exchange_block(void *x, int layer, struct err *e);

/* The gradients that have not gone yet; then all are whole sums. */
int exchange_end(struct exchange *x, struct err *e);

/* Behind a step that failed here: sums that are still under way end with their groups, and nobody
 * reads their memory any more. */
void exchange_drop(struct exchange *x, const struct err *why);

/* Rows of which each rank of a data group has numbers, and zeros for the others'. */
int exchange_rows(struct exchange *x, float *value, size_t n, struct err *e);

/* The sum of what ranks of a tensor group have, the same bits at all. */
int exchange_sum(struct exchange *x, double *sum, struct err *e);

/* Each rank of a data group has updated its own elements; then all have what products read of
 * all. */
int exchange_values(struct exchange *x, struct err *e);

/* What broke a group, if anything did. */
int exchange_check(const struct exchange *x, struct err *e);

#endif
