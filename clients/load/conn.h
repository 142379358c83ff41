/* SPDX-License-Identifier: Apache-2.0
 *
 * One client of the load: a connection that is kept, and the request that is on its way over it.
 * It never waits: load_conn_step does what the socket lets it do and returns.
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
enum load_conn_end {
    LOAD_CONN_RUNS,
    LOAD_CONN_GOOD,
    LOAD_CONN_STATUS,      /* an answer whose status is not 200 */
    LOAD_CONN_REFUSED,     /* no connection could be made */
    LOAD_CONN_CLOSED,      /* it closed before the answer was whole */
    LOAD_CONN_TIMEOUT,     /* longer than --timeout */
    LOAD_CONN_BAD_REPLY,   /* not HTTP, or not JSON */
    LOAD_CONN_ERROR_EVENT, /* an error in the midst of a stream */
    LOAD_CONN_CUT,         /* a stream without its [DONE] */
    LOAD_CONN_ENDS
};

const char *load_conn_end_name(enum load_conn_end end);

enum load_conn_state { LOAD_CONN_IDLE, LOAD_CONN_CONNECTS, LOAD_CONN_SENDS, LOAD_CONN_READS };

struct load_conn {
    const struct load_url *url; /* borrowed */
    struct load_hist
        *between; /* borrowed: takes the times between tokens; NULL: nobody wants them */
    enum load_conn_state state;
    int fd;          /* -1: none */
    uint32_t armed;  /* what the owner's epoll waits for on fd; 0: fd is unknown to it */
    bool is_used;    /* fd has carried an answer */
    bool has_reply;  /* a byte of this request's answer came */
    int64_t n_again; /* requests that were sent a second time */
    struct buf out;  /* the request */
    size_t n_sent;
    struct load_reply reply;
    struct load_answer answer;
    int64_t begin_us, first_us, last_us; /* of this request: set out, first token, last token */
};

void load_conn_init(struct load_conn *c, const struct load_url *url, struct load_hist *between);
void load_conn_release(struct load_conn *c);

/* The request in c->out sets out; its time began at begin_us. */
enum load_conn_end load_conn_begin(struct load_conn *c, int64_t begin_us);

/* The socket is ready. `scratch` is memory to read into, for the length of the call. */
enum load_conn_end load_conn_step(struct load_conn *c, char *scratch, size_t n_scratch);

/* Gives up the request: the connection is closed. */
void load_conn_drop(struct load_conn *c);

/* Whether it waits for room to write rather than for something to read. */
bool load_conn_wants_write(const struct load_conn *c);

#endif
