/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking memory for the adapters that are applied behind a product, while the product computes. The
 * adapters of a step are many times a core's cache, each of them some runs of ten kilobytes that
 * are read once: by themselves they wait for memory, which the products between them leave idle.
 *
 * All that is to come is one row of bytes, adapter after adapter, of which each block of the
 * product brings an equal share, in order. What would not stay in the last cache is left to its
 * time.
 *
 * Thread: any; a walk belongs to a slice.
 */
#ifndef KERNELS_X86_SOON_H
#define KERNELS_X86_SOON_H

#include "kernels/x86/block.h"

struct soon {
    const struct k_soon *of; /* borrowed */
    int64_t bytes, n_share;  /* 0 bytes: nothing is wanted */
    int64_t part, first;     /* where the walk is: of the tables' groups; that one's first byte */
};

enum { SOON_PACE_MAX = 64 }; /* of a product's own run, beside which there is room for another */

/* Bytes [lo, hi) of all that is to come. */
struct soon_share {
    int64_t lo, hi;
};

void soon_init(struct soon *s, const struct k_soon *of, int64_t n_share);
struct soon_share soon_share(const struct soon *s, int64_t i);

/* Cuts a run off the beginning of a share, which is not empty; where it stands in memory. Shares
 * that ascend are found at once. */
const char *soon_cut(struct soon *s, struct soon_share *share, int64_t *bytes);

#endif
