/* SPDX-License-Identifier: Apache-2.0
 *
 * A call from inside: what call.c and the transport (server/http/http*) share.
 *
 * Waiting is one atomic word. A wake exchanges it for WOKEN and resumes the connection only when it
 * was SLEEPS; the HTTP thread suspends the connection first and then exchanges RUNS for SLEEPS,
 * which fails when a wake came between, and then resumes it itself. So each suspension is resumed
 * once, by whoever changed the word, and no wake is lost.
 *
 * A handler of a long body runs as background work, and has the call for itself until it returns:
 * the HTTP thread that is woken meanwhile goes back to sleep.
 *
 * Thread: as call.h says; call_late from the watch.
 */
#ifndef SERVER_HTTP_CALL_OWN_H
#define SERVER_HTTP_CALL_OWN_H

#include <stdatomic.h>

#include "server/http/call.h"
#include "server/http/limit.h"
#include "server/http/route.h"

struct conn;
struct http;

enum call_word { CALL_RUNS, CALL_WOKEN, CALL_SLEEPS };

/* What a turn of the handler came to. */
enum call_turn {
    CALL_QUIET,  /* nothing yet: wait for a wake */
    CALL_SPEAKS, /* a reply, a stream or more of it is there */
    CALL_LEFT    /* the client is gone: close */
};

enum call_answer { CALL_NONE, CALL_REPLY, CALL_STREAM };

struct call_pair {
    const char *name, *value; /* in the arena */
    struct call_pair *next;
};

/* Who brought the call in, and takes its answer: a connection (http_call.c), or the server itself
 * (inside.c). */
struct call_carrier {
    void (*resume)(struct call *c); /* it sleeps, and was woken */
    bool (*is_gone)(struct call *c);
    const char *(*header)(const struct call *c, const char *name); /* NULL: none of that name */
    const char *(*query)(const struct call *c, const char *name);
    void (*each_query)(struct call *c, void (*fn)(void *ctx, const char *name, const char *value),
                       void *ctx);
    void (*freed)(struct call *c); /* nobody looks at it any more; NULL: nobody asks */
};

struct call {
    struct call_request req;
    struct http *http;                  /* borrowed */
    const struct call_carrier *carrier; /* borrowed */
    struct conn *conn;         /* borrowed until the transport ended the call; NULL: inside */
    void *mhd;                 /* borrowed, as conn */
    struct inside *inside;     /* owned by its carrier; NULL: a connection has it */
    const struct route *route; /* NULL: no row fits */
    struct arena arena;
    struct buf body, out;
    void *intake;             /* owned: of the route's intake; NULL */
    struct call_pair *header; /* of the answer, newest first */
    struct call_later later;
    struct grant grant;
    struct auth *auth; /* counted: of the request's key; NULL: none was looked for */
    _Atomic int refs;
    _Atomic int wait; /* enum call_word */
    _Atomic bool is_late;
    _Atomic bool is_begun; /* the handler has returned: the call is its HTTP thread's again */
    bool is_handed;        /* the handler runs as background work */
    enum call_answer answer;
    int status;
    const char *type;             /* of the answer's body */
    size_t out_at;                /* of out, what the transport has */
    size_t n_charged;             /* of it, in the sum of all bodies */
    uint64_t n_sent;              /* bytes of answers' bodies */
    uint64_t n_waste;             /* of the body, read after the answer */
    int64_t due_us;               /* of the whole request; 0: none */
    int64_t spoke_us;             /* when the stream last had something, or its waiting began */
    bool waits;                   /* later is set */
    bool is_left;                 /* gone ran: no step any more */
    bool is_ended;                /* the stream's end stands behind out */
    bool is_events;               /* the stream may hold comments */
    bool is_old;                  /* HTTP/1.0 */
    bool is_probed;               /* a client that sends no more was asked whether it is there */
    bool is_told;                 /* the answer went out before the body was whole */
    bool closes;                  /* the connection ends with the answer */
    const char *model;            /* call_note's, in the arena */
    const struct call_span *span; /* in the arena, newest first */
    int64_t tok_in, tok_out;
};

struct call *call_new(struct http *h, const struct call_carrier *carrier);
enum call_turn call_turn(struct call *c); /* the handler, or its step, until it says something */
void call_begin(struct call *c);          /* the handler */
bool call_sleep(struct call *c);          /* false: woken meanwhile; the connection is suspended */
bool call_has_begun(struct call *c);      /* false: the handler has it; nothing is looked at */
void call_say_left(struct call *c, const struct limit_rule *rule, const struct limit_view *v);
void call_uncharge(struct call *c);    /* all that it is charged */
void call_late(struct call *c);        /* its time is over */
bool call_pings(const struct call *c); /* its silence may be broken */
void call_ping(struct call *c);        /* does so if it is due */

#endif
