/* SPDX-License-Identifier: Apache-2.0
 *
 * Magnitudes of an adapter that is trained as DoRA: a vector for each of its products, among its
 * halves, and what follows from them and the weights (engine/model/dora.h), found anew whenever
 * rows are run after the values have changed. They take one pass over the adapted weights.
 *
 * Owned by the subject (engine/train/subject.h).
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_MAGNITUDES_H
#define ENGINE_TRAIN_MAGNITUDES_H

#include "engine/model/dora.h"
#include "engine/train/options.h"

struct train_subject;

struct train_magnitudes {
    struct device *device; /* borrowed; NULL: there are none */
    struct dora_rows rows;
    float *block;  /* owned: device memory */
    int64_t *at;   /* owned: [n_lora] where in each of these a product's numbers begin */
    float *gain;   /* in block: of the values as they are */
    float *norm;   /* in block: of these, too */
    float *before; /* in block: gains of the reference; NULL: there is none */
    size_t bytes;  /* of block */
};

/* Whether a training of this adapter can have them. */
int train_magnitudes_check(const struct model *m, const struct train_lora *l, struct err *e);

/* Room, behind the tensors'; nothing where the adapter has none. */
int train_magnitudes_init(struct train_subject *s, bool has_reference, struct err *e);
void train_magnitudes_release(struct train_magnitudes *m);

/* The weights' own lengths, of which all gains are 1. */
int train_magnitudes_first(struct train_subject *s, struct err *e);

/* Gains of the values as they are, inside the gate, or of the reference, outside of it. */
int train_magnitudes_find(struct train_subject *s, bool is_reference, struct err *e);

void train_magnitudes_bind(const struct train_subject *s, int32_t product, bool is_reference,
                           struct k_lora_group *g);

#endif
