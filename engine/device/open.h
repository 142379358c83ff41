/* SPDX-License-Identifier: Apache-2.0
 *
 * Which device it is to be: the CPU, or a GPU where the plug and its driver are.
 *
 * Thread: any.
 */
#ifndef ENGINE_DEVICE_OPEN_H
#define ENGINE_DEVICE_OPEN_H

#include "engine/device/device.h"
#include "engine/device/plug.h"

struct device_options {
    const char *want;    /* "cpu", "cuda", or "auto" and NULL: a GPU where there is one */
    int index;           /* among the GPUs; counted round */
    struct pool *pool;   /* borrowed: the CPU's threads */
    const char *kernels; /* as in kernel_table_init: of the CPU, and of the host beside a GPU */
};

struct device *device_open(const struct device_options *o, struct err *e);

/* libtandem_cuda.so, or the file that TANDEM_CUDA_PLUG names; NULL: there is none that fits, or no
 * driver for it. */
const struct device_plug *device_plug_get(struct err *e);

#endif
