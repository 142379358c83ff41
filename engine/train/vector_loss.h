/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of texts' vectors, known behind the forward of a whole step alone. Rows come in examples
 * of n_each: v is a vector, i an example of n.
 *
 *     contrast     n_each 2 or 3: an anchor a, its positive p, and a negative. The mean over i of
 *                  -log of softmax(scale cos(a_i, c))_i over all c, which are the positives of the
 *                  step, then its negatives: sentence-transformers' MultipleNegativesRankingLoss
 *     classes      n_each 1: the mean over i of -log of softmax(v_i) at the row's label
 *     sigmoids     the mean over i and labels of the cross-entropy of sigmoid(v_il) and target_il
 *     squares      the mean over i and labels of (v_il - target_il)^2
 *
 * The gradient is of the vectors as the model gives them, whether or not it normalises them, so
 * that what is trained is what is served.
 *
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_VECTOR_LOSS_H
#define ENGINE_TRAIN_VECTOR_LOSS_H

#include "engine/train/trainer.h"

/* Of an example: its loss before the mean, and how much of it is right, 0 to 1. */
struct vector_told {
    double loss, right;
};

/* vector: [n_row, d] of whole examples, of a loss that is joint all of a step's; grad: the same of
 * the mean over n_mean examples, or NULL; told: [n_row / n_each], or NULL. ERR_NO_MEMORY. */
int vector_loss(const struct train_vectors *o, const struct train_row *row, int64_t n_row,
                int64_t n_mean, const float *vector, int64_t d, float *grad,
                struct vector_told *told, struct err *e);

/* What a step's examples came to, of the weight that `out` has; an example's loss is told as the
 * log-probability at its first row. ERR_DIVERGED. */
int vector_sum(const struct train_vectors *o, const struct train_row *row, int64_t n_row,
               const struct vector_told *told, struct train_result *out, struct err *e);

/* Whether an example's loss depends on others of its step. */
bool vector_loss_is_joint(const struct train_vectors *o);

#endif
