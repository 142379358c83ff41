/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop over sockets. What of a line came is taken from its socket; of the bytes behind the line
 * none is, so they are looked at before they are taken. There is room for so many lines under way;
 * while it is full, or the process has no descriptor left, who knocks waits in the system's queue.
 */
#include "server/http/greeter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/http/http.h"
#include "server/http/proxy_line.h"

enum { GUESTS = 256, DOORS = 2, EVENTS = 64, LOOK_MS = 250, WAIT_US = 5 * 1000 * 1000 };

/* Numbers of events: a guest's place, then doors, then the end. */
enum { DOOR_0 = GUESTS, STOP = GUESTS + DOORS };

struct guest {
    int fd; /* owned; -1: the place is free */
    int64_t due_us;
    size_t n; /* of the line, so far */
    struct sockaddr_storage from;
    socklen_t n_from;
    unsigned char line[PROXY_LINE_MAX];
};

struct greeter {
    struct greeter_options o;
    int epoll, stop, door[DOORS]; /* owned; -1: none */
    int n_door, n_guest;
    bool is_shut; /* the doors are not listened to */
    pthread_t thread;
    bool runs;
    struct guest guest[GUESTS];
};

static int watch(struct greeter *g, int fd, uint32_t number)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = number};
    return epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &ev);
}

/* NULL: over a unix socket. */
static const char *address_of(const struct sockaddr_storage *ss, char text[INET6_ADDRSTRLEN])
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    memcpy(&in, ss, sizeof in);
    memcpy(&in6, ss, sizeof in6);
    return ss->ss_family == AF_INET    ? inet_ntop(AF_INET, &in.sin_addr, text, INET6_ADDRSTRLEN)
           : ss->ss_family == AF_INET6 ? inet_ntop(AF_INET6, &in6.sin6_addr, text, INET6_ADDRSTRLEN)
                                       : NULL;
}

/* ---- who leaves ---------------------------------------------------------------------------- */

static void let_in(struct greeter *g, int fd, const struct sockaddr_storage *from, socklen_t n,
                   bool is_unnamed)
{
    struct err e = ERR_INIT;
    if (http_adopt_from(g->o.http, fd, (const struct sockaddr *)from, n, is_unnamed, &e))
        log_event(LOG_DEBUG, "http", LOG_TEXT("says", e.msg));
}

/* Its socket is somebody else's from here on, or closed. */
static int take(struct greeter *g, struct guest *t)
{
    int fd = t->fd;
    epoll_ctl(g->epoll, EPOLL_CTL_DEL, fd, NULL);
    t->fd = -1;
    g->n_guest--;
    return fd;
}

static void turn_away(struct greeter *g, struct guest *t, const char *why)
{
    char text[INET6_ADDRSTRLEN];
    const char *from = address_of(&t->from, text);
    log_event(LOG_WARN, "a proxy's connection is closed", LOG_TEXT("from", from ? from : "local"),
              LOG_TEXT("why", why));
    close(take(g, t));
}

/* ---- lines --------------------------------------------------------------------------------- */

static void read_line(struct greeter *g, struct guest *t)
{
    struct proxy_line line;
    ssize_t n = recv(t->fd, t->line + t->n, sizeof t->line - t->n, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(take(g, t)); /* a probe of the port, or gone: nothing to tell */
        return;
    }
    size_t before = t->n, all = t->n + (size_t)n;
    int rc = proxy_line_read(t->line, all, &line);
    size_t more = rc == 1 ? line.n - before : (size_t)n;
    if (rc < 0 || (rc == 0 && all == sizeof t->line)) {
        turn_away(g, t, "it does not begin with a line of the PROXY protocol");
        return;
    }
    if (recv(t->fd, t->line + before, more, 0) != (ssize_t)more) {
        close(take(g, t));
        return;
    }
    t->n += more;
    if (rc == 1 && line.has_client)
        let_in(g, take(g, t), &line.client, line.n_client, false);
    else if (rc == 1)
        let_in(g, take(g, t), &t->from, t->n_from, true);
}

/* ---- who comes ----------------------------------------------------------------------------- */

