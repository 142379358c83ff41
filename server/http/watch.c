/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch: a thread that waits for clients to go and, four times a second, looks for phases that
 * last too long.
 *
 * A client that ends its side within a request is found by the end's event, but closed by its HTTP
 * thread: only that knows what of the bytes before the end still lies in its buffer. The library
 * misses an end that came together with bytes, since its own events are edges; so the watch makes
 * a new edge, by shutting down for reading what the client has shut down already, at the event and
 * at each look until the library has seen it.
 *
 * Whoever sends a request too slowly is told so on the bare socket, which nobody else writes to in
 * these phases, and cut off. Where a handler has the request the call is woken instead, and ends as
 * its HTTP thread sees fit. Nobody is too slow whose bytes lie here unread: then it is we who are
 * late, as after the process stood still. That holds for some looks only, since who sends without a
 * pause always has some on the way; and looks are counted, not time, in which we may stand again.
 * (Taking the time that we stood still off every client's would let some stay for ever, where a
 * machine stands still all the time.)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "server/http/call_own.h"
#include "server/http/conn.h"

enum { TICK_MS = 250, EVENTS = 64, SPARED_LOOKS = 20, LOOKS_AT_ONCE = 64 };

struct watch {
    struct watch_times times;
    int epoll, stop; /* owned */
    pthread_t thread;
    bool runs;
    _Atomic bool is_cut;
    _Atomic size_t n_open;
    pthread_mutex_t lock; /* of the free list, and held where slots are looked at */
    struct conn *conn;    /* owned: [n_conn] */
    size_t n_conn;
    struct conn *free;
};

static const char late[] =
    "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
    "Content-Length: 136\r\n\r\n"
    "{\"error\":{\"message\":\"the request took too long to arrive; send it faster\","
    "\"type\":\"timeout_error\",\"param\":null,\"code\":\"request_timeout\"}}";

static uint64_t name_of(const struct conn *n)
{
    return (uint64_t)n->generation << 32 | n->place;
}

/* The call is woken, where there is one. */
static void rouse(struct conn *n, bool is_gone)
{
    pthread_mutex_lock(&n->lock);
    if (is_gone)
        atomic_store(&n->is_gone, true);
    if (n->call)
        call_wake(n->call);
    pthread_mutex_unlock(&n->lock);
}

static void doom(struct conn *n, int phase)
{
    if (!atomic_compare_exchange_strong(&n->phase, &phase, CONN_DOOMED))
        return;
    if (phase == CONN_HEADERS || phase == CONN_BODY)
        (void)!send(n->fd, late, sizeof late - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(n->fd, SHUT_RDWR);
}

/* The library is to read the end of what the client sent; bytes before it are not lost. */
static void show_end(struct conn *n, int phase)
{
    if (phase == CONN_IDLE || phase == CONN_HEADERS || phase == CONN_BODY)
        shutdown(n->fd, SHUT_RD);
}

/* Whether a phase that is past its deadline is the client's fault. It is not while bytes that came
 * lie unread, or did at the last look: the HTTP thread may be the late one. After some looks that
 * no longer counts. */
static bool is_late(struct conn *n, int phase)
{
    int unread = 0;
    bool was_dry = n->is_dry;
    if (phase == CONN_SEND)
        return true;
    n->is_dry = ioctl(n->fd, FIONREAD, &unread) || unread == 0;
    return (n->is_dry && was_dry) || ++n->n_spared > SPARED_LOOKS;
}

static void look_at(struct conn *n, int64_t now)
{
    int phase = atomic_load(&n->phase);
    int64_t due = atomic_load(&n->due_us), ping = atomic_load(&n->ping_us);
    if (phase == CONN_CLOSED || phase == CONN_DOOMED)
        return;
    if (atomic_load(&n->has_ended))
        show_end(n, phase);
    bool is_over = due && now >= due;
    if (is_over && phase != CONN_WAIT) {
        if (is_late(n, phase))
            doom(n, phase);
        return;
    }
    n->is_dry = false;
    n->n_spared = 0;
    if (is_over) {
        atomic_compare_exchange_strong(&n->due_us, &due, 0);
        pthread_mutex_lock(&n->lock);
        if (n->call)
            call_late(n->call);
        pthread_mutex_unlock(&n->lock);
    } else if (ping && now >= ping && phase == CONN_WAIT) {
        rouse(n, false);
    }
}

/* Asks the system to tell once of an end: of the client's side (EPOLLRDHUP), and of the connection
 * in any case. Once, since the shutdown in show_end is an event of the socket, too. Where this
 * fails the deadlines still find a client that is gone. */
static void arm(struct conn *n, int how, uint32_t events)
{
    struct epoll_event ev = {.events = events | EPOLLONESHOT, .data.u64 = name_of(n)};
    n->is_armed = epoll_ctl(n->watch->epoll, how, n->fd, &ev) == 0 || n->is_armed;
}

static void on_events(struct watch *w, const struct epoll_event *ev, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t place = (uint32_t)ev[i].data.u64;
        if (place >= w->n_conn)
            continue;
        struct conn *c = &w->conn[place];
        int phase = atomic_load(&c->phase);
        if (name_of(c) != ev[i].data.u64 || phase == CONN_CLOSED)
            continue;
        if (ev[i].events & (EPOLLHUP | EPOLLERR)) {
            rouse(c, true);
        } else if (!atomic_exchange(&c->has_ended, true)) {
            arm(c, EPOLL_CTL_MOD, 0);
            rouse(c, false);
        }
        show_end(c, phase);
    }
}

