/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a number of a packed weight or of packed rows stands. Shared by the reference, the vector
 * variants, the shapes and the checks; attention's K/V cells are laid out by the same rules.
 *
 * A weight w[n, k] is ceil(n / 32) panels of 32 outputs. Within a panel the inputs ascend, a step
 * of one or two as vectors of 16 outputs, so that a product walks it from end to end:
 *
 *   f32   [panel][k]  [32]                element (o, i) of a panel at i * 32 + o
 *   f16   [panel][k]  [32]                the same; rows stay f32, so each input is a step
 *   bf16  [panel][k/2][32][2]             pairs of inputs, as dot products take them
 *   int8  [panel][k/2][64], then scales [panel][group][32]
 *   int8g [panel][k/2][64], then scales [panel][group][32] of f16
 *   int4  [panel][k/2][32], then scales [panel][group][32] of f16
 *   int4k, int5k, int6k, int8k  [panel][k/128] blocks, of kernels/nested.h; rows stay f32
 *   int8c, fp8    [panel][k/2][64], then scales [panel][group][32], as int8
 *   mxfp4 [panel][k/2][32], then scales [panel][group][32] of f16, as int4
 *   nf4   [panel][k]  [16], then scales [panel][group][32]; rows stay f32
 *
 * int8: a byte is sign and magnitude, sign * (|code| 0..127), so that its bf16 comes from two table
 * look-ups by magnitude and one bit; within a step the bytes are in the order in which interleaving
 * their low and high halves per 128-bit lane leaves the bf16 step of above: linear_int8_at. Code
 * times scale is the weight; a group is K_INT8_GROUP inputs. int8g is the same with groups of
 * K_INT8G_GROUP inputs, whose scales are what files of such codes have. int8c is int8 with -128,
 * which stands in place of -0; fp8 has e4m3 in place of the codes. Both are made of files' codes.
 *
 * int4: a byte has the code 0..15 of an output and, above it, that of the output 16 further on, in
 * the order of the halves of a bf16 step: linear_int4_at, in nibbles. The weight is
 * scale * (code - 8), exact in f32; a group is K_INT4_GROUP inputs. Padding is code 8.
 * Outputs past n and the second half of an odd k's last pair are zeros: only stores are cut.
 *
 * Order of summation. An output is one chain over ascending k (f32: fused multiply-adds; bf16:
 * these, or the pair sums of the variant's dot product; of codes: such a chain over a group, from
 * zero, then total = fma(scale, chain, total)). Blocking over k stores and reloads the chain, which
 * changes nothing. Nothing else may depend on m, on the units, or on the place of a row in its
 * block.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_LINEAR_H
#define KERNELS_LINEAR_H

#include "kernels/float16.h"
#include "kernels/format.h"
#include "kernels/nested.h"
#include "kernels/q8.h"

enum {
    LINEAR_MR = 12,      /* rows in a block: 12 x 32 sums fill 24 of 32 vector registers */
    LINEAR_STEP = 2,     /* inputs are padded to this for 16-bit and 8-bit types */
    LINEAR_DW_ROWS = 512 /* rows that a weight gradient sums before it adds */
};

static inline int64_t linear_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t linear_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- weights ------------------------------------------------------------------------------ */

static inline int64_t linear_panels(int64_t n)
{
    return linear_ceil_div(n, K_NR);
}

/* Inputs as stored. */
static inline int64_t linear_k_stored(enum k_type type, int64_t k)
{
    int64_t inputs = format_stream(type, 0).inputs;
    return inputs == 1 ? k : linear_ceil_div(k, LINEAR_STEP) * LINEAR_STEP;
}

/* Of a panel's numbers. */
static inline size_t linear_panel_bytes(enum k_type type, int64_t k)
{
    struct k_stream s = format_stream(type, 0);
    return (size_t)(linear_ceil_div(k, s.inputs) * s.bytes);
}

/* Inputs that the second stream's entries stand for, and the number of those. */
static inline int64_t linear_groups(enum k_type type, int64_t k)
{
    return linear_ceil_div(k, format_group(type));
}

/* Output o of 32, input i: index into a panel of the format. */
static inline int64_t linear_f32_at(int64_t o, int64_t i)
{
    return i * K_NR + o;
}

static inline int64_t linear_f16_at(int64_t o, int64_t i)
{
    return i * K_NR + o;
}

static inline int64_t linear_bf16_at(int64_t o, int64_t i)
{
    return i / 2 * (2 * K_NR) + o * 2 + i % 2;
}

static inline int64_t linear_int8_at(int64_t o, int64_t i)
{
    return i / 2 * (2 * K_NR) + o % 16 / 4 * 16 + o / 16 * 8 + o % 4 * 2 + i % 2;
}

static inline int64_t linear_int8g_at(int64_t o, int64_t i)
{
    return linear_int8_at(o, i);
}

static inline int64_t linear_int8c_at(int64_t o, int64_t i)
{
    return linear_int8_at(o, i);
}

