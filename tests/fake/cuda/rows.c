/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU's kernels in the place of the GPU's: what runs over the twin of CUDA's runtime with these
 * has the CPU's bits, so that everything around the kernels can be held against the CPU's device.
 *
 * An address in the arguments that is not the GPU's ends the process: a GPU would have found
 * nothing there.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/launch.h"
#include "tests/fake/cuda/fake.h"
#include "tests/fake/cuda/pointers.h"

static struct kernel_table table;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Alignas(64) char scratch[K_SCRATCH_BYTES]; /* one call runs at a time */

struct call {
    enum kernel_id k;
    _Alignas(16) char args[];
};

static void start(void)
{
    if (kernel_table_init(&table, getenv("FAKE_CUDA_KERNELS")))
        abort();
}

static void check_args(enum kernel_id k, const void *args)
{
    size_t at[POINTER_MAX];
    int n = pointers_of(k, at);
    for (int i = 0; i < n; i++) {
        const void *p;
        memcpy(&p, (const char *)args + at[i], sizeof p);
        if (!p || fake_memory_is_near(p))
            continue;
        fprintf(stderr, "fake GPU: %s: byte %zu of its arguments is no address of the GPU's\n",
                kernel_name(k), at[i]);
        abort();
    }
}

static void run(void *ctx)
{
    const struct call *c = ctx;
    kernel_run(&table, c->k, c->args, scratch);
}

int cuda_launch(enum kernel_id k, const void *args, size_t bytes, void *stream)
{
    struct call *c = malloc(sizeof *c + bytes);
    pthread_once(&once, start);
    check_args(k, args);
    c->k = k;
    memcpy(c->args, args, bytes);
    return (int)fake_cuda_submit(stream, run, c, free);
}
