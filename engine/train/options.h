/* SPDX-License-Identifier: Apache-2.0
 *
 * How a model is trained, as plain data.
 *
 * Thread: constant once in use.
 */
#ifndef ENGINE_TRAIN_OPTIONS_H
#define ENGINE_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/train/plain.h"
#include "engine/train/ranks.h"

struct train_options {
    struct train_lora lora;
    struct train_preference preference;
    struct train_policy policy;
    struct train_vectors vectors;
    double distill;    /* weight of what teachers said of labels beside the labels; 0: 1 */
    int64_t n_top;     /* most tokens that a teacher names at a label; 0: there is none */
    bool has_ancestor; /* first values are another adapter's, which is the reference, too */
    double lr;
    enum train_schedule schedule;
    int64_t warmup, n_step; /* steps of the schedule */
    double beta1, beta2, eps;
    bool has_codes;          /* AdamW's moments are kept in 8 bits (kernels/moments.h) */
    double decay;            /* of matrices */
    double noise;            /* NEFTune's alpha: of the noise on embeddings (op_noise); 0: none */
    double max_norm;         /* of the whole gradient; 0: not clipped */
    uint64_t seed;           /* of first weights, dropout and order */
    int64_t cap_tok;         /* tokens that a micro-batch holds */
    int64_t row_max;         /* most tokens of a row that a loss makes up; 0: the model's context */
    bool checkpoints_blocks; /* less memory for a second forward; the same bits */
    size_t value_bytes;      /* the most that micro-batches may hold; 0: what there is */
    struct train_ranks ranks; /* zeros: one rank */
};

/* Whether the loss asks for the log-probabilities of the reference: the model without its adapter,
 * or with the one that the training goes on from. */
bool train_has_reference(const struct train_options *o);

/* What holds where nothing is said: LoRA's customs. */
void train_options_default(struct train_options *o);

/* The learning rate of step 0, 1, ...: as transformers has it, whose warm-up begins at 0. */
double train_lr(const struct train_options *o, int64_t step);

/* The steps of a warm-up that takes a share of all. */
int64_t train_warmup(double ratio, int64_t n_step);

#endif
