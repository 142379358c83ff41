/* SPDX-License-Identifier: Apache-2.0
 *
 * A request as spans, in OTLP's JSON: ids in hex, times as texts of nanoseconds since 1970. Names
 * of attributes are those of OpenTelemetry's conventions for HTTP and for generative models.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/jout.h"
#include "engine/base/version.h"
#include "server/http/route.h"
#include "server/traces/traces.h"

enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2, HTTP_BROKEN = 500 };
enum { TRACE_CHARS = 32, SPAN_CHARS = 16, FLAGS_AT = 53, PARENT_CHARS = 55, HTTP_GONE = 499 };

/* ---- which trace ----------------------------------------------------------------------------- */

static void draw_hex(char *out, size_t n_char)
{
    uint8_t draw[TRACE_CHARS / 2] = {0};
    if (getrandom(draw, n_char / 2, 0) != (ssize_t)(n_char / 2))
        draw[0] = 1; /* an id of zeros would be none */
    for (size_t i = 0; i < n_char / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", draw[i]);
}

static bool is_hex(const char *s, size_t n, bool may_be_zero)
{
    bool is_zero = true;
    for (size_t i = 0; i < n; i++) {
        if (!strchr("0123456789abcdef", s[i]) || !s[i])
            return false;
        is_zero = is_zero && s[i] == '0';
    }
    return may_be_zero || !is_zero;
}

/* VERSION-TRACE-PARENT-FLAGS; a later version may have more behind it. */
static bool is_parent(const char *s)
{
    return s && strlen(s) >= PARENT_CHARS && is_hex(s, 2, true) && strncmp(s, "ff", 2) != 0 &&
           s[2] == '-' && is_hex(s + 3, TRACE_CHARS, false) && s[35] == '-' &&
           is_hex(s + 36, SPAN_CHARS, false) && s[52] == '-' && is_hex(s + FLAGS_AT, 2, true) &&
           (s[PARENT_CHARS] == 0 || (s[PARENT_CHARS] == '-' && strncmp(s, "00", 2) != 0));
}

bool trace_begin(struct trace_ids *ids, const char *text, double share)
{
    uint32_t draw;
    if (is_parent(text)) {
        unsigned flags;
        snprintf(ids->trace, sizeof ids->trace, "%.*s", TRACE_CHARS, text + 3);
        snprintf(ids->parent, sizeof ids->parent, "%.*s", SPAN_CHARS, text + 36);
        return sscanf(text + FLAGS_AT, "%2x", &flags) == 1 && (flags & 1);
    }
    draw_hex(ids->trace, TRACE_CHARS);
    ids->parent[0] = 0;
    return sscanf(ids->trace + TRACE_CHARS - 8, "%8" SCNx32, &draw) == 1 &&
           (double)draw < share * 4294967296.0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void attribute(struct jout *j, const char *name, const char *kind)
{
    jout_open(j, '{');
    jout_put_str(j, "key", name);
    jout_key(j, "value");
    jout_open(j, '{');
    jout_key(j, kind);
}

static void attribute_end(struct jout *j)
{
    jout_close(j, '}');
    jout_close(j, '}');
}

static void put_text(struct jout *j, const char *name, const char *value)
{
    if (!value)
        return;
    attribute(j, name, "stringValue");
    jout_str(j, value);
    attribute_end(j);
}

static void put_int(struct jout *j, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    attribute(j, name, "intValue");
    jout_str(j, text);
    attribute_end(j);
}

static void put_time(struct jout *j, const char *key, int64_t wall_us)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64 "000", wall_us);
    jout_put_str(j, key, text);
}

/* ---- spans ----------------------------------------------------------------------------------- */

static struct jout begin_span(struct buf *out, const char *trace, const char *id,
                              const char *parent)
{
    if (out->len && strchr("}", out->data[out->len - 1]))
        buf_char(out, ',');
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "traceId", trace);
    jout_put_str(&j, "spanId", id);
    if (*parent)
        jout_put_str(&j, "parentSpanId", parent);
    return j;
}

static void put_times(struct jout *j, int64_t begin_us, int64_t end_us)
{
    put_time(j, "startTimeUnixNano", begin_us);
    put_time(j, "endTimeUnixNano", end_us > begin_us ? end_us : begin_us);
}

static void write_part(struct buf *out, const struct trace_ids *ids, const char *parent,
                       const struct call_span *part, int64_t to_wall_us)
{
    char id[SPAN_CHARS + 1];
    draw_hex(id, SPAN_CHARS);
    struct jout j = begin_span(out, ids->trace, id, parent);
    jout_put_str(&j, "name", part->name);
    jout_put_int(&j, "kind", KIND_INTERNAL);
    put_times(&j, part->begin_us + to_wall_us, part->end_us + to_wall_us);
    jout_close(&j, '}');
}

static void put_attributes(struct jout *j, const struct http_record *r)
{
    const struct call_request *q = r->request;
    jout_key(j, "attributes");
    jout_open(j, '[');
    put_text(j, "http.request.method", q->method);
    put_text(j, "http.route", r->route ? r->route->path : NULL);
    put_int(j, "http.response.status_code", r->status ? r->status : HTTP_GONE);
    put_text(j, "client.address", q->peer);
    put_text(j, "tandem.request_id", q->id);
    put_text(j, "tandem.key", q->who->name);
    put_text(j, "gen_ai.request.model", r->model);
    if (r->model) {
        put_int(j, "gen_ai.usage.input_tokens", r->tok_in);
        put_int(j, "gen_ai.usage.output_tokens", r->tok_out);
    }
    jout_close(j, ']');
}

void trace_write(struct buf *out, const struct trace_ids *ids, const struct http_record *r,
                 int64_t now_us, int64_t now_wall_us)
{
    char id[SPAN_CHARS + 1], name[256];
    int64_t to_wall_us = now_wall_us - now_us, begin_us = r->request->begin_us;
    draw_hex(id, SPAN_CHARS);
    snprintf(name, sizeof name, "%s%s%s", r->route ? r->request->method : "HTTP",
             r->route ? " " : "", r->route ? r->route->path : "");
    struct jout j = begin_span(out, ids->trace, id, ids->parent);
    jout_put_str(&j, "name", name);
    jout_put_int(&j, "kind", KIND_SERVER);
    put_times(&j, begin_us + to_wall_us, begin_us + r->took_us + to_wall_us);
    put_attributes(&j, r);
    if (r->status >= HTTP_BROKEN || r->is_cut) {
        jout_key(&j, "status");
        jout_open(&j, '{');
        jout_put_int(&j, "code", STATUS_ERROR);
        jout_close(&j, '}');
    }
    jout_close(&j, '}');
    for (const struct call_span *part = r->span; part; part = part->next)
        write_part(out, ids, id, part, to_wall_us);
}

void trace_write_head(struct buf *out, const char *service)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_key(&j, "resourceSpans");
    jout_open(&j, '[');
    jout_open(&j, '{');
    jout_key(&j, "resource");
    jout_open(&j, '{');
    jout_key(&j, "attributes");
    jout_open(&j, '[');
    put_text(&j, "service.name", service);
    put_text(&j, "service.version", version_number());
    jout_close(&j, ']');
    jout_close(&j, '}');
    jout_key(&j, "scopeSpans");
    jout_open(&j, '[');
    jout_open(&j, '{');
    jout_key(&j, "scope");
    jout_open(&j, '{');
    jout_put_str(&j, "name", "tandem");
    jout_close(&j, '}');
    jout_key(&j, "spans");
    jout_open(&j, '[');
}

void trace_write_tail(struct buf *out)
{
    buf_str(out, "]}]}]}");
}
