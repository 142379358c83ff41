/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the kernels of a GPU, or their emulation, and makes a table of them.
 */
#include "tests/kernels/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The functions of kernels/cuda/launch.h and tests/cuda_emu/emu.h, found by name. */
static struct {
    int (*launch)(enum kernel_id, const void *, size_t, void *);
    int (*map)(void *, size_t);
    int (*unmap)(void *);
    int (*wait)(void);
    void (*order)(int);
} gpu;

static void *find(void *lib, const char *name)
{
    void *f = dlsym(lib, name);
    if (!f && strcmp(name, "emu_order") != 0) {
        fprintf(stderr, "tandem-kernels: %s\n", dlerror());
        abort();
    }
    return f;
}

static void run(enum kernel_id id, const void *args)
{
    int e = gpu.launch(id, args, 0, NULL);
    e = e ? e : gpu.wait();
    if (e) {
        fprintf(stderr, "tandem-kernels: %s: CUDA answers %d\n", kernel_name(id), e);
        abort();
    }
}

#define KERNEL(name, text)                                                                         \
    static void name##_gpu(const void *args, const struct k_slice *s)                              \
    {                                                                                              \
        (void)s;                                                                                   \
        run(K_##name, args);                                                                       \
    }
#include "kernels/kernels.def"
#undef KERNEL

static kernel_fn *const rows[KERNEL_COUNT] = {
#define KERNEL(name, text) [K_##name] = name##_gpu,
#include "kernels/kernels.def"
#undef KERNEL
};

static void *lib_open(void)
{
    char exe[4096] = "", path[4096 + 64];
    const char *named = getenv("TANDEM_CUDA_KERNELS");
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    const char *slash = n > 0 ? strrchr(exe, '/') : NULL;
    if (named)
        snprintf(path, sizeof path, "%s", named);
    else
        snprintf(path, sizeof path, "%.*s/libtandem_cuda_emu.so", slash ? (int)(slash - exe) : 0,
                 exe);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib && (named || access(path, F_OK) == 0)) {
        fprintf(stderr, "tandem-kernels: %s\n", dlerror());
        abort();
    }
    return lib;
}

bool gpu_open(struct kernel_table *t)
{
    memset(t, 0, sizeof *t);
    void *lib = lib_open(); /* stays open */
    if (!lib)
        return false;
    *(void **)&gpu.launch = find(lib, "cuda_launch");
    *(void **)&gpu.map = find(lib, "cuda_host_map");
    *(void **)&gpu.unmap = find(lib, "cuda_host_unmap");
    *(void **)&gpu.wait = find(lib, "cuda_wait");
    *(void **)&gpu.order = find(lib, "emu_order");
    for (int id = 0; id < KERNEL_COUNT; id++) {
        t->fn[id] = rows[id];
        t->variant[id] = "cuda";
    }
    return true;
}

static void must(const char *what, int e)
{
    if (e == 0)
        return;
    fprintf(stderr, "tandem-kernels: %s: CUDA answers %d\n", what, e);
    abort();
}

void gpu_map(void *p, size_t bytes)
{
    if (gpu.map && bytes)
        must("mapping a buffer", gpu.map(p, bytes));
}

void gpu_unmap(void *p)
{
    if (gpu.unmap)
        must("unmapping a buffer", gpu.unmap(p));
}

bool gpu_order(int order)
{
    if (gpu.order)
        gpu.order(order);
    return gpu.order != NULL;
}
