/* SPDX-License-Identifier: Apache-2.0
 *
 * What a bench of a family of kernels is written with. A family is one function bench_<family> in
 * tests/kernels/bench_<family>.c and one line in the list below; it makes arguments at the shapes
 * of real models and hands each to bench_run, which times it beside the limit that binds it.
 *
 *     void bench_norm(struct bench *b)
 *     {
 *         if (!bench_wants(b, K_rmsnorm))
 *             return;
 *         float *x = bench_floats(b, m * d), ...
 *         struct k_norm args = {...};
 *         bench_run(b, &(struct bench_case){K_rmsnorm, "4096", m, &args, LIMIT_F32});
 *     }
 *
 * Thread: main.
 */
#ifndef TESTS_KERNELS_BENCH_H
#define TESTS_KERNELS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "tests/kernels/limit.h"

struct bench;

struct bench_case {
    enum kernel_id id;
    const char *shape; /* "4096x14336": what is not rows */
    int64_t rows;
    const void *args;     /* borrowed */
    enum limit_unit unit; /* which peak its arithmetic has */
    /* Memory that a call touches, when it is not the same as what the shape counts: decides the
     * level of cache whose bandwidth is the limit. 0: the shape's bytes. */
    double footprint;
};

/* The same for code that is not ours and stands beside a row: another library. */
struct bench_peer {
    const char *kernel, *variant; /* "linear_bf16", "onednn" */
    const char *shape;
    int64_t rows;
    enum limit_unit unit;
    double bytes, flops;
    void (*run)(void *ctx); /* uses the threads that it has */
    void *ctx;
    int n_thread;
};

typedef void bench_fn(struct bench *b);

bench_fn bench_rows, bench_heads, bench_linear, bench_linear_grad, bench_lora, bench_experts,
    bench_delta;
bench_fn bench_attn_decode, bench_attn_decode_short, bench_attn_decode_long, bench_attn_prompt,
    bench_attn_bwd;

/* False when the names on the command line leave this row out, or --rows this number. */
bool bench_wants(const struct bench *b, enum kernel_id id);
bool bench_wants_rows(const struct bench *b, int64_t rows);
int bench_threads(const struct bench *b);

void bench_run(struct bench *b, const struct bench_case *k);
void bench_run_peer(struct bench *b, const struct bench_peer *k);
/* Untimed, on the crew: to prepare. */
void bench_prepare(struct bench *b, enum kernel_id id, const void *args);

/* 64-aligned, freed by bench_release, which also runs when the family's function returns.
 * bench_alloc zeroes; bench_floats fills with random numbers of about 1. */
void *bench_alloc(struct bench *b, size_t bytes);
float *bench_floats(struct bench *b, int64_t n);
void bench_release(struct bench *b);

#endif
