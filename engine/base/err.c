/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors as text made where the fault is known. Nothing here allocates: an error about memory
 * must not need any.
 */
#include "engine/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[ERR_COUNT] = {
#define ERR(name, text) [ERR_##name] = text,
#include "engine/base/err.def"
#undef ERR
};

/* Marks a text that lost its end. A character of several bytes is cut whole, so that the message
 * stays valid UTF-8 when it began so. */
static void mark_cut(char *msg, size_t cap)
{
    size_t at = cap - 4;
    while (at > 0 && ((unsigned char)msg[at] & 0xc0) == 0x80)
        at--;
    memcpy(msg + at, "...", 4);
}

static void format(char *msg, size_t cap, const char *fmt, va_list ap)
{
    int n = vsnprintf(msg, cap, fmt, ap);
    if (n < 0)
        snprintf(msg, cap, "(unprintable message)");
    else if ((size_t)n >= cap)
        mark_cut(msg, cap);
}

/* msg becomes "front: tail"; front and tail may lie in msg. */
static void join(char *msg, size_t cap, const char *front, const char *tail)
{
    char tmp[sizeof(((struct err *)0)->msg)];
    int n = snprintf(tmp, sizeof tmp, "%s: %s", front, tail);
    if ((size_t)n >= sizeof tmp)
        mark_cut(tmp, sizeof tmp);
    memcpy(msg, tmp, cap < sizeof tmp ? cap : sizeof tmp);
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    format(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    e->code = code;
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    char front[sizeof e->msg];
    va_list ap;
    va_start(ap, fmt);
    format(front, sizeof front, fmt, ap);
    va_end(ap);
    join(e->msg, sizeof e->msg, front, e->msg);
    return -1;
}

static enum err_code code_of(int no)
{
    switch (no) {
    case ENOENT:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* ulimit -f */
        return ERR_NO_SPACE;
    case ENOMEM:
        return ERR_NO_MEMORY;
    default:
        return ERR_IO;
    }
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int no = errno;
    if (!e)
        return -1;
    char front[sizeof e->msg], why[128];
    va_list ap;
    va_start(ap, fmt);
    format(front, sizeof front, fmt, ap);
    va_end(ap);
    join(e->msg, sizeof e->msg, front, strerror_r(no, why, sizeof why));
    e->code = code_of(no);
    return -1;
}

const char *err_name(enum err_code code)
{
    return (unsigned)code < ERR_COUNT ? names[code] : "unknown";
}

void bug_at(const char *file, int line, const char *fmt, ...)
{
    char msg[sizeof(((struct err *)0)->msg)];
    va_list ap;
    va_start(ap, fmt);
    format(msg, sizeof msg, fmt, ap);
    va_end(ap);
    fprintf(stderr, "tandem: a fault of the program at %s:%d: %s\n", file, line, msg);
    abort();
}
