/* SPDX-License-Identifier: Apache-2.0
 *
 * Connecting, writing, reading: each returns CONN_RUNS when the socket has no more to give.
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

static enum conn_end go_on(struct conn *c);

const char *conn_end_name(enum conn_end end)
{
    static const char *const name[CONN_ENDS] = {
        [CONN_RUNS] = "running",         [CONN_GOOD] = "good",
        [CONN_STATUS] = "status",        [CONN_REFUSED] = "not connected",
        [CONN_CLOSED] = "closed",        [CONN_TIMEOUT] = "timed out",
        [CONN_BAD_REPLY] = "bad answer", [CONN_ERROR_EVENT] = "error in the stream",
        [CONN_CUT] = "stream cut"};
    return name[end];
}

void conn_init(struct conn *c, const struct url *url, struct hist *between)
{
    *c = (struct conn){.url = url, .between = between, .fd = -1};
    buf_init(&c->out, ASK_BYTES_MAX);
    reply_init(&c->reply);
    answer_init(&c->answer);
}

void conn_drop(struct conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->armed = 0;
    c->is_used = false;
    c->state = CONN_IDLE;
}

void conn_release(struct conn *c)
{
    conn_drop(c);
    buf_release(&c->out);
    reply_release(&c->reply);
    answer_release(&c->answer);
}

bool conn_wants_write(const struct conn *c)
{
    return c->state == CONN_CONNECTS || c->state == CONN_SENDS;
}

static enum conn_end fail(struct conn *c, enum conn_end end, const char *why)
{
    if (!c->answer.fault[0])
        snprintf(c->answer.fault, sizeof c->answer.fault, "%s", why);
    conn_drop(c);
    return end;
}

static enum conn_end fail_errno(struct conn *c, enum conn_end end)
{
    char text[ANSWER_FAULT_BYTES];
    return fail(c, end, strerror_r(errno, text, sizeof text));
}

/* ---- out ----------------------------------------------------------------------------------- */

static enum conn_end dial(struct conn *c)
{
    const struct url *u = c->url;
    int one = 1;
    c->fd = socket(u->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return fail_errno(c, CONN_REFUSED);
    if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        return fail_errno(c, CONN_REFUSED);
    c->state = CONN_CONNECTS;
    if (connect(c->fd, (const struct sockaddr *)&u->addr, u->n_addr) == 0) {
        c->state = CONN_SENDS;
        return go_on(c);
    }
    return errno == EINPROGRESS ? CONN_RUNS : fail_errno(c, CONN_REFUSED);
}

static enum conn_end connected(struct conn *c)
{
    socklen_t n = sizeof errno;
    int fault = 0;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &fault, &n) != 0)
        fault = errno;
    if (fault == 0) {
        c->state = CONN_SENDS;
        return go_on(c);
    }
    errno = fault;
    return fail_errno(c, CONN_REFUSED);
}

/* The connection broke. One that had served before may have been closed for its age. */
static enum conn_end broken(struct conn *c, const char *why)
{
    if (!c->is_used || c->has_reply)
        return fail(c, CONN_CLOSED, why);
    conn_drop(c);
    c->n_again++;
    c->n_sent = 0;
    return dial(c);
}

static enum conn_end go_on(struct conn *c)
{
    while (c->n_sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->n_sent, c->out.len - c->n_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return CONN_RUNS;
        if (n < 0) {
            /* a refusal may stand in the socket although the rest was not wanted */
            c->state = CONN_READS;
            return CONN_RUNS;
        }
        c->n_sent += (size_t)n;
    }
    c->state = CONN_READS;
    return CONN_RUNS;
}

enum conn_end conn_begin(struct conn *c, int64_t begin_us)
{
    reply_clear(&c->reply);
    answer_clear(&c->answer, false);
    c->begin_us = begin_us;
    c->first_us = c->last_us = 0;
    c->has_reply = false;
    c->n_sent = 0;
    if (c->fd < 0)
        return dial(c);
    c->state = CONN_SENDS;
    return go_on(c);
}

/* ---- in ------------------------------------------------------------------------------------ */

static void note_tokens(struct conn *c, int n)
{
    if (n == 0)
        return;
    int64_t now = clock_us();
    if (c->first_us == 0)
        c->first_us = now;
    else if (c->between)
        hist_add(c->between, now - c->last_us);
    for (int i = 1; i < n && c->between; i++)
        hist_add(c->between, 0); /* they came in one piece */
    c->last_us = now;
}

static enum conn_end judge(const struct conn *c)
{
    const struct answer *a = &c->answer;
    if (c->reply.status != 200)
        return CONN_STATUS;
    if (a->has_error)
        return CONN_ERROR_EVENT;
    if (a->is_bad)
        return CONN_BAD_REPLY;
    return a->is_over ? CONN_GOOD : CONN_CUT;
}

static enum conn_end whole(struct conn *c)
{
    answer_done(&c->answer);
    c->is_used = true;
    c->state = CONN_IDLE;
    if (c->reply.closes)
        conn_drop(c);
    return judge(c);
}

static enum conn_end take(struct conn *c, const char *at, const char *end)
{
    const char *body;
    size_t n;
    for (;;) {
        enum reply_got got = reply_next(&c->reply, &at, end, &body, &n);
        if (got == REPLY_WANTS)
            return CONN_RUNS;
        if (got == REPLY_BAD)
            return fail(c, CONN_BAD_REPLY, "not an answer of HTTP/1.1");
        if (got == REPLY_DONE)
            return at == end ? whole(c) : fail(c, CONN_BAD_REPLY, "bytes behind the answer");
        c->answer.is_stream = c->reply.is_event_stream && c->reply.status == 200;
        note_tokens(c, answer_feed(&c->answer, body, n));
        if (c->answer.is_bad && c->reply.status == 200)
            return fail(c, CONN_BAD_REPLY, "an event that is no JSON object");
    }
}

static enum conn_end closed(struct conn *c, const char *why)
{
    if (!reply_may_close(&c->reply))
        return broken(c, why);
    c->reply.closes = true;
    return whole(c);
}

static enum conn_end read_some(struct conn *c, char *scratch, size_t n_scratch)
{
    for (;;) {
        ssize_t n = recv(c->fd, scratch, n_scratch, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return CONN_RUNS;
        if (n < 0) {
            char text[ANSWER_FAULT_BYTES];
            return broken(c, strerror_r(errno, text, sizeof text));
        }
        if (n == 0)
            return closed(c, "the connection ended before the answer");
        c->has_reply = true;
        enum conn_end end = take(c, scratch, scratch + n);
        if (end != CONN_RUNS || (size_t)n < n_scratch)
            return end;
    }
}

enum conn_end conn_step(struct conn *c, char *scratch, size_t n_scratch)
{
    switch (c->state) {
    case CONN_CONNECTS:
        return connected(c);
    case CONN_SENDS:
        return go_on(c);
    case CONN_READS:
        return read_some(c, scratch, n_scratch);
    case CONN_IDLE: /* the server closed a connection that nobody uses */
        conn_drop(c);
        return CONN_RUNS;
    }
    return CONN_RUNS;
}
