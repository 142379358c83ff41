/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the address, and asking the system for the host's.
 */
#include "clients/load/url.h"

#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/num.h"

static int copy(char *to, size_t room, const char *from, size_t n, const char *what, struct err *e)
{
    if (n >= room)
        return err_set(e, ERR_BAD_INPUT, "the %s has %zu bytes, of at most %zu", what, n, room - 1);
    memcpy(to, from, n);
    to[n] = 0;
    return 0;
}

static int parse_port(struct load_url *u, const char *text, size_t n, struct err *e)
{
    int64_t port;
    if (copy(u->port, sizeof u->port, text, n, "port", e))
        return -1;
    if (num_int(u->port, 1, 65535, &port, e))
        return err_wrap(e, "port");
    return 0;
}

/* "host", "host:8080", "[::1]:8080" */
static int parse_host(struct load_url *u, const char *text, size_t n, struct err *e)
{
    bool is_v6 = n > 0 && text[0] == '[';
    const char *close = is_v6 ? memchr(text, ']', n) : NULL;
    if (is_v6 && !close)
        return err_set(e, ERR_BAD_INPUT, "no ] closes the host");
    const char *from = is_v6 ? text + 1 : text, *end = text + n;
    const char *behind = is_v6 ? close + 1 : memchr(text, ':', n);
    size_t n_host = (size_t)((is_v6 ? close : behind ? behind : end) - from);
    if (n_host == 0)
        return err_set(e, ERR_BAD_INPUT, "no host in it; write http://HOST:PORT");
    for (size_t i = 0; i < n_host; i++)
        if (!isalnum((unsigned char)from[i]) && !strchr("-._:%", from[i]))
            return err_set(e, ERR_BAD_INPUT, "a host has no such byte as number %zu of it", i + 1);
    if (copy(u->host, sizeof u->host, from, n_host, "host", e))
        return -1;
    if (!behind || behind == end)
        return copy(u->port, sizeof u->port, "80", 2, "port", e);
    if (*behind != ':')
        return err_set(e, ERR_BAD_INPUT, "a port begins with a colon");
    return parse_port(u, behind + 1, (size_t)(end - behind - 1), e);
}

int load_url_parse(struct load_url *u, const char *text, struct err *e)
{
    *u = (struct load_url){0};
    if (strncmp(text, "https://", 8) == 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "https is not spoken here, for its cost would be measured too: "
                       "measure the http port behind the proxy");
    const char *at = strncmp(text, "http://", 7) == 0 ? text + 7 : text;
    if (strstr(at, "://"))
        return err_set(e, ERR_BAD_INPUT, "\"%.40s\" is no http:// address", text);
    size_t n = strcspn(at, "/?#");
    if (parse_host(u, at, n, e))
        return -1;
    const char *base = at + n;
    size_t n_base = strlen(base);
    for (size_t i = 0; i < n_base; i++)
        if (base[i] <= ' ' || base[i] == 127 || base[i] == '?' || base[i] == '#')
            return err_set(e, ERR_BAD_INPUT, "a path only stands behind host and port");
    while (n_base > 0 && base[n_base - 1] == '/')
        n_base--;
    if (n_base >= 3 && memcmp(base + n_base - 3, "/v1", 3) == 0)
        n_base -= 3;
    return copy(u->base, sizeof u->base, base, n_base, "path", e);
}

int load_url_resolve(struct load_url *u, struct err *e)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *found;
    int rc = getaddrinfo(u->host, u->port, &want, &found);
    if (rc == EAI_FAMILY || rc == EAI_NONAME || rc == EAI_NODATA) { /* loopback alone is up */
        want.ai_flags = 0;
        rc = getaddrinfo(u->host, u->port, &want, &found);
    }
    if (rc != 0)
        return err_set(e, ERR_NOT_FOUND, "%s: %s", u->host, gai_strerror(rc));
    memcpy(&u->addr, found->ai_addr, found->ai_addrlen);
    u->n_addr = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}
