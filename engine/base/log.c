/* SPDX-License-Identifier: Apache-2.0
 *
 * A line is built on the stack and written at once. Each field is built aside first and taken only
 * when it fits, so a JSON line is whole however long its fields are.
 */
#include "engine/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

/* Where lines go: one for the process, set at its start. */
static struct {
    _Atomic int least;
    enum log_format format;
    log_sink_fn *sink;
    void *ctx;
} log_ = {.least = LOG_INFO};

struct line {
    char at[LOG_LINE_BYTES];
    size_t n;
};

/* What is kept free for the note that fields are missing, the closing brace and the newline. */
enum { TAIL_BYTES = 32, ESCAPED_MAX = 5, KEY_MAX = 64 };

/* The longest a field can get: each byte as \\x9f, its key, its quotes. */
enum { FIELD_MAX = LOG_FIELD_BYTES * ESCAPED_MAX + KEY_MAX + 32 };

static void to_stderr(const char *line, size_t n)
{
    ssize_t done;
    do /* what cannot be written is lost: the log holds up nobody */
        done = write(STDERR_FILENO, line, n);
    while (done < 0 && errno == EINTR);
}

void log_configure(enum log_level least, enum log_format format, log_sink_fn *sink, void *ctx)
{
    log_.format = format;
    log_.sink = sink;
    log_.ctx = ctx;
    atomic_store(&log_.least, (int)least);
}

void log_set_level(enum log_level least)
{
    atomic_store(&log_.least, (int)least);
}

bool log_is_on(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&log_.least, memory_order_relaxed);
}

int log_level_parse(const char *name, enum log_level *level)
{
    for (int i = 0; i <= LOG_OFF; i++) {
        if (!strcmp(name, level_names[i])) {
            *level = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}

struct log_field log_text(const char *key, const char *text)
{
    if (!text)
        text = "";
    return LOG_BYTES(key, text, strnlen(text, LOG_FIELD_BYTES + 1));
}

/* One byte of a text, escaped; in JSON the escape's own backslash is escaped once more. */
static size_t escape(char *out, unsigned char c, bool json)
{
    static const char named[] = "\"\"\\\\\nn\tt\rr";
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    const char *name = NULL;
    for (const char *s = named; *s && !name; s += 2)
        if ((unsigned char)*s == c)
            name = s + 1;
    if (!name && c >= 0x20 && c <= 0x7e) {
        out[n++] = (char)c;
        return n;
    }
    out[n++] = '\\';
    if (json)
        out[n++] = '\\';
    if (name) {
        if (json && (c == '"' || c == '\\'))
            out[n++] = '\\';
        out[n++] = *name;
        return n;
    }
    out[n++] = 'x';
    out[n++] = hex[c >> 4];
    out[n++] = hex[c & 15];
    return n;
}

static size_t put_text(char *out, const struct log_field *f, bool json)
{
    size_t n = 0, shown = f->n < LOG_FIELD_BYTES ? f->n : LOG_FIELD_BYTES;
    out[n++] = '"';
    for (size_t i = 0; i < shown; i++)
        n += escape(out + n, (unsigned char)f->text[i], json);
    if (shown < f->n)
        n += (size_t)snprintf(out + n, 4, "...");
    out[n++] = '"';
    return n;
}

static size_t put_value(char *out, size_t cap, const struct log_field *f, bool json)
{
    switch (f->kind) {
    case LOG_KIND_INT:
        return (size_t)snprintf(out, cap, "%" PRId64, f->i);
    case LOG_KIND_REAL: /* JSON has no word for what is not finite */
        return (size_t)snprintf(out, cap, isfinite(f->real) || !json ? "%.9g" : "null", f->real);
    case LOG_KIND_BOOL:
        return (size_t)snprintf(out, cap, "%s", f->i ? "true" : "false");
    default:
        return put_text(out, f, json);
    }
}

/* false: it does not fit. */
static bool put_field(struct line *l, const struct log_field *f, bool json)
{
    char text[FIELD_MAX];
    size_t n = (size_t)snprintf(text, KEY_MAX + 8, json ? ",\"%.*s\":" : " %.*s=", KEY_MAX, f->key);
    n += put_value(text + n, sizeof text - n, f, json);
    if (l->n + n + TAIL_BYTES > sizeof l->at)
        return false;
    memcpy(l->at + l->n, text, n);
    l->n += n;
    return true;
}

static void build(struct line *l, enum log_level level, const char *event,
                  const struct log_field *field, bool json)
{
    char time[CLOCK_TEXT_BYTES];
    l->n = (size_t)snprintf(l->at, 256,
                            json ? "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%.128s\""
                                 : "%s %-5s %.128s",
                            clock_text(clock_wall_us(), time), level_names[level], event);
    bool fits = true;
    for (; field->kind != LOG_KIND_END && fits; field++)
        fits = put_field(l, field, json);
    l->n += (size_t)snprintf(l->at + l->n, TAIL_BYTES, "%s%s\n",
                             fits   ? ""
                             : json ? ",\"cut\":true"
                                    : " cut=true",
                             json ? "}" : "");
}

void log_write(enum log_level level, const char *event, const struct log_field *field)
{
    if (!log_is_on(level))
        return;
    int no = errno;
    struct line l;
    build(&l, level, event, field, log_.format == LOG_AS_JSON);
    if (log_.sink)
        log_.sink(log_.ctx, l.at, l.n);
    else
        to_stderr(l.at, l.n);
    errno = no;
}
