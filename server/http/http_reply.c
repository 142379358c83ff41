/* SPDX-License-Identifier: Apache-2.0
 *
 * From a call's answer to a response, and the rhythm of streams: the library asks for bytes when
 * the last ones were taken; what is there is given, else the handler's step runs, else the
 * connection sleeps until a wake.
 */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "api/error.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "server/http/http_own.h"

enum {
    BLOCK_BYTES = 8 << 10,
    SEND_RATE = 64 << 10, /* bytes a second, at least, that a client must read */
    STREAM_KEEP = 256 << 10,
    EARLY_BYTES = 64 << 10,
    LINGER_US = 5 * 1000 * 1000
};

bool http_suspend(struct call *c)
{
    struct conn *n = c->conn;
    bool pings = atomic_load(&c->is_begun) && call_pings(c);
    atomic_store(&n->ping_us, pings ? c->spoke_us + c->http->o.ping_us : 0);
    if (!conn_enter(n, CONN_WAIT, c->due_us))
        return false;
    MHD_suspend_connection(c->mhd);
    if (!call_sleep(c))
        MHD_resume_connection(c->mhd);
    return true;
}

/* Gives what is there; 0 for nothing. */
static size_t give(struct call *c, char *to, size_t max)
{
    size_t n = c->out.len - c->out_at;
    if (n > max)
        n = max;
    if (n == 0)
        return 0;
    memcpy(to, c->out.data + c->out_at, n);
    c->out_at += n;
    c->n_sent += n;
    if (c->out_at == c->out.len) {
        c->out_at = 0;
        if (c->out.cap > STREAM_KEEP) {
            size_t most = c->out.max_bytes;
            buf_release(&c->out);
            buf_init(&c->out, most);
        } else {
            buf_clear(&c->out);
        }
    }
    c->spoke_us = clock_us();
    return conn_enter(c->conn, CONN_SEND, c->spoke_us + c->http->o.stall_us) ? n : 0;
}

/* The library loses a connection whose stream fails in the first turn after a rest: it stands as
 * closed, no event reaches it, and nobody cleans it up. With a timeout of its own it is among those
 * that are looked at in each of the daemon's rounds, and a round comes within a second. */
static ssize_t fail_stream(struct call *c)
{
    MHD_set_connection_option(c->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *to, size_t max)
{
    struct call *c = cls;
    (void)pos;
    for (;;) {
        size_t n = give(c, to, max);
        if (n)
            return (ssize_t)n;
        if (c->is_ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        switch (c->waits ? call_turn(c) : CALL_LEFT) {
        case CALL_LEFT:
            return fail_stream(c);
        case CALL_SPEAKS:
            continue;
        case CALL_QUIET:
            break;
        }
        call_ping(c);
        if (c->out_at < c->out.len)
            continue;
        return http_suspend(c) ? 0 : fail_stream(c);
    }
}

static struct MHD_Response *response_of(struct call *c)
{
    struct MHD_Response *r;
    if (c->answer == CALL_STREAM)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, c,
                                                 NULL);
    size_t n = c->out.len;
    char *p = buf_take(&c->out);
    if (!p && n == 0)
        return MHD_create_response_empty(MHD_RF_NONE);
    r = MHD_create_response_from_buffer_with_free_callback(n, p, free);
    if (!r)
        free(p);
    c->n_sent = n;
    return r;
}

static void add_headers(const struct call *c, struct MHD_Response *r)
{
    for (const struct call_pair *h = c->header; h; h = h->next)
        MHD_add_response_header(r, h->name, h->value);
    if (c->type)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, c->type);
    MHD_add_response_header(r, "x-request-id", c->req.id);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (c->closes)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
}

/* Past its headers a request cannot be answered through the library before its body is whole, so
 * this writes to the bare socket, which the library leaves alone meanwhile, and ends our side. What
 * the client still sends is then read and dropped for a while: closing at once would reset the
 * connection, and the client might never see the answer. */
