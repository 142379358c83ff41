/* SPDX-License-Identifier: Apache-2.0
 *
 * Whoever connects says in a hello of fixed size who it is; one that says something else is not of
 * us, and is sent away. Machines of a group have one byte order.
 */
#include "engine/comm/tcp_join.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/comm/comm.h"

enum { JOIN_S = 600, HELLO_S = 2, SAY_S = 5, AGAIN_MS = 100, GONE_MS = 10000, BACKLOG = 128 };

static const char magic[8] = "tandem\0\1";

struct hello {
    char magic[8];
    int32_t rank, size;
    uint16_t port, pad; /* where it listens, in network order */
};

struct address {
    struct sockaddr_storage at;
    uint32_t len, pad;
};

struct join {
    const struct comm_launch *l;
    int *fd;
    int listen_fd; /* owned */
    int64_t begin_us;
    bool said;
    struct address of[COMM_RANK_MAX]; /* where each listens */
};

/* ---- sockets --------------------------------------------------------------------------------- */

static int fail(const struct join *j, struct err *e, const char *what)
{
    return err_sys(e, "rank %d of %d: %s %s:%d", j->l->rank, j->l->size, what, j->l->host,
                   j->l->port);
}

static void tune(int fd)
{
    int one = 1, idle = 15, gone = GONE_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone, sizeof gone);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void wait_at_most(int fd, int seconds)
{
    struct timeval t = {.tv_sec = seconds};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

/* All of it, from a socket that blocks. A process that was stopped and goes on is interrupted. */
static int read_all(int fd, void *x, size_t n)
{
    size_t at = 0;
    while (at < n) {
        ssize_t got = recv(fd, (char *)x + at, n - at, 0);
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        at += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int write_all(int fd, const void *x, size_t n)
{
    return send(fd, x, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1; /* less than a socket's room */
}

static int listen_at(const struct sockaddr *at, socklen_t len)
{
    int one = 1, zero = 0, fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (at->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (!bind(fd, at, len) && !listen(fd, BACKLOG))
        return fd;
    int kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 ||
           strcmp(host, "::1") == 0;
}

/* Rank 0 listens at all its addresses: the one that others know it by may be another machine's
 * word for it. A group that is on this machine alone is not offered to others. */
static int listen_first(struct join *j, struct err *e)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)j->l->port)};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)j->l->port)};
    bool is_six = strchr(j->l->host, ':') != NULL;
    if (is_loopback(j->l->host)) {
        any6.sin6_addr = in6addr_loopback;
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    if (is_six || !is_loopback(j->l->host))
        j->listen_fd = listen_at((struct sockaddr *)&any6, sizeof any6);
    if (j->listen_fd < 0 && !is_six)
        j->listen_fd = listen_at((struct sockaddr *)&any, sizeof any);
    return j->listen_fd < 0 ? fail(j, e, "listening for the others at") : 0;
}

static void set_port(struct sockaddr_storage *at, uint16_t port)
{
    if (at->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)at)->sin6_port = port;
    else
        ((struct sockaddr_in *)at)->sin_port = port;
}

static uint16_t get_port(const struct sockaddr_storage *at)
{
    return at->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)at)->sin6_port
                                     : ((const struct sockaddr_in *)at)->sin_port;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Who waits for long says so once. */
static int still_waits(struct join *j, const char *what, struct err *e)
{
    int64_t s = (clock_us() - j->begin_us) / 1000000;
    if (s >= JOIN_S)
        return err_set(e, ERR_DEVICE, "rank %d of %d: %s did not come within %d s", j->l->rank,
                       j->l->size, what, JOIN_S);
    if (s >= SAY_S && !j->said)
        log_event(LOG_INFO, "waiting for other ranks", LOG_INT("rank", j->l->rank),
                  LOG_INT("of", j->l->size), LOG_TEXT("address", j->l->host),
                  LOG_INT("port", j->l->port));
    j->said |= s >= SAY_S;
    return 0;
}

static void nap(void)
{
    poll(NULL, 0, AGAIN_MS);
}

/* ---- coming in ------------------------------------------------------------------------------- */

/* One who connected: its rank, or -1 for somebody else, or -2 with what contradicts us. */
static int greet(struct join *j, int fd, int lo, struct hello *h, struct err *e)
{
    const struct comm_launch *l = j->l;
    wait_at_most(fd, HELLO_S);
    if (read_all(fd, h, sizeof *h) || memcmp(h->magic, magic, sizeof magic) != 0)
        return -1;
    if (h->size == l->size && h->rank >= lo && h->rank < l->size && j->fd[h->rank] < 0)
        return h->rank;
    err_set(e, ERR_BAD_INPUT,
            "rank %d of %d: one came that is rank %d of %d: all must be told alike, and no two "
            "the same",
            l->rank, l->size, h->rank, h->size);
    return -2;
}

