/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop. Idle clients lie on a stack, so that the connection used last is used next. A client is
 * known to epoll by its number, for what it waits for, and that is told only when it changes: a
 * request over a kept connection costs a send, a share of a wait, and a recv.
 */
#include "clients/load/fleet.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

enum { SCRATCH_BYTES = 64 << 10, EVENTS = 256, TICK_US = 100000, SHOW_US = 200000 };
enum { ARRIVAL_STREAM = 2, REFUSED_AT_ONCE_MAX = 1000, SPARE_FDS = 64 };
#define TIMER_DATA UINT32_MAX

struct load_fleet {
    const struct load_fleet_stage *s; /* borrowed */
    struct load_tally *t;             /* borrowed */
    struct load_conn *conn;           /* owned [s->clients] */
    uint32_t *idle;         /* owned [s->clients], the top of the stack behind the others */
    int64_t n_idle, n_open; /* n_open: clients that were ever used */
    int epoll, timer;
    char *scratch;   /* owned */
    int64_t next_us; /* when the next request is due, of an open loop */
    int64_t tick_us, show_us;
    int64_t n_refused; /* in a row */
};

static int64_t cpu_us(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return ((int64_t)r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec +
           r.ru_stime.tv_usec;
}

/* Descriptors for so many connections. */
static int make_room(int64_t clients, struct err *e)
{
    struct rlimit r;
    rlim_t want = (rlim_t)clients + SPARE_FDS;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return err_sys(e, "asking for the limit of descriptors");
    if (r.rlim_cur >= want)
        return 0;
    if (r.rlim_max != RLIM_INFINITY && r.rlim_max < want)
        return err_set(e, ERR_TOO_LARGE, "%lld connections: this process may have %llu (ulimit -n)",
                       (long long)clients, (unsigned long long)r.rlim_max);
    r.rlim_cur = want;
    return setrlimit(RLIMIT_NOFILE, &r) == 0 ? 0 : err_sys(e, "raising the limit of descriptors");
}

/* ---- a client ------------------------------------------------------------------------------ */

static int arm(struct load_fleet *f, uint32_t i)
{
    struct load_conn *c = &f->conn[i];
    if (c->fd < 0)
        return 0;
    uint32_t want = load_conn_wants_write(c) ? EPOLLOUT : EPOLLIN;
    if (c->armed == want)
        return 0;
    struct epoll_event event = {.events = want, .data.u32 = i};
    int how = c->armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    c->armed = want;
    return epoll_ctl(f->epoll, how, c->fd, &event);
}

static void note_end(struct load_fleet *f, uint32_t i, enum load_conn_end end)
{
    struct load_conn *c = &f->conn[i];
    f->n_refused = end == LOAD_CONN_REFUSED ? f->n_refused + 1 : 0;
    f->t->n_again += c->n_again;
    c->n_again = 0;
    load_tally_note(f->t, c, end, clock_us());
    f->idle[f->n_idle++] = i;
}

static int begin(struct load_fleet *f, uint32_t i, int64_t begin_us, struct err *e)
{
    struct load_conn *c = &f->conn[i];
    load_ask_write(f->s->ask, f->s->first_n + (uint64_t)f->t->n_begun, &c->out);
    if (buf_check(&c->out, "a request", e))
        return -1;
    f->t->n_begun++;
    if (f->s->rate > 0)
        load_hist_add(&f->t->late, clock_us() - begin_us);
    enum load_conn_end end = load_conn_begin(c, begin_us);
    if (arm(f, i))
        return err_sys(e, "waiting for a connection");
    if (end != LOAD_CONN_RUNS)
        note_end(f, i, end);
    return 0;
}

static int step(struct load_fleet *f, uint32_t i, struct err *e)
{
    struct load_conn *c = &f->conn[i];
    bool is_busy = c->state != LOAD_CONN_IDLE;
    enum load_conn_end end = load_conn_step(c, f->scratch, SCRATCH_BYTES);
    if (arm(f, i))
        return err_sys(e, "waiting for a connection");
    if (is_busy && end != LOAD_CONN_RUNS)
        note_end(f, i, end);
    return 0;
}

static void end_late(struct load_fleet *f, int64_t now)
{
    for (int64_t i = 0; i < f->n_open; i++) {
        struct load_conn *c = &f->conn[i];
        if (c->state != LOAD_CONN_IDLE && now - c->begin_us > f->s->timeout_us) {
            load_conn_drop(c);
            note_end(f, (uint32_t)i, LOAD_CONN_TIMEOUT);
        }
    }
}

/* ---- when requests set out ----------------------------------------------------------------- */

static bool is_sent(const struct load_fleet *f, int64_t now)
{
    const struct load_fleet_stage *s = f->s;
    if (s->requests > 0 && f->t->n_begun >= s->requests)
        return true;
    if (f->t->n_begun == 0)
        return false; /* however late it is: a stage of nothing says nothing */
    int64_t at = s->rate > 0 && f->next_us < now ? f->next_us : now;
    return s->duration_us > 0 && at - f->t->begin_us >= s->duration_us;
}

/* The time to the next one is exponential: nobody knows of the others. */
static void draw_next(struct load_fleet *f)
{
    double u = rng_unit(f->s->ask->seed, ARRIVAL_STREAM, f->s->first_n + (uint64_t)f->t->n_begun);
    f->next_us += (int64_t)(-log1p(-u) / f->s->rate * 1e6);
}

static int set_timer(struct load_fleet *f, int64_t now)
{
    int64_t wait = f->next_us > now ? f->next_us - now : 1;
    struct itimerspec at = {
        .it_value = {.tv_sec = wait / 1000000, .tv_nsec = wait % 1000000 * 1000}};
    return timerfd_settime(f->timer, 0, &at, NULL);
}

/* Takes a client that has nothing to do, or makes one. */
static bool take_idle(struct load_fleet *f, uint32_t *i)
{
    if (f->n_idle == 0 && f->n_open == f->s->clients)
        return false;
    if (f->n_idle > 0) {
        *i = f->idle[--f->n_idle];
        return true;
    }
    *i = (uint32_t)f->n_open++;
    load_conn_init(&f->conn[*i], f->s->ask->url, &f->t->between);
    return true;
}

static int launch(struct load_fleet *f, struct err *e)
{
    bool is_open = f->s->rate > 0;
    int64_t now = clock_us();
    uint32_t i;
    while (!is_sent(f, now) && (!is_open || f->next_us <= now) && take_idle(f, &i)) {
        if (begin(f, i, is_open ? f->next_us : now, e))
            return -1;
        if (f->n_refused > REFUSED_AT_ONCE_MAX)
            return err_set(e, ERR_IO, "no connection any more: %s", f->t->fault);
        if (is_open)
            draw_next(f);
        now = clock_us();
    }
    if (is_open && !is_sent(f, now) && f->next_us > now && set_timer(f, now))
        return err_sys(e, "setting a timer");
    return 0;
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void tick(struct load_fleet *f, int64_t now)
{
    if (now - f->tick_us >= TICK_US) {
        end_late(f, now);
        f->tick_us = now;
    }
    if (f->s->show && now - f->show_us >= SHOW_US) {
        f->s->show(f->s->ctx, f->t);
        f->show_us = now;
    }
}

static int turn(struct load_fleet *f, struct err *e)
{
    struct epoll_event event[EVENTS];
    int n = epoll_wait(f->epoll, event, EVENTS, TICK_US / 1000);
    if (n < 0 && errno != EINTR)
        return err_sys(e, "waiting for connections");
    for (int i = 0; i < n; i++) {
        uint64_t expired;
        if (event[i].data.u32 == TIMER_DATA) {
            if (read(f->timer, &expired, sizeof expired) < 0 && errno != EAGAIN)
                return err_sys(e, "reading a timer");
        } else if (step(f, event[i].data.u32, e))
            return -1;
    }
    tick(f, clock_us());
    return 0;
}

static int loop(struct load_fleet *f, struct err *e)
{
    f->t->begin_us = f->t->end_us = f->next_us = f->tick_us = f->show_us = clock_us();
    for (;;) {
        if (launch(f, e))
            return -1;
        if (f->n_idle == f->n_open && is_sent(f, clock_us()))
            return 0;
        if (turn(f, e))
            return -1;
    }
}

static int open_fleet(struct load_fleet *f, struct err *e)
{
    struct epoll_event timer = {.events = EPOLLIN, .data.u32 = TIMER_DATA};
    if (make_room(f->s->clients, e))
        return -1;
    f->conn = xcalloc((size_t)f->s->clients, sizeof *f->conn);
    f->idle = xcalloc((size_t)f->s->clients, sizeof *f->idle);
    f->scratch = xmalloc(SCRATCH_BYTES);
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    f->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (f->epoll < 0 || f->timer < 0 || epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->timer, &timer))
        return err_sys(e, "making an epoll");
    return 0;
}

static void close_fleet(struct load_fleet *f)
{
    for (int64_t i = 0; i < f->n_open; i++)
        load_conn_release(&f->conn[i]);
    if (f->timer >= 0)
        close(f->timer);
    if (f->epoll >= 0)
        close(f->epoll);
    free(f->scratch);
    free(f->idle);
    free(f->conn);
}

int load_fleet_run(const struct load_fleet_stage *s, struct load_tally *t, struct err *e)
{
    struct load_fleet f = {.s = s, .t = t, .epoll = -1, .timer = -1};
    int64_t cpu = cpu_us();
    int rc = open_fleet(&f, e);
    if (!rc)
        rc = loop(&f, e);
    t->cpu_us = cpu_us() - cpu;
    close_fleet(&f);
    return rc;
}

enum load_conn_end load_fleet_one(struct load_conn *c, int64_t timeout_us)
{
    static const size_t n_scratch = SCRATCH_BYTES;
    char *scratch = xmalloc(n_scratch);
    enum load_conn_end end = load_conn_begin(c, clock_us());
    while (end == LOAD_CONN_RUNS) {
        int64_t left = timeout_us - (clock_us() - c->begin_us);
        struct pollfd p = {.fd = c->fd, .events = load_conn_wants_write(c) ? POLLOUT : POLLIN};
        if (left <= 0) {
            load_conn_drop(c);
            end = LOAD_CONN_TIMEOUT;
        } else if (poll(&p, 1, (int)(left / 1000 < TICK_US ? left / 1000 + 1 : TICK_US)) > 0)
            end = load_conn_step(c, scratch, n_scratch);
    }
    free(scratch);
    return end;
}
