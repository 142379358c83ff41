/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines gather until they are whole; a line of data adds to the event, an empty one tells it.
 */
#include "clients/http/sse.h"

#include <string.h>

void sse_init(struct sse *s)
{
    *s = (struct sse){.has_data = false};
    buf_init(&s->line, SSE_BYTES_MAX);
    buf_init(&s->data, SSE_BYTES_MAX);
}

void sse_release(struct sse *s)
{
    buf_release(&s->line);
    buf_release(&s->data);
}

void sse_clear(struct sse *s)
{
    buf_clear(&s->line);
    buf_clear(&s->data);
    s->has_data = s->after_cr = false;
}

static void add_data(struct sse *s, const char *value, size_t n)
{
    if (n > 0 && *value == ' ') {
        value++;
        n--;
    }
    if (s->has_data)
        buf_char(&s->data, '\n');
    s->has_data = true;
    buf_add(&s->data, value, n);
}

static int end_line(struct sse *s, sse_fn *fn, void *ctx, struct err *e)
{
    static const char field[] = "data";
    const size_t n_field = sizeof field - 1;
    const char *line = s->line.data;
    size_t n = s->line.len;
    int rc = 0;
    if (n == 0 && s->has_data) {
        rc = fn(ctx, s->data.data ? s->data.data : "", s->data.len, e);
        buf_clear(&s->data);
        s->has_data = false;
    } else if (n == n_field && !memcmp(line, field, n_field)) {
        add_data(s, "", 0);
    } else if (n > n_field && !memcmp(line, field, n_field) && line[n_field] == ':') {
        add_data(s, line + n_field + 1, n - n_field - 1);
    }
    buf_clear(&s->line);
    return rc;
}

int sse_feed(struct sse *s, const char *p, size_t n, sse_fn *fn, void *ctx, struct err *e)
{
    const char *end = p + n;
    while (p < end) {
        if (s->after_cr && *p == '\n') {
            s->after_cr = false;
            p++;
            continue;
        }
        s->after_cr = false;
        const char *stop = p;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        buf_add(&s->line, p, (size_t)(stop - p));
        if (buf_check(&s->line, "a line of the stream", e) ||
            buf_check(&s->data, "an event of the stream", e))
            return -1;
        if (stop == end)
            break;
        s->after_cr = *stop == '\r';
        p = stop + 1;
        if (end_line(s, fn, ctx, e))
            return -1;
    }
    return 0;
}