/* Until all of rank lo and above are here. */
static int take_in(struct join *j, int lo, struct err *e)
{
    for (int left = j->l->size - lo; left > 0;) {
        struct pollfd p = {.fd = j->listen_fd, .events = POLLIN};
        struct address from = {.len = sizeof from.at};
        struct hello h;
        if (still_waits(j, "the others", e))
            return -1;
        if (poll(&p, 1, AGAIN_MS) <= 0)
            continue;
        int fd = accept4(j->listen_fd, (struct sockaddr *)&from.at, &from.len, SOCK_CLOEXEC);
        int r = fd < 0 ? -1 : greet(j, fd, lo, &h, e);
        if (r < 0) {
            if (fd >= 0)
                close(fd);
            if (r == -2)
                return -1;
            continue;
        }
        set_port(&from.at, h.port);
        j->fd[r] = fd;
        j->of[r] = from;
        left--;
    }
    return 0;
}

/* ---- going out ------------------------------------------------------------------------------- */

static int say_hello(const struct join *j, int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    struct hello h = {.rank = j->l->rank, .size = j->l->size};
    memcpy(h.magic, magic, sizeof magic);
    if (j->listen_fd >= 0 && getsockname(j->listen_fd, (struct sockaddr *)&at, &len) == 0)
        h.port = get_port(&at);
    return write_all(fd, &h, sizeof h);
}

static int connect_to(const struct sockaddr *at, socklen_t len)
{
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, at, len) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* One look: it may not be there yet, and its name may not be known yet. */
static int look_for_first(const struct join *j)
{
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char port[16];
    int fd = -1;
    snprintf(port, sizeof port, "%d", j->l->port);
    if (getaddrinfo(j->l->host, port, &hint, &list))
        return -1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_to(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(list);
    return fd;
}

/* Listens at the address that leads to rank 0, which the others can reach too. */
static int listen_beside(struct join *j, int fd, struct err *e)
{
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &len))
        return fail(j, e, "finding the way to");
    set_port(&own, 0);
    j->listen_fd = listen_at((struct sockaddr *)&own, len);
    return j->listen_fd < 0 ? fail(j, e, "listening beside the way to") : 0;
}

static int meet_first(struct join *j, struct err *e)
{
    while ((j->fd[0] = look_for_first(j)) < 0) {
        if (still_waits(j, "rank 0", e))
            return -1;
        nap();
    }
    if (listen_beside(j, j->fd[0], e))
        return -1;
    wait_at_most(j->fd[0], JOIN_S);
    if (say_hello(j, j->fd[0]) || read_all(j->fd[0], j->of, sizeof j->of))
        return err_set(e, ERR_DEVICE, "rank %d of %d: rank 0 at %s:%d left before all had come",
                       j->l->rank, j->l->size, j->l->host, j->l->port);
    return 0;
}

static int meet_others(struct join *j, struct err *e)
{
    for (int r = 1; r < j->l->rank; r++) {
        j->fd[r] = connect_to((struct sockaddr *)&j->of[r].at, j->of[r].len);
        if (j->fd[r] < 0 || say_hello(j, j->fd[r]))
            return err_sys(e, "rank %d of %d: going to rank %d", j->l->rank, j->l->size, r);
    }
    return take_in(j, j->l->rank + 1, e);
}

static int tell_all(const struct join *j, struct err *e)
{
    for (int r = 1; r < j->l->size; r++)
        if (write_all(j->fd[r], j->of, sizeof j->of))
            return err_set(e, ERR_DEVICE, "rank 0 of %d: rank %d left before all had come",
                           j->l->size, r);
    return 0;
}

int tcp_join(const struct comm_launch *l, int *fd, struct err *e)
{
    struct join j = {.l = l, .fd = fd, .listen_fd = -1, .begin_us = clock_us()};
    sigset_t ends, before; /* who waits for others can be ended, also where signals are kept */
    int rc;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &ends, &before);
    for (int r = 0; r < l->size; r++)
        fd[r] = -1;
    if (l->rank == 0)
        rc = listen_first(&j, e) || take_in(&j, 1, e) || tell_all(&j, e);
    else
        rc = meet_first(&j, e) || meet_others(&j, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (j.listen_fd >= 0)
        close(j.listen_fd);
    for (int r = 0; r < l->size; r++) {
        if (fd[r] >= 0 && rc)
            close(fd[r]);
        else if (fd[r] >= 0)
            tune(fd[r]);
    }
    return rc ? -1 : 0;
}
