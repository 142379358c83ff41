/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators, and collectives as work that is ready when all ranks have reached theirs. Ranks
 * that are threads read each other's memory: who is asked runs the streams of the others on, as a
 * GPU would by itself. Those of several processes meet at a table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/cuda/nccl_act.h"

struct clique {
    ncclUniqueId id;
    int n, n_ref;
    struct ncclComm *of[RANKS]; /* borrowed; NULL: has not come, or is gone */
    struct clique *next;
};

struct ncclComm {
    struct clique *clique; /* counted */
    int rank, n_ref;
    cudaStream_t s;      /* of its collectives, counted; NULL: none yet */
    struct table *table; /* owned */
    const struct op *at; /* has been reached; NULL: none */
    bool is_done, is_aborted, is_absent, is_driven;
    ncclResult_t error;
};

static struct clique *cliques;
static long n_call, n_beside;
static _Thread_local struct op *group; /* owned, between GroupStart and GroupEnd */
static _Thread_local bool is_grouped;

/* ---- calls --------------------------------------------------------------------------------- */

static void tell(void)
{
    const char *path = getenv("FAKE_NCCL_TELL");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "calls %ld beside %ld\n", n_call, n_beside);
    fclose(f);
}

/* Of each call, with the lock taken: what it is to answer. c: NULL where there is none yet. */
static ncclResult_t begin(struct ncclComm *c)
{
    cudaError_t rc = fake_look();
    const char *at = getenv("FAKE_NCCL_FAIL"), *how = getenv("FAKE_NCCL_HOW");
    if (n_call == 0)
        atexit(tell);
    n_call++;
    if (rc)
        return ncclUnhandledCudaError;
    if (!at || n_call != strtol(at, NULL, 10))
        return ncclSuccess;
    if (!how || strcmp(how, "once") == 0 || !c)
        return ncclSystemError;
    if (strcmp(how, "later") == 0)
        c->error = ncclRemoteError;
    else
        c->is_absent = true;
    return ncclSuccess;
}

static ncclResult_t end(ncclResult_t rc)
{
    fake_end(cudaSuccess);
    return rc;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t rc)
{
    switch (rc) {
    case ncclSuccess:
        return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error";
    case ncclSystemError:
        return "unhandled system error";
    case ncclInvalidArgument:
        return "invalid argument";
    case ncclInvalidUsage:
        return "invalid usage";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    default:
        return "internal error";
    }
}

/* ---- communicators ------------------------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    ncclResult_t rc = begin(NULL);
    return end(rc ? rc : table_make(id));
}

static struct clique *clique_of(const ncclUniqueId *id, int n)
{
    struct clique *q = cliques;
    while (q && memcmp(&q->id, id, sizeof *id) != 0)
        q = q->next;
    if (q)
        return q;
    q = calloc(1, sizeof *q);
    *q = (struct clique){.id = *id, .n = n, .next = cliques};
    cliques = q;
    return q;
}

static void clique_unref(struct clique *q)
{
    struct clique **at = &cliques;
    if (--q->n_ref > 0)
        return;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    free(q);
}

static void comm_unref(struct ncclComm *c)
{
    if (--c->n_ref > 0)
        return;
    clique_unref(c->clique);
    table_close(c->table);
    free(c);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct ncclComm *c = calloc(1, sizeof *c);
    ncclResult_t rc = begin(c);
    *out = NULL;
    if (!rc && (n > RANKS || config->blocking))
        rc = ncclInvalidArgument;
    c->table = rc ? NULL : table_open(&id, n, rank);
    if (!rc && !c->table)
        rc = ncclSystemError;
    if (rc) {
        free(c);
        return end(rc);
    }
    c->clique = clique_of(&id, n);
    c->clique->n_ref++;
    c->clique->of[rank] = c;
    c->rank = rank;
    c->n_ref = 1;
    fake_keep(1);
    *out = c;
    return end(ncclInProgress);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error)
{
    fake_look();
    *error = c->error ? c->error : table_is_full(c->table) ? ncclSuccess : ncclInProgress;
    return end(ncclSuccess);
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    return end(begin(c));
}

static void leave(struct ncclComm *c)
{
    c->is_aborted = true;
    table_leave(&c->s);
    stream_unref(c->s);
    c->s = NULL;
    c->clique->of[c->rank] = NULL;
    fake_keep(-1);
    comm_unref(c);
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    fake_look();
    leave(c);
    return end(ncclSuccess);
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    return ncclCommDestroy(c);
}

/* ---- collectives --------------------------------------------------------------------------- */

static bool is_waiting(const struct ncclComm *c)
{
    return c && c->at && !c->is_done;
}

