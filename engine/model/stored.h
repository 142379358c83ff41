/* SPDX-License-Identifier: Apache-2.0
 *
 * Under which name a model's files hold a parameter. Models are saved with and without the name of
 * their body before each tensor's, and of an embedding that is the head too some have only the
 * head's: safetensors keeps one name of tensors that share their memory.
 *
 * Thread: any.
 */
#ifndef ENGINE_MODEL_STORED_H
#define ENGINE_MODEL_STORED_H

#include "engine/load/weights.h"
#include "engine/model/spec.h"

/* The shape that the files have a parameter in, [k, n] where it is transposed; how many dimensions.
 */
int stored_shape(const struct param *p, bool is_transposed, int64_t dim[3]);

/* The tensor of the parameter `name` (without a prefix), which must have this shape. What is
 * missing is told with all the names that it may have. */
int stored_want(struct weights *w, const struct config *c, const char *name, int rank,
                const int64_t *dim, const struct weight **out, struct err *e);

/* Whether the files have it, by any of its names. */
bool stored_has(const struct weights *w, const struct config *c, const char *name);

/* A GGUF file has no tensor but what counts in its model, and an architecture there can have some
 * that its family here has not: each one must be among from[0, n). */
int stored_check_all(const struct weights *w, const struct weight *const *from, int32_t n,
                     struct err *e);

#endif
