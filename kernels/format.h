/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of matrices: what a row of kernels/format.def says, as a table for whoever chooses by
 * it, and as functions that a constant type makes constants for the loops of kernels.
 *
 * Thread: any; constant.
 */
#ifndef KERNELS_FORMAT_H
#define KERNELS_FORMAT_H

#include "kernels/kernels.h"

enum { FORMAT_STREAMS = 2 }; /* of numbers, and of what groups share */

enum format_trained { FORMAT_CODED, FORMAT_FROZEN, FORMAT_WHOLE, FORMAT_HALVES };

struct k_stream {
    int32_t inputs, bytes; /* inputs 0: there is none */
};

struct k_format {
    const char *name, *dtype;
    enum k_type rows; /* K_F32 or K_BF16 */
    enum format_trained trained;
    float most; /* the largest number; 0: any fits */
    struct k_stream stream[FORMAT_STREAMS];
    enum kernel_id linear, dx, dw; /* dw: of a matrix that is trained */
};

extern const struct k_format k_formats[K_TYPE_COUNT];

static inline const struct k_format *k_format(enum k_type t)
{
    return &k_formats[t];
}

/* Whether a matrix that is kept so stays as it is. */
static inline bool format_is_frozen(enum k_type t)
{
    return k_format(t)->trained <= FORMAT_FROZEN;
}

/* "none|f32|...": the names of those that numbers can become, as an option's values. */
extern const char k_format_choices[];

int k_format_named(const char *name);   /* an enum k_type; -1: none */
int k_format_stored(const char *dtype); /* the same by what a file calls its numbers */

/* What rows are packed as for a weight of the type. */
static inline enum k_type format_rows(enum k_type t)
{
    switch (t) {
#define FORMAT(name, ID, rows, ROWS, ...)                                                          \
    case K_##ID:                                                                                   \
        return K_##ROWS;
#include "kernels/format.def"
#undef FORMAT
    default:
        return t;
    }
}

static inline struct k_stream format_stream(enum k_type t, int i)
{
    switch (t) {
#define FORMAT(name, ID, rows, ROWS, trained, dtype, most, ...)                                    \
    case K_##ID:                                                                                   \
        return ((const struct k_stream[FORMAT_STREAMS]){__VA_ARGS__})[i];
#include "kernels/format.def"
#undef FORMAT
    default:
        return (struct k_stream){0, 0};
    }
}

/* Whether the numbers are blocks with nested scales (kernels/nested.h). */
static inline bool format_is_nested(enum k_type t)
{
    return format_stream(t, 0).inputs == K_NESTED;
}

/* Inputs that share what the second stream has; 0: none do. */
static inline int64_t format_group(enum k_type t)
{
    return format_stream(t, 1).inputs;
}

/* Whether a sum is taken of a group's codes alone and then joins by their scale. Where rows are f32
 * the scale is multiplied into each weight instead, so that products have the bits of f32. */
static inline bool format_folds(enum k_type t)
{
    return format_group(t) && format_rows(t) == K_BF16;
}

/* Sign and magnitude of a code of int8; -0 does not occur. */
static inline uint8_t linear_int8_pack(int code)
{
    return (uint8_t)(code < 0 ? 0x80 | -code : code);
}

static inline int linear_int8_code(uint8_t byte)
{
    return byte & 0x80 ? -(byte & 0x7f) : byte;
}

#endif
