/* SPDX-License-Identifier: Apache-2.0
 *
 * The way over rails. Nobody meets on the host, but where a rank may be at other work for long:
 * then its own work ends, and all meet there first, so that the deadline is only for what follows.
 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/comm/driver.h"
#include "engine/comm/fabric_way.h"
#include "engine/device/rail.h"

enum { JOIN_S = 60 }; /* a network that is looked through for the first time */

struct by_rail {
    struct fabric base; /* first */
    struct rail *rail;  /* owned */
};

static struct by_rail *by_rail_of(struct fabric *f)
{
    return (struct by_rail *)f;
}

static int watch(void *ctx, struct err *e)
{
    return comm_check(ctx, e);
}

static void fail(void *ctx, const char *text)
{
    comm_abort(ctx, text);
}

static int meet(struct fabric *f, struct stream *s, const struct comm_job *j, struct err *e)
{
    struct comm_job all_are_here = {.kind = COMM_BARRIER, .is_patient = true};
    if (!j->is_patient)
        return 0;
    return stream_sync(s, e) || comm_run(f->comm, &all_are_here, e) ? -1 : 0;
}

/* Where a group waits without end, others find out who is missing. */
static int64_t longer_ns(const struct fabric *f, const struct comm_job *j)
{
    return f->comm->is_patient ? INT64_MAX / 2 : j->longer_ms * 1000000;
}

static int gather(struct fabric *f, struct stream *s, const struct comm_job *j, const void *in,
                  void *out, size_t bytes, struct err *e)
{
    struct rail *r = by_rail_of(f)->rail;
    if (meet(f, s, j, e))
        return -1;
    rail_gather(r, s, in, out, bytes, longer_ns(f, j));
    return rail_state(r, e);
}

static int exchange(struct fabric *f, struct stream *s, const struct comm_job *j, const void *in,
                    void *out, size_t part, size_t all, struct err *e)
{
    struct rail *r = by_rail_of(f)->rail;
    if (meet(f, s, j, e))
        return -1;
    rail_exchange(r, s, in, out, part, all, longer_ns(f, j));
    return rail_state(r, e);
}

static void by_rail_free(struct fabric *f)
{
    rail_free(by_rail_of(f)->rail);
    mem_free(f);
}

static const struct fabric_way way = {.name = "nccl",
                                      .may_be_kept = true,
                                      .gather = gather,
                                      .exchange = exchange,
                                      .free = by_rail_free};

/* Rank 0's id, or how it failed there. */
struct ticket {
    struct rail_id id;
    struct err err;
};

static int take_ticket(struct comm *c, struct device *d, struct ticket *t, struct err *e)
{
    struct comm_job j = {
        .kind = COMM_BROADCAST, .out = t, .n = sizeof *t, .is_patient = c->rank != 0};
    memset(t, 0, sizeof *t);
    if (c->rank == 0)
        rail_id_make(d, &t->id, &t->err);
    if (comm_run(c, &j, e))
        return -1;
    return t->err.code ? err_set(e, t->err.code, "%s", t->err.msg) : 0;
}

struct fabric *fabric_rail_new(struct comm *c, struct device *d, struct err *e)
{
    struct ticket t;
    if (take_ticket(c, d, &t, e))
        return NULL;
    struct by_rail *f = try_alloc(1, sizeof *f, "a fabric", e);
    struct rail_options o = {.rank = c->rank,
                             .size = c->size,
                             .id = t.id,
                             .deadline_ns = c->deadline_ns,
                             .join_ns = (int64_t)JOIN_S * 1000000000,
                             .watch = watch,
                             .fail = fail,
                             .ctx = c};
    if (f)
        f->rail = rail_new(d, &o, e);
    if (f && f->rail) {
        f->base.way = &way;
        return &f->base;
    }
    mem_free(f);
    comm_abort(c, e->msg); /* the others wait for this end */
    return NULL;
}
