/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets that listen: looked up, bound, and what they were bound to.
 */
#include "server/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static int describe(int fd, struct listen_at *at, struct err *e)
{
    struct sockaddr_storage ss = {0};
    socklen_t n = sizeof ss;
    if (getsockname(fd, (struct sockaddr *)&ss, &n))
        return err_sys(e, "asking for the address that was bound");
    if (ss.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &ss, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, at->address, sizeof at->address);
        at->port = ntohs(in.sin_port);
        at->is_loopback = ntohl(in.sin_addr.s_addr) >> 24 == 127;
        at->is_wild = in.sin_addr.s_addr == htonl(INADDR_ANY);
    } else {
        struct sockaddr_in6 in;
        memcpy(&in, &ss, sizeof in);
        inet_ntop(AF_INET6, &in.sin6_addr, at->address, sizeof at->address);
        at->port = ntohs(in.sin6_port);
        at->is_loopback = IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
        at->is_wild = IN6_IS_ADDR_UNSPECIFIED(&in.sin6_addr);
    }
    return 0;
}

static int bind_one(const struct addrinfo *ai)
{
    int on = 1, off = 0;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* what is accepted inherits it */
    if (ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int listen_tcp(const char *host, int port, struct listen_at *at, struct err *e)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    int fd = -1;
    *at = (struct listen_at){0};
    snprintf(service, sizeof service, "%d", port);
    int rc = getaddrinfo(host, service, &want, &found);
    if (rc)
        return err_set(e, ERR_BAD_INPUT, "--host %s: %s", host, gai_strerror(rc));
    for (const struct addrinfo *ai = found; ai && fd < 0; ai = ai->ai_next)
        fd = bind_one(ai);
    if (fd < 0)
        err_sys(e, "listening at %s, port %d", host, port);
    freeaddrinfo(found);
    if (fd >= 0 && describe(fd, at, e)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Nobody answers at a socket whose process is gone. */
static bool is_dead(const struct sockaddr_un *un)
{
    struct stat st;
    if (lstat(un->sun_path, &st) || !S_ISSOCK(st.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool dead = connect(fd, (const struct sockaddr *)un, sizeof *un) && errno == ECONNREFUSED;
    close(fd);
    return dead;
}

int listen_unix(const char *path, struct err *e)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof un.sun_path)
        return err_set(e, ERR_BAD_INPUT, "--unix-socket: the path has at most %zu bytes",
                       sizeof un.sun_path - 1);
    memcpy(un.sun_path, path, strlen(path) + 1);
    if (is_dead(&un))
        unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, "opening a socket");
    if (bind(fd, (const struct sockaddr *)&un, sizeof un) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    err_sys(e, "listening at %s", path);
    close(fd);
    return -1;
}
