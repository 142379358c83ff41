/* SPDX-License-Identifier: Apache-2.0
 *
 * Whoever connects says in a hello of fixed size who it is; one that says something else is not of
 * us, and is sent away. One that says nothing, or half of it, is in nobody's way: it is a guest
 * beside others, until all have come or there are too many. Where the ranks have a secret each
 * proves that it knows it (engine/comm/tcp_greet.h), and nothing that others say ends the group;
 * without one the network between ranks must be theirs.
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
#include "engine/base/version.h"
#include "engine/comm/comm.h"
#include "engine/comm/tcp_greet.h"

enum { JOIN_S = 600, CONNECT_S = 5, SAY_S = 5, AGAIN_MS = 100, BACKLOG = 128, GUESTS = 64 };
enum { ALIVE_IDLE_S = 10, ALIVE_AGAIN_S = 5, ALIVE_TIMES = 2 };

struct address {
    struct sockaddr_storage at;
    uint32_t len, pad;
};

/* Who connected, and has not said all that it has to. */
struct guest {
    int fd; /* owned */
    struct address from;
    struct {
        struct greet_hello hello;
        uint8_t proof[SHA256_BYTES];
    } said;
    size_t got; /* of that; the proof is waited for where there is a secret */
    struct greet_welcome welcome;
};

struct join {
    const struct comm_launch *l;
    struct greet_secret secret;
    int *fd;
    int listen_fd; /* owned */
    int64_t begin_us;
    bool said, said_stranger;
    struct address of[COMM_RANK_MAX]; /* where each listens */
    struct guest guest[GUESTS];       /* in the order that they came */
    int n_guest;
};

/* ---- sockets --------------------------------------------------------------------------------- */

static int fail(const struct join *j, struct err *e, const char *what)
{
    return err_sys(e, "rank %d of %d: %s %s:%d", j->l->rank, j->l->size, what, j->l->host,
                   j->l->port);
}

static void set(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value);
}

/* A host that vanished is missed where nobody has anything to send. (While something is under way
 * engine/comm/tcp_link.c looks; TCP_USER_TIMEOUT would take who is busy for who is gone.) */
static void tune(int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, ALIVE_IDLE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, ALIVE_AGAIN_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, ALIVE_TIMES);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* kind: SO_RCVTIMEO, SO_SNDTIMEO. */
static void wait_at_most(int fd, int kind, int seconds)
{
    struct timeval t = {.tv_sec = seconds};
    setsockopt(fd, SOL_SOCKET, kind, &t, sizeof t);
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
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->sa_family == AF_INET6)
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
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

/* Hands the guest's socket out. */
static int see_off(struct join *j, int i)
{
    int fd = j->guest[i].fd;
    j->n_guest--;
    memmove(&j->guest[i], &j->guest[i + 1], (size_t)(j->n_guest - i) * sizeof *j->guest);
    return fd;
}

static void let_in(struct join *j)
{
    struct guest g = {.from.len = sizeof g.from.at};
    g.fd = accept4(j->listen_fd, (struct sockaddr *)&g.from.at, &g.from.len, SOCK_CLOEXEC);
    if (g.fd < 0)
        return;
    if (j->n_guest == GUESTS)
        close(see_off(j, 0));
    j->guest[j->n_guest++] = g;
}

