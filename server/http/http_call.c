/* SPDX-License-Identifier: Apache-2.0
 *
 * From a request to a call. The library calls http_access once when the headers are there, for each
 * piece of the body, once when it is whole, and again whenever the connection was resumed before
 * there is a response.
 *
 * A request that is refused by its headers alone has its body read and dropped where that is short,
 * and keeps its connection, of which clients have a pool. Else, and where the client waits for 100
 * Continue, it is answered before its body is read; the library closes the connection then.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "api/error.h"
#include "engine/base/background.h"
#include "engine/base/clock.h"
#include "engine/base/num.h"
#include "server/http/http_own.h"

enum {
    BODY_RATE = 64 << 10, /* bytes a second, at least, after that */
    BODY_WASTE = 8 << 20, /* read after a refusal, so that the client sees the answer */
    BODY_LONG = 64 << 10, /* a handler of more is background work */
    BODY_DROP = 64 << 10, /* read before a refusal, so that the connection stays */
    ID_BYTES_MAX = 128
};

enum MHD_Result http_access(void *cls, struct MHD_Connection *m, const char *url,
                            const char *method, const char *version, const char *data, size_t *n,
                            void **ctx);

/* The places in struct http_headers of a header, and of how often it was sent; 0: nobody asks. */
#define NOTED(name, value, count)                                                                  \
    {                                                                                              \
        name, sizeof name - 1, offsetof(struct http_headers, value), count                         \
    }
#define TIMES(count) offsetof(struct http_headers, count)

static const struct {
    const char *name;
    size_t n, value, count;
} noted[] = {NOTED("host", host, TIMES(n_host)),
             NOTED("origin", origin, 0),
             NOTED("expect", expect, 0),
             NOTED("content-type", type, TIMES(n_type)),
             NOTED("x-request-id", id, 0),
             NOTED("traceparent", trace, 0),
             NOTED("x-forwarded-for", forwarded, 0),
             NOTED("content-encoding", content_coding, 0),
             NOTED("access-control-request-headers", asks_headers, 0),
             NOTED("authorization", authorization, TIMES(n_authorization)),
             NOTED("x-api-key", api_key, TIMES(n_api_key)),
             NOTED("content-length", length_text, TIMES(n_length)),
             NOTED("transfer-encoding", coding, TIMES(n_coding))};

static enum MHD_Result note_header(void *cls, enum MHD_ValueKind kind, const char *key, size_t n,
                                   const char *value, size_t n_value)
{
    char *headers = cls;
    (void)kind;
    (void)n_value;
    for (size_t i = 0; i < sizeof noted / sizeof *noted; i++) {
        if (noted[i].n != n || strcasecmp(key, noted[i].name) != 0)
            continue;
        *(const char **)(void *)(headers + noted[i].value) = value ? value : "";
        if (noted[i].count)
            ++*(int *)(void *)(headers + noted[i].count);
    }
    return MHD_YES;
}

struct each {
    struct call *call;                                          /* borrowed */
    void (*fn)(void *ctx, const char *name, const char *value); /* NULL: it is looked at only */
    void *ctx;
    bool is_bad;
};

static enum MHD_Result each(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct each *x = cls;
    struct arena *a = &x->call->arena;
    char *name = arena_strdup(a, key), *text = arena_strdup(a, value ? value : "");
    (void)kind;
    if (route_decode(name) || route_decode(text))
        x->is_bad = true;
    else if (x->fn)
        x->fn(x->ctx, name, text);
    return MHD_YES;
}

static void each_query(struct call *c, void (*fn)(void *ctx, const char *name, const char *value),
                       void *ctx)
{
    struct each x = {c, fn, ctx, false};
    MHD_get_connection_values(c->mhd, MHD_GET_ARGUMENT_KIND, each, &x);
}

static void resume(struct call *c)
{
    MHD_resume_connection(c->mhd);
}

/* What a client that ended its side is sent, once, so that its host says whether it is still there:
 * before an answer an interim response, which every client reads over and HTTP/1.0 does not have;
 * in a stream what else breaks its silence. Nobody else writes while the call waits. */
