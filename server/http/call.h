/* SPDX-License-Identifier: Apache-2.0
 *
 * A call: one HTTP request and its answer, as a route's handler sees it. The transport
 * (server/http/http*) makes it when the body is whole, who asks is known and the route's scope is
 * held; the handler answers at once, or says how it will.
 *
 * To answer later, a handler leaves a step with call_wait. The step runs on an HTTP thread once at
 * once and then after each call_wake, and either returns (not yet), or calls call_reply, or opens a
 * stream with call_stream, adds to it with call_send, and ends it with call_end. When the client is
 * gone, or the request's time is over, `gone` runs instead, once, and no step afterwards. `done`
 * runs last, always, once.
 *
 * Who will call call_wake from another thread holds a reference to the call until it will do so no
 * more: a client can go at any time, and the engine notices one step later. `done` waits for the
 * last reference, and runs on the thread that lets go of it; so what a notification looks at (the
 * arena, the answers) is there as long as notifications come.
 *
 * Thread: a call belongs to one HTTP thread at a time, and until its handler returns, where its
 * body is long, to one of background work; call_wake, call_ref and call_unref from any thread that
 * holds a reference.
 */
#ifndef SERVER_HTTP_CALL_H
#define SERVER_HTTP_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

struct api_error;
struct call;
struct limit_rule;
struct server;

enum scope { SCOPE_OPEN = 0, SCOPE_INFERENCE = 1, SCOPE_TRAINING = 2, SCOPE_ADMIN = 4 };

/* Who asks: a key's row; constant while the server runs. */
struct who {
    const char *name; /* for the log and the metrics; "anonymous" */
    unsigned scopes;
    uint64_t salt;                 /* of this key's prefixes */
    uint64_t tenant;               /* by its name: whose turn it is; 0: there are no keys */
    int32_t weight;                /* of its work beside other tenants'; 0: 1 */
    bool is_idle;                  /* its work runs only while the engine has no other */
    const struct limit_rule *rule; /* what it may have; NULL: whatever it wants */
};

struct call_request {
    const char *method, *path; /* the path decoded, without the query */
    const char *param;         /* the {name} of the route, decoded; NULL */
    const char *body;          /* terminated */
    size_t n_body;
    const struct who *who;
    const char *trace; /* traceparent, as it was sent; NULL */
    const char *id;    /* x-request-id: the client's where it is good, else made */
    const char
        *peer; /* the client: ADDRESS:PORT, ADDRESS behind a proxy that is known, or "local" */
    int64_t begin_us;
};

const struct call_request *call_request(const struct call *c);
struct server *call_server(const struct call *c);
struct arena *call_arena(struct call *c);                        /* ends with the call */
const char *call_header(const struct call *c, const char *name); /* NULL */
const char *call_query(const struct call *c, const char *name);  /* decoded; NULL */
void *call_intake(const struct call *c); /* what the route's intake began with; NULL: it has none */

/* A part of the request's time, by clock_us, for who follows requests through several programs. The
 * name is constant. */
struct call_span {
    const char *name;
    int64_t begin_us, end_us;
    const struct call_span *next;
};
void call_span(struct call *c, const char *name, int64_t begin_us, int64_t end_us);

/* Every name and value of the query, decoded. */
void call_each_query(struct call *c, void (*fn)(void *ctx, const char *name, const char *value),
                     void *ctx);

/* What a request may come to, and the field that says so, for who is refused; NULL: none does. */
struct call_most {
    int64_t texts, tokens;
    const char *texts_field, *tokens_field;
};

/* Sets aside of the key's limits what the request may come to: texts that are made, tokens of
 * prompts and answers; until the call's end, once. -1: 429, or 400 where it could never be. */
int call_reserve(struct call *c, const struct call_most *most, struct api_error *e);
int64_t call_tokens_most(const struct call *c); /* that one may set aside; 0: any number */

/* Counts bytes that the request holds besides its body in the sum of all bodies (--body-memory),
 * until its end. -1: 503, or 413 where it could never be. */
int call_charge(struct call *c, size_t bytes, struct api_error *e);

/* A header for the answer, before it begins; said again, the new value holds. The value is copied;
 * control bytes are refused. */
void call_set_header(struct call *c, const char *name, const char *value);

/* The whole answer. The bytes are moved out of body. */
void call_reply(struct call *c, int status, const char *type, struct buf *body);

/* An error in the one shape that all have; see api/error.h. */
void call_error(struct call *c, const struct api_error *error);

struct call_later {
    void (*step)(struct call *c, void *ctx);
    void (*gone)(void *ctx);
    void (*done)(void *ctx);
    void *ctx;
    bool streams; /* an event stream is to come: a long silence may open it */
    /* Of a stream: its last words where its time is over, behind `gone`; and what breaks a silence.
     * NULL: the error as data; a comment. */
    void (*error)(void *ctx, const struct api_error *e, struct buf *out);
    const char *ping;
};
void call_wait(struct call *c, const struct call_later *later);
void call_wake(struct call *c); /* never lost: a step runs after it, if any ever runs again */
struct call *call_ref(struct call *c);
void call_unref(struct call *c);

/* Status 200 and the headers go out. Under text/event-stream a long silence is broken by a comment,
 * between two call_send: each holds whole events. Once opened, a second time is nothing. */
void call_stream(struct call *c, const char *type);
bool call_is_streaming(const struct call *c); /* too late for another status */
void call_send(struct call *c, const void *p, size_t n);
bool call_is_full(const struct call *c); /* the client reads slower than we send: hold back */
void call_end(struct call *c);
void call_cut(struct call *c); /* in a step: the client must see that the stream is not whole */

/* For the log and the metrics: tokens in, tokens out, the model that answered. */
void call_note(struct call *c, const char *model, int64_t tok_in, int64_t tok_out);

#endif
