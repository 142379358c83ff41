/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps whose launches are kept, on a device that can give them again in one call. A launch has the
 * step's counts in its arguments, so a step is kept for its counts: from the second time that they
 * come, up to KEPT_MAX, then the one that was not used for longest goes. Only steps of decoding,
 * one token of each sequence, are worth it: they are many, alike and short.
 *
 * Thread: that of the plan it belongs to.
 */
#ifndef ENGINE_GRAPH_KEPT_H
#define ENGINE_GRAPH_KEPT_H

#include "engine/device/device.h"
#include "engine/op/batch.h"

enum { KEPT_MAX = 64 };

struct kept_step {
    int64_t n[DIM_COUNT];
    struct replay *replay; /* owned; NULL: seen once, or not to be kept */
    uint64_t used_at;
    bool is_refused;
};

struct kept {
    struct kept_step at[KEPT_MAX];
    int n;
    uint64_t turn;
};

void kept_release(struct kept *k);

/* The place for a step of these counts; *is_new: it came for the first time in long. */
struct kept_step *kept_get(struct kept *k, const int64_t *n, bool *is_new);

#endif
