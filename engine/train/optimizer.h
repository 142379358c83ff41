/* SPDX-License-Identifier: Apache-2.0
 *
 * From the gradients of a step to new values: the norm of the whole gradient, clipping, AdamW. The
 * norm's sum has one order, so a step can be replayed. Where ranks share the model each sums what
 * is its own, and the first what all have; of the values each updates those whose moments it keeps.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_OPTIMIZER_H
#define ENGINE_TRAIN_OPTIMIZER_H

#include "engine/train/exchange.h"
#include "engine/train/options.h"

struct optimizer {
    struct stream *stream;    /* borrowed */
    struct train_tensors *on; /* borrowed */
    double *part;             /* owned: device memory, the norm's partial sums */
    double *host;             /* owned: where they are read */
    int64_t n_part;
    float *open[2]; /* owned: device memory, moments that are codes, a piece at a time; or NULL */
    struct exchange *exchange; /* borrowed */
};

int optimizer_init(struct optimizer *o, struct train_tensors *on, struct exchange *x,
                   struct stream *s, struct err *e);
void optimizer_release(struct optimizer *o);

/* The norm of all gradients, of which the late ones are there; not finite where one is not. */
int optimizer_norm(struct optimizer *o, double *norm, struct err *e);

/* Step `step` (from 0) with gradients of that norm, in place; then all ranks have the new values,
 * and gradients that are not late are zero. */
int optimizer_step(struct optimizer *o, const struct train_options *opt, int64_t step, double norm,
                   struct err *e);

/* Forgets the gradients that are not late. */
void optimizer_clear(struct optimizer *o);

#endif
