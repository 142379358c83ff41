/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of device memory, cut by layer and by head: a text's cells lie in as many places as
 * there are heads of keys and of values, so the memory is lazy. Huge pages would be one for each of
 * these for the first token: a GiB for a model of 8 billion parameters.
 */
#include "engine/run/cells.h"

#include <stdlib.h>

#include "engine/base/mem.h"

/* Keys before values; of a convolution its rows alone. */
static struct k_kv_cache cache_of(const struct model *m, int64_t layer, int64_t n_cell, char *at)
{
    struct k_kv_cache c = {.type = model_cell_type(m, layer), .k = at, .n_cell = n_cell};
    bool is_conv = m->layer[layer].mixer != MIXER_ATTENTION;
    c.n_kv_head = is_conv ? 1 : m->layer[layer].n_kv_here;
    c.d_head = is_conv ? (int32_t)m->d_conv : m->layer[layer].d_head;
    c.v = is_conv ? NULL : at + model_cell_bytes(m, layer) / 2 * (size_t)n_cell;
    return c;
}

int cells_init(struct cells *c, const struct model *m, int64_t n_cell, bool is_shared,
               struct err *e)
{
    int64_t n_layer = m->cfg.n_layer;
    size_t at = 0;
    *c = (struct cells){.device = m->device};
    for (int64_t l = 0; l < n_layer; l++) {
        size_t bytes = model_cell_bytes(m, l) * (size_t)n_cell;
        c->bytes = !is_shared ? c->bytes + bytes : bytes > c->bytes ? bytes : c->bytes;
    }
    c->block = device_alloc_lazy(c->device, c->bytes, "the K/V cells", e);
    if (!c->block)
        return -1;
    c->kv = xcalloc((size_t)n_layer + 1, sizeof *c->kv);
    for (int64_t l = 0; l < n_layer; l++) {
        c->kv[l] = cache_of(m, l, n_cell, (char *)c->block + at);
        c->kv[l].n_layer = is_shared ? 1 : (int32_t)n_layer;
        at += is_shared ? 0 : model_cell_bytes(m, l) * (size_t)n_cell;
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
