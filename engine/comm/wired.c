/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are processes, over a plug. The plug moves bytes; sums are taken here, in the order of
 * the ranks, so that no library's own order shows.
 *
 * A collective is done in pieces, so that its room has a bound. A short all-reduce gathers all
 * vectors and sums them; a long one exchanges parts, sums its own, and gathers the sums. The first
 * piece is under way from comm_start on, the others follow in comm_finish.
 *
 * A network that takes nothing back (its plug has no `drop`) may go on with what was under way when
 * a group broke. It never learns of the caller's memory, but of rooms that then stay behind.
 *
 * A plug takes one call at a time. A group and the groups of it, which other threads may use, share
 * a lock, which is held for a call of the plug: it never waits.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/comm/driver.h"
#include "engine/comm/launch.h"
#include "engine/comm/plug_open.h"

/* SUM: floats that are summed in one piece; up to SHORT of them by gathering all. */
enum { BYTES_PIECE = 1 << 22, SUM_PIECE = 1 << 20, SUM_SHORT = 4096 };
enum { SPIN_NS = 200000, NAP_NS = 50000, LOOK_NS = 100000000 };
enum { IDLE_NS = 20000000, IDLE_NAP_NS = 1000000 };   /* who waited so long can wait longer */
enum { REST_NS = 1000000000, REST_NAP_NS = 5000000 }; /* and who is patient, longer still */

struct plug_lock {
    pthread_mutex_t mutex;
    atomic_int n_ref;
};

struct wired {
    struct comm base;             /* first */
    struct comm_driver driver;    /* the table below, by the plug's name */
    const struct comm_plug *plug; /* constant, for the process's life */
    struct wire *wire;            /* owned */
    struct plug_lock *lock;       /* counted */
    char *room[COMM_FLIGHT];      /* owned: what pieces need beside the caller's memory */
    size_t room_bytes[COMM_FLIGHT];
};

static struct wired *wired_of(const struct comm *c)
{
    return (struct wired *)(uintptr_t)c;
}

/* ---- the plug -------------------------------------------------------------------------------- */

static struct plug_lock *lock_new(void)
{
    struct plug_lock *l = xcalloc(1, sizeof *l);
    pthread_mutex_init(&l->mutex, NULL);
    atomic_init(&l->n_ref, 1);
    return l;
}

static struct plug_lock *lock_ref(struct plug_lock *l)
{
    atomic_fetch_add(&l->n_ref, 1);
    return l;
}

