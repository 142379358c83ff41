/* SPDX-License-Identifier: Apache-2.0
 *
 * Connecting, writing, reading: each returns LOAD_CONN_RUNS when the socket has no more to give.
 */
#include "clients/load/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clients/load/ask.h"
#include "engine/base/clock.h"

static enum load_conn_end go_on(struct load_conn *c);

const char *load_conn_end_name(enum load_conn_end end)
{
    static const char *const name[LOAD_CONN_ENDS] = {
        [LOAD_CONN_RUNS] = "running",         [LOAD_CONN_GOOD] = "good",
        [LOAD_CONN_STATUS] = "status",        [LOAD_CONN_REFUSED] = "not connected",
        [LOAD_CONN_CLOSED] = "closed",        [LOAD_CONN_TIMEOUT] = "timed out",
        [LOAD_CONN_BAD_REPLY] = "bad answer", [LOAD_CONN_ERROR_EVENT] = "error in the stream",
        [LOAD_CONN_CUT] = "stream cut"};
    return name[end];
}

void load_conn_init(struct load_conn *c, const struct load_url *url, struct load_hist *between)
{
    *c = (struct load_conn){.url = url, .between = between, .fd = -1};
    buf_init(&c->out, LOAD_ASK_BYTES_MAX);
    load_reply_init(&c->reply);
    load_answer_init(&c->answer);
}

void load_conn_drop(struct load_conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->armed = 0;
    c->is_used = false;
    c->state = LOAD_CONN_IDLE;
}

void load_conn_release(struct load_conn *c)
{
    load_conn_drop(c);
    buf_release(&c->out);
    load_reply_release(&c->reply);
    load_answer_release(&c->answer);
}

bool load_conn_wants_write(const struct load_conn *c)
{
    return c->state == LOAD_CONN_CONNECTS || c->state == LOAD_CONN_SENDS;
}

static enum load_conn_end fail(struct load_conn *c, enum load_conn_end end, const char *why)
{
    if (!c->answer.fault[0])
        snprintf(c->answer.fault, sizeof c->answer.fault, "%s", why);
    load_conn_drop(c);
    return end;
}

static enum load_conn_end fail_errno(struct load_conn *c, enum load_conn_end end)
{
    char text[LOAD_ANSWER_FAULT_BYTES];
    return fail(c, end, strerror_r(errno, text, sizeof text));
}

/* ---- out ----------------------------------------------------------------------------------- */

static enum load_conn_end dial(struct load_conn *c)
{
    const struct load_url *u = c->url;
    int one = 1;
    c->fd = socket(u->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return fail_errno(c, LOAD_CONN_REFUSED);
    if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        return fail_errno(c, LOAD_CONN_REFUSED);
    c->state = LOAD_CONN_CONNECTS;
    if (connect(c->fd, (const struct sockaddr *)&u->addr, u->n_addr) == 0) {
        c->state = LOAD_CONN_SENDS;
        return go_on(c);
    }
    return errno == EINPROGRESS ? LOAD_CONN_RUNS : fail_errno(c, LOAD_CONN_REFUSED);
}

static enum load_conn_end connected(struct load_conn *c)
{
    socklen_t n = sizeof errno;
    int fault = 0;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &fault, &n) != 0)
        fault = errno;
    if (fault == 0) {
        c->state = LOAD_CONN_SENDS;
        return go_on(c);
    }
    errno = fault;
    return fail_errno(c, LOAD_CONN_REFUSED);
}

/* The connection broke. One that had served before may have been closed for its age. */
static enum load_conn_end broken(struct load_conn *c, const char *why)
{
    if (!c->is_used || c->has_reply)
        return fail(c, LOAD_CONN_CLOSED, why);
    load_conn_drop(c);
    c->n_again++;
    c->n_sent = 0;
    return dial(c);
}

static enum load_conn_end go_on(struct load_conn *c)
{
    while (c->n_sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->n_sent, c->out.len - c->n_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return LOAD_CONN_RUNS;
        if (n < 0) {
            /* a refusal may stand in the socket although the rest was not wanted */
            c->state = LOAD_CONN_READS;
            return LOAD_CONN_RUNS;
        }
        c->n_sent += (size_t)n;
    }
    c->state = LOAD_CONN_READS;
    return LOAD_CONN_RUNS;
}

