/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels on rows and elements at the hidden sizes of real models. One row is a step of decoding
 * one stream, 32 of many, 512 a prompt.
 */
#include "tests/kernels/bench.h"

#include <stdio.h>

static const int64_t hidden[] = {576, 896, 2048, 4096};
static const int64_t rows[] = {1, 32, 512};
enum { N_HIDDEN = 4, N_ROWS = 3, MOST = 512 * 4096 };

static void binary_bench(struct bench *b, enum kernel_id id)
{
    float *x = bench_floats(b, MOST), *y = bench_floats(b, MOST), *z = bench_floats(b, MOST);
    for (int i = 0; i < N_HIDDEN * N_ROWS; i++) {
        int64_t d = hidden[i / N_ROWS], m = rows[i % N_ROWS];
        char shape[32];
        snprintf(shape, sizeof shape, "%d", (int)d);
        struct k_binary args = {
            .a = x, .b = y, .y = z, .ld_a = d, .ld_b = d, .ld_y = d, .m = m, .d = d};
        bench_run(b, &(struct bench_case){id, shape, m, &args, LIMIT_F32, 0});
    }
}

void bench_rows(struct bench *b)
{
    static const enum kernel_id binary[] = {K_add, K_mul};
    for (int i = 0; i < 2; i++) {
        if (bench_wants(b, binary[i]))
            binary_bench(b, binary[i]);
    }
}