bool http_answer_early(struct call *c)
{
    struct buf b;
    buf_init(&b, EARLY_BYTES);
    buf_printf(&b, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %zu\r\n", c->status,
               MHD_get_reason_phrase_for((unsigned)c->status), c->out.len);
    buf_printf(&b, "Content-Type: %s\r\nx-request-id: %s\r\n", c->type, c->req.id);
    buf_str(&b, "X-Content-Type-Options: nosniff\r\n");
    for (const struct call_pair *h = c->header; h; h = h->next)
        buf_printf(&b, "%s: %s\r\n", h->name, h->value);
    buf_str(&b, "\r\n");
    buf_add(&b, c->out.data, c->out.len);
    c->is_told = !b.failed && conn_enter(c->conn, CONN_SEND, clock_us() + LINGER_US) &&
                 send(c->conn->fd, b.data, b.len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)b.len &&
                 shutdown(c->conn->fd, SHUT_WR) == 0;
    c->n_sent = c->out.len;
    buf_release(&b);
    return c->is_told;
}

bool http_respond(struct call *c)
{
    struct http *h = c->http;
    int64_t size = (int64_t)c->out.len;
    int64_t due = clock_us() + h->o.stall_us + size / SEND_RATE * 1000000;
    c->n_sent = 0;
    if (!conn_enter(c->conn, CONN_SEND, due))
        return false;
    struct MHD_Response *r = response_of(c);
    if (!r)
        return false;
    add_headers(c, r);
    enum MHD_Result ok = MHD_queue_response(c->mhd, (unsigned)c->status, r);
    MHD_destroy_response(r);
    return ok == MHD_YES;
}

/* ---- what the library answers by itself ------------------------------------------------------ */

/* What it cannot read as a request it answers with a page of HTML, and closes. It offers no way to
 * say otherwise, so the linker (--wrap) leads its calls of this one function here; those of a
 * shared library it cannot lead, and they keep their pages. */
#if MHD_VERSION >= 0x00097701
struct MHD_Response *__real_MHD_create_response_from_buffer_static(size_t n, const void *page);
struct MHD_Response *__wrap_MHD_create_response_from_buffer_static(size_t n, const void *page);

/* The words of the page's body, without its marks and quotes. */
static void words_of(const char *page, size_t n, struct buf *text)
{
    const char *body = memmem(page, n, "<body>", 6), *end = page + n;
    for (const char *p = body ? body : page; p < end; p++) {
        if (*p == '<')
            p = memchr(p, '>', (size_t)(end - p));
        else if (end - p > 6 && memcmp(p, "&quot;", 6) == 0)
            p += 5;
        else
            buf_char(text, *p);
        if (!p)
            break;
    }
    if (text->len == 0)
        buf_str(text, "the request could not be read");
    buf_char(text, 0);
}

static void read_page(const char *page, size_t n, struct api_error *e)
{
    struct buf text;
    buf_init(&text, EARLY_BYTES);
    words_of(page, n, &text);
    const char *words = text.failed ? "the request could not be read" : text.data;
    if (memmem(page, n, "too big", 7))
        api_fail(e, 400, "request_too_large", NULL, "%s", words);
    else if (memmem(page, n, "Internal server error", 21))
        api_fail(e, 500, NULL, NULL, "%s", words);
    else
        api_fail(e, 400, "bad_request", NULL, "%s", words);
    buf_release(&text);
}

struct MHD_Response *__wrap_MHD_create_response_from_buffer_static(size_t n, const void *page)
{
    struct api_error e;
    struct buf body;
    struct MHD_Response *r = NULL;
    buf_init(&body, EARLY_BYTES);
    read_page(page, n, &e);
    api_error_write(&e, API_ERROR_PLAIN, &body);
    if (!body.failed)
        r = MHD_create_response_from_buffer(body.len, body.data, MHD_RESPMEM_MUST_COPY);
    buf_release(&body);
    if (!r)
        return __real_MHD_create_response_from_buffer_static(n, page);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    return r;
}
#endif