enum load_conn_end load_conn_begin(struct load_conn *c, int64_t begin_us)
{
    load_reply_clear(&c->reply);
    load_answer_clear(&c->answer, false);
    c->begin_us = begin_us;
    c->first_us = c->last_us = 0;
    c->has_reply = false;
    c->n_sent = 0;
    if (c->fd < 0)
        return dial(c);
    c->state = LOAD_CONN_SENDS;
    return go_on(c);
}

/* ---- in ------------------------------------------------------------------------------------ */

static void note_tokens(struct load_conn *c, int n)
{
    if (n == 0)
        return;
    int64_t now = clock_us();
    if (c->first_us == 0)
        c->first_us = now;
    else if (c->between)
        load_hist_add(c->between, now - c->last_us);
    for (int i = 1; i < n && c->between; i++)
        load_hist_add(c->between, 0); /* they came in one piece */
    c->last_us = now;
}

static enum load_conn_end judge(const struct load_conn *c)
{
    const struct load_answer *a = &c->answer;
    if (c->reply.status != 200)
        return LOAD_CONN_STATUS;
    if (a->has_error)
        return LOAD_CONN_ERROR_EVENT;
    if (a->is_bad)
        return LOAD_CONN_BAD_REPLY;
    return a->is_over ? LOAD_CONN_GOOD : LOAD_CONN_CUT;
}

static enum load_conn_end whole(struct load_conn *c)
{
    load_answer_done(&c->answer);
    c->is_used = true;
    c->state = LOAD_CONN_IDLE;
    if (c->reply.closes)
        load_conn_drop(c);
    return judge(c);
}

static enum load_conn_end take(struct load_conn *c, const char *at, const char *end)
{
    const char *body;
    size_t n;
    for (;;) {
        enum load_reply_got got = load_reply_next(&c->reply, &at, end, &body, &n);
        if (got == LOAD_REPLY_WANTS)
            return LOAD_CONN_RUNS;
        if (got == LOAD_REPLY_BAD)
            return fail(c, LOAD_CONN_BAD_REPLY, "not an answer of HTTP/1.1");
        if (got == LOAD_REPLY_DONE)
            return at == end ? whole(c) : fail(c, LOAD_CONN_BAD_REPLY, "bytes behind the answer");
        c->answer.is_stream = c->reply.is_event_stream && c->reply.status == 200;
        note_tokens(c, load_answer_feed(&c->answer, body, n));
        if (c->answer.is_bad && c->reply.status == 200)
            return fail(c, LOAD_CONN_BAD_REPLY, "an event that is no JSON object");
    }
}

static enum load_conn_end closed(struct load_conn *c, const char *why)
{
    if (!load_reply_may_close(&c->reply))
        return broken(c, why);
    c->reply.closes = true;
    return whole(c);
}

static enum load_conn_end read_some(struct load_conn *c, char *scratch, size_t n_scratch)
{
    for (;;) {
        ssize_t n = recv(c->fd, scratch, n_scratch, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return LOAD_CONN_RUNS;
        if (n < 0) {
            char text[LOAD_ANSWER_FAULT_BYTES];
            return broken(c, strerror_r(errno, text, sizeof text));
        }
        if (n == 0)
            return closed(c, "the connection ended before the answer");
        c->has_reply = true;
        enum load_conn_end end = take(c, scratch, scratch + n);
        if (end != LOAD_CONN_RUNS || (size_t)n < n_scratch)
            return end;
    }
}

enum load_conn_end load_conn_step(struct load_conn *c, char *scratch, size_t n_scratch)
{
    switch (c->state) {
    case LOAD_CONN_CONNECTS:
        return connected(c);
    case LOAD_CONN_SENDS:
        return go_on(c);
    case LOAD_CONN_READS:
        return read_some(c, scratch, n_scratch);
    case LOAD_CONN_IDLE: /* the server closed a connection that nobody uses */
        load_conn_drop(c);
        return LOAD_CONN_RUNS;
    }
    return LOAD_CONN_RUNS;
}
