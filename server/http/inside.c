/* SPDX-License-Identifier: Apache-2.0
 *
 * The carrier of calls without a connection; see the header. Their waiting is that of a connection:
 * a wake exchanges the call's word, and who sleeps is told.
 */
#include "server/http/inside.h"

#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "engine/base/mem.h"
#include "server/http/call_own.h"
#include "server/http/http_own.h"

struct inside {
    void (*woken)(void *ctx);
    void (*freed)(void *ctx);
    void *ctx;
    bool is_left; /* who asked does not want it any more */
};

static void resume(struct call *c)
{
    c->inside->woken(c->inside->ctx);
}

static bool is_gone(struct call *c)
{
    return c->inside->is_left;
}

static const char *nothing(const struct call *c, const char *name)
{
    (void)c;
    (void)name;
    return NULL;
}

static void no_query(struct call *c, void (*fn)(void *ctx, const char *name, const char *value),
                     void *ctx)
{
    (void)c;
    (void)fn;
    (void)ctx;
}

static void freed(struct call *c)
{
    struct inside *n = c->inside;
    call_uncharge(c);
    n->freed(n->ctx);
    free(n);
}

static const struct call_carrier carrier = {.resume = resume,
                                            .is_gone = is_gone,
                                            .header = nothing,
                                            .query = nothing,
                                            .each_query = no_query,
                                            .freed = freed};

struct call *inside_begin(struct http *h, const struct inside_ask *a)
{
    struct call *c = call_new(h, &carrier);
    c->inside = xcalloc(1, sizeof *c->inside);
    *c->inside = (struct inside){.woken = a->woken, .freed = a->freed, .ctx = a->ctx};
    c->route = a->route;
    c->body = *a->body;
    *a->body = (struct buf){.max_bytes = a->body->max_bytes};
    c->req.method = a->route->method;
    c->req.path = a->route->path;
    c->req.body = c->body.data ? c->body.data : "";
    c->req.n_body = c->body.len;
    c->req.who = a->who;
    c->req.id = arena_strdup(&c->arena, a->id);
    c->req.peer = "local";
    call_begin(c);
    return c;
}

/* A handler that waits is looked at until it has said something, or nothing has woken it. */
static bool has_answer(struct call *c)
{
    while (c->answer == CALL_NONE && c->waits) {
        enum call_turn turn = call_turn(c);
        if (turn == CALL_LEFT)
            return false;
        if (turn == CALL_QUIET && call_sleep(c))
            return false;
    }
    return c->answer == CALL_REPLY;
}

bool inside_look(struct call *c, struct inside_answer *out)
{
    if (!has_answer(c))
        return false;
    out->status = c->status;
    out->tok_in = c->tok_in;
    out->tok_out = c->tok_out;
    out->body = c->out;
    c->out = (struct buf){.max_bytes = c->out.max_bytes};
    return true;
}

void inside_drop(struct call *c)
{
    c->inside->is_left = true;
    if (c->waits && c->answer == CALL_NONE && !c->is_left) {
        c->is_left = true;
        if (c->later.gone)
            c->later.gone(c->later.ctx);
    }
    call_unref(c);
}
