/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plug brings that makes a kind of device. A plug is a shared object of its own,
 * libtandem_<kind>.so (engine/base/so.h), so that one program serves machines with and without the
 * libraries behind it. It exports one symbol, `tandem_device_plug`.
 *
 * It fills a driver's table (engine/device/driver.h) as the CPU does, and carries its own copy of
 * the few functions of engine/base that it calls: it uses nothing of the program. What passes
 * between the two is laid out by these headers, so only a plug made of the same ones is taken.
 *
 * Thread: any.
 */
#ifndef ENGINE_DEVICE_PLUG_H
#define ENGINE_DEVICE_PLUG_H

#include <stddef.h>

#include "engine/base/err.h"
#include "kernels/kernels.h"

struct device;

/* A device that a plug found. */
struct device_found {
    char name[96];
    char about[96]; /* "compute 9.0, 132 units" */
    size_t bytes;   /* of its memory */
};

struct device_plug_open {
    int index;
    struct k_shape (*shape)(enum kernel_id id, const void *args); /* kernel_shape */
};

struct device_plug {
    unsigned abi; /* DEVICE_PLUG_ABI: a sum over the headers that both were made of (Makefile) */
    const char *name;

    int (*count)(struct err *e); /* of the devices here; -1: why */
    int (*look)(int index, struct device_found *out, struct err *e);
    struct device *(*open)(const struct device_plug_open *o, struct err *e);
    /* 0, and what carries bytes between several: "NCCL 2.28.9"; -1: why nothing does. */
    int (*rails)(char *about, size_t size, struct err *e);
};

#define DEVICE_PLUG_SYMBOL "tandem_device_plug"

#endif