static void lock_unref(struct plug_lock *l)
{
    if (atomic_fetch_sub(&l->n_ref, 1) > 1)
        return;
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

static void enter(struct wired *w)
{
    pthread_mutex_lock(&w->lock->mutex);
}

static int leave(struct wired *w, int rc)
{
    pthread_mutex_unlock(&w->lock->mutex);
    return rc;
}

static int plug_test(struct wired *w, int place)
{
    enter(w);
    return leave(w, w->plug->test(w->wire, place));
}

static int plug_missing(struct wired *w, int place)
{
    enter(w);
    return leave(w, w->plug->missing(w->wire, place));
}

static int plug_gather(struct wired *w, int place, const struct comm_job *j, const void *in,
                       void *out, size_t bytes)
{
    enter(w);
    return leave(w, w->plug->gather(w->wire, place, j->kind, in, out, bytes));
}

static int plug_exchange(struct wired *w, int place, const struct comm_job *j, const void *in,
                         void *out, size_t bytes)
{
    enter(w);
    return leave(w, w->plug->exchange(w->wire, place, j->kind, in, out, bytes));
}

/* What goes from one to others, or to one. */
static int plug_pass(struct wired *w, int place, const struct comm_job *j, void *x, size_t bytes)
{
    const struct comm_plug *g = w->plug;
    enter(w);
    return leave(w, j->kind == COMM_BROADCAST
                        ? g->broadcast(w->wire, place, j->kind, x, bytes, j->peer)
                    : j->kind == COMM_SEND ? g->send(w->wire, place, x, bytes, j->peer)
                                           : g->receive(w->wire, place, x, bytes, j->peer));
}

/* ---- waiting --------------------------------------------------------------------------------- */

struct piece {
    struct wired *w;
    const struct comm_job *job;
    uint64_t number;
    int place;
    size_t lo, n; /* of what the job counts */
};

/* why: as the plug's test says. */
static int gone(const struct piece *p, int why, struct err *e)
{
    int who = plug_missing(p->w, p->place);
    if (why == -2)
        return comm_fault(&p->w->base, p->job, p->number, e, "rank %d does something else", who);
    if (who >= 0)
        return comm_fault(&p->w->base, p->job, p->number, e, "rank %d is gone", who);
    return comm_fault(&p->w->base, p->job, p->number, e, "the network failed");
}

static int late(const struct piece *p, struct err *e)
{
    int who = plug_missing(p->w, p->place);
    double s = (double)comm_patience_ns(&p->w->base, p->job) / 1e9;
    if (who >= 0)
        return comm_fault(&p->w->base, p->job, p->number, e, "rank %d did not come within %.1f s",
                          who, s);
    return comm_fault(&p->w->base, p->job, p->number, e, "not all ranks came within %.1f s", s);
}

static int64_t nap_of(const struct comm *c, int64_t waited)
{
    return waited < IDLE_NS                     ? NAP_NS
           : !c->is_patient || waited < REST_NS ? IDLE_NAP_NS
                                                : REST_NAP_NS;
}

/* Time in which this process stood still itself is not held against the others: a look counts for
 * LOOK_NS at most. */
static int wait_for(const struct piece *p, struct err *e)
{
    struct comm *c = &p->w->base;
    int64_t waited = 0, last = clock_ns(), most = comm_patience_ns(c, p->job);
    for (int done; (done = plug_test(p->w, p->place)) != 1;) {
        int64_t now = clock_ns(), past = now - last;
        waited += past < LOOK_NS ? past : LOOK_NS;
        last = now;
        if (done < 0)
            return gone(p, done, e);
        if (waited > most)
            return late(p, e);
        if (comm_is_broken(c)) /* comm_abort, by another thread */
            return comm_check(c, e);
        if (waited < SPIN_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = nap_of(c, waited)}, NULL);
    }
    return 0;
}

static char *room_of(const struct piece *p, size_t bytes, struct err *e)
{
    struct wired *w = p->w;
    if (bytes <= w->room_bytes[p->place] && w->room[p->place])
        return w->room[p->place];
    char *more = try_resize(w->room[p->place], bytes + 1, "a collective", e);
    if (!more)
        return NULL;
    w->room[p->place] = more;
    w->room_bytes[p->place] = bytes;
    return more;
}

