/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine can do at most: bytes read per second out of memory, of the last cache, of the
 * second; products and sums per second in f32, bf16 and int8. On a shared machine these jump from
 * one moment to the next, so a limit is not a number but something to measure again beside every
 * figure: limit_memory and limit_peak are samples of a millisecond or two.
 *
 * The way of reading (how many streams, how far ahead to prefetch) is chosen once, for the best.
 *
 * Thread: main, with the crew it was made for.
 */
#ifndef TESTS_KERNELS_LIMIT_H
#define TESTS_KERNELS_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "tests/kernels/crew.h"

enum limit_level { LIMIT_DRAM, LIMIT_L3, LIMIT_L2, LIMIT_LEVELS };
enum limit_unit { LIMIT_F32, LIMIT_BF16, LIMIT_INT8, LIMIT_UNITS };

struct limits;

struct limits *limits_new(struct crew *w); /* w: borrowed, outlives it. Takes about a second */
void limits_free(struct limits *l);

/* Where a working set of so many bytes, shared out over the crew, lies when it is used again and
 * again. */
enum limit_level limits_level(const struct limits *l, double bytes);
double limits_memory(struct limits *l, enum limit_level level); /* bytes per second, a sample */
double limits_peak(struct limits *l, enum limit_unit unit);     /* operations per second */
const char *limits_method(const struct limits *l);              /* the way of reading, in words */
double limits_now(void);                                        /* seconds, monotonic */

/* ---- the loops, by instruction set: limit_avx512.c, limit_avx2.c, limit_plain.c ---- */

/* Reads n bytes (a multiple of 8192) in `streams` runs at once (1, 2, 4, 8), prefetching `ahead`
 * bytes (0: not). The value keeps the reads alive. */
typedef uint64_t limit_read_fn(const void *p, size_t n, int streams, size_t ahead);
/* Runs `rounds`; returns how many operations those were. */
typedef double limit_dot_fn(int64_t rounds);

limit_read_fn limit_read_plain, limit_read_avx2, limit_read_avx512;
limit_dot_fn limit_f32_plain, limit_f32_avx2, limit_f32_avx512;
limit_dot_fn limit_bf16_avx512, limit_int8_avx512;

#endif