static const struct transfer *sent(const struct op *from, int to)
{
    for (int i = 0; i < from->n_transfer; i++)
        if (from->transfer[i].sends && from->transfer[i].peer == to)
            return &from->transfer[i];
    return NULL;
}

/* What rank r gets; false: the others do something else. */
static bool move_to(const struct clique *q, int r)
{
    const struct op *own = q->of[r]->at;
    for (int k = 0; k < q->n && own->out; k++) {
        const struct op *o = q->of[k]->at;
        if (!o->out || o->n != own->n)
            return false;
        memmove(own->out + (size_t)k * own->n, o->in, own->n);
    }
    for (int i = 0; i < own->n_transfer; i++) {
        const struct transfer *t = &own->transfer[i];
        const struct transfer *from = t->sends ? NULL : sent(q->of[t->peer]->at, r);
        if (t->sends)
            continue;
        if (!from || from->n != t->n)
            return false;
        memmove(t->p, from->p, t->n);
    }
    return true;
}

static void move_all(struct clique *q)
{
    fake_memory_open();
    for (int r = 0; r < q->n; r++) {
        if (!move_to(q, r))
            q->of[r]->error = ncclInvalidUsage;
        q->of[r]->is_done = true;
    }
    fake_memory_close();
}

static bool is_ready(void *ctx)
{
    const struct op *op = ctx;
    struct ncclComm *c = op->c;
    struct clique *q = c->clique;
    if (c->is_aborted || c->is_done)
        return true;
    if (c->is_absent)
        return false;
    if (c->is_driven)
        return table_step(c->table, op, &c->error);
    c->at = op;
    for (int r = 0; r < q->n; r++) {
        struct ncclComm *o = q->of[r];
        while (!c->is_done && o && !is_waiting(o) && o->s && stream_step(o->s))
            ;
        if (c->is_done) /* by one of those streams */
            return true;
        if (!is_waiting(o))
            return false;
    }
    move_all(q);
    return true;
}

static void run(void *ctx)
{
    const struct op *op = ctx;
    op->c->at = NULL;
    op->c->is_done = false;
}

/* Nobody may take from it any more: its memory may go. */
static void lose(void *ctx)
{
    struct op *op = ctx;
    if (op->c->at == op)
        run(op);
}

static void drop(void *ctx)
{
    struct op *op = ctx;
    comm_unref(op->c);
    free(op);
}

static struct op *op_new(struct ncclComm *c, cudaStream_t s)
{
    struct op *op = calloc(1, sizeof *op);
    op->c = c;
    op->s = s;
    c->n_ref++;
    if (c->s && c->s->is_gone) {
        stream_unref(c->s);
        c->s = NULL;
    }
    if (c->s && c->s != s) {
        fprintf(stderr, "fake NCCL: one communicator on two streams\n");
        abort();
    }
    s->n_ref += !c->s;
    c->s = s;
    n_beside += stream_awaits(s);
    if (!c->is_driven && table_is_shared(c->table)) {
        c->is_driven = true;
        table_drive(&c->s);
    }
    return op;
}

static void submit(struct op *op)
{
    struct work w = {.is_ready = is_ready, .run = run, .lose = lose, .ctx = op, .drop = drop};
    work_add_when(op->s->capture ? &op->s->capture->work : &op->s->work, &w);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t s)
{
    (void)type;
    ncclResult_t rc = begin(c);
    if (!rc && (!fake_memory_has(in, n) || !fake_memory_has(out, n * (size_t)c->clique->n)))
        rc = ncclInvalidArgument;
    if (!rc) {
        struct op *op = op_new(c, s);
        op->in = in;
        op->out = out;
        op->n = n;
        submit(op);
    }
    return end(rc);
}

static ncclResult_t add_transfer(struct transfer t, ncclComm_t c, cudaStream_t s)
{
    ncclResult_t rc = begin(c);
    if (!rc && (!is_grouped || !fake_memory_has(t.p, t.n)))
        rc = ncclInvalidArgument;
    if (!rc) {
        group = group ? group : op_new(c, s);
        group->transfer[group->n_transfer++] = t;
    }
    return end(rc);
}

ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    (void)type;
    struct transfer t = {.sends = true, .peer = peer, .p = (char *)(uintptr_t)in, .n = n};
    return add_transfer(t, c, s);
}

ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    (void)type;
    return add_transfer((struct transfer){.peer = peer, .p = out, .n = n}, c, s);
}

ncclResult_t ncclGroupStart(void)
{
    is_grouped = true;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t rc = begin(group ? group->c : NULL);
    if (group && rc)
        drop(group);
    else if (group)
        submit(group);
    group = NULL;
    is_grouped = false;
    return end(rc);
}
