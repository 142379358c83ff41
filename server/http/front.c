/* SPDX-License-Identifier: Apache-2.0
 *
 * Who comes in; see the header.
 *
 * Host is looked at because of browsers: a page of evil.com whose name was pointed at 127.0.0.1
 * after it was loaded may read what it asks of it, and is known by the name alone. Origin is looked
 * at because a page may send some requests to anybody without being allowed to read the answer.
 * No page reaches a unix socket, so any Host is good there.
 */
#include "server/http/front.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/error.h"
#include "engine/base/clock.h"
#include "server/http/call_own.h"

/* The length of the name in NAME, NAME:PORT, [V6] or [V6]:PORT; 0 where it is none of them. */
static size_t name_length(const char *host)
{
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    const char *port = host + n;
    if (*host == '[' && host[n - 1] != ']')
        return 0;
    if (*port == ':')
        port += 1 + strspn(port + 1, "0123456789");
    return *port ? 0 : n;
}

static bool is_name(const char *host, size_t n, const char *name)
{
    return strlen(name) == n && strncasecmp(host, name, n) == 0;
}

/* No page can point an address elsewhere, as it can a name of its own. */
static bool is_address(const char *host, size_t n)
{
    unsigned char at[16];
    char text[64];
    bool is_v6 = *host == '[';
    if (n >= sizeof text || n < 3)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)(is_v6 ? n - 2 : n), host + is_v6);
    return inet_pton(is_v6 ? AF_INET6 : AF_INET, text, at) == 1;
}

bool front_knows_host(const struct front *f, const char *host)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};
    size_t n = name_length(host);
    if (f->any_host)
        return true;
    if (n == 0)
        return false;
    for (size_t i = 0; i < sizeof loopback / sizeof *loopback; i++)
        if (is_name(host, n, loopback[i]))
            return true;
    if (f->any_address && is_address(host, n))
        return true;
    if (*f->host && is_name(host, n, f->host))
        return true;
    if (*host == '[' && strlen(f->host) + 2 == n && strncasecmp(host + 1, f->host, n - 2) == 0)
        return true;
    for (size_t i = 0; i < f->allowed_host.n; i++)
        if (is_name(host, n, f->allowed_host.at[i]))
            return true;
    return false;
}

static bool is_allowed_origin(const struct front *f, const char *origin)
{
    for (size_t i = 0; i < f->cors_origin.n; i++)
        if (strcmp(f->cors_origin.at[i], "*") == 0 || strcmp(f->cors_origin.at[i], origin) == 0)
            return true;
    return false;
}

/* http://HOST of the Host header itself is a page of ours. */
static bool is_own_origin(const struct http_headers *h)
{
    const char *at = strstr(h->origin, "://");
    return at && h->host && strcasecmp(at + 3, h->host) == 0;
}

static int check_names(const struct front *f, struct call *c, const struct http_headers *h,
                       struct api_error *e)
{
    if (h->host && !h->is_local && !front_knows_host(f, h->host))
        return api_fail(e, 403, "host_not_allowed", NULL,
                        "this server does not answer to that Host; --allowed-host adds a name");
    if (!h->origin || is_own_origin(h))
        return 0;
    if (!is_allowed_origin(f, h->origin))
        return api_fail(e, 403, "origin_not_allowed", NULL,
                        "pages of that Origin may not ask; --cors-origin allows one");
    call_set_header(c, "Access-Control-Allow-Origin", h->origin);
    call_set_header(c, "Access-Control-Expose-Headers", "x-request-id, retry-after");
    call_set_header(c, "Vary", "Origin");
    return 0;
}

enum { ASKED_BYTES = 1024 };

#define OUR_HEADERS "authorization, content-type, x-request-id"

/* Headers beyond ours change nothing here, and SDKs send some of their own (x-stainless-*): what a
 * page that may ask wants to send, it may, as far as it is a list of names. */
static const char *allowed_headers(struct call *c, const char *asked)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ";
    size_t n = asked ? strlen(asked) : 0;
    bool is_list = n > 0 && n <= ASKED_BYTES && strspn(asked, plain) == n;
    return is_list ? arena_printf(&c->arena, OUR_HEADERS ", %s", asked) : OUR_HEADERS;
}

