/* SPDX-License-Identifier: Apache-2.0
 *
 * A plug is opened only where the GPU's driver is: it brings large libraries, and without a driver
 * they could say no more than that.
 */
#include "engine/device/open.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/so.h"
#include "engine/device/driver.h"

enum { WHY_BYTES = 300 };

static bool has_driver(void)
{
    void *so = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (so)
        dlclose(so);
    return so != NULL;
}

const struct device_plug *device_plug_get(struct err *e)
{
    const char *path = getenv("TANDEM_CUDA_PLUG");
    char why[WHY_BYTES];
    if (!path && !has_driver()) {
        err_set(e, ERR_UNSUPPORTED, "there is no driver of a GPU here (libcuda.so.1)");
        return NULL;
    }
    void *so =
        path ? so_open_at(path, false, why, sizeof why) : so_open("cuda", false, why, sizeof why);
    const struct device_plug *p = so ? dlsym(so, DEVICE_PLUG_SYMBOL) : NULL;
    if (p && p->abi == DEVICE_PLUG_ABI)
        return p;
    err_set(e, ERR_UNSUPPORTED, "%s: %s", path ? path : "libtandem_cuda.so",
            so ? "it was made of other headers than this program: build both again" : why);
    return NULL;
}

static struct device *open_cuda(const struct device_options *o, struct err *e)
{
    const struct device_plug *p = device_plug_get(e);
    int n = p ? p->count(e) : -1;
    if (n < 0)
        return NULL;
    if (n == 0) {
        err_set(e, ERR_UNSUPPORTED, "there is a driver here, and no GPU");
        return NULL;
    }
    struct device_plug_open po = {.index = o->index % n, .shape = kernel_shape};
    struct device *d = p->open(&po, e);
    if (d && kernel_table_init(&d->kernels, o->kernels)) {
        err_set(e, ERR_UNSUPPORTED, "kernels %s: unknown, or more than this CPU has", o->kernels);
        device_free(d);
        return NULL;
    }
    return d;
}

struct device *device_open(const struct device_options *o, struct err *e)
{
    const char *want = o->want ? o->want : "auto";
    struct err why = ERR_INIT; /* with auto nobody asked for a GPU */
    struct device *d = NULL;
    if (strcmp(want, "cuda") == 0) {
        d = open_cuda(o, e);
        if (!d)
            err_wrap(e, "--device cuda");
        return d;
    }
    if (strcmp(want, "auto") == 0)
        d = open_cuda(o, &why);
    return d ? d : device_cpu_new(o->pool, o->kernels, e);
}
