/* SPDX-License-Identifier: Apache-2.0
 *
 * A model directory to train from nothing: the shape that a config.json says, with random numbers
 * in every matrix. It is a directory like any other, so that nothing behind it is special: training
 * loads it, plans its memory and writes its result as it does with a model that knows something.
 *
 * Matrices are uniform, as wide as keeps what flows through them the same size: 1 / sqrt(inputs),
 * the two of a layer that add to the residual stream less by the root of their number, embeddings
 * as `initializer_range` says, else 0.02. Norms begin at 1, biases at 0. A number follows from the
 * seed, its tensor's place and its own.
 *
 * Thread: any.
 */
#ifndef ENGINE_MODEL_FIRST_H
#define ENGINE_MODEL_FIRST_H

#include <stdint.h>

#include "engine/base/err.h"
#include "kernels/kernels.h"

/* `shape`: a directory with config.json and what else belongs to a model; its weights, where it has
 * any, are not read. `type`: K_F32 or K_BF16, of the file. `to` must not be there. */
int model_first_write(const char *shape, enum k_type type, uint64_t seed, const char *to,
                      struct err *e);

#endif
