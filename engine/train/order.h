/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of an epoch: a permutation that is a pure function of the seed and the epoch, so a
 * training that goes on finds its place by the cursor alone.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TRAIN_ORDER_H
#define ENGINE_TRAIN_ORDER_H

#include <stdint.h>

/* Fills order[n]. */
void train_order(uint64_t seed, int64_t epoch, int64_t n, int64_t *order);

#endif