static inline int64_t linear_fp8_at(int64_t o, int64_t i)
{
    return linear_int8_at(o, i);
}

/* The nibble of a panel of int4; the lower one of a byte first. */
static inline int64_t linear_int4_at(int64_t o, int64_t i)
{
    return i / 2 * (2 * K_NR) + (o % 16 * 2 + i % 2) * 2 + o / 16;
}

/* e2m1 in place of the codes, and padding 0. */
static inline int64_t linear_mxfp4_at(int64_t o, int64_t i)
{
    return linear_int4_at(o, i);
}

/* Likewise: of an input a byte has the codes of output j and, above it, of output j + 16, places in
 * a table; a group is K_NF4_GROUP inputs. */
static inline int64_t linear_nf4_at(int64_t o, int64_t i)
{
    return i * K_NR + o % 16 * 2 + o / 16;
}

/* And of nested scales: of the code's lower four bits; of int8k the byte. */
static inline int64_t linear_nested_at(enum k_type type, int64_t o, int64_t i)
{
    int64_t first = i / K_NESTED * nested_bytes(type) + nested_low_at(type, i % K_NESTED);
    return type == K_INT8K ? first + o : (first + o % 16) * 2 + o / 16;
}

/* Outputs [lo, lo + n) of a weight, as one of their own; lo is a panel's first. */
static inline struct k_weight linear_part(const struct k_weight *w, int64_t lo, int64_t n)
{
    struct k_weight part = {.type = w->type, .n = n, .k = w->k};
    part.data = (char *)w->data + k_weight_stream_bytes(w->type, 0, lo, w->k);
    part.scale = w->scale ? (char *)w->scale + k_weight_stream_bytes(w->type, 1, lo, w->k) : NULL;
    return part;
}

/* Outputs that panels [lo, hi) have. */
static inline int64_t linear_outputs(const struct k_weight *w, int64_t lo, int64_t hi)
{
    return hi <= lo ? 0 : linear_min(w->n, hi * K_NR) - lo * K_NR;
}

/* The number there, as it is stored: for int8 and int8g the code, for int4 what it is above 8. */
static inline float linear_f32_get(const void *panel, int64_t o, int64_t i)
{
    return ((const float *)panel)[linear_f32_at(o, i)];
}

static inline float linear_bf16_get(const void *panel, int64_t o, int64_t i)
{
    return bf16_to_f32(((const k_bf16 *)panel)[linear_bf16_at(o, i)]);
}

static inline float linear_f16_get(const void *panel, int64_t o, int64_t i)
{
    return f16_to_f32(((const k_f16 *)panel)[linear_f16_at(o, i)]);
}

static inline float linear_int8_get(const void *panel, int64_t o, int64_t i)
{
    return (float)linear_int8_code(((const uint8_t *)panel)[linear_int8_at(o, i)]);
}

static inline float linear_int8g_get(const void *panel, int64_t o, int64_t i)
{
    return linear_int8_get(panel, o, i);
}

static inline float linear_int8c_get(const void *panel, int64_t o, int64_t i)
{
    return coded_wide_value(K_INT8C, ((const uint8_t *)panel)[linear_int8_at(o, i)]);
}

static inline float linear_fp8_get(const void *panel, int64_t o, int64_t i)
{
    return coded_wide_value(K_FP8, ((const uint8_t *)panel)[linear_int8_at(o, i)]);
}

/* Of nested scales: the weight itself. */
static inline float linear_nested_get(enum k_type type, const void *panel, int64_t o, int64_t i)
{
    const uint8_t *block = (const uint8_t *)panel + i / K_NESTED * nested_bytes(type);
    int64_t in = i % K_NESTED;
    return nested_value(type, block, o, in, f16_to_f32(nested_f16(block, nested_d_at(type, in), o)),
                        f16_to_f32(nested_dmin(type, block, o, in)));
}

#define LINEAR_NESTED(AT, GET, TYPE)                                                               \
    static inline int64_t AT(int64_t o, int64_t i)                                                 \
    {                                                                                              \
        return linear_nested_at(TYPE, o, i);                                                       \
    }                                                                                              \
    static inline float GET(const void *panel, int64_t o, int64_t i)                               \
    {                                                                                              \
        return linear_nested_get(TYPE, panel, o, i);                                               \
    }
LINEAR_NESTED(linear_int4k_at, linear_int4k_get, K_INT4K)
LINEAR_NESTED(linear_int5k_at, linear_int5k_get, K_INT5K)
LINEAR_NESTED(linear_int6k_at, linear_int6k_get, K_INT6K)
LINEAR_NESTED(linear_int8k_at, linear_int8k_get, K_INT8K)
#undef LINEAR_NESTED

/* The lower one of a byte first. */
static inline int linear_nibble(const void *panel, int64_t at)
{
    return ((const uint8_t *)panel)[at / 2] >> at % 2 * 4 & 15;
}

static inline float linear_int4_get(const void *panel, int64_t o, int64_t i)
{
    return (float)coded_four(K_INT4, linear_nibble(panel, linear_int4_at(o, i)));
}

