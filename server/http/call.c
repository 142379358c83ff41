/* SPDX-License-Identifier: Apache-2.0
 *
 * What handlers do with a call, and how it waits and is woken. Nothing here knows the transport:
 * who brought the call in says how it is resumed, and finds its headers.
 */
#include "server/http/call.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/error.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "server/http/auth.h"
#include "server/http/call_own.h"
#include "server/http/conn.h"
#include "server/http/http.h"
#include "server/http/http_own.h"
#include "server/http/http_pack.h"

enum {
    ARENA_BYTES = 256 << 20, /* what a handler's parse may take */
    OUT_BYTES = 64 << 20,    /* a reply, or what of a stream was not taken yet */
    FULL_BYTES = 256 << 10   /* of a stream: hold back from here on */
};

struct call *call_new(struct http *h, const struct call_carrier *carrier)
{
    struct call *c = xcalloc(1, sizeof *c);
    c->http = h;
    c->carrier = carrier;
    atomic_init(&c->refs, 1);
    arena_init(&c->arena, ARENA_BYTES);
    buf_init(&c->body, 0);
    buf_init(&c->out, OUT_BYTES);
    c->req.begin_us = clock_us();
    return c;
}

struct call *call_ref(struct call *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void call_unref(struct call *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    if (c->waits && c->later.done)
        c->later.done(c->later.ctx);
    if (c->intake)
        c->route->intake->free(c->intake);
    buf_release(&c->body);
    buf_release(&c->out);
    arena_release(&c->arena);
    auth_unref(c->auth);
    if (c->carrier->freed)
        c->carrier->freed(c);
    free(c);
}

const struct call_request *call_request(const struct call *c)
{
    return &c->req;
}

struct server *call_server(const struct call *c)
{
    return http_server(c->http);
}

struct arena *call_arena(struct call *c)
{
    return &c->arena;
}

const char *call_header(const struct call *c, const char *name)
{
    return c->carrier->header(c, name);
}

const char *call_query(const struct call *c, const char *name)
{
    return c->carrier->query(c, name);
}

void *call_intake(const struct call *c)
{
    return c->intake;
}

void call_each_query(struct call *c, void (*fn)(void *ctx, const char *name, const char *value),
                     void *ctx)
{
    c->carrier->each_query(c, fn, ctx);
}

void call_note(struct call *c, const char *model, int64_t tok_in, int64_t tok_out)
{
    c->model = model ? arena_strdup(&c->arena, model) : c->model;
    c->tok_in = tok_in;
    c->tok_out = tok_out;
}

void call_span(struct call *c, const char *name, int64_t begin_us, int64_t end_us)
{
    struct call_span *s = ARENA_NEW(&c->arena, struct call_span);
    *s = (struct call_span){name, begin_us, end_us, c->span};
    c->span = s;
}

/* ---- the answer ---------------------------------------------------------------------------- */

void call_set_header(struct call *c, const char *name, const char *value)
{
    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            return;
    for (struct call_pair *old = c->header; old; old = old->next)
        if (strcasecmp(old->name, name) == 0) {
            old->value = arena_strdup(&c->arena, value);
            return;
        }
    struct call_pair *h = ARENA_NEW(&c->arena, struct call_pair);
    *h = (struct call_pair){arena_strdup(&c->arena, name), arena_strdup(&c->arena, value),
                            c->header};
    c->header = h;
}

/* A second answer, and one after the client went, are dropped: who answers need not know. */
static bool may_answer(const struct call *c)
{
    return c->answer == CALL_NONE;
}

static struct call_pair *header_of(struct call *c, const char *name)
{
    struct call_pair *h = c->header;
    while (h && strcasecmp(h->name, name) != 0)
        h = h->next;
    return h;
}

/* What is packed is another form of the same thing: caches are told, and its tag is a weak one. */
static void pack_body(struct call *c, const char *type, struct buf *body)
{
    const struct call_pair *vary = header_of(c, "Vary");
    struct call_pair *tag = header_of(c, "ETag");
    if (!pack_may(type, body->len))
        return;
    call_set_header(c, "Vary",
                    vary ? arena_printf(&c->arena, "%s, Accept-Encoding", vary->value)
                         : "Accept-Encoding");
    if (!pack_is_taken(call_header(c, "accept-encoding")) || !pack(body))
        return;
    call_set_header(c, "Content-Encoding", "gzip");
    if (tag)
        tag->value = arena_printf(&c->arena, "W/%s", tag->value);
}

void call_reply(struct call *c, int status, const char *type, struct buf *body)
{
    struct api_error e;
    if (body->failed) {
        buf_release(body);
        api_fail(&e, 500, "answer_too_large", NULL, "the answer does not fit the server's memory");
        call_error(c, &e);
        return;
    }
    if (may_answer(c)) {
        pack_body(c, type, body);
        c->answer = CALL_REPLY;
        c->status = status;
        c->type = type;
        c->out = *body;
        *body = (struct buf){.max_bytes = body->max_bytes};
    }
    buf_release(body);
}

void call_error(struct call *c, const struct api_error *error)
{
    struct buf body;
    buf_init(&body, 1 << 16);
    api_error_write(error, route_error_form(c->req.path), &body);
    if (error->retry_after_s > 0) {
        int s = error->retry_after_s < 120 ? error->retry_after_s : 120;
        call_set_header(c, "Retry-After", arena_printf(&c->arena, "%d", s));
        call_set_header(c, "retry-after-ms", arena_printf(&c->arena, "%d000", s));
    }
    if (error->no_retry)
        call_set_header(c, "x-should-retry", "false");
    if (error->status == 401)
        call_set_header(c, "WWW-Authenticate", "Bearer");
    call_reply(c, error->status, "application/json", &body);
}

void call_stream(struct call *c, const char *type)
{
    if (!may_answer(c))
        return;
    c->answer = CALL_STREAM;
    c->status = 200;
    c->type = type;
    c->is_events = strncmp(type, "text/event-stream", 17) == 0;
    c->spoke_us = clock_us();
    call_set_header(c, "Cache-Control", "no-cache");
    call_set_header(c, "X-Accel-Buffering", "no");
}

bool call_is_streaming(const struct call *c)
{
    return c->answer == CALL_STREAM;
}

void call_send(struct call *c, const void *p, size_t n)
{
    if (c->answer == CALL_STREAM && !c->is_ended)
        buf_add(&c->out, p, n);
}

bool call_is_full(const struct call *c)
{
    return c->out.len - c->out_at >= FULL_BYTES;
}

void call_end(struct call *c)
{
    c->is_ended = true;
}

void call_cut(struct call *c)
{
    c->is_left = true;
}

/* ---- waiting ------------------------------------------------------------------------------- */

void call_wait(struct call *c, const struct call_later *later)
{
    ASSERT(!c->waits);
    c->later = *later;
    c->waits = true;
    c->spoke_us = clock_us();
}

void call_wake(struct call *c)
{
    if (atomic_exchange(&c->wait, CALL_WOKEN) == CALL_SLEEPS)
        c->carrier->resume(c);
}

bool call_sleep(struct call *c)
{
    int word = CALL_RUNS;
    return atomic_compare_exchange_strong(&c->wait, &word, CALL_SLEEPS);
}

/* A wake that came before is taken: what it was for is looked at once the handler has returned,
 * which wakes again. */
bool call_has_begun(struct call *c)
{
    if (!atomic_load(&c->is_begun))
        atomic_exchange(&c->wait, CALL_RUNS);
    return atomic_load(&c->is_begun);
}

void call_late(struct call *c)
{
    atomic_store(&c->is_late, true);
    call_wake(c);
}

static void leave(struct call *c)
{
    if (c->is_left)
        return;
    c->is_left = true;
    if (c->waits && c->later.gone)
        c->later.gone(c->later.ctx);
}

/* The request's time is over: the client is told as far as it can still be. */
static enum call_turn expire(struct call *c)
{
    struct api_error e;
    leave(c);
    api_fail(&e, 504, NULL, NULL, "the request was not done within the server's --request-timeout");
    if (c->answer == CALL_STREAM && (c->is_events || c->later.error)) {
        if (c->later.error) {
            c->later.error(c->later.ctx, &e, &c->out);
        } else {
            buf_str(&c->out, "data: ");
            api_error_write(&e, API_ERROR_PLAIN, &c->out);
            buf_str(&c->out, "\n\n");
        }
        c->is_ended = true;
        return CALL_SPEAKS;
    }
    if (c->answer == CALL_STREAM)
        return CALL_LEFT;
    call_error(c, &e);
    return CALL_SPEAKS;
}

/* An answer that began now, or more of a stream. */
static bool has_spoken(const struct call *c, enum call_answer was)
{
    return c->answer != was || c->out_at < c->out.len || c->is_ended;
}

enum call_turn call_turn(struct call *c)
{
    enum call_answer was = c->answer;
    for (;;) {
        atomic_exchange(&c->wait, CALL_RUNS);
        if (c->carrier->is_gone(c)) {
            leave(c);
            return CALL_LEFT;
        }
        if (c->is_left)
            return CALL_LEFT;
        if (atomic_load(&c->is_late))
            return expire(c);
        c->later.step(c, c->later.ctx);
        if (c->out.failed || c->is_left)
            return CALL_LEFT;
        if (has_spoken(c, was))
            return CALL_SPEAKS;
        if (atomic_load(&c->wait) != CALL_WOKEN)
            return CALL_QUIET;
    }
}

/* A handler that neither answers nor waits has a fault of ours; its client is told something. */
void call_begin(struct call *c)
{
    struct api_error e;
    c->route->fn(c);
    if (!c->waits && c->answer == CALL_NONE) {
        api_fail(&e, 500, NULL, NULL, "the server had no answer");
        call_error(c, &e);
    }
    atomic_store(&c->is_begun, true);
}

bool call_pings(const struct call *c)
{
    bool is_due = c->answer == CALL_NONE && c->waits && c->later.streams;
    return c->http->o.ping_us > 0 && (c->is_events || is_due);
}

/* A proxy cuts what is silent, and many wait a minute only for an answer's first byte. */
void call_ping(struct call *c)
{
    int64_t now = clock_us();
    if (!call_pings(c) || now - c->spoke_us < c->http->o.ping_us)
        return;
    call_stream(c, "text/event-stream");
    buf_str(&c->out, c->later.ping ? c->later.ping : ": ping\n\n");
    c->spoke_us = now;
}
