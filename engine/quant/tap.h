/* SPDX-License-Identifier: Apache-2.0
 *
 * What the products of some layers read and give, seen while rows run through the model: of each
 * distinct input the sums of x x^T over its rows, and of each product the sum of its outputs'
 * squares. q, k and v share an input, and so do gate and up.
 *
 * A tap is a builder before the executor's, which lets every node through and looks at those of
 * products. A row of an input adds to its sums in the kernel that gives weights their gradients,
 * whose bits do not depend on threads.
 *
 * Thread: one at a time. The model lies in the host's memory.
 */
#ifndef ENGINE_QUANT_TAP_H
#define ENGINE_QUANT_TAP_H

#include "engine/model/model.h"
#include "engine/quant/texts.h"

struct tap_input {
    float *sum; /* owned: [k, k]; NULL: nobody has run */
    int64_t k;
};

struct tap {
    const struct model *model; /* borrowed */
    struct stream *stream;     /* borrowed */
    const bool *is_wanted;     /* borrowed: [n_param] */
    struct tap_input *input;   /* owned: [n_param], by the first parameter that reads it */
    int32_t *input_of;         /* owned: [n_param]; -1: not seen */
    double *output;            /* owned: [n_param] sums of squares */
};

int tap_init(struct tap *t, const struct model *m, struct stream *s, const bool *is_wanted,
             struct err *e);
void tap_release(struct tap *t);

/* Runs all rows; what was seen before is forgotten. */
int tap_run(struct tap *t, const struct quant_texts *rows, struct err *e);

#endif
