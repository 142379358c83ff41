/* SPDX-License-Identifier: Apache-2.0
 *
 * See order.h. Parameters point into the list: its room is that of all there can be.
 */
#include "engine/model/order.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { ALIGN_BYTES = 64 };

static size_t bytes_of(const struct model_order *o)
{
    return (size_t)o->of.k * sizeof *o->at;
}

static size_t room_of(const struct model_order *o)
{
    return (bytes_of(o) + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

int model_order_add(struct model *m, struct param *p, const int32_t *at, struct err *e)
{
    struct model_order *last = m->n_order ? &m->order[m->n_order - 1] : NULL;
    if (last && last->of.k == p->k && memcmp(last->at, at, bytes_of(last)) == 0) {
        p->order = &last->of;
        return 0;
    }
    if (!m->order)
        m->order = xcalloc((size_t)m->n_param, sizeof *m->order);
    struct model_order *o = &m->order[m->n_order];
    o->at = try_alloc((size_t)p->k, sizeof *o->at, "the order of inputs", e);
    if (!o->at)
        return -1;
    m->n_order++;
    o->of.k = p->k;
    memcpy(o->at, at, bytes_of(o));
    p->order = &o->of;
    return 0;
}

size_t model_order_bytes(const struct model *m)
{
    size_t n = 0;
    for (int32_t i = 0; i < m->n_order; i++)
        n += room_of(&m->order[i]);
    return n;
}

int model_order_put(struct model *m, char *memory, struct err *e)
{
    struct stream *s = m->n_order ? stream_new(m->device, e) : NULL;
    if (!s)
        return m->n_order ? -1 : 0;
    for (int32_t i = 0; i < m->n_order; i++) {
        struct model_order *o = &m->order[i];
        o->of.at = (int32_t *)(void *)memory;
        stream_copy(s, memory, o->at, bytes_of(o), COPY_TO_DEVICE);
        memory += room_of(o);
    }
    int rc = stream_sync(s, e);
    stream_free(s);
    return rc;
}

void model_order_release(struct model *m)
{
    for (int32_t i = 0; i < m->n_order; i++)
        mem_free(m->order[i].at);
    free(m->order);
}
