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
#ifndef KERNELS_X86_PREFETCH_H
#define KERNELS_X86_PREFETCH_H

#include "kernels/x86/block.h"

struct prefetch {
    const struct k_prefetch *of; /* borrowed */
    int64_t bytes, n_share;      /* 0 bytes: nothing is wanted */
    int64_t part, first; /* where the walk is: of the tables' groups; that one's first byte */
};

enum { SOON_PACE_MAX = 64 }; /* of a product's own run, beside which there is room for another */

/* Bytes [lo, hi) of all that is to come. */
struct prefetch_share {
    int64_t lo, hi;
};

void prefetch_init(struct prefetch *s, const struct k_prefetch *of, int64_t n_share);
struct prefetch_share prefetch_share(const struct prefetch *s, int64_t i);

/* Cuts a run off the beginning of a share, which is not empty; where it stands in memory. Shares
 * that ascend are found at once. */
const char *prefetch_cut(struct prefetch *s, struct prefetch_share *share, int64_t *bytes);

#endif
