/* SPDX-License-Identifier: Apache-2.0
 *
 * The leader's side.
 */
#include "engine/run/lead.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/run/order.h"

static int send(struct comm *c, struct order *o, struct err *e)
{
    return order_pass(c, o, sizeof *o, false, e);
}

int lead_init(struct lead *l, struct batch *b, const struct runner_options *o,
              const struct model *m, struct err *e)
{
    struct order order = {.kind = ORDER_RUNNER, .runner = *o};
    *l = (struct lead){.batch = b};
    if (!m->part)
        return 0;
    l->comm = m->ranks.comm;
    if (m->ranks.rank > 0)
        return 0;
    l->room_bytes = order_batch_room(b, o->cap);
    l->room = try_alloc(l->room_bytes, 1, "a batch for other ranks", e);
    if (!l->room)
        return -1;
    l->leads = true;
    return send(l->comm, &order, e);
}

void lead_release(struct lead *l)
{
    struct order order = {.kind = ORDER_FREE};
    struct err e = ERR_INIT;
    if (l->leads)
        send(l->comm, &order, &e); /* or they are gone already */
    mem_free(l->room);
    *l = (struct lead){0};
}

int lead_step(struct lead *l, struct err *e)
{
    struct order order = {.kind = ORDER_STEP};
    if (!l->leads)
        return 0;
    memcpy(order.n, l->batch->n, sizeof order.n);
    order.bytes = order_batch_put(l->batch, l->room);
    ASSERT(order.bytes <= l->room_bytes);
    return send(l->comm, &order, e) || order_pass(l->comm, l->room, order.bytes, false, e) ? -1 : 0;
}

/* What a rank left out of a step the others would wait for, or take the next step's for it. */
int lead_end(const struct lead *l, struct stream *s, int rc, struct err *e)
{
    if (!l->comm)
        return rc;
    if (!rc && !stream_state(s, e))
        return comm_check(l->comm, e);
    comm_abort(l->comm, e->msg);
    return -1;
}

/* ---- without a runner ------------------------------------------------------------------------ */

static bool leads(const struct model *m)
{
    return m->part && m->ranks.rank == 0;
}

/* The numbers are the caller's, and only read. */
static int send_floats(struct comm *c, const float *x, int64_t n, struct err *e)
{
    return order_pass(c, (void *)(uintptr_t)x, (size_t)n * sizeof *x, false, e);
}

static const struct param *product_of(const struct model *m, int32_t product)
{
    int32_t i = 0;
    while (m->param[i].lora != product)
        i++;
    return &m->param[i];
}

static int send_halves(const struct model *m, const struct adapter_news *n, struct err *e)
{
    const struct param *p = product_of(m, n->product);
    struct comm *c = m->ranks.comm;
    int64_t rank = n->at->rank;
    return send_floats(c, n->a, param_half_rows(p, false, rank) * p->k, e) ||
                   send_floats(c, n->b, param_half_rows(p, true, rank) * rank, e)
               ? -1
               : 0;
}

/* Fails where any rank has failed; all know then. */
static int all_have_it(struct comm *c, struct err *e)
{
    float n_failed = 0;
    if (comm_all_reduce(c, &n_failed, 1, e))
        return -1;
    if (n_failed > 0)
        return err_set(e, ERR_NO_MEMORY, "%g of %d ranks have no memory for this adapter",
                       (double)n_failed, comm_size(c));
    return 0;
}

int lead_adapter(const struct model *m, const struct adapter_news *n, struct err *e)
{
    struct order order = {.kind = ORDER_ADAPTER};
    order.adapter.kind = n->kind;
    order.adapter.product = n->product;
    order.adapter.version = n->version;
    if (!leads(m))
        return 0;
    if (send(m->ranks.comm, &order, e))
        return -1;
    switch (n->kind) {
    case ADAPTER_NEW:
        return order_pass(m->ranks.comm, (void *)(uintptr_t)n->at,
                          (size_t)m->n_lora * sizeof *n->at, false, e);
    case ADAPTER_HALVES:
        return send_halves(m, n, e);
    case ADAPTER_READY:
        return all_have_it(m->ranks.comm, e);
    case ADAPTER_GONE:
        break;
    }
    return 0;
}

int lead_ping(const struct model *m, bool is_watched, struct err *e)
{
    struct order order = {.kind = ORDER_PING, .is_watched = is_watched};
    float n = 0;
    if (!leads(m))
        return 0;
    return send(m->ranks.comm, &order, e) || comm_all_reduce(m->ranks.comm, &n, 1, e) ? -1 : 0;
}

void lead_dismiss(const struct model *m)
{
    struct order order = {.kind = ORDER_DISMISS};
    struct err e = ERR_INIT;
    if (leads(m))
        send(m->ranks.comm, &order, &e);
}
