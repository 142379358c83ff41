/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays behind a batch, twice: `host` is what the caller fills, `dev` what kernels read. Where
 * the device reads the host's memory both are the same arrays.
 *
 * Thread: whoever owns it.
 */
#ifndef ENGINE_RUN_INPUTS_H
#define ENGINE_RUN_INPUTS_H

#include "engine/device/device.h"
#include "engine/op/batch.h"

struct inputs {
    struct device *device;    /* borrowed */
    void *host_block, *block; /* owned; may be the same */
    size_t bytes;
    struct batch host, dev;
};

struct inputs_caps {
    int64_t n[DIM_COUNT], cell_stride;
    int32_t n_lora;
    bool trains; /* with the arrays that only training needs */
};

int inputs_init(struct inputs *in, const struct inputs_caps *caps, struct device *d, struct err *e);
void inputs_release(struct inputs *in);

/* Copies what was filled to the device; the batch that kernels read. */
const struct batch *inputs_send(struct inputs *in, struct stream *s);

#endif
