/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/ref in the place of the GPU's: what runs over the twin of CUDA's runtime has the bits of
 * the CPU with --kernels ref, so that everything around the kernels can be held against that. Or
 * the GPU's own, emulated: FAKE_CUDA_KERNELS names an object that has the face of
 * kernels/cuda/launch.h.
 *
 * An address in the arguments that is not the GPU's ends the process: a GPU would have found
 * nothing there.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/launch.h"
#include "kernels/variants.h"
#include "tests/fake/cuda/fake.h"
#include "tests/fake/cuda/pointers.h"

static const char *const names[] = {
#define KERNEL(name, text) #name,
#include "kernels/kernels.def"
#undef KERNEL
};

static _Alignas(64) char scratch[K_SCRATCH_BYTES]; /* one call runs at a time */

typedef int launch_fn(enum kernel_id k, const void *args, size_t bytes, void *stream);

static launch_fn *emulated; /* NULL: kernels/ref */
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct call {
    enum kernel_id k;
    size_t bytes;
    _Alignas(16) char args[];
};

static void start(void)
{
    const char *path = getenv("FAKE_CUDA_KERNELS");
    void *so = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!path)
        return;
    emulated = so ? (launch_fn *)(uintptr_t)dlsym(so, "cuda_launch") : NULL;
    if (emulated)
        return;
    fprintf(stderr, "fake GPU: %s\n", dlerror());
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
                names[k], at[i]);
        abort();
    }
}

static void run(void *ctx)
{
    const struct call *c = ctx;
    if (emulated) {
        if (emulated(c->k, c->args, c->bytes, NULL))
            abort();
        return;
    }
    const struct kernel_row_ref *row = &kernel_rows_ref[c->k];
    struct k_slice all = {.hi = row->shape(c->args).n_unit, .scratch = scratch};
    if (all.hi > 0)
        row->fn(c->args, &all);
}

int cuda_launch(enum kernel_id k, const void *args, size_t bytes, void *stream)
{
    struct call *c = malloc(sizeof *c + bytes);
    pthread_once(&once, start);
    check_args(k, args);
    c->k = k;
    c->bytes = bytes;
    memcpy(c->args, args, bytes);
    return (int)fake_cuda_submit(stream, run, c, free);
}
