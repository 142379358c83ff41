/* SPDX-License-Identifier: Apache-2.0
 *
 * A call that no connection made: the server asks itself, on somebody's behalf. The handler of the
 * route has it like any other, with the same body, and answers it the same way; so whatever a field
 * does over HTTP it does here. What stands before the handler of a request (names, keys, limits of
 * the door) is left out: who asks has been let in before.
 *
 *     struct call *c = inside_begin(h, &ask);        the handler runs
 *     until inside_look(c, &answer): wait for `woken`
 *     inside_drop(c);
 *
 * Thread: begin, look and drop by one at a time; woken and freed from any, and they must not block.
 */
#ifndef SERVER_HTTP_INSIDE_H
#define SERVER_HTTP_INSIDE_H

#include "engine/base/buf.h"
#include "server/http/call.h"

struct http;
struct route;

struct inside_ask {
    const struct route *route; /* borrowed; without an intake */
    const struct who *who;     /* borrowed until `freed` */
    const char *id;            /* borrowed for the call: copied */
    struct buf *body;          /* moved out */
    void (*woken)(void *ctx);  /* it is worth to look */
    void (*freed)(void *ctx);  /* nobody looks at the call any more: last, once */
    void *ctx;
};

struct inside_answer {
    int status;
    int64_t tok_in, tok_out;
    struct buf body;
};

struct call *inside_begin(struct http *h, const struct inside_ask *a);

/* True: this is the answer, once; its body is moved out. Routes whose answer would be a stream are
 * not asked for one. */
bool inside_look(struct call *c, struct inside_answer *out);

/* Lets go of it. What still runs for it is cancelled; `freed` comes when that is over. */
void inside_drop(struct call *c);

#endif
