/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of bytes that doubles until its ceiling. One byte more than the ceiling is reserved, for
 * the terminator.
 */
#include "engine/base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

void buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf){.max_bytes = max_bytes < SIZE_MAX / 4 ? max_bytes : SIZE_MAX / 4};
}

void buf_release(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max_bytes);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = b->no_memory = false;
    if (b->data)
        b->data[0] = 0;
}

int buf_reserve(struct buf *b, size_t more)
{
    if (b->failed)
        return -1;
    if (more > b->max_bytes - b->len) {
        b->failed = true;
        return -1;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return 0;
    size_t cap = b->cap < 32 ? 64 : b->cap * 2;
    if (cap > b->max_bytes + 1)
        cap = b->max_bytes + 1;
    if (cap < need)
        cap = need;
    char *data = try_resize(b->data, cap, "buffer", NULL);
    if (!data) {
        b->failed = b->no_memory = true;
        return -1;
    }
    b->data = data;
    b->cap = cap;
    b->data[b->len] = 0;
    return 0;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
    if (buf_reserve(b, n))
        return -1;
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
    return 0;
}

int buf_str(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_char(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    size_t room = b->failed || !b->data ? 0 : b->cap - b->len;
    int n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, ap);
    va_end(ap);
    int rc = -1;
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n >= room) {
        if (b->data)
            b->data[b->len] = 0; /* what the first try left behind */
        rc = buf_reserve(b, (size_t)n);
        if (!rc)
            vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    } else {
        rc = 0;
    }
    va_end(again);
    if (!rc)
        b->len += (size_t)n;
    return rc;
}

char *buf_take(struct buf *b)
{
    char *data = NULL;
    if (!b->failed)
        data = b->data ? b->data : xstrdup("");
    else
        free(b->data);
    buf_init(b, b->max_bytes);
    return data;
}

int buf_check(const struct buf *b, const char *what, struct err *e)
{
    if (!b->failed)
        return 0;
    if (b->no_memory)
        return err_set(e, ERR_NO_MEMORY, "%s: no memory to grow past %zu bytes", what, b->cap);
    return err_set(e, ERR_TOO_LARGE, "%s: more than the limit of %zu bytes", what, b->max_bytes);
}
