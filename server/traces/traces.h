/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces for OpenTelemetry: of each request a span, and below it spans of its parts, sent to a
 * collector by OTLP over HTTP, as JSON. Who asks may say which trace the request is a part of
 * (`traceparent`, W3C's), and whether that one is kept at all.
 *
 * Nothing waits for the collector: spans lie in a buffer with a ceiling until a thread has sent
 * them. What does not fit, and what the collector does not take, is counted, said once in the log
 * and lost.
 *
 *     traces_new -> traces_add ... -> traces_free
 *
 * Thread: traces_add any; new and free one.
 */
#ifndef SERVER_TRACES_TRACES_H
#define SERVER_TRACES_TRACES_H

#include "engine/base/buf.h"
#include "engine/base/url.h"
#include "server/http/http.h"

enum { TRACE_URL_BYTES = 2048 };

struct traces_options {
    const char *endpoint; /* the collector's; "/v1/traces" is asked below it */
    const char *service;  /* what the spans are of */
    const char *headers;  /* NAME=VALUE,NAME=VALUE, escaped as in a URL; NULL: none */
    double share;         /* of the requests whose sender says nothing, 0 to 1 */
};

/* The option's value, else what OpenTelemetry's own variable says; NULL: nobody is told. */
const char *traces_endpoint(const char *option);

struct traces;
struct traces *traces_new(const struct traces_options *o, struct err *e);
void traces_free(
    struct traces *t); /* sends what is there, for half a second at most; NULL is fine */
void traces_add(struct traces *t, const struct http_record *r);

/* What both sides of a request call it, in hex. */
struct trace_ids {
    char trace[33], parent[17]; /* parent "": this is the first */
};

/* False: it is not to be kept. text: of the header traceparent; NULL, or what is none: `share`
 * decides, by the id that is drawn. */
bool trace_begin(struct trace_ids *ids, const char *text, double share);

/* The request's spans as JSON, a comma before each but the first of the buffer. */
void trace_write(struct buf *out, const struct trace_ids *ids, const struct http_record *r,
                 int64_t now_us, int64_t now_wall_us);

/* What stands around them. */
void trace_write_head(struct buf *out, const char *service);
void trace_write_tail(struct buf *out);

#endif