static void probe(struct call *c)
{
    static const char nothing[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (c->is_probed || !atomic_load(&c->conn->has_ended))
        return;
    c->is_probed = true;
    if (c->answer != CALL_NONE)
        c->spoke_us = 0;
    else if (!c->is_old)
        (void)!send(c->conn->fd, nothing, sizeof nothing - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool is_gone(struct call *c)
{
    probe(c);
    return atomic_load(&c->conn->is_gone);
}

static const char *header(const struct call *c, const char *name)
{
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

static const char *query(const struct call *c, const char *name)
{
    const char *raw = MHD_lookup_connection_value(c->mhd, MHD_GET_ARGUMENT_KIND, name);
    if (!raw)
        return NULL;
    struct arena *a = &((struct call *)(uintptr_t)c)->arena;
    char *text = arena_strdup(a, raw);
    return route_decode(text) ? NULL : text;
}

static const struct call_carrier carrier = {.resume = resume,
                                            .is_gone = is_gone,
                                            .header = header,
                                            .query = query,
                                            .each_query = each_query};

/* What cannot be read of a query is not left out: a list without its filter has all. */
static bool is_bad_query(struct call *c)
{
    struct each x = {.call = c};
    MHD_get_connection_values(c->mhd, MHD_GET_ARGUMENT_KIND, each, &x);
    return x.is_bad;
}

/* What a client calls a request is for its eyes and the log: letters, digits and a few signs. */
static const char *good_id(struct call *c, const char *id)
{
    size_t n = id ? strlen(id) : 0;
    if (n > 0 && n <= ID_BYTES_MAX &&
        strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+=") == n)
        return id;
    struct http *h = c->http;
    uint64_t k = atomic_fetch_add(&h->n_id, 1);
    return arena_printf(&c->arena, "req-%016" PRIx64 "%08" PRIx64, h->id_salt, k);
}

static const struct who nobody = {.name = "anonymous"};

#define BAD_ESCAPE "the %s holds a broken escape, or one of a control character"

/* A target may name the server, as proxies are asked: then that is who is meant, whatever Host says
 * (RFC 9112, 3.2.2). Returns the path. */
static char *take_authority(struct call *c, char *target, struct http_headers *headers)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    size_t n = scheme ? strcspn(target + scheme, "/") : 0;
    if (scheme == 0)
        return target;
    headers->host = arena_strndup(&c->arena, target + scheme, n);
    return target[scheme + n] ? target + scheme + n : arena_strdup(&c->arena, "/");
}

/* The connection's other end, as the log calls it. */
static const char *take_address(struct call *c, struct http_headers *headers)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *sa = i ? i->client_addr : NULL;
    char at[INET6_ADDRSTRLEN] = "";
    int port = 0;
    if (sa && sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, at, sizeof at);
        port = ntohs(in.sin_port);
    } else if (sa && sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, sa, sizeof in);
        inet_ntop(AF_INET6, &in.sin6_addr, at, sizeof at);
        port = ntohs(in.sin6_port);
    }
    if (!*at)
        return "local";
    headers->address = arena_strdup(&c->arena, at);
    return arena_printf(&c->arena, "%s:%d", at, port);
}

/* Everything that can be said of the headers alone. */
static int examine(struct call *c, struct http_headers *headers, const char *url,
                   const char *method, const char *version, struct api_error *e)
{
    struct http *h = c->http;
    char *path = arena_strdup(&c->arena, url ? url : "/");
    *headers = (struct http_headers){.method = method, .path = path, .length = -1};
    headers->is_old = strcmp(version, "HTTP/1.0") == 0;
    headers->is_local = c->conn->is_local;
    MHD_get_connection_values_n(c->mhd, MHD_HEADER_KIND, note_header, headers);
    if (c->conn->is_unnamed)
        headers->forwarded = NULL;
    headers->path = path = take_authority(c, path, headers);
    c->req = (struct call_request){.method = method,
                                   .path = path,
                                   .body = "",
                                   .who = &nobody,
                                   .trace = headers->trace,
                                   .id = good_id(c, headers->id),
                                   .peer = take_address(c, headers),
                                   .begin_us = c->req.begin_us};
    if (http_check_headers(headers, e)) {
        c->closes = true;
        return -1;
    }
    if (route_decode(path))
        return api_fail(e, 400, "bad_path", NULL, BAD_ESCAPE, "path");
    if (is_bad_query(c))
        return api_fail(e, 400, "bad_query", NULL, BAD_ESCAPE, "query");
    struct route_match match = route_find(h->o.route, h->o.n_route, method, path);
    c->route = match.route;
    if (match.param)
        c->req.param = arena_strndup(&c->arena, match.param, match.n_param);
    if (h->o.admit && h->o.admit(h->o.ctx, c, headers, &match, e))
        return -1;
    if (c->answer != CALL_NONE)
        return 0;
    if (!match.route && *match.allow) {
        call_set_header(c, "Allow", match.allow);
        return api_fail(e, 405, NULL, NULL, "%.16s is not for this path; %s is", method,
                        match.allow);
    }
    const struct route_absent *absent = match.route ? NULL : route_absent(path);
    if (absent)
        return api_fail(e, 404, "not_supported", NULL, "%s are not supported by this server; %s",
                        absent->what, absent->instead ? absent->instead : "see /openapi.json");
    if (!match.route)
        return api_fail(e, 404, NULL, NULL, "nothing is served at this path; see /openapi.json");
    return http_check_body(headers, match.route, e);
}

static enum MHD_Result respond(struct call *c)
{
    return http_respond(c) ? MHD_YES : MHD_NO;
}

static int open_intake(struct call *c, const struct http_headers *headers, struct api_error *e)
{
    const struct route *r = c->route;
    if (c->answer != CALL_NONE || !r->intake)
        return 0;
    c->intake = r->intake->begin(c, headers->length, e);
    return c->intake ? 0 : -1;
}

static bool has_body(const struct http_headers *headers)
{
    return headers->length > 0 || headers->n_coding;
}

static enum MHD_Result begin(struct http *h, struct MHD_Connection *m, const char *url,
                             const char *method, const char *version, void **ctx)
{
    struct conn *n = MHD_get_connection_info(m, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    struct api_error e;
    struct http_headers headers;
    if (!n)
        return MHD_NO;
    struct call *c = call_new(h, &carrier);
    c->conn = n;
    c->mhd = m;
    *ctx = c;
    atomic_fetch_add(&h->n_call, 1);
    if (!conn_enter(n, CONN_BODY, c->req.begin_us + c->http->o.body_us))
        return MHD_NO;
    if (h->o.request_timeout_us)
        c->due_us = c->req.begin_us + h->o.request_timeout_us;
    if (examine(c, &headers, url, method, version, &e) || open_intake(c, &headers, &e))
        call_error(c, &e);
    c->is_old = headers.is_old;
    if (c->answer != CALL_NONE &&
        (headers.length > BODY_DROP || (has_body(&headers) && headers.expect)))
        c->closes = true;
    if (c->closes) /* before the body: it is not read, and the library closes */
        return respond(c);
    if (c->answer != CALL_NONE) /* behind the body, so that the connection goes on */
        return MHD_YES;
    buf_init(&c->body, c->route->max_body);
    return MHD_YES;
}

/* What the body takes is counted over all requests. */
static int charge(struct call *c, struct api_error *e)
{
    size_t more = c->body.cap - c->n_charged;
    return more ? call_charge(c, more, e) : 0;
}

/* What was done is told of, and what it held is free for others. */
static void settle(struct call *c, bool is_whole)
{
    struct http *h = c->http;
    int64_t now = clock_us();
    /* a connection that fails before its headers are whole made no request */
    if (c->req.method && h->o.ended) {
        struct http_record r = {.request = &c->req,
                                .route = c->route,
                                .model = c->model,
                                .status = c->status,
                                .is_cut = !is_whole,
                                .took_us = now - c->req.begin_us,
                                .tok_in = c->tok_in,
                                .tok_out = c->tok_out,
                                .span = c->span,
                                .n_in = c->req.n_body,
                                .n_out = c->answer == CALL_NONE ? 0 : c->n_sent};
        h->o.ended(h->o.ctx, &r);
    }
    limit_give(&c->grant, c->tok_in + c->tok_out, now);
    call_uncharge(c);
    atomic_fetch_sub(&h->n_call, 1);
}

/* A refusal that does not wait for the rest of the body, nor keeps what came of it, nor counts as
 * work: the client may be long in sending, and others have use for what it held. */
static enum MHD_Result refuse_now(struct call *c)
{
    buf_release(&c->body);
    call_uncharge(c);
    if (c->intake)
        c->route->intake->free(c->intake);
    c->intake = NULL;
    if (!http_answer_early(c))
        return MHD_NO;
    settle(c, true);
    return MHD_YES;
}

/* Of a request that was refused already. In pieces it may be longer than it seemed. */
static enum MHD_Result drop(struct call *c)
{
    if (c->n_sent <= BODY_DROP)
        return MHD_YES;
    c->closes = true;
    return refuse_now(c);
}

/* As take, for a body that is not collected. What is wrong with its text is said when it is whole,
 * as most clients ask only then. */
static enum MHD_Result push(struct call *c, const char *data, size_t n)
{
    struct api_error e;
    bool is_over = c->n_sent > c->route->max_body;
    if (!is_over && c->answer != CALL_NONE)
        return MHD_YES;
    if (is_over)
        api_fail(&e, 413, NULL, NULL, "the body has more than the %zu bytes that this path takes",
                 c->route->max_body);
    if (is_over || c->route->intake->push(c->intake, data, n, &e)) {
        if (c->answer == CALL_NONE)
            call_error(c, &e);
        c->closes = true;
    }
    return is_over ? refuse_now(c) : MHD_YES;
}

/* A body that cannot be taken is answered at once, and read on only to a bound: in bytes here, in
 * time by the watch. */
static enum MHD_Result take(struct call *c, const char *data, size_t n)
{
    struct api_error e;
    if (c->is_told) {
        c->n_waste += n;
        return c->n_waste < BODY_WASTE ? MHD_YES : MHD_NO;
    }
    c->n_sent += n; /* until there is an answer, what was read */
    if (!conn_enter(c->conn, CONN_BODY,
                    c->req.begin_us + c->http->o.body_us +
                        (int64_t)(c->n_sent / BODY_RATE) * 1000000))
        return MHD_NO;
    if (c->intake)
        return push(c, data, n);
    if (c->answer != CALL_NONE)
        return drop(c);
    if (!buf_add(&c->body, data, n) && !charge(c, &e))
        return MHD_YES;
    if (c->body.failed && !c->body.no_memory) {
        api_fail(&e, 413, NULL, NULL, "the body has more than the %zu bytes that this path takes",
                 c->route->max_body);
    } else if (c->body.failed) {
        api_fail(&e, 503, NULL, NULL, "the server has no memory for this body now");
        e.retry_after_s = 1;
    }
    call_error(c, &e);
    return refuse_now(c);
}

static enum MHD_Result go_on(struct call *c)
{
    if (!call_has_begun(c))
        return http_suspend(c) ? MHD_YES : MHD_NO;
    switch (c->answer == CALL_NONE ? call_turn(c) : CALL_SPEAKS) {
    case CALL_LEFT:
        return MHD_NO;
    case CALL_SPEAKS:
        if (c->answer != CALL_NONE)
            return respond(c);
        return MHD_NO;
    case CALL_QUIET:
        call_ping(c);
        if (c->answer != CALL_NONE)
            return respond(c);
        break;
    }
    return http_suspend(c) ? MHD_YES : MHD_NO;
}

/* ---- handlers of long bodies --------------------------------------------------------------- */

static int64_t begin_late(void *ctx)
{
    struct call *c = ctx;
    call_begin(c);
    call_wake(c);
    call_unref(c);
    return BACKGROUND_DONE;
}

static void refuse_late(struct call *c, const char *code, const char *why)
{
    struct api_error e;
    api_fail(&e, 503, code, NULL, "%s", why);
    e.retry_after_s = 1;
    call_error(c, &e);
    atomic_store(&c->is_begun, true);
}

static void drop_late(void *ctx)
{
    struct call *c = ctx;
    refuse_late(c, "shutting_down", "The server is being stopped.");
    call_wake(c);
    call_unref(c);
}

/* What a handler does with a body (parsing, rendering, tokenizing) takes as long as that is, and
 * this thread has others to serve. From the phase CONN_WAIT on the watch only wakes. */
static enum MHD_Result hand(struct call *c)
{
    const struct background_task task = {.run = begin_late,
                                         .drop = drop_late,
                                         .ctx = c,
                                         .bytes = c->req.n_body,
                                         .tenant = c->req.who->tenant,
                                         .weight = c->req.who->weight};
    struct err e = ERR_INIT;
    if (!conn_enter(c->conn, CONN_WAIT, c->due_us))
        return MHD_NO;
    c->is_handed = true;
    call_ref(c);
    if (background_give(c->http->o.work, c->http->o.lane, &task, &e)) {
        refuse_late(c, "overloaded", e.msg);
        call_unref(c);
    }
    return go_on(c);
}

/* The body is whole: the handler has it from here on. */
static enum MHD_Result whole(struct call *c)
{
    if (c->is_told)
        return MHD_NO;
    if (c->answer != CALL_NONE)
        return respond(c);
    c->req.body = c->body.data ? c->body.data : "";
    c->req.n_body = c->body.len;
    conn_call(c->conn, c);
    if (c->http->o.work && (c->req.n_body > BODY_LONG || c->route->in_background))
        return hand(c);
    call_begin(c);
    return go_on(c);
}

enum MHD_Result http_access(void *cls, struct MHD_Connection *m, const char *url,
                            const char *method, const char *version, const char *data, size_t *n,
                            void **ctx)
{
    struct call *c = *ctx;
    if (!c)
        return begin(cls, m, url, method, version, ctx);
    if (*n) {
        enum MHD_Result r = take(c, data, *n);
        *n = 0;
        return r;
    }
    return c->is_handed || c->waits ? go_on(c) : whole(c);
}

void http_end(struct call *c, bool is_whole)
{
    if (c->waits && !is_whole && !c->is_left) {
        c->is_left = true;
        if (c->later.gone)
            c->later.gone(c->later.ctx);
    }
    conn_call(c->conn, NULL);
    if (!c->is_told)
        settle(c, is_whole);
    call_unref(c);
}
