/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are threads of one process: they read each other's memory.
 *
 * What is short is copied into the hall when it starts; who has seen all start sums or copies it by
 * himself, and nobody waits for a second meeting. What is long stays where it is: of an all-reduce
 * each rank sums its own part of all vectors and writes it into the results of all, and a second
 * meeting says that all parts are there.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/comm/driver.h"
#include "engine/comm/hall.h"

struct local {
    struct comm base; /* first */
    struct hall *hall;
    uint64_t n_together;                                    /* collectives started */
    uint64_t no[COMM_FLIGHT];                               /* of each job under way: its number */
    uint64_t n_sent[COMM_RANK_MAX], n_taken[COMM_RANK_MAX]; /* by peer */
};

static const struct comm_driver local_driver;

static struct local *local_of(const struct comm *c)
{
    return (struct local *)(uintptr_t)c;
}

/* ---- waiting --------------------------------------------------------------------------------- */

struct at {
    struct local *l;
    const struct comm_job *job;
    uint64_t number; /* among those of its end */
};

/* Breaks the group with *e, or takes what broke it. */
static int give_up(const struct at *a, struct err *e)
{
    return hall_break(a->l->hall, e);
}

static int wait_past(const struct at *a, atomic_uint_fast64_t *counter, uint64_t value, int who,
                     struct err *e)
{
    struct comm *c = &a->l->base;
    int64_t most = comm_patience_ns(c, a->job);
    switch (hall_wait_past(a->l->hall, counter, value, who, most)) {
    case HALL_PASSED:
        return 0;
    case HALL_BROKEN:
        break;
    case HALL_LEFT:
        comm_fault(c, a->job, a->number, e, "rank %d has left", who);
        break;
    case HALL_LATE:
        comm_fault(c, a->job, a->number, e, "rank %d did not come within %.1f s", who,
                   (double)most / 1e9);
        break;
    }
    return give_up(a, e);
}

enum counter { STARTED, MET, ENDED };

static atomic_uint_fast64_t *counter_of(struct local *l, int rank, enum counter which)
{
    struct hall_rank *s = &l->hall->member[rank];
    return which == STARTED ? &s->started : which == MET ? &s->met : &s->ended;
}

static int wait_all(const struct at *a, enum counter which, uint64_t value, struct err *e)
{
    for (int r = 0; r < a->l->base.size; r++)
        if (r != a->l->base.rank && wait_past(a, counter_of(a->l, r, which), value, r, e))
            return -1;
    return 0;
}

