/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of K/V cells: for each layer, or for all layers in turn, a run of cells of every head.
 *
 * Thread: whoever owns it.
 */
#ifndef ENGINE_RUN_CELLS_H
#define ENGINE_RUN_CELLS_H

#include "engine/model/model.h"

struct cells {
    struct device *device; /* borrowed */
    void *block;           /* owned: device memory */
    struct k_kv_cache *kv; /* owned: [n_layer] */
    size_t bytes;
};

/* n_cell cells of K_CELL tokens; is_shared: one run for all layers, each of which is done with it
 * before the next begins. */
int cells_init(struct cells *c, const struct model *m, int64_t n_cell, bool is_shared,
               struct err *e);
void cells_release(struct cells *c);

#endif
