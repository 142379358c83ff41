/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types of tensors in files: more than the engine computes with, so that any file's header
 * can be read and sized. Those that a row of kernels/format.def names can become weights.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_DTYPE_H
#define ENGINE_LOAD_DTYPE_H

#include <stdbool.h>

#include "kernels/kernels.h"

enum st_dtype {
#define ST_DTYPE(name, bits) ST_##name,
#include "engine/load/dtype.def"
#undef ST_DTYPE
    ST_DTYPE_COUNT
};

const char *st_dtype_name(enum st_dtype t);                /* "BF16" */
int st_dtype_bits(enum st_dtype t);                        /* of one element; 4 and 6 too */
bool st_dtype_parse(const char *name, enum st_dtype *out); /* false: no such type */
bool st_dtype_k_type(enum st_dtype t, enum k_type *out);   /* false: no weight can have it */
enum st_dtype st_dtype_of(enum k_type t);                  /* of numbers that files have */

#endif