static void move(struct local *l, enum counter which, uint64_t value)
{
    hall_move(l->hall, counter_of(l, l->base.rank, which), value);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* What a rank gives, in bytes. */
static size_t given_bytes(const struct comm *c, const struct comm_job *j)
{
    size_t all = j->kind == COMM_REDUCE_SCATTER ? (size_t)c->size : 1;
    bool is_sum = j->kind == COMM_ALL_REDUCE || j->kind == COMM_REDUCE_SCATTER;
    return j->n * (is_sum ? all * sizeof(float) : 1);
}

static const void *source_of(const struct comm *c, const struct comm_job *j)
{
    if (j->kind == COMM_BROADCAST)
        return c->rank == j->peer ? j->out : NULL;
    return j->kind == COMM_BARRIER ? NULL : j->in;
}

static bool is_staged(const struct comm *c, const struct comm_job *j)
{
    return given_bytes(c, j) <= HALL_STAGE_BYTES;
}

static struct hall_slot *slot_of(struct local *l, int rank, uint64_t number)
{
    return &l->hall->member[rank].slot[number % COMM_FLIGHT];
}

static int start_together(const struct at *a, uint64_t number, struct err *e)
{
    struct local *l = a->l;
    struct hall_slot *s = slot_of(l, l->base.rank, number);
    const void *from = source_of(&l->base, a->job);
    if (number >= COMM_FLIGHT && wait_all(a, ENDED, number - COMM_FLIGHT, e))
        return -1; /* somebody may still read what stands in the slot */
    s->job = *a->job;
    if (is_staged(&l->base, a->job) && from && a->job->n)
        memcpy(s->stage, from, given_bytes(&l->base, a->job));
    move(l, STARTED, number + 1);
    return 0;
}

static int check_same(const struct at *a, uint64_t number, struct err *e)
{
    for (int r = 0; r < a->l->base.size; r++) {
        const struct comm_job *j = &slot_of(a->l, r, number)->job;
        bool has_root = j->kind == COMM_BROADCAST;
        if (j->kind == a->job->kind && j->n == a->job->n && (!has_root || j->peer == a->job->peer))
            continue;
        comm_fault(&a->l->base, a->job, a->number, e, "of %zu here, rank %d is at %s of %zu",
                   a->job->n, r, comm_kind_name(j->kind), j->n);
        return give_up(a, e);
    }
    return 0;
}

/* Where the vectors of all ranks are, each `skip` bytes from its beginning. */
static void gather_sources(const struct at *a, uint64_t number, size_t skip, const void **x)
{
    for (int r = 0; r < a->l->base.size; r++) {
        const struct hall_slot *s = slot_of(a->l, r, number);
        const char *at = is_staged(&a->l->base, a->job)   ? s->stage
                         : a->job->kind == COMM_BROADCAST ? s->job.out
                                                          : s->job.in;
        x[r] = at ? at + skip : NULL;
    }
}

/* This rank's part of the sum, into the results of all. */
static void sum_part(const struct at *a, uint64_t number)
{
    const struct comm *c = &a->l->base;
    size_t lo = comm_part(a->job->n, c->rank, c->size);
    size_t n = comm_part(a->job->n, c->rank + 1, c->size) - lo;
    const void *x[COMM_RANK_MAX];
    float *own = (float *)a->job->out + lo;
    gather_sources(a, number, lo * sizeof(float), x);
    comm_sum(own, (const float *const *)x, c->size, n);
    for (int r = 0; r < c->size && n; r++)
        if (r != c->rank)
            memcpy((float *)slot_of(a->l, r, number)->job.out + lo, own, n * sizeof *own);
}

static void copy_all(const struct at *a, const void *const *x)
{
    for (int r = 0; r < a->l->base.size && a->job->n; r++) {
        char *to = (char *)a->job->out + (size_t)r * a->job->n;
        if (to != x[r])
            memcpy(to, x[r], a->job->n);
    }
}

static void take(const struct at *a, uint64_t number)
{
    const struct comm *c = &a->l->base;
    const struct comm_job *j = a->job;
    bool scatters = j->kind == COMM_REDUCE_SCATTER;
    const void *x[COMM_RANK_MAX];
    gather_sources(a, number, scatters ? (size_t)c->rank * j->n * sizeof(float) : 0, x);
    switch (j->kind) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER:
        comm_sum(j->out, (const float *const *)x, c->size, j->n);
        break;
    case COMM_ALL_GATHER:
        copy_all(a, x);
        break;
    case COMM_BROADCAST:
        if (c->rank != j->peer && j->n)
            memcpy(j->out, x[j->peer], j->n);
        break;
    default:
        break;
    }
}

static int finish_together(const struct at *a, uint64_t number, struct err *e)
{
    struct local *l = a->l;
    bool is_short = is_staged(&l->base, a->job);
    if (wait_all(a, STARTED, number, e) || check_same(a, number, e))
        return -1;
    if (!hall_copy_begin(l->hall, l->base.rank))
        return give_up(a, e);
    if (a->job->kind == COMM_ALL_REDUCE && !is_short)
        sum_part(a, number);
    else
        take(a, number);
    hall_copy_end(l->hall, l->base.rank);
    move(l, MET, number + 1);
    if (!is_short && wait_all(a, MET, number, e))
        return -1; /* parts are missing, or others read what the caller may change */
    move(l, ENDED, number + 1);
    return 0;
}

/* ---- from one to another --------------------------------------------------------------------- */

static struct hall_mail *mail_of(struct local *l, int from, int to)
{
    return &l->hall->mail[from * l->base.size + to];
}

static void start_send(struct local *l, const struct comm_job *j, uint64_t number)
{
    struct hall_mail *m = mail_of(l, l->base.rank, j->peer);
    m->p[number % COMM_FLIGHT] = j->in;
    m->n[number % COMM_FLIGHT] = j->n;
    hall_move(l->hall, &m->sent, number + 1);
}

