/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a step sampled side by side: a sampler for each thread of a pool. Which thread takes
 * a row changes nothing in what comes out.
 *
 * Thread: whoever holds the pool.
 */
#ifndef ENGINE_SAMPLE_SAMPLERS_H
#define ENGINE_SAMPLE_SAMPLERS_H

#include "engine/base/pool.h"
#include "engine/sample/sampler.h"

struct samplers;

/* A row to be sampled; or, with known >= 0, to be scored for that token. */
struct sample_task {
    struct sample_row row;
    int32_t known;
    struct sample_taken taken;
    int rc; /* 0, or -1 with err */
    struct err err;
};

struct samplers *samplers_new(struct pool *pool, int64_t n_vocab,
                              const struct kernel_table *kernels, struct err *e);
void samplers_free(struct samplers *s);

/* Fills taken, rc and err of each. */
void samplers_run(struct samplers *s, struct sample_task *task, int64_t n);

#endif
