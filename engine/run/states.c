/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of device memory, cut by layer.
 */
#include "engine/run/states.h"

#include <stdlib.h>

#include "engine/base/mem.h"

int states_init(struct states *s, const struct model *m, int64_t n, struct err *e)
{
    *s = (struct states){.device = m->device, .n = n};
    s->bytes = model_state_bytes(m) * (size_t)n;
    if (!s->bytes)
        return 0;
    s->block = device_alloc_lazy(s->device, s->bytes, "the recurrent states", e);
    if (!s->block)
        return -1;
    s->at = xcalloc((size_t)m->cfg.n_layer, sizeof *s->at);
    char *at = s->block;
    for (int64_t l = 0; l < m->cfg.n_layer; l++) {
        size_t bytes = model_layer_state_bytes(m, l) * (size_t)n;
        s->at[l] = bytes ? (float *)(void *)at : NULL;
        at += bytes;
    }
    return 0;
}

void states_release(struct states *s)
{
    if (s->device)
        device_mem_free(s->device, s->block);
    free(s->at);
    *s = (struct states){0};
}

void states_by_order(struct batch *b)
{
    for (int32_t i = 0; i < b->n[DIM_SEQ]; i++) {
        b->state_from[i] = b->pos[b->q_start[i]] ? i : -1;
        b->state_to[i] = i;
        b->state_kept[i] = -1;
        b->state_kept_len[i] = 0;
    }
}
