/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training beside serving may take of the memory. A part of engine/tune.h, which includes
 * it.
 *
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_LIMIT_H
#define ENGINE_TRAIN_LIMIT_H

#include <stddef.h>
#include <stdint.h>

struct engine;

/* given: what the operator says; 0: what is free beside keys and values. */
size_t train_limit(const struct engine *g, int64_t given);

#endif