static void seat(struct greeter *g, int fd, const struct sockaddr_storage *from, socklen_t n_from)
{
    uint32_t i = 0;
    while (g->guest[i].fd >= 0)
        i++;
    struct guest *t = &g->guest[i];
    *t = (struct guest){
        .fd = fd, .due_us = clock_us() + g->o.wait_us, .from = *from, .n_from = n_from};
    g->n_guest++;
    if (watch(g, fd, i))
        close(take(g, t));
}

static void shut(struct greeter *g, bool shuts)
{
    for (int i = 0; i < g->n_door && g->is_shut != shuts; i++) {
        if (shuts)
            epoll_ctl(g->epoll, EPOLL_CTL_DEL, g->door[i], NULL);
        else
            watch(g, g->door[i], (uint32_t)(DOOR_0 + i));
    }
    g->is_shut = shuts;
}

static void answer(struct greeter *g, int door)
{
    while (g->n_guest < GUESTS) {
        char text[INET6_ADDRSTRLEN];
        struct sockaddr_storage from = {0};
        socklen_t n = sizeof from;
        int fd = accept4(door, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0 && errno != EAGAIN)
            shut(g, true); /* no descriptors: until the next look */
        if (fd < 0)
            return;
        if (g->o.is_proxy(g->o.ctx, address_of(&from, text)))
            seat(g, fd, &from, n);
        else
            let_in(g, fd, &from, n, false);
    }
    shut(g, true);
}

static void look(struct greeter *g)
{
    int64_t now = clock_us();
    for (int i = 0; i < GUESTS; i++)
        if (g->guest[i].fd >= 0 && now >= g->guest[i].due_us)
            turn_away(g, &g->guest[i], "its line took too long");
    if (g->n_guest < GUESTS)
        shut(g, false);
}

static void *run(void *arg)
{
    struct greeter *g = arg;
    int64_t look_us = 0;
    for (;;) {
        struct epoll_event ev[EVENTS];
        int n = epoll_wait(g->epoll, ev, EVENTS, LOOK_MS);
        for (int i = 0; i < n; i++) {
            uint32_t k = ev[i].data.u32;
            if (k == STOP)
                return NULL;
            if (k >= DOOR_0)
                answer(g, g->door[k - DOOR_0]);
            else if (g->guest[k].fd >= 0)
                read_line(g, &g->guest[k]);
        }
        if (clock_us() - look_us >= LOOK_MS * 1000) {
            look_us = clock_us();
            look(g);
        }
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

struct greeter *greeter_new(const struct greeter_options *o, struct err *e)
{
    struct greeter *g = xcalloc(1, sizeof *g);
    g->o = *o;
    g->o.wait_us = o->wait_us ? o->wait_us : WAIT_US;
    for (int i = 0; i < GUESTS; i++)
        g->guest[i].fd = -1;
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    g->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (g->epoll >= 0 && g->stop >= 0 && !watch(g, g->stop, STOP))
        return g;
    err_sys(e, "opening the door for proxies");
    greeter_free(g);
    return NULL;
}

void greeter_listen(struct greeter *g, int fd)
{
    ASSERT(!g->runs && g->n_door < DOORS);
    g->door[g->n_door++] = fd;
}

int greeter_start(struct greeter *g, struct err *e)
{
    for (int i = 0; i < g->n_door; i++)
        if (watch(g, g->door[i], (uint32_t)(DOOR_0 + i)))
            return err_sys(e, "listening for proxies");
    int rc = pthread_create(&g->thread, NULL, run, g);
    g->runs = rc == 0;
    errno = rc;
    return rc ? err_sys(e, "starting a thread for proxies") : 0;
}

void greeter_free(struct greeter *g)
{
    if (!g)
        return;
    if (g->runs) {
        uint64_t one = 1;
        (void)!write(g->stop, &one, sizeof one);
        pthread_join(g->thread, NULL);
    }
    for (int i = 0; i < GUESTS; i++)
        if (g->guest[i].fd >= 0)
            close(g->guest[i].fd);
    for (int i = 0; i < g->n_door; i++)
        close(g->door[i]);
    if (g->epoll >= 0)
        close(g->epoll);
    if (g->stop >= 0)
        close(g->stop);
    free(g);
}
