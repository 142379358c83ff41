/* SPDX-License-Identifier: Apache-2.0
 *
 * One client of the load: a connection that is kept, and the request that is on its way over it.
 * It never waits: conn_step does what the socket lets it do and returns.
 *
 * A server may close a kept connection just as a request sets out. A request that had no byte of an
 * answer over a connection used before is therefore sent once more, over a fresh one, and its time
 * runs on.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOAD_CONN_H
#define CLIENTS_LOAD_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "clients/load/answer.h"
#include "clients/load/hist.h"
#include "clients/load/reply.h"
#include "clients/load/url.h"

/* How a request ended: a row here is a row of the report. */
enum conn_end {
    CONN_RUNS,
    CONN_GOOD,
    CONN_STATUS,      /* an answer whose status is not 200 */
    CONN_REFUSED,     /* no connection could be made */
    CONN_CLOSED,      /* it closed before the answer was whole */
    CONN_TIMEOUT,     /* longer than --timeout */
    CONN_BAD_REPLY,   /* not HTTP, or not JSON */
    CONN_ERROR_EVENT, /* an error in the midst of a stream */
    CONN_CUT,         /* a stream without its [DONE] */
    CONN_ENDS
};

const char *conn_end_name(enum conn_end end);

enum conn_state { CONN_IDLE, CONN_CONNECTS, CONN_SENDS, CONN_READS };

struct conn {
    const struct url *url; /* borrowed */
    struct hist *between;  /* borrowed: takes the times between tokens; NULL: nobody wants them */
    enum conn_state state;
    int fd;          /* -1: none */
    uint32_t armed;  /* what the owner's epoll waits for on fd; 0: fd is unknown to it */
    bool is_used;    /* fd has carried an answer */
    bool has_reply;  /* a byte of this request's answer came */
    int64_t n_again; /* requests that were sent a second time */
    struct buf out;  /* the request */
    size_t n_sent;
    struct reply reply;
    struct answer answer;
    int64_t begin_us, first_us, last_us; /* of this request: set out, first token, last token */
};

void conn_init(struct conn *c, const struct url *url, struct hist *between);
void conn_release(struct conn *c);

/* The request in c->out sets out; its time began at begin_us. */
enum conn_end conn_begin(struct conn *c, int64_t begin_us);

/* The socket is ready. `scratch` is memory to read into, for the length of the call. */
enum conn_end conn_step(struct conn *c, char *scratch, size_t n_scratch);

/* Gives up the request: the connection is closed. */
void conn_drop(struct conn *c);

/* Whether it waits for room to write rather than for something to read. */
bool conn_wants_write(const struct conn *c);

#endif
