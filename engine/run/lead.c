/* SPDX-License-Identifier: Apache-2.0
 *
 * An order is a struct of fixed size and, for a step, the used parts of the batch's arrays behind
 * each other.
 */
#include "engine/run/lead.h"

#include <string.h>

#include "engine/base/mem.h"

enum order_kind { ORDER_RUNNER, ORDER_STEP, ORDER_FREE, ORDER_DISMISS };

struct order {
    int64_t kind, n[DIM_COUNT];
    uint64_t bytes; /* that follow */
    struct runner_options opt;
};

/* Sends what rank 0 has there; the others wait for it. */
static int pass_on(struct comm *c, void *x, size_t bytes, struct err *e)
{
    struct comm_job j = {.kind = COMM_BROADCAST, .out = x, .n = bytes};
    j.is_patient = comm_rank(c) != 0;
    return comm_run(c, &j, e);
}

/* ---- a batch as bytes -------------------------------------------------------------------------
 */

struct packer {
    char *at;
    bool reads; /* out of the bytes into the batch */
};

static void put(struct packer *p, void *x, int64_t n, size_t size)
{
    size_t bytes = (size_t)n * size;
    if (p->reads)
        memcpy(x, p->at, bytes);
    else
        memcpy(p->at, x, bytes);
    p->at += bytes;
}

static int64_t cells_of(const struct batch *b, int64_t seq)
{
    return (b->kv_len[seq] + K_CELL - 1) / K_CELL;
}

/* Writes or reads all of a batch of b->n; the bytes of it. */
static size_t put_batch(struct batch *b, char *room, bool reads)
{
    const int64_t *n = b->n;
    struct packer p = {.at = room, .reads = reads};
    put(&p, b->token, n[DIM_TOK], sizeof *b->token);
    put(&p, b->segment, n[DIM_TOK], sizeof *b->segment);
    put(&p, b->pos, n[DIM_TOK], sizeof *b->pos);
    put(&p, b->seq_of, n[DIM_TOK], sizeof *b->seq_of);
    put(&p, b->q_start, n[DIM_SEQ] + 1, sizeof *b->q_start);
    put(&p, b->kv_len, n[DIM_SEQ], sizeof *b->kv_len);
    put(&p, b->out_row, n[DIM_OUT], sizeof *b->out_row);
    for (int64_t s = 0; s < n[DIM_SEQ]; s++) /* kv_len is there by now */
        put(&p, b->cell + s * b->cell_stride, cells_of(b, s), sizeof *b->cell);
    return (size_t)(p.at - room);
}

static size_t room_of(const struct batch *b, const int64_t *cap)
{
    return sizeof(int32_t) * (size_t)(4 * cap[DIM_TOK] + cap[DIM_OUT] + 2 * cap[DIM_SEQ] + 1 +
                                      cap[DIM_SEQ] * b->cell_stride);
}

/* ---- the leader -------------------------------------------------------------------------------
 */

int lead_init(struct lead *l, struct batch *b, const struct runner_options *o,
              const struct model *m, struct err *e)
{
    struct order order = {.kind = ORDER_RUNNER, .opt = *o};
    *l = (struct lead){.batch = b};
    if (!m->part)
        return 0;
    if (o->lora_rank_max > 0)
        return err_set(e, ERR_UNSUPPORTED, "a model that ranks share takes no adapters");
    l->comm = m->ranks.comm;
    if (m->ranks.rank > 0)
        return 0;
    l->room_bytes = room_of(b, o->cap);
    l->room = try_alloc(l->room_bytes, 1, "a batch for other ranks", e);
    if (!l->room)
        return -1;
    l->leads = true;
    return pass_on(l->comm, &order, sizeof order, e);
}

void lead_release(struct lead *l)
{
    struct order order = {.kind = ORDER_FREE};
    struct err e = ERR_INIT;
    if (l->leads)
        pass_on(l->comm, &order, sizeof order, &e); /* or they are gone already */
    mem_free(l->room);
    *l = (struct lead){0};
}

int lead_step(struct lead *l, struct err *e)
{
    struct order order = {.kind = ORDER_STEP};
    if (!l->leads)
        return 0;
    memcpy(order.n, l->batch->n, sizeof order.n);
    order.bytes = put_batch(l->batch, l->room, false);
    return pass_on(l->comm, &order, sizeof order, e) || pass_on(l->comm, l->room, order.bytes, e)
               ? -1
               : 0;
}

int lead_check(const struct lead *l, struct err *e)
{
    return l->comm ? comm_check(l->comm, e) : 0;
}

void lead_dismiss(const struct model *m)
{
    struct order order = {.kind = ORDER_DISMISS};
    struct err e = ERR_INIT;
    if (m->part && m->ranks.rank == 0)
        pass_on(m->ranks.comm, &order, sizeof order, &e);
}

/* ---- a follower -------------------------------------------------------------------------------
 */

struct follower {
    const struct model *model;
    struct stream *stream;
    struct runner *runner; /* owned */
    char *room;            /* owned */
    size_t room_bytes;
};

static int make_runner(struct follower *f, const struct runner_options *o, struct err *e)
{
    if (f->runner)
        return err_set(e, ERR_UNSUPPORTED, "ranks have one runner at a time");
    f->runner = runner_new(f->model, o, f->stream, e);
    if (!f->runner)
        return -1;
    f->room_bytes = room_of(runner_batch(f->runner), o->cap);
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

static int step(struct follower *f, const struct order *o, struct err *e)
{
    struct op_view out;
    ASSERT(f->runner && o->bytes <= f->room_bytes);
    if (pass_on(f->model->ranks.comm, f->room, o->bytes, e))
        return -1;
    struct batch *b = runner_batch(f->runner);
    memcpy(b->n, o->n, sizeof b->n);
    put_batch(b, f->room, true);
    return runner_step(f->runner, &out, e);
}

int follow(const struct model *m, struct stream *s, struct err *e)
{
    struct follower f = {.model = m, .stream = s};
    struct order order = {.kind = ORDER_FREE};
    int rc = 0;
    ASSERT(m->part && m->ranks.rank > 0);
    while (!rc && order.kind != ORDER_DISMISS) {
        rc = pass_on(m->ranks.comm, &order, sizeof order, e);
        if (rc || order.kind == ORDER_DISMISS)
            break;
        if (order.kind == ORDER_RUNNER)
            rc = make_runner(&f, &order.opt, e);
        else if (order.kind == ORDER_STEP)
            rc = step(&f, &order, e);
        else
            free_runner(&f);
    }
    free_runner(&f);
    if (rc)
        comm_abort(m->ranks.comm, e->msg);
    return rc;
}
