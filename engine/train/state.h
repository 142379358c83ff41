/* SPDX-License-Identifier: Apache-2.0
 *
 * What is trained as one rank would have it: rows of whole tensors, wherever ranks have them. Rank
 * 0 of all asks for them and gives them, in any order; the others answer until it is done. So files
 * are the same whatever the number of ranks, and only rank 0 must reach them.
 *
 * Every rank calls train_state_begin and train_state_end; between these rank 0 alone does
 * something.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_STATE_H
#define ENGINE_TRAIN_STATE_H

#include "engine/train/value.h"

struct train_state {
    struct train_tensors *on; /* borrowed */
    struct stream *stream;    /* borrowed */
    struct train_value value; /* what rows of values are seen with */
    int64_t *at;              /* owned: [ranks of the model, n_list] places in their flat arrays */
    int64_t *cut; /* owned: [ranks of the model, n_data + 1] where their data ranks' runs begin */
    float *piece; /* owned: what comes and goes */
    int64_t cap;
    uint8_t *byte; /* owned: codes of moments, and powers */
    int64_t cap_byte, n_begun;
    float begun[K_MOMENT]; /* [n_begun] of a block whose others come with the next rows */
};

void train_state_begin(struct train_state *s, struct train_tensors *on, struct stream *stream);

/* The shape of a tensor where one rank has all of it. */
void train_state_shape(const struct train_tensor *x, int64_t dim[2]);

/* Rows [row, row + n_row) of tensor i. */
int train_state_get(struct train_state *s, size_t i, enum train_array which, int64_t row,
                    int64_t n_row, float *x, struct err *e);
int train_state_put(struct train_state *s, size_t i, enum train_array which, int64_t row,
                    int64_t n_row, const float *x, struct err *e);

/* At rank 0: the others need not answer any more, and learn how it ended here (rc, *e). At them:
 * answers until then. Returns how it ended at rank 0. */
int train_state_end(struct train_state *s, int rc, struct err *e);

#endif
