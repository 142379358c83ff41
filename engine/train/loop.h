/* SPDX-License-Identifier: Apache-2.0
 *
 * Training by a loop of the caller's own: an adapter over the model that an engine serves, passes
 * over rows whose gradients add up, updates when the caller says so. A part of engine/tune.h, which
 * includes it.
 *
 *     tune_loop_new -> tune_loop_pass ..., tune_loop_update -> tune_loop_save, _publish
 *
 * What a loop computes follows from its options and its calls alone: neither the memory there is,
 * nor other loops, nor who is served beside it change a bit.
 *
 * Thread: one at a time for all loops of an engine; a training by engine/tune.h may go on beside.
 */
#ifndef ENGINE_TRAIN_LOOP_H
#define ENGINE_TRAIN_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/train/label_loss.h"

struct engine;
struct tune_loop;

struct tune_loop_options {
    int64_t rank;
    double alpha;
    const char *targets; /* "q_proj,v_proj"; "": every product that takes adapters */
    uint64_t seed;       /* of first values */
    int64_t memory;      /* that passes may take; 0: what is free beside keys and values */
};

/* The names of the products of layers' mixers (attention, or what stands in its place), or of the
 * feed-forwards' and all others, for `targets`. */
const char *tune_loop_targets(const struct engine *g, bool attention, bool others, struct arena *a);

/* ERR_UNSUPPORTED: none can be trained here, and why. */
int tune_loop_check(const struct engine *g, struct err *e);

struct tune_loop *tune_loop_new(struct engine *g, const struct tune_loop_options *o, struct err *e);
void tune_loop_free(struct tune_loop *l); /* NULL is fine */

/* label[i] is the id that place i is to predict. */
struct tune_loop_row {
    const int32_t *id, *label; /* [n] borrowed */
    const float *counts;       /* [n] borrowed: weights, or advantages */
    const float *sampled;      /* [n] borrowed: where the loss compares; else NULL */
    float *logprob;            /* [n] borrowed: gets each label's log-probability */
    int64_t n;
};
struct tune_loop_sums {
    double loss;
    int64_t n_label, n_clipped, n_moved; /* of ratios: held to their bounds; not exactly 1 */
};

/* trains: their gradients are added to those that are there. Where it fails these are gone, too. */
int tune_loop_pass(struct tune_loop *l, const struct tune_loop_row *row, int64_t n,
                   const struct label_loss *loss, bool trains, struct tune_loop_sums *out,
                   struct err *e);
bool tune_loop_has_gradient(const struct tune_loop *l);
/* What passes were computed in goes back: others may compute in it until this one's next pass. */
void tune_loop_rest(struct tune_loop *l);
void tune_loop_drop_gradient(struct tune_loop *l);

struct tune_loop_adam {
    double lr, beta1, beta2, eps, decay;
    double max_norm; /* of the whole gradient; 0: not clipped */
};
/* *step: updates so far, with this one. */
int tune_loop_update(struct tune_loop *l, const struct tune_loop_adam *how, double *grad_norm,
                     int64_t *step, struct err *e);

/* Values, moments and the count of updates, not gradients, as the only state in a folder; it is on
 * the disk whole or not at all. has_moments false: the values alone are taken, as of a loop that
 * begins with them. ERR_NOT_FOUND: the folder has none that fits. */
int tune_loop_save(struct tune_loop *l, const char *dir, struct err *e);
int tune_loop_load(struct tune_loop *l, const char *dir, bool has_moments, struct err *e);
int tune_loop_forget(const char *dir, struct err *e); /* the folder, too; none is fine */

/* The adapter as a PEFT directory; base: what its model is called. */
int tune_loop_publish(struct tune_loop *l, const char *path, const char *base, struct err *e);

#endif