static bool is_gone(int fd)
{
    char c;
    ssize_t n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* How many of rank lo and above are not here. While rank 0 waits for others one that came may end,
 * and be started again. */
static int n_missing(struct join *j, int lo)
{
    int n = 0;
    for (int r = lo; r < j->l->size; r++) {
        if (j->l->rank == 0 && j->fd[r] >= 0 && is_gone(j->fd[r])) {
            close(j->fd[r]);
            j->fd[r] = -1;
        }
        n += j->fd[r] < 0;
    }
    return n;
}

/* A rank that says what we are told too. */
static int member_add(struct join *j, const struct guest *g, int lo, struct err *e)
{
    const struct comm_launch *l = j->l;
    const struct greet_hello *h = &g->said.hello;
    bool is_new = h->size == l->size && h->rank >= lo && h->rank < l->size && j->fd[h->rank] < 0;
    if (strncmp(h->version, version_number(), sizeof h->version - 1) != 0)
        return err_set(e, ERR_BAD_INPUT,
                       "rank %d of %d: one came of another version of this program than %s",
                       l->rank, l->size, version_number());
    if (!is_new)
        return err_set(e, ERR_BAD_INPUT,
                       "rank %d of %d: one came that is rank %d of %d: all must be told alike, and "
                       "no two the same",
                       l->rank, l->size, h->rank, h->size);
    j->fd[h->rank] = g->fd;
    j->of[h->rank] = g->from;
    set_port(&j->of[h->rank].at, h->port);
    return 0;
}

/* Who does not know the secret is in nobody's way, but who runs the ranks may want to know. */
static void tell_stranger(struct join *j, const struct guest *g)
{
    if (!j->said_stranger)
        log_event(LOG_WARN, "one came that does not know the secret of the ranks",
                  LOG_INT("rank", j->l->rank), LOG_INT("said to be", g->said.hello.rank));
    j->said_stranger = true;
}

/* Some of what a guest has to say, or its end: then it is seated, or sent away. */
static int hear(struct join *j, int i, int lo, struct err *e)
{
    struct guest *g = &j->guest[i];
    size_t n_hello = sizeof g->said.hello, end = g->got < n_hello ? n_hello : sizeof g->said;
    ssize_t n = recv(g->fd, (char *)&g->said + g->got, end - g->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    g->got += n > 0 ? (size_t)n : 0;
    bool is_rank = n > 0 && greet_is_hello(&g->said.hello, g->got);
    if (is_rank && g->got < end)
        return 0;
    if (is_rank && end == n_hello) {
        greet_welcome_init(&g->welcome, &j->secret, j->l->rank, &g->said.hello);
        is_rank = write_all(g->fd, &g->welcome, sizeof g->welcome) == 0;
        if (is_rank && j->secret.n)
            return 0;
    } else if (is_rank && !greet_is_proof(&g->welcome, &j->secret, &g->said.hello, g->said.proof)) {
        is_rank = false;
    }
    if (!is_rank && g->got >= n_hello && j->secret.n)
        tell_stranger(j, g);
    int rc = is_rank ? member_add(j, g, lo, e) : 0, fd = see_off(j, i);
    if (!is_rank || rc < 0)
        close(fd);
    return rc;
}

/* Until all of rank lo and above are here. */
static int take_in(struct join *j, int lo, struct err *e)
{
    while (n_missing(j, lo) > 0) {
        struct pollfd p[1 + GUESTS] = {{.fd = j->listen_fd, .events = POLLIN}};
        if (still_waits(j, "the others", e))
            return -1;
        for (int i = 0; i < j->n_guest; i++)
            p[1 + i] = (struct pollfd){.fd = j->guest[i].fd, .events = POLLIN};
        if (poll(p, (nfds_t)(1 + j->n_guest), AGAIN_MS) <= 0)
            continue;
        n_missing(j, lo);                         /* who comes again left before */
        for (int i = j->n_guest - 1; i >= 0; i--) /* from the last: one may go */
            if (p[1 + i].revents && hear(j, i, lo, e))
                return -1;
        if (p[0].revents)
            let_in(j);
    }
    return 0;
}

/* ---- going out ------------------------------------------------------------------------------- */

static int left(const struct join *j, int r, struct err *e)
{
    return err_set(e, ERR_DEVICE, "rank %d of %d: rank %d left before all had come", j->l->rank,
                   j->l->size, r);
}

/* Says who we are to who should be rank r, and hears that it is. */
static int greet(const struct join *j, int r, struct err *e)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    struct greet_hello h;
    struct greet_welcome w;
    uint8_t proof[SHA256_BYTES];
    int fd = j->fd[r];
    uint16_t port = 0;
    if (j->listen_fd >= 0 && getsockname(j->listen_fd, (struct sockaddr *)&at, &len) == 0)
        port = get_port(&at);
    greet_hello_init(&h, j->l->rank, j->l->size, port);
    wait_at_most(fd, SO_RCVTIMEO, JOIN_S);
    if (write_all(fd, &h, sizeof h) || read_all(fd, &w, sizeof w))
        return left(j, r, e);
    if (greet_welcome_check(&w, &j->secret, r, &h, proof, e))
        return err_wrap(e, "rank %d of %d", j->l->rank, j->l->size);
    return j->secret.n && write_all(fd, proof, sizeof proof) ? left(j, r, e) : 0;
}

/* Where nobody listens yet the kernel may pick the port that is looked for as one's own, and a
 * socket then meets itself. */
static bool meets_itself(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t n_own = sizeof own, n_peer = sizeof peer;
    return getsockname(fd, (struct sockaddr *)&own, &n_own) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &n_peer) == 0 && n_own == n_peer &&
           memcmp(&own, &peer, n_own) == 0;
}

static int connect_to(const struct sockaddr *at, socklen_t len)
{
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    wait_at_most(fd, SO_SNDTIMEO, CONNECT_S);
    if (connect(fd, at, len) == 0 && !meets_itself(fd))
        return fd;
    int kept = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    errno = kept;
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
    if (greet(j, 0, e))
        return -1;
    return read_all(j->fd[0], j->of, sizeof j->of) ? left(j, 0, e) : 0;
}

static int meet_others(struct join *j, struct err *e)
{
    for (int r = 1; r < j->l->rank; r++) {
        j->fd[r] = connect_to((struct sockaddr *)&j->of[r].at, j->of[r].len);
        if (j->fd[r] < 0)
            return err_sys(e, "rank %d of %d: going to rank %d", j->l->rank, j->l->size, r);
        if (greet(j, r, e))
            return -1;
    }
    return take_in(j, j->l->rank + 1, e);
}

static int tell_all(const struct join *j, struct err *e)
{
    for (int r = 1; r < j->l->size; r++)
        if (write_all(j->fd[r], j->of, sizeof j->of))
            return left(j, r, e);
    return 0;
}

int tcp_join(const struct comm_launch *l, int *fd, struct err *e)
{
    struct join j = {.l = l, .fd = fd, .listen_fd = -1, .begin_us = clock_us()};
    sigset_t ends, before; /* who waits for others can be ended, also where signals are kept */
    int rc;
    if (greet_secret_read(&j.secret, l->secret_file, e))
        return err_wrap(e, "MASTER_SECRET_FILE");
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
    while (j.n_guest)
        close(see_off(&j, 0));
    for (int r = 0; r < l->size; r++) {
        if (fd[r] >= 0 && rc)
            close(fd[r]);
        else if (fd[r] >= 0)
            tune(fd[r]);
    }
    return rc ? -1 : 0;
}