/* Some slots at a time: who opens or closes a connection waits for the lock. */
static void look_at_all(struct watch *w, int64_t now)
{
    for (size_t i = 0; i < w->n_conn;) {
        size_t end = i + LOOKS_AT_ONCE < w->n_conn ? i + LOOKS_AT_ONCE : w->n_conn;
        pthread_mutex_lock(&w->lock);
        for (; i < end; i++)
            look_at(&w->conn[i], now);
        pthread_mutex_unlock(&w->lock);
    }
}

static void *run(void *arg)
{
    struct watch *w = arg;
    int64_t look_us = 0;
    for (;;) {
        struct epoll_event ev[EVENTS];
        int n = epoll_wait(w->epoll, ev, EVENTS, TICK_MS);
        if (n > 0 && ev[0].data.u64 == UINT64_MAX)
            return NULL;
        pthread_mutex_lock(&w->lock);
        on_events(w, ev, n);
        pthread_mutex_unlock(&w->lock);
        int64_t now = clock_us();
        if (now - look_us >= TICK_MS * 1000 && atomic_load(&w->n_open)) {
            look_us = now;
            look_at_all(w, now);
        }
        for (int i = 1; i < n; i++)
            if (ev[i].data.u64 == UINT64_MAX)
                return NULL;
    }
}

struct watch *watch_new(size_t max_conn, struct watch_times times, struct err *e)
{
    struct watch *w = xcalloc(1, sizeof *w);
    w->times = times;
    w->stop = -1;
    pthread_mutex_init(&w->lock, NULL);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    if (w->epoll < 0 || w->stop < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->stop, &ev)) {
        err_sys(e, "opening the watch over connections");
        goto fail;
    }
    w->conn = try_alloc(max_conn, sizeof *w->conn, "connections", e);
    if (!w->conn)
        goto fail;
    w->n_conn = max_conn;
    for (size_t i = max_conn; i-- > 0;) {
        struct conn *n = &w->conn[i];
        *n = (struct conn){.watch = w, .fd = -1, .place = (uint32_t)i, .next = w->free};
        pthread_mutex_init(&n->lock, NULL);
        w->free = n;
    }
    int rc = pthread_create(&w->thread, NULL, run, w);
    if (rc) {
        errno = rc;
        err_sys(e, "starting the watch over connections");
        goto fail;
    }
    w->runs = true;
    return w;
fail:
    watch_free(w);
    return NULL;
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    if (w->runs) {
        uint64_t one = 1;
        (void)!write(w->stop, &one, sizeof one);
        pthread_join(w->thread, NULL);
    }
    for (size_t i = 0; i < w->n_conn; i++)
        pthread_mutex_destroy(&w->conn[i].lock);
    mem_free(w->conn);
    if (w->epoll >= 0)
        close(w->epoll);
    if (w->stop >= 0)
        close(w->stop);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void watch_cut(struct watch *w)
{
    atomic_store(&w->is_cut, true);
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->n_conn; i++) {
        struct conn *n = &w->conn[i];
        int phase = atomic_load(&n->phase);
        if (phase == CONN_CLOSED)
            continue;
        rouse(n, true);
        if (phase != CONN_WAIT && phase != CONN_DOOMED)
            doom(n, phase);
    }
    pthread_mutex_unlock(&w->lock);
}

size_t watch_count(struct watch *w)
{
    return atomic_load(&w->n_open);
}

static bool is_unix(int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    return getsockname(fd, (struct sockaddr *)&at, &n) == 0 && at.ss_family == AF_UNIX;
}

struct conn *conn_open(struct watch *w, void *mhd, int fd)
{
    bool is_local = is_unix(fd);
    pthread_mutex_lock(&w->lock);
    struct conn *n = w->free;
    if (n) {
        w->free = n->next;
        n->mhd = mhd;
        n->fd = fd;
        n->is_local = is_local;
        n->is_dry = false;
        n->n_spared = 0;
        n->generation++;
        atomic_store(&n->has_ended, false);
        atomic_store(&n->is_gone, atomic_load(&w->is_cut));
        atomic_store(&n->ping_us, 0);
        atomic_store(&n->due_us, clock_us() + w->times.headers_us);
        atomic_store(&n->phase, CONN_HEADERS);
        atomic_fetch_add(&w->n_open, 1);
        n->is_armed = false;
        arm(n, EPOLL_CTL_ADD, EPOLLRDHUP);
    }
    pthread_mutex_unlock(&w->lock);
    return n;
}

void conn_close(struct conn *n)
{
    struct watch *w = n->watch;
    pthread_mutex_lock(&w->lock);
    atomic_store(&n->phase, CONN_CLOSED);
    if (n->is_armed)
        epoll_ctl(w->epoll, EPOLL_CTL_DEL, n->fd, NULL);
    n->fd = -1;
    n->mhd = NULL;
    n->next = w->free;
    w->free = n;
    atomic_fetch_sub(&w->n_open, 1);
    pthread_mutex_unlock(&w->lock);
}

bool conn_enter(struct conn *n, enum conn_phase phase, int64_t due_us)
{
    int was = atomic_load(&n->phase);
    atomic_store(&n->due_us, due_us);
    do {
        if (was == CONN_DOOMED)
            return false;
    } while (!atomic_compare_exchange_weak(&n->phase, &was, (int)phase));
    return true;
}

/* A new connection has its headers' time from the accept on, and keeps it. */
void conn_begin(struct conn *n)
{
    if (atomic_load(&n->phase) == CONN_IDLE)
        conn_enter(n, CONN_HEADERS, clock_us() + n->watch->times.headers_us);
}

void conn_call(struct conn *n, struct call *c)
{
    pthread_mutex_lock(&n->lock);
    n->call = c;
    pthread_mutex_unlock(&n->lock);
    atomic_store(&n->ping_us, 0);
    if (!c)
        conn_enter(n, CONN_IDLE, clock_us() + n->watch->times.idle_us);
}
