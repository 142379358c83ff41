/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of recurrent states: for each layer that has one, so many of them in a row. What lies
 * in one is its kernels' own business; it is zeros, or what a step left there.
 *
 * Thread: whoever owns it.
 */
#ifndef ENGINE_RUN_STATES_H
#define ENGINE_RUN_STATES_H

#include "engine/model/model.h"

struct states {
    struct device *device; /* borrowed */
    void *block;           /* owned: device memory; NULL: the model has none */
    float **at;            /* owned: [n_layer]; NULL where a layer has none */
    int64_t n;             /* of each layer */
    size_t bytes;
};

int states_init(struct states *s, const struct model *m, int64_t n, struct err *e);
void states_release(struct states *s);

/* Where nobody says which state is whose: those of a step's sequences are the first, in their
 * order, and a sequence begins from nothing where its text begins. */
void states_by_order(struct batch *b);

#endif
