/* SPDX-License-Identifier: Apache-2.0
 *
 * What all kernels share: types of numbers, the sizes that layouts are made of, the form of a call.
 * Part of kernels/kernels.h.
 */
#ifndef KERNELS_TYPES_H
#define KERNELS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Formats of matrices, the plain ones of which are types of numbers as well (kernels/format.def).
 */
enum k_type {
#define FORMAT(name, ID, ...) K_##ID,
#include "kernels/format.def"
#undef FORMAT
    K_TYPE_COUNT,
    K_Q8 = K_TYPE_COUNT /* of rows alone: codes of eight bits (kernels/q8.h) */
};

enum {
    K_NR = 32,                /* outputs in a panel */
    K_CELL = 32,              /* tokens in a K/V cell */
    K_CONV_ROWS = 8,          /* rows of its tokens that a cell has for a short convolution */
    K_ATTN_CHUNK = 256,       /* keys whose part of an attention sum is made at a time */
    K_INT8_GROUP = 128,       /* inputs that share a scale; the last group may be shorter */
    K_INT8G_GROUP = 32,       /* the same of int8g */
    K_INT8C_GROUP = 128,      /* of int8c */
    K_FP8_GROUP = 128,        /* of fp8 */
    K_INT4_GROUP = 32,        /* of int4 */
    K_MXFP4_GROUP = 32,       /* of mxfp4 */
    K_NF4_GROUP = 64,         /* and of nf4 */
    K_Q8_GROUP = 32,          /* inputs of a row that share a scale where it is codes */
    K_NESTED = 128,           /* inputs of a block with nested scales (kernels/nested.h) */
    K_CE_CHUNK = 4096,        /* vocabulary entries folded at a time; a multiple of K_NR */
    K_SUM_CHUNK = 4096,       /* elements of a partial sum of squares */
    K_MOMENT = 256,           /* moments of 8 bits that share a power of two; divides the above */
    K_SCRATCH_BYTES = 1 << 21 /* what each compute thread lends to a kernel */
};

/* A piece of a call. */
struct k_slice {
    int64_t lo, hi; /* units [lo, hi) */
    void *scratch;  /* K_SCRATCH_BYTES, 64-aligned, this thread's own */
    void *stream;   /* a GPU's queue; NULL on the CPU */
};

typedef void kernel_fn(const void *args, const struct k_slice *s);

/* What a call is made of, whatever the variant. */
struct k_shape {
    int64_t n_unit; /* 0: nothing to do */
    /* So many units, counted from the first, share something that a slice makes for itself: slices
     * had better not begin between them where there are enough slices. 0: none do */
    int64_t n_together;
    double bytes; /* read and written, each once */
    double flops;
};

typedef struct k_shape kernel_shape_fn(const void *args);

/* bf16 and f16 as bits; conversions round to nearest even, keep NaN a NaN. */
typedef uint16_t k_bf16;
typedef uint16_t k_f16;
size_t k_type_bytes(enum k_type t); /* of a number as it is stored */

#endif
