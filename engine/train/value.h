/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of what is trained as f32 of the host, wherever they lie: in a flat array, in a vector of
 * the model, or in two halves, of which one is packed for products (engine/train/tensors.h).
 *
 * The CPU's work is done on the caller's thread, so nobody need hold the gate for it.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_VALUE_H
#define ENGINE_TRAIN_VALUE_H

#include "engine/train/tensors.h"

struct train_value {
    struct train_tensors *on; /* borrowed */
    struct stream *stream;    /* borrowed */
    float *rows;              /* owned: device memory, whole panels of a matrix as rows */
    uint16_t *low;            /* owned: low halves that come and go */
    int64_t cap_rows, cap_low;
};

/* All zeros but `on` and `stream` is a good one. */
void train_value_release(struct train_value *v);

/* Elements [at, at + n) of a tensor as it is here; of these the low halves are this rank's. */
int train_value_get(struct train_value *v, const struct train_tensor *x, int64_t at, int64_t n,
                    float *out, struct err *e);

/* Of low halves those are kept that are this rank's. Numbers that are not fit to be kept in halves
 * are made so in `in`. */
int train_value_put(struct train_value *v, const struct train_tensor *x, int64_t at, int64_t n,
                    float *in, struct err *e);

#endif
