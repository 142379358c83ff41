/* SPDX-License-Identifier: Apache-2.0
 *
 * A follower's side. Its adapters are known by their versions. What fails for want of memory while
 * an adapter comes is kept until rank 0 asks; everything else that fails breaks the group.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/gate.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/run/lead.h"
#include "engine/run/order.h"

struct follower {
    const struct model *model;
    struct comm *comm;
    struct stream *stream;
    struct gate *gate;     /* borrowed; NULL: nobody else computes */
    struct runner *runner; /* owned */
    char *room;            /* owned */
    size_t room_bytes;
    bool is_watched;
    VEC(struct adapter *) adapter; /* counted */
    struct adapter_budget budget;
    struct adapter_product *coming; /* owned: [n_lora] of the adapter on its way */
    bool has_failed;                /* to take it */
};

static int receive(struct follower *f, void *x, size_t bytes, struct err *e)
{
    return order_pass(f->comm, x, bytes, false, e);
}

/* ---- runners and steps ----------------------------------------------------------------------- */

static int make_runner(struct follower *f, const struct runner_options *o, struct err *e)
{
    if (f->runner)
        return err_set(e, ERR_UNSUPPORTED, "ranks have one runner at a time");
    f->runner = runner_new(f->model, o, f->stream, e);
    if (!f->runner)
        return -1;
    f->room_bytes = order_batch_room(runner_batch(f->runner), o->cap);
    f->room = try_alloc(f->room_bytes, 1, "a batch of another rank", e);
    return f->room ? 0 : -1;
}

static void free_runner(struct follower *f)
{
    runner_free(f->runner);
    mem_free(f->room);
    f->runner = NULL;
    f->room = NULL;
}

static size_t find(const struct follower *f, uint64_t version)
{
    size_t i = 0;
    while (i < f->adapter.n && adapter_version(f->adapter.at[i]) != version)
        i++;
    return i;
}

static int step(struct follower *f, const struct order *o, struct err *e)
{
    struct op_view out;
    const struct order_group *group;
    ASSERT(f->runner && o->bytes <= f->room_bytes);
    if (receive(f, f->room, o->bytes, e))
        return -1;
    struct batch *b = runner_batch(f->runner);
    memcpy(b->n, o->n, sizeof b->n);
    order_batch_get(b, f->room, &group);
    for (int64_t i = 0; i < b->n[DIM_GROUP]; i++) {
        size_t at = find(f, group[i].version);
        ASSERT(!group[i].version || at < f->adapter.n);
        adapter_group(f->model, group[i].version ? f->adapter.at[at] : NULL, group[i].row_lo,
                      group[i].row_hi, b, i);
    }
    if (f->gate)
        gate_enter(f->gate, GATE_SERVE);
    int rc = runner_step(f->runner, &out, e) || stream_sync(f->stream, e) ? -1 : 0;
    if (f->gate)
        gate_leave(f->gate, GATE_SERVE);
    return rc;
}

/* ---- adapters -------------------------------------------------------------------------------- */

static int take_new(struct follower *f, uint64_t version, struct err *e)
{
    struct err why = ERR_INIT;
    struct adapter_options o = {
        .name = "", .version = version, .rank_max = INT64_MAX, .budget = &f->budget};
    if (receive(f, f->coming, (size_t)f->model->n_lora * sizeof *f->coming, e))
        return -1;
    struct adapter *a = adapter_new(f->model, f->coming, &o, &why);
    f->has_failed = !a;
    if (a)
        vec_push(&f->adapter, a);
    else
        log_event(LOG_ERROR, "no room for an adapter", LOG_TEXT("why", why.msg));
    return 0;
}

static int take_halves(struct follower *f, const struct order *o, struct err *e)
{
    const struct param *p = f->model->param;
    struct err why = ERR_INIT;
    while (p->lora != o->adapter.product)
        p++;
    int64_t rank = f->coming[p->lora].rank;
    size_t n_a = (size_t)(param_half_rows(p, false, rank) * p->k);
    size_t n_b = (size_t)(param_half_rows(p, true, rank) * rank);
    float *half = try_alloc(n_a + n_b, sizeof *half, "an adapter's halves", e);
    if (!half)
        return -1; /* what comes must be taken: without room for it there is no going on */
    int rc =
        receive(f, half, n_a * sizeof *half, e) || receive(f, half + n_a, n_b * sizeof *half, e)
            ? -1
            : 0;
    size_t at = find(f, o->adapter.version);
    if (!rc && at < f->adapter.n &&
        adapter_fill(f->adapter.at[at], p->lora, half, half + n_a, &why))
        f->has_failed = true;
    mem_free(half);
    return rc;
}

static void drop(struct follower *f, uint64_t version)
{
    size_t at = find(f, version);
    if (at == f->adapter.n)
        return;
    adapter_unref(f->adapter.at[at]);
    f->adapter.at[at] = f->adapter.at[f->adapter.n - 1];
    f->adapter.n--;
}

static int take_adapter(struct follower *f, const struct order *o, struct err *e)
{
    float n_failed = f->has_failed;
    switch ((enum adapter_news_kind)o->adapter.kind) {
    case ADAPTER_NEW:
        return take_new(f, o->adapter.version, e);
    case ADAPTER_HALVES:
        return take_halves(f, o, e);
    case ADAPTER_READY:
        return comm_all_reduce(f->comm, &n_failed, 1, e);
    case ADAPTER_GONE:
        drop(f, o->adapter.version);
        break;
    }
    return 0;
}

/* ---- the life -------------------------------------------------------------------------------- */

static int answer_ping(struct follower *f, const struct order *o, struct err *e)
{
    float n = 0;
    f->is_watched = o->is_watched;
    return comm_all_reduce(f->comm, &n, 1, e);
}

static int obey(struct follower *f, const struct order *o, struct err *e)
{
    switch ((enum order_kind)o->kind) {
    case ORDER_RUNNER:
        return make_runner(f, &o->runner, e);
    case ORDER_STEP:
        return step(f, o, e);
    case ORDER_FREE:
        free_runner(f);
        return 0;
    case ORDER_ADAPTER:
        return take_adapter(f, o, e);
    case ORDER_PING:
        return answer_ping(f, o, e);
    case ORDER_DISMISS:
        break;
    }
    return 0;
}

static void release(struct follower *f)
{
    free_runner(f);
    while (f->adapter.n)
        adapter_unref(vec_pop(&f->adapter));
    vec_release(&f->adapter);
    free(f->coming);
}

int follow(const struct model *m, struct stream *s, struct gate *gate, struct err *e)
{
    struct follower f = {.model = m,
                         .comm = m->ranks.comm,
                         .stream = s,
                         .gate = gate,
                         .budget = {.bytes_max = SIZE_MAX},
                         .coming = xcalloc((size_t)m->n_lora + 1, sizeof *f.coming)};
    struct order order = {.kind = ORDER_FREE};
    int rc = 0;
    ASSERT(m->part && m->ranks.rank > 0);
    while (!rc && order.kind != ORDER_DISMISS) {
        rc = order_pass(f.comm, &order, sizeof order, !f.is_watched, e);
        if (!rc)
            rc = obey(&f, &order, e);
    }
    release(&f);
    if (rc)
        comm_abort(f.comm, e->msg);
    return rc;
}
