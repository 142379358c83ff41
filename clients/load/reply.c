/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine of eight states. Lines (the headers', chunks', trailers') gather in `headers` until
 * they are whole; only the body's bytes are handed on.
 */
#include "clients/load/reply.h"

#include <string.h>
#include <strings.h>

enum { LENGTH_DIGITS_MAX = 18, CHUNK_DIGITS_MAX = 15 };

void load_reply_init(struct load_reply *r)
{
    *r = (struct load_reply){0};
    buf_init(&r->headers, LOAD_REPLY_HEADERS_BYTES_MAX);
}

void load_reply_release(struct load_reply *r)
{
    buf_release(&r->headers);
}

void load_reply_clear(struct load_reply *r)
{
    struct buf headers = r->headers;
    buf_clear(&headers);
    *r = (struct load_reply){.headers = headers};
}

/* Adds bytes up to and with `last`; true when it came. */
static bool gather(struct load_reply *r, const char **at, const char *end, char last)
{
    const char *found = memchr(*at, last, (size_t)(end - *at));
    const char *stop = found ? found + 1 : end;
    buf_add(&r->headers, *at, (size_t)(stop - *at));
    *at = stop;
    return found != NULL;
}

/* ---- the headers ------------------------------------------------------------------------------
 */

/* The value of a header's line when its name is that one. */
static const char *value_of(const char *line, size_t n, const char *name, size_t *n_value)
{
    size_t n_name = strlen(name);
    if (n <= n_name || line[n_name] != ':' || strncasecmp(line, name, n_name) != 0)
        return NULL;
    const char *value = line + n_name + 1, *end = line + n;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *n_value = (size_t)(end - value);
    return value;
}

static bool has_word(const char *value, size_t n, const char *word)
{
    size_t n_word = strlen(word);
    for (size_t i = 0; i + n_word <= n; i++)
        if (strncasecmp(value + i, word, n_word) == 0)
            return true;
    return false;
}

static bool read_length(const char *value, size_t n, int64_t *length)
{
    *length = 0;
    if (n == 0 || n > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (value[i] < '0' || value[i] > '9')
            return false;
        *length = *length * 10 + (value[i] - '0');
    }
    return true;
}

static bool read_header(struct load_reply *r, const char *line, size_t n, bool *is_chunked)
{
    size_t n_value;
    const char *value;
    if ((value = value_of(line, n, "content-length", &n_value)) != NULL)
        return read_length(value, n_value, &r->left);
    if ((value = value_of(line, n, "transfer-encoding", &n_value)) != NULL)
        *is_chunked = has_word(value, n_value, "chunked");
    else if ((value = value_of(line, n, "connection", &n_value)) != NULL)
        r->closes = has_word(value, n_value, "close");
    else if ((value = value_of(line, n, "content-type", &n_value)) != NULL)
        r->is_event_stream = has_word(value, n_value, "text/event-stream");
    return true;
}

static bool read_status(struct load_reply *r, const char *line, size_t n)
{
    if (n < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ')
        return false;
    r->closes = line[7] == '0';
    r->status = 0;
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return false;
        r->status = r->status * 10 + (line[i] - '0');
    }
    return r->status >= 100;
}

/* How the body is framed follows from all headers. */
static void begin_body(struct load_reply *r, bool is_chunked)
{
    buf_clear(&r->headers);
    if (r->status < 200)
        r->state = LOAD_REPLY_HEAD; /* 100 Continue: the answer follows */
    else if (r->status == 204 || r->status == 304)
        r->state = LOAD_REPLY_OVER;
    else if (is_chunked)
        r->state = LOAD_REPLY_CHUNK_LINE;
    else if (r->left < 0) {
        r->state = LOAD_REPLY_UNTIL_CLOSE;
        r->closes = true;
    } else
        r->state = r->left > 0 ? LOAD_REPLY_LENGTH : LOAD_REPLY_OVER;
}

static bool read_headers(struct load_reply *r)
{
    const char *at = r->headers.data, *end = at + r->headers.len;
    bool is_chunked = false, is_first = true;
    r->left = -1;
    r->is_event_stream = false;
    while (at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((next ? next : end) - at);
        bool good = is_first ? read_status(r, at, n) : read_header(r, at, n, &is_chunked);
        if (!good)
            return false;
        is_first = false;
        at = next ? next + 1 : end;
    }
    begin_body(r, is_chunked);
    return true;
}

static bool ends_headers(const struct buf *headers)
{
    const char *p = headers->data;
    size_t n = headers->len;
    return (n >= 4 && memcmp(p + n - 4, "\r\n\r\n", 4) == 0) ||
           (n >= 2 && memcmp(p + n - 2, "\n\n", 2) == 0);
}

static enum load_reply_got step_headers(struct load_reply *r, const char **at, const char *end)
{
    while (*at < end) {
        bool is_line = gather(r, at, end, '\n');
        if (r->headers.failed)
            return LOAD_REPLY_BAD;
        if (is_line && ends_headers(&r->headers))
            return read_headers(r) ? LOAD_REPLY_BODY : LOAD_REPLY_BAD;
    }
    return LOAD_REPLY_WANTS;
}

/* ---- the body ------------------------------------------------------------------------------ */

static enum load_reply_got take_body(struct load_reply *r, const char **at, const char *end,
                                     const char **body, size_t *n)
{
    size_t here = (size_t)(end - *at);
    *body = *at;
    *n = r->state == LOAD_REPLY_UNTIL_CLOSE || (int64_t)here < r->left ? here : (size_t)r->left;
    *at += *n;
    if (r->state != LOAD_REPLY_UNTIL_CLOSE)
        r->left -= (int64_t)*n;
    if (r->state != LOAD_REPLY_UNTIL_CLOSE && r->left == 0)
        r->state = r->state == LOAD_REPLY_CHUNK ? LOAD_REPLY_CHUNK_END : LOAD_REPLY_OVER;
    return LOAD_REPLY_BODY;
}

static bool read_chunk_line(struct load_reply *r)
{
    const char *line = r->headers.data;
    int64_t size = 0;
    size_t n = 0;
    for (; n < r->headers.len; n++) {
        char c = line[n];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            break;
        if (n < CHUNK_DIGITS_MAX)
            size = size * 16 + digit;
    }
    if (n == 0 || n > CHUNK_DIGITS_MAX)
        return false;
    r->left = size;
    r->state = size > 0 ? LOAD_REPLY_CHUNK : LOAD_REPLY_TRAILER;
    return true;
}

/* A line of the framing: the size of a chunk, what ends a chunk, a trailer. */
static enum load_reply_got step_line(struct load_reply *r, const char **at, const char *end)
{
    bool is_line = gather(r, at, end, '\n');
    if (r->headers.failed || r->headers.len > LOAD_REPLY_CHUNK_LINE_MAX)
        return LOAD_REPLY_BAD;
    if (!is_line)
        return LOAD_REPLY_WANTS;
    bool is_empty = r->headers.len <= 2 && (r->headers.len == 1 || r->headers.data[0] == '\r');
    bool is_good = true;
    if (r->state == LOAD_REPLY_CHUNK_LINE)
        is_good = read_chunk_line(r);
    else if (r->state == LOAD_REPLY_CHUNK_END) {
        is_good = is_empty;
        r->state = LOAD_REPLY_CHUNK_LINE;
    } else if (is_empty)
        r->state = LOAD_REPLY_OVER;
    buf_clear(&r->headers);
    return is_good ? LOAD_REPLY_BODY : LOAD_REPLY_BAD;
}

enum load_reply_got load_reply_next(struct load_reply *r, const char **at, const char *end,
                                    const char **body, size_t *n)
{
    *n = 0;
    for (;;) {
        enum load_reply_got got = LOAD_REPLY_WANTS;
        if (r->state == LOAD_REPLY_OVER)
            return LOAD_REPLY_DONE;
        if (*at == end)
            return LOAD_REPLY_WANTS;
        if (r->state == LOAD_REPLY_HEAD)
            got = step_headers(r, at, end);
        else if (r->state == LOAD_REPLY_CHUNK || r->state == LOAD_REPLY_LENGTH ||
                 r->state == LOAD_REPLY_UNTIL_CLOSE)
            return take_body(r, at, end, body, n);
        else
            got = step_line(r, at, end);
        if (got != LOAD_REPLY_BODY)
            return got;
    }
}

bool load_reply_may_close(const struct load_reply *r)
{
    return r->state == LOAD_REPLY_OVER || r->state == LOAD_REPLY_UNTIL_CLOSE;
}
