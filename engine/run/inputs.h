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
    void *host_other;         /* owned: what host_block was, or will be; NULL: there is but one */
    size_t bytes;
    struct batch host, dev;
};

struct inputs_caps {
    int64_t n[DIM_COUNT], cell_stride;
    int32_t n_lora;
    int64_t n_top;   /* of struct batch_top */
    bool trains;     /* with the arrays that only training needs */
    bool has_turns;  /* the table of rotary positions has two forms */
    bool has_states; /* layers with a recurrent state */
    bool goes_ahead; /* a step is filled while the one before is on its way */
};

int inputs_init(struct inputs *in, const struct inputs_caps *caps, struct device *d, struct err *e);
void inputs_release(struct inputs *in);

/* Where steps go ahead: what is filled from now on is other memory than what was sent last. The
 * counts and what is no array stay. */
void inputs_turn(struct inputs *in, const struct inputs_caps *caps);

/* Copies what was filled to the device; the batch that kernels read. */
const struct batch *inputs_send(struct inputs *in, struct stream *s);

#endif
