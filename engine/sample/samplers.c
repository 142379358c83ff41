/* SPDX-License-Identifier: Apache-2.0
 *
 * One job of the pool, a unit per row.
 */
#include "engine/sample/samplers.h"

#include <stdlib.h>

#include "engine/base/mem.h"

struct samplers {
    struct pool *pool; /* borrowed */
    int n;
    struct sampler *at[]; /* owned: [n], by the pool's threads */
};

struct samplers *samplers_new(struct pool *pool, int64_t n_vocab,
                              const struct kernel_table *kernels, struct err *e)
{
    int n = pool_size(pool);
    struct samplers *s = xcalloc(1, sizeof *s + (size_t)n * sizeof(struct sampler *));
    *s = (struct samplers){.pool = pool, .n = n};
    for (int i = 0; i < n; i++) {
        s->at[i] = sampler_new(n_vocab, kernels, e);
        if (!s->at[i]) {
            samplers_free(s);
            return NULL;
        }
    }
    return s;
}

void samplers_free(struct samplers *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        sampler_free(s->at[i]);
    free(s);
}

struct job {
    struct samplers *samplers;
    struct sample_task *task;
};

static void run(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct job *j = ctx;
    struct sampler *s = j->samplers->at[thread];
    for (int64_t i = lo; i < hi; i++) {
        struct sample_task *t = &j->task[i];
        t->rc = t->known < 0 ? sampler_next(s, &t->row, &t->taken, &t->err)
                             : sampler_score_row(s, &t->row, t->known, &t->taken, &t->err);
    }
}

void samplers_run(struct samplers *s, struct sample_task *task, int64_t n)
{
    pool_run(s->pool, run, &(struct job){s, task}, n, 1);
}