static int finish_receive(const struct at *a, uint64_t number, struct err *e)
{
    struct local *l = a->l;
    const struct comm_job *j = a->job;
    struct hall_mail *m = mail_of(l, j->peer, l->base.rank);
    if (wait_past(a, &m->sent, number, j->peer, e))
        return -1;
    if (m->n[number % COMM_FLIGHT] != j->n) {
        comm_fault(&l->base, j, a->number, e, "of %zu here, rank %d sends %zu", j->n, j->peer,
                   m->n[number % COMM_FLIGHT]);
        return give_up(a, e);
    }
    if (!hall_copy_begin(l->hall, l->base.rank))
        return give_up(a, e);
    if (j->n)
        memcpy(j->out, m->p[number % COMM_FLIGHT], j->n);
    hall_copy_end(l->hall, l->base.rank);
    hall_move(l->hall, &m->taken, number + 1);
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int start(struct comm *c, const struct comm_job *j, uint64_t at, struct err *e)
{
    struct local *l = local_of(c);
    struct at a = {.l = l, .job = j, .number = at};
    uint64_t *no = &l->no[at % COMM_FLIGHT];
    if ((j->kind == COMM_SEND || j->kind == COMM_RECEIVE) && j->peer == c->rank) {
        comm_fault(c, j, at, e, "a rank has nothing to send itself");
        return give_up(&a, e);
    }
    switch (j->kind) {
    case COMM_SEND:
        *no = l->n_sent[j->peer]++;
        start_send(l, j, *no);
        return 0;
    case COMM_RECEIVE:
        *no = l->n_taken[j->peer]++;
        return 0;
    default:
        *no = l->n_together++;
        return start_together(&a, *no, e);
    }
}

static int finish(struct comm *c, const struct comm_job *j, uint64_t at, struct err *e)
{
    struct local *l = local_of(c);
    struct at a = {.l = l, .job = j, .number = at};
    uint64_t number = l->no[at % COMM_FLIGHT];
    if (j->kind == COMM_SEND)
        return wait_past(&a, &mail_of(l, c->rank, j->peer)->taken, number, j->peer, e);
    if (j->kind == COMM_RECEIVE)
        return finish_receive(&a, number, e);
    return finish_together(&a, number, e);
}

static void local_abort(struct comm *c, const char *why)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_DEVICE, "rank %d gave up: %s", c->rank, why);
    hall_break(local_of(c)->hall, &e);
}

static void drop(struct comm *c)
{
    hall_quiet(local_of(c)->hall, c->rank);
}

static int check(const struct comm *c, struct err *e)
{
    return hall_check(local_of(c)->hall, e);
}

static void local_free(struct comm *c)
{
    hall_leave(local_of(c)->hall, c->rank);
    free(c);
}

static struct comm *end_new(struct hall *h, int rank, const struct comm_options *o)
{
    struct local *l = xcalloc(1, sizeof *l);
    comm_init(&l->base, &local_driver, rank, h->n, o);
    l->hall = h;
    return &l->base;
}

/* All ranks have come to as many collectives, so that number names the split. */
static struct comm *split(struct comm *c, const int *member, int n, int own, struct err *e)
{
    struct local *l = local_of(c);
    struct comm_options o = {.deadline_ms = c->deadline_ns / 1000000};
    struct hall *in = n ? hall_enter(l->hall, l->n_together, member[0], n, own, e) : NULL;
    if (n && !in)
        hall_break(l->hall, e);
    return in ? end_new(in, own, &o) : NULL;
}

static const struct comm_driver local_driver = {.name = "local",
                                                .start = start,
                                                .finish = finish,
                                                .split = split,
                                                .abort = local_abort,
                                                .drop = drop,
                                                .check = check,
                                                .free = local_free};

int comm_local_new(int n, const struct comm_options *o, struct comm **end, struct err *e)
{
    if (n < 1 || n > COMM_RANK_MAX)
        return err_set(e, ERR_BAD_INPUT, "%d ranks: 1 to %d there may be", n, COMM_RANK_MAX);
    struct hall *h = hall_new(n, e);
    if (!h)
        return -1;
    for (int r = 0; r < n; r++)
        end[r] = end_new(h, r, o);
    return 0;
}
