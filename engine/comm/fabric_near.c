/* SPDX-License-Identifier: Apache-2.0
 *
 * The way through memory, for ranks that are threads of one process. Of each collective: a rank
 * marks in its stream that its vector is there, all meet on the host, and each stream waits for
 * the marks of the others and copies from their memory. Then each marks that it has read, they meet
 * again, and each stream waits for these marks: behind it a rank may overwrite what the others
 * read. A mark that could not be made is told before anybody trusts it. So the host is never
 * further ahead than one collective, and no device is waited for.
 *
 * A rank that leaves takes its marks with it; under the lock of the hub nobody touches them
 * meanwhile, or afterwards.
 */
#include <pthread.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/comm/driver.h"
#include "engine/comm/fabric_way.h"

struct near_member {
    struct event *ready, *read; /* owned by its rank; under the hub's lock; NULL: it has left */
};

struct hub {
    pthread_mutex_t lock;
    int n_end; /* under lock: ranks that have not left */
    struct near_member member[COMM_RANK_MAX];
};

struct near {
    struct fabric base; /* first */
    struct hub *hub;    /* shared: the last one out frees it */
    int rank;
};

static struct near *near_of(struct fabric *f)
{
    return (struct near *)f;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* The stream goes on behind the mark of every other rank: its vector's (is_ready), or its
 * reading's. */
static int await(struct near *n, struct stream *s, bool is_ready, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&n->hub->lock);
    for (int r = 0; r < n->base.comm->size && !rc; r++) {
        struct event *v = is_ready ? n->hub->member[r].ready : n->hub->member[r].read;
        if (!v)
            rc = err_set(e, ERR_DEVICE, "rank %d has left", r);
        else if (r != n->rank)
            event_wait(v, s);
    }
    pthread_mutex_unlock(&n->hub->lock);
    return rc;
}

/* All ranks come with a mark, and tell where their vectors are. */
static int meet(struct near *n, struct stream *s, const struct comm_job *j, const void *own,
                const void **of, struct err *e)
{
    struct near_member *member = &n->hub->member[n->rank];
    struct comm_job tell = {.kind = COMM_ALL_GATHER,
                            .in = &own,
                            .out = of,
                            .n = sizeof own,
                            .is_patient = j->is_patient};
    tell.longer_ms = j->longer_ms;
    event_record(member->ready, s);
    return stream_state(s, e) || comm_run(n->base.comm, &tell, e) || await(n, s, true, e) ? -1 : 0;
}

static int part(struct near *n, struct stream *s, struct err *e)
{
    event_record(n->hub->member[n->rank].read, s);
    return stream_state(s, e) || comm_barrier(n->base.comm, e) || await(n, s, false, e) ? -1 : 0;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static int gather(struct fabric *f, struct stream *s, const struct comm_job *j, const void *in,
                  void *out, size_t bytes, struct err *e)
{
    const void *of[COMM_RANK_MAX];
    if (meet(near_of(f), s, j, in, of, e))
        return -1;
    for (int r = 0; r < f->comm->size; r++) {
        char *to = (char *)out + (size_t)r * bytes;
        if (to != of[r])
            stream_copy(s, to, of[r], bytes, COPY_ON_DEVICE);
    }
    return part(near_of(f), s, e);
}

static int exchange(struct fabric *f, struct stream *s, const struct comm_job *j, const void *in,
                    void *out, size_t part_bytes, size_t all, struct err *e)
{
    const void *of[COMM_RANK_MAX];
    size_t lo = (size_t)f->comm->rank * part_bytes, n = lo < all ? all - lo : 0;
    if (meet(near_of(f), s, j, in, of, e))
        return -1;
    for (int r = 0; r < f->comm->size; r++)
        stream_copy(s, (char *)out + (size_t)r * part_bytes, (const char *)of[r] + lo,
                    n < part_bytes ? n : part_bytes, COPY_ON_DEVICE);
    return part(near_of(f), s, e);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void leave(struct hub *h, struct near_member *own)
{
    pthread_mutex_lock(&h->lock);
    struct near_member last = *own;
    int n_left = --h->n_end;
    *own = (struct near_member){NULL, NULL};
    pthread_mutex_unlock(&h->lock);
    event_free(last.ready);
    event_free(last.read);
    if (n_left)
        return;
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static void near_free(struct fabric *f)
{
    struct near *n = near_of(f);
    leave(n->hub, &n->hub->member[n->rank]);
    mem_free(n);
}

static const struct fabric_way way = {
    .name = "memory", .gather = gather, .exchange = exchange, .free = near_free};

static struct hub *hub_new(int n)
{
    struct hub *h = xcalloc(1, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    h->n_end = n;
    return h;
}

/* Rank 0's hub, at all. */
static int find_hub(struct comm *c, struct hub **h, struct err *e)
{
    struct comm_job j = {
        .kind = COMM_BROADCAST, .out = h, .n = sizeof *h, .is_patient = c->rank != 0};
    *h = c->rank == 0 ? hub_new(c->size) : NULL;
    return comm_run(c, &j, e); /* where it fails at rank 0 others may have it, so it stays */
}

/* What a rank lacks it tells by leaving at once: the others find its part empty, or the group
 * broken. */
struct fabric *fabric_near_new(struct comm *c, struct device *d, struct err *e)
{
    struct hub *h;
    if (find_hub(c, &h, e))
        return NULL;
    struct near *n = try_alloc(1, sizeof *n, "a fabric", e);
    struct near_member *own = &h->member[c->rank];
    own->ready = event_new(d, e);
    own->read = own->ready ? event_new(d, e) : NULL;
    if (n && own->read) {
        n->base.way = &way;
        n->base.comm = c;
        n->hub = h;
        n->rank = c->rank;
        return &n->base;
    }
    comm_abort(c, e->msg);
    leave(h, own);
    mem_free(n);
    return NULL;
}
