/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of device memory, cut by layer.
 */
#include "engine/run/cells.h"

#include <stdlib.h>

#include "engine/base/mem.h"

int cells_init(struct cells *c, const struct model *m, int64_t n_cell, bool is_shared,
               struct err *e)
{
    const struct config *cfg = &m->cfg;
    size_t head = k_kv_cell_bytes(m->kv_type, cfg->d_head);
    size_t half = head * (size_t)m->n_kv_head * (size_t)n_cell;
    int64_t n_run = is_shared ? 1 : cfg->n_layer;
    *c = (struct cells){.device = m->device, .bytes = 2 * half * (size_t)n_run};
    c->block = device_alloc(c->device, c->bytes, "the K/V cells", e);
    if (!c->block)
        return -1;
    c->kv = xcalloc((size_t)cfg->n_layer + 1, sizeof *c->kv);
    for (int64_t l = 0; l < cfg->n_layer; l++) {
        char *at = (char *)c->block + 2 * half * (size_t)(is_shared ? 0 : l);
        c->kv[l] = (struct k_kv_cache){.type = m->kv_type,
                                       .k = at,
                                       .v = at + half,
                                       .n_kv_head = m->n_kv_head,
                                       .d_head = cfg->d_head,
                                       .n_cell = n_cell,
                                       .n_layer = (int32_t)n_run};
    }
    return 0;
}

void cells_release(struct cells *c)
{
    if (c->device)
        device_mem_free(c->device, c->block);
    free(c->kv);
    *c = (struct cells){0};
}