static inline float linear_mxfp4_get(const void *panel, int64_t o, int64_t i)
{
    return (float)coded_four(K_MXFP4, linear_nibble(panel, linear_mxfp4_at(o, i)));
}

static inline float linear_nf4_get(const void *panel, int64_t o, int64_t i)
{
    return coded_nf4_value(linear_nibble(panel, linear_nf4_at(o, i)));
}

/* Number i of output o as it is stored. */
static inline float linear_stored_at(const struct k_weight *w, int64_t o, int64_t i)
{
    const char *panel =
        (const char *)w->data + (size_t)(o / K_NR) * linear_panel_bytes(w->type, w->k);
    switch (w->type) {
#define FORMAT(name, ID, ...)                                                                      \
    case K_##ID:                                                                                   \
        return linear_##name##_get(panel, o % K_NR, i);
#include "kernels/format.def"
#undef FORMAT
    default:
        return 0;
    }
}

/* Scales are f32, or f16 where a group has two bytes for each output. */
static inline bool format_scale_is_f16(enum k_type t)
{
    return format_stream(t, 1).bytes == (int32_t)sizeof(k_f16) * K_NR;
}

/* Where the scales of a panel's group are. */
static inline const void *linear_scales(const struct k_weight *w, int64_t panel, int64_t group)
{
    const struct k_stream s = format_stream(w->type, 1);
    return (const char *)w->scale + (panel * linear_ceil_div(w->k, s.inputs) + group) * s.bytes;
}

static inline float linear_scale_get(enum k_type type, const void *scales, int64_t o)
{
    return format_scale_is_f16(type) ? f16_to_f32(((const k_f16 *)scales)[o])
                                     : ((const float *)scales)[o];
}

static inline float linear_scale_at(const struct k_weight *w, int64_t o, int64_t i)
{
    int64_t size = format_group(w->type);
    if (size == 0)
        return 1.0f;
    return linear_scale_get(w->type, linear_scales(w, o / K_NR, i / size), o % K_NR);
}

/* The weight: w[o, i]. */
static inline float linear_weight_at(const struct k_weight *w, int64_t o, int64_t i)
{
    return linear_scale_at(w, o, i) * linear_stored_at(w, o, i);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Rows x[m, k] are cut into blocks of at most LINEAR_MR rows of nearly equal height h, and a block
 * is [k][h] f32 or [k/2][h][2] bf16: what one step of a product needs is h adjacent numbers.
 * A block begins at (its first row) * (k rounded up to LINEAR_STEP) elements. Rows of codes are of
 * another order, that of kernels/q8.h. */

/* Inputs as they are stored: those of a pair that misses its second are padded. */
static inline int64_t linear_row_stored(enum k_type type, int64_t k)
{
    return format_rows(type) == K_F32 ? k : linear_ceil_div(k, LINEAR_STEP) * LINEAR_STEP;
}

static inline size_t linear_row_bytes(enum k_type type, int64_t k)
{
    if (type == K_Q8)
        return (size_t)q8_groups(k) * sizeof(struct q8_group);
    size_t elem = format_rows(type) == K_F32 ? sizeof(float) : sizeof(k_bf16);
    return (size_t)linear_row_stored(type, k) * elem;
}

struct rows_block {
    int64_t row; /* the first */
    int64_t h;   /* 1 to LINEAR_MR */
};

static inline int64_t rows_blocks(int64_t m)
{
    return linear_ceil_div(m, LINEAR_MR);
}

/* How rows are cut: the first `more` blocks have h + 1. For loops over blocks, which would divide
 * for each of them otherwise. */
struct rows_cut {
    int64_t h, more;
};

static inline struct rows_cut rows_cut_of(int64_t m)
{
    int64_t n = rows_blocks(m);
    return (struct rows_cut){.h = m / n, .more = m % n};
}

static inline struct rows_block rows_cut_at(const struct rows_cut *c, int64_t b)
{
    return (struct rows_block){.row = b * c->h + linear_min(b, c->more), .h = c->h + (b < c->more)};
}

static inline struct rows_block rows_block_at(int64_t m, int64_t b)
{
    struct rows_cut c = rows_cut_of(m);
    return rows_cut_at(&c, b);
}

/* The block that holds a row. */
static inline struct rows_block rows_block_of(int64_t m, int64_t row)
{
    int64_t n = rows_blocks(m), h = m / n, more = m % n, split = more * (h + 1);
    return rows_block_at(m, row < split ? row / (h + 1) : more + (row - split) / h);
}

/* Number i of row r of a block; type: of the rows, or of a weight that reads them. */
static inline float rows_block_number(enum k_type type, const void *rows, int64_t k,
                                      const struct rows_block *b, int64_t r, int64_t i)
{
    int64_t start = b->row * linear_row_stored(type, k);
    if (format_rows(type) == K_F32)
        return ((const float *)rows)[start + i * b->h + r];
    return bf16_to_f32(((const k_bf16 *)rows)[start + i / 2 * b->h * 2 + r * 2 + i % 2]);
}

#endif
