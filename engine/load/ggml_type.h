/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of numbers that a GGUF file stores: how many stand in a block, how many bytes that
 * takes, and what the block's own formula makes of them in f32. The formulas are those of the
 * reference (the Python package gguf), operation by operation, so that the values are its to the
 * last bit.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_GGML_TYPE_H
#define ENGINE_LOAD_GGML_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/load/dtype.h"
#include "kernels/types.h"

enum { GGML_BLOCK_MAX = 256, GGML_BLOCK_BYTES_MAX = 256 };

/* The numbers of one block, to its own count of floats. */
typedef void ggml_unpack_fn(const uint8_t *block, float *out);

/* A block as one of the format whose codes it has. */
typedef void ggml_recode_fn(const uint8_t *block, uint8_t *out);

struct ggml_type {
    const char *name; /* "Q4_0"; NULL: no such kind */
    uint16_t block, bytes;
    enum st_dtype dtype;    /* the narrowest that holds each value; of kinds that vary, F32 */
    ggml_unpack_fn *unpack; /* NULL: numbers as they are, or a kind that is not read */
    enum k_type coded; /* the format whose codes and scales it has (kernels/coded.h); K_F32: none */
    ggml_recode_fn *recode; /* NULL: its blocks are that format's already */
};

/* The kind of that number in files; NULL: not a known one. */
const struct ggml_type *ggml_type_get(uint32_t number);

/* Whether tensors of it become weights. */
bool ggml_type_is_read(const struct ggml_type *t);

#endif
