/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_q8 on x86, but for its arithmetic: a group of a panel's codes is opened once, in registers
 * or in the first cache, and passes some rows, whose totals wait in scratch. So the rows of a group
 * stand next to each other (kernels/q8.h), and a row alone reads its panel once from end to end.
 * The totals of few rows may stay in registers on the way.
 *
 * Thread: any; no state.
 */
#ifndef KERNELS_X86_LINEAR_Q8_H
#define KERNELS_X86_LINEAR_Q8_H

#include <string.h>

#include "kernels/linear_grid.h"
#include "kernels/x86/block.h"

enum {
    Q8_ROWS = 64,                             /* that a group's codes pass: 8 KB of totals */
    Q8_CODES_MAX = K_Q8_GROUP / 2 * 2 * K_NR, /* bytes of a panel's group, not nested */
    Q8_AHEAD_BYTES = 2 << 10                  /* some groups */
};

/* Some rows over a group of a panel. */
struct q8_call {
    const char *codes; /* of nested ones the block, else the group's */
    const char *scale; /* [32] as stored; of nested ones not used */
    int64_t at;        /* the group's first input in its block, of others: under its scale */
    const struct q8_group *x;
    int64_t h;
    int64_t stride; /* from a row's group to its next one */
    float *total;   /* [h][32], 64-aligned */
};

struct q8_isa {
    void (*group[K_TYPE_COUNT])(const struct q8_call *q);
    /* n whole groups from that of q on, whose rows stand m groups apart, for at most few_max rows;
     * NULL: by `group`, one by one. */
    void (*few[K_TYPE_COUNT])(const struct q8_call *q, int64_t m, int64_t n);
    int64_t few_max;
    /* h rows of totals to where they go. */
    void (*out)(const struct tile_out *out, int64_t h, const float *total);
    /* h rows of totals of gates, and of what they gate, to groups; NULL: no product is gated. */
    void (*gate)(const float *gate, const float *up, int64_t h, struct q8_group *to);
};

/* From a group of a panel to the next. */
struct q8_step {
    int64_t m;    /* groups of rows */
    int64_t span; /* inputs of a block, or under a scale */
    int64_t codes,
        scale; /* bytes: of nested ones a block and none, else a group's codes, a scale */
    bool is_nested;
};

static inline __attribute__((always_inline)) struct q8_step q8_step_of(enum k_type type, int64_t m)
{
    const struct k_stream codes = format_stream(type, 0);
    if (format_is_nested(type))
        return (struct q8_step){m, K_NESTED, codes.bytes, 0, true};
    return (struct q8_step){m, format_group(type), K_Q8_GROUP / codes.inputs * codes.bytes,
                            format_stream(type, 1).bytes, false};
}

/* `at` begins anew with each block, or scale. */
static inline __attribute__((always_inline)) void q8_next_group(const struct q8_step *s,
                                                                struct q8_call *q)
{
    q->x += s->m;
    q->at += K_Q8_GROUP;
    if (!s->is_nested)
        q->codes += s->codes;
    if (q->at < s->span)
        return;
    q->at = 0;
    if (s->is_nested)
        q->codes += s->codes;
    else
        q->scale += s->scale;
}

/* Few rows wait for memory: a group asks for the lines that one further on has. They are asked for
 * in the order that they stand in, so that none is left out: what a block has before its codes is
 * as much of the stream as they are. */
static inline __attribute__((always_inline)) void q8_ask(enum k_type type, const struct q8_call *q)
{
    const struct k_stream codes = format_stream(type, 0);
    const int64_t bytes = K_Q8_GROUP * codes.bytes / codes.inputs;
    const char *at = q->codes + Q8_AHEAD_BYTES;
    if (format_is_nested(type))
        at += q->at / K_Q8_GROUP * bytes;
#pragma GCC unroll 16
    for (int64_t i = 0; i < bytes; i += LINE_BYTES)
        __builtin_prefetch(at + i);
}

void q8_gate_avx512(const float *gate, const float *up, int64_t h, struct q8_group *to);
void linear_q8_run(const struct q8_isa *isa, const struct k_linear *a, const struct k_slice *s);

#endif
