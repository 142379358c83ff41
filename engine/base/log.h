/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: one event, one line, as text for people or as JSON for machines.
 *
 *     log_event(LOG_INFO, "listening", LOG_TEXT("host", host), LOG_INT("port", port));
 *     2026-01-31T23:59:59.123Z info  listening host="127.0.0.1" port=8080
 *     {"time":"2026-01-31T23:59:59.123Z","level":"info","event":"listening",...}
 *
 * What a client sent can stand in any text field and cannot forge a line or drive a terminal: bytes
 * below 0x20 and above 0x7e, quotes and backslashes are written as \n, \", \x9f. In JSON the same
 * escaped text is the string's content, so it stays harmless when a tool decodes it. A field shows
 * at most LOG_FIELD_BYTES bytes of its text and "..." when there were more; a line has an end, and
 * fields past it are replaced by one that says so.
 *
 * Prompts, answers, keys and paths outside the data folder are not for the log.
 *
 * Thread: any; a line is handed to the sink in one piece. log_configure before there are threads.
 */
#ifndef ENGINE_BASE_LOG_H
#define ENGINE_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };
enum log_format { LOG_AS_TEXT, LOG_AS_JSON };
enum { LOG_FIELD_BYTES = 256, LOG_LINE_BYTES = 8192 };

/* Takes a line with its newline; may be called by several threads at once. */
typedef void log_sink_fn(void *ctx, const char *line, size_t n);

/* sink NULL: standard error. */
void log_configure(enum log_level least, enum log_format format, log_sink_fn *sink, void *ctx);
void log_set_level(enum log_level least); /* at any time */
bool log_is_on(enum log_level level);     /* for what is costly to find out */

enum log_kind { LOG_KIND_END, LOG_KIND_TEXT, LOG_KIND_INT, LOG_KIND_REAL, LOG_KIND_BOOL };

struct log_field {
    enum log_kind kind;
    const char *key; /* a literal: letters, digits, _ */
    const char *text;
    size_t n; /* of text */
    int64_t i;
    double real;
};

struct log_field log_text(const char *key, const char *text); /* NULL: "" */

#define LOG_TEXT(k, s) log_text((k), (s))
#define LOG_BYTES(k, p, len)                                                                       \
    ((struct log_field){.kind = LOG_KIND_TEXT, .key = (k), .text = (p), .n = (len)})
#define LOG_INT(k, v)  ((struct log_field){.kind = LOG_KIND_INT, .key = (k), .i = (v)})
#define LOG_REAL(k, v) ((struct log_field){.kind = LOG_KIND_REAL, .key = (k), .real = (v)})
#define LOG_BOOL(k, v) ((struct log_field){.kind = LOG_KIND_BOOL, .key = (k), .i = (v)})

/* event: a literal of words. Keeps errno. */
void log_write(enum log_level level, const char *event, const struct log_field *field);

#define log_event(level, ...) log_event_(level, __VA_ARGS__, {.kind = LOG_KIND_END})
#define log_event_(level, event, ...)                                                              \
    log_write((level), (event), (const struct log_field[]){__VA_ARGS__})

/* "debug", "info", ...; -1 when the name is none of them. */
int log_level_parse(const char *name, enum log_level *level);

#endif