/* The question that a browser asks before it lets a page send something. */
static bool answer_preflight(struct call *c, const struct http_headers *h,
                             const struct route_match *match)
{
    if (!h->origin || strcmp(h->method, "OPTIONS") != 0 || !*match->allow)
        return false;
    struct buf none;
    buf_init(&none, 1);
    call_set_header(c, "Access-Control-Allow-Methods", match->allow);
    call_set_header(c, "Access-Control-Allow-Headers", allowed_headers(c, h->asks_headers));
    call_set_header(c, "Access-Control-Max-Age", "600");
    call_reply(c, 204, NULL, &none);
    return true;
}

static int check_will(const struct front *f, enum front_will will, size_t now, struct call *c,
                      const struct route *r, struct api_error *e)
{
    if (r->scope == SCOPE_OPEN || strcmp(r->name, "metrics") == 0)
        return 0;
    if (will == FRONT_LOADING)
        api_fail(e, 503, "loading", NULL, "Loading model");
    else if (will == FRONT_REFUSING)
        api_fail(e, 503, "draining", NULL, "The server is shutting down");
    else if (f->max_now && now > (size_t)f->max_now)
        api_fail(e, 503, "overloaded", NULL, "The server has %" PRId64 " requests in work already",
                 f->max_now);
    else
        return 0;
    if (will == FRONT_REFUSING)
        c->closes = true;
    e->retry_after_s = f->retry_s;
    return -1;
}

static int check_key(const struct front *f, struct call *c, const struct http_headers *h,
                     const struct route *r, struct auth_key **key, struct api_error *e)
{
    *key = h->authorization ? auth_find(f->auth, h->authorization)
                            : auth_find_key(f->auth, h->api_key);
    if (*key) {
        c->auth = auth_ref(f->auth);
        c->req.who = &(*key)->who;
    }
    bool has_key = h->authorization || h->api_key;
    if (r->scope == SCOPE_OPEN)
        return 0;
    if (!*key)
        return api_fail(e, 401, has_key ? "invalid_api_key" : "missing_api_key", NULL,
                        "%s; send Authorization: Bearer KEY, or x-api-key: KEY",
                        has_key ? "this API key is not known" : "an API key is wanted");
    if ((r->scope & (*key)->who.scopes) != r->scope)
        return api_fail(e, 403, NULL, NULL,
                        "this API key may not do that: its scopes do not reach");
    return 0;
}

static int check_limit(struct call *c, struct auth_key *key, struct api_error *e)
{
    static const char *const what[] = {"", "requests a minute", "tokens a minute",
                                       "requests at once"};
    const struct limit_rule *rule = &key->limit.rule;
    int64_t retry_us;
    struct limit_view v;
    if (!rule->requests_min && !rule->tokens_min && !rule->at_once && !rule->texts && !rule->held)
        return 0;
    enum limit_answer a = limit_take(&key->limit, clock_us(), &c->grant, &v, &retry_us);
    call_say_left(c, rule, &v);
    if (a == LIMIT_GOOD)
        return 0;
    int64_t limit[] = {0, rule->requests_min, rule->tokens_min, rule->at_once};
    api_fail(e, 429, NULL, NULL, "this API key may have %" PRId64 " %s", limit[a], what[a]);
    e->retry_after_s = (int)(retry_us / 1000000) + 1;
    return -1;
}

/* Whom the log names, and what is counted for an address. */
static void name_client(const struct front *f, struct call *c, const struct http_headers *h)
{
    char text[INET6_ADDRSTRLEN];
    const char *client = proxies_client(&f->proxies, h->address, h->forwarded, text);
    if (client)
        c->req.peer = arena_strdup(&c->arena, client);
}

int front_admit(const struct front *f, enum front_will will, size_t now, struct call *c,
                const struct http_headers *headers, const struct route_match *match,
                struct api_error *e)
{
    struct auth_key *key;
    name_client(f, c, headers);
    if (check_names(f, c, headers, e))
        return -1;
    if (answer_preflight(c, headers, match) || !match->route)
        return 0;
    if (check_key(f, c, headers, match->route, &key, e) ||
        check_will(f, will, now, c, match->route, e))
        return -1;
    return match->route->scope == SCOPE_OPEN ? 0 : check_limit(c, key, e);
}