static int begun(const struct piece *p, int rc, struct err *e)
{
    return rc ? comm_fault(&p->w->base, p->job, p->number, e, "the network refuses (%d)", rc) : 0;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The room of a sum: [size, part] to give, [size, part] that came; a gather of all uses the second
 * half. */
static size_t part_of(const struct piece *p)
{
    size_t size = (size_t)p->w->base.size;
    return p->n <= SUM_SHORT ? p->n : (p->n + size - 1) / size;
}

static int start_sum(const struct piece *p, struct err *e)
{
    struct wired *w = p->w;
    size_t size = (size_t)w->base.size, part = part_of(p);
    const float *in = (const float *)p->job->in + p->lo;
    float *give = (float *)(void *)room_of(p, 2 * size * part * sizeof(float), e);
    if (!give)
        return -1;
    float *came = give + size * part;
    if (p->n <= SUM_SHORT) {
        float *own = came + (size_t)w->base.rank * part;
        if (p->n)
            memcpy(own, in, p->n * sizeof *own);
        return begun(p, plug_gather(w, p->place, p->job, own, came, part * sizeof *came), e);
    }
    memcpy(give, in, p->n * sizeof *give);
    memset(give + p->n, 0, (size * part - p->n) * sizeof *give);
    return begun(p, plug_exchange(w, p->place, p->job, give, came, part * sizeof *came), e);
}

static void sum_rows(const float *x, size_t stride, int n_x, float *y, size_t n)
{
    const float *row[COMM_RANK_MAX];
    for (int r = 0; r < n_x; r++)
        row[r] = x + (size_t)r * stride;
    comm_sum(y, row, n_x, n);
}

static int end_sum(const struct piece *p, struct err *e)
{
    struct wired *w = p->w;
    size_t size = (size_t)w->base.size, part = part_of(p);
    float *give = (float *)(void *)w->room[p->place], *came = give + size * part;
    float *out = (float *)p->job->out + p->lo;
    if (p->n <= SUM_SHORT) {
        sum_rows(came, part, w->base.size, out, p->n);
        return 0;
    }
    sum_rows(came, part, w->base.size, give, part);
    if (begun(p, plug_gather(w, p->place, p->job, give, came, part * sizeof *came), e) ||
        wait_for(p, e))
        return -1;
    memcpy(out, came, p->n * sizeof *out);
    return 0;
}

/* The parts of all ranks, each `n` floats from lo on, to whom they are for. */
static int start_scatter(const struct piece *p, struct err *e)
{
    struct wired *w = p->w;
    size_t size = (size_t)w->base.size;
    float *give = (float *)(void *)room_of(p, 2 * size * p->n * sizeof(float), e);
    if (!give)
        return -1;
    for (size_t r = 0; r < size; r++)
        memcpy(give + r * p->n, (const float *)p->job->in + r * p->job->n + p->lo,
               p->n * sizeof *give);
    return begun(
        p, plug_exchange(w, p->place, p->job, give, give + size * p->n, p->n * sizeof *give), e);
}

static void end_scatter(const struct piece *p)
{
    size_t size = (size_t)p->w->base.size;
    const float *came = (const float *)(const void *)p->w->room[p->place] + size * p->n;
    sum_rows(came, p->n, p->w->base.size, (float *)p->job->out + p->lo, p->n);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static int start_gather(const struct piece *p, struct err *e)
{
    struct wired *w = p->w;
    char *came = room_of(p, (size_t)w->base.size * p->n, e);
    if (!came)
        return -1;
    char *own = came + (size_t)w->base.rank * p->n;
    if (p->n)
        memcpy(own, (const char *)p->job->in + p->lo, p->n);
    return begun(p, plug_gather(w, p->place, p->job, own, came, p->n), e);
}

static void end_gather(const struct piece *p)
{
    for (int r = 0; r < p->w->base.size && p->n; r++)
        memcpy((char *)p->job->out + (size_t)r * p->job->n + p->lo,
               p->w->room[p->place] + (size_t)r * p->n, p->n);
}

static bool is_given(const struct piece *p)
{
    const struct comm_job *j = p->job;
    return j->kind == COMM_SEND || (j->kind == COMM_BROADCAST && j->peer == p->w->base.rank);
}

static char *memory_of(const struct piece *p)
{
    const struct comm_job *j = p->job;
    char *x = j->kind == COMM_SEND ? (char *)(uintptr_t)j->in : j->out;
    return p->n ? x + p->lo : x;
}

static int start_pass(const struct piece *p, struct err *e)
{
    char *x = memory_of(p);
    if (!p->w->plug->drop) {
        char *room = room_of(p, p->n, e);
        if (!room)
            return -1;
        if (is_given(p) && p->n)
            memcpy(room, x, p->n);
        x = room;
    }
    return begun(p, plug_pass(p->w, p->place, p->job, x, p->n), e);
}

static void end_pass(const struct piece *p)
{
    if (!p->w->plug->drop && !is_given(p) && p->n)
        memcpy(memory_of(p), p->w->room[p->place], p->n);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int start_piece(const struct piece *p, struct err *e)
{
    switch (p->job->kind) {
    case COMM_ALL_REDUCE:
        return start_sum(p, e);
    case COMM_REDUCE_SCATTER:
        return start_scatter(p, e);
    case COMM_ALL_GATHER:
    case COMM_BARRIER:
        return start_gather(p, e);
    default:
        return start_pass(p, e);
    }
}

static int end_piece(const struct piece *p, struct err *e)
{
    if (wait_for(p, e))
        return -1;
    switch (p->job->kind) {
    case COMM_ALL_REDUCE:
        return end_sum(p, e);
    case COMM_REDUCE_SCATTER:
        end_scatter(p);
        return 0;
    case COMM_ALL_GATHER:
        end_gather(p);
        return 0;
    case COMM_BARRIER:
        return 0;
    default:
        end_pass(p);
        return 0;
    }
}

static size_t piece_max(const struct comm_job *j)
{
    return j->kind == COMM_ALL_REDUCE       ? SUM_PIECE
           : j->kind == COMM_REDUCE_SCATTER ? SUM_PIECE / 4
                                            : BYTES_PIECE;
}

static struct piece first_piece(struct comm *c, const struct comm_job *j, uint64_t at)
{
    return (struct piece){.w = wired_of(c),
                          .job = j,
                          .number = at,
                          .place = (int)(at % COMM_FLIGHT),
                          .n = j->n < piece_max(j) ? j->n : piece_max(j)};
}

static int start(struct comm *c, const struct comm_job *j, uint64_t at, struct err *e)
{
    struct piece p = first_piece(c, j, at);
    bool to_one = j->kind == COMM_SEND || j->kind == COMM_RECEIVE;
    if (to_one && j->peer == c->rank)
        return comm_fault(c, j, at, e, "a rank has nothing to send itself");
    return start_piece(&p, e);
}

static int finish(struct comm *c, const struct comm_job *j, uint64_t at, struct err *e)
{
    struct piece p = first_piece(c, j, at);
    for (;;) {
        if (end_piece(&p, e))
            return -1;
        p.lo += p.n;
        if (p.lo >= j->n)
            return 0;
        p.n = j->n - p.lo < piece_max(j) ? j->n - p.lo : piece_max(j);
        if (start_piece(&p, e))
            return -1;
    }
}

static const struct comm_driver table;

/* lock: counted, moved in. */
static struct comm *wired_new(const struct comm_plug *g, struct wire *wire, struct plug_lock *lock,
                              const struct comm_options *o)
{
    struct wired *w = xcalloc(1, sizeof *w);
    w->driver = table;
    w->driver.name = g->name;
    comm_init(&w->base, &w->driver, g->rank(wire), g->size(wire), o);
    w->plug = g;
    w->wire = wire;
    w->lock = lock;
    return &w->base;
}

static struct comm *split(struct comm *c, const int *member, int n, int own, struct err *e)
{
    struct wired *w = wired_of(c);
    struct comm_options o = {.deadline_ms = c->deadline_ns / 1000000};
    enter(w);
    struct wire *wire = w->plug->split(w->wire, n ? member[0] : -1, member, n);
    leave(w, 0);
    (void)own;
    if (n && !wire)
        err_set(e, ERR_DEVICE, "rank %d of %d: the network makes no group", c->rank, c->size);
    return wire ? wired_new(w->plug, wire, lock_ref(w->lock), &o) : NULL;
}

static void drop(struct comm *c)
{
    struct wired *w = wired_of(c);
    if (!w->plug->drop)
        return;
    enter(w);
    w->plug->drop(w->wire);
    leave(w, 0);
}

static void wired_free(struct comm *c)
{
    struct wired *w = wired_of(c);
    bool is_busy = comm_is_broken(c) || c->n_start != c->n_finish;
    enter(w);
    w->plug->close(w->wire, is_busy);
    leave(w, 0);
    lock_unref(w->lock);
    for (int i = 0; i < COMM_FLIGHT && !is_busy; i++) /* else the library may still write there */
        free(w->room[i]);
    free(w);
}

static const struct comm_driver table = {
    .start = start, .finish = finish, .split = split, .drop = drop, .free = wired_free};

struct comm *comm_wired_over(const struct comm_plug *g, const struct comm_options *o, struct err *e)
{
    char text[256] = "";
    struct wire *wire = g->open(text, sizeof text);
    if (!wire) {
        err_set(e, ERR_UNSUPPORTED, "%s: %s", g->name, text);
        return NULL;
    }
    if (g->size(wire) > COMM_RANK_MAX) {
        err_set(e, ERR_TOO_LARGE, "%d ranks: at most %d there may be", g->size(wire),
                COMM_RANK_MAX);
        g->close(wire, false);
        return NULL;
    }
    return wired_new(g, wire, lock_new(), o);
}

struct comm *comm_wired_new(const char *name, const struct comm_options *o, struct err *e)
{
    const struct comm_plug *g = comm_plug_open(name, e);
    return g ? comm_wired_over(g, o, e) : NULL;
}

int comm_launched_new(const struct comm_options *o, struct comm **c, struct err *e)
{
    struct comm_launch l;
    *c = NULL;
    if (comm_launch_read(&l, e))
        return -1;
    if (l.plug)
        *c = comm_wired_new(l.plug, o, e);
    return l.plug && !*c ? err_wrap(e, "%s is set: this is one of several processes", l.by) : 0;
}
