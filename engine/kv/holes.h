/* SPDX-License-Identifier: Apache-2.0
 *
 * Which cells are free, as bits, and where a run of them lies. A sequence's cells are read as one
 * stream where they stand in a row, so a run that a sequence has begun is claimed as far as it is
 * expected to grow; others begin elsewhere while there is an elsewhere. A claim is a wish: it keeps
 * no cell from anybody who finds no other.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_KV_HOLES_H
#define ENGINE_KV_HOLES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct kv_holes {
    uint64_t *free, *claimed; /* owned: one block, a bit for each cell */
    int64_t n_cell, n_free;
};

struct kv_run {
    int64_t at, n;
};

int kv_holes_init(struct kv_holes *h, int64_t n_cell, struct err *e); /* all free */
void kv_holes_release(struct kv_holes *h);

bool kv_holes_has(const struct kv_holes *h, int64_t cell); /* a free one; any number may be asked */
void kv_holes_take(struct kv_holes *h, int64_t cell);
void kv_holes_give(struct kv_holes *h, int64_t cell);
void kv_holes_claim(struct kv_holes *h, struct kv_run r, bool is_claimed);

/* The first unclaimed run of n cells; else the longest unclaimed one; else the far half of the
 * longest claimed one, at most n. Of length 0 where nothing is free. */
struct kv_run kv_holes_find(const struct kv_holes *h, int64_t n);

#endif
