/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport: sockets on one side, calls on the other. Requests are read by a few threads, none
 * per connection; what is wrong with one as HTTP is answered here, who may ask is decided by the
 * front's `admit`, and then the route's function has the call (server/http/call.h).
 *
 *     http_new -> http_listen ... -> http_cut -> http_free
 *
 * Bounds: connections in all and per address, a request's headers (the connection's memory), its
 * body (the route's row, and a sum over all), times (server/http/conn.h).
 *
 * Thread: one makes, cuts and frees; the rest any.
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include <sys/socket.h>

#include "engine/base/err.h"
#include "server/http/route.h"

struct api_error;
struct background;
struct server;

/* The headers of a request, as far as anybody but handlers looks at them. NULL: not sent. */
struct http_headers {
    const char *method, *path; /* decoded, without the query */
    const char *host, *origin, *authorization, *api_key, *type, *coding, *length_text, *expect, *id;
    const char *content_coding;
    const char *trace;        /* traceparent */
    const char *forwarded;    /* X-Forwarded-For: for whom a proxy asks, where it may say so */
    const char *address;      /* of the connection's other end; NULL over a unix socket */
    const char *asks_headers; /* a preflight's: those that a page wants to send */
    int n_host, n_length, n_coding, n_authorization, n_api_key, n_type; /* times each was sent */
    int64_t length; /* of the body; -1: not said */
    bool is_old;    /* HTTP/1.0 */
    bool is_local;  /* over a unix socket */
};

/* What one request came to, for the log and the metrics. */
struct http_record {
    const struct call_request *request;
    const struct route *route; /* NULL: none fits */
    const char *model;
    int status;  /* 0: the client went before there was one */
    bool is_cut; /* the answer did not get out whole */
    int64_t took_us, tok_in, tok_out;
    uint64_t n_in, n_out;         /* bytes of the bodies */
    const struct call_span *span; /* its parts, newest first */
};

struct http_options {
    const struct route *route; /* borrowed: [n_route] */
    size_t n_route;
    unsigned n_thread, max_conn, max_conn_ip; /* max_conn_ip 0: no limit */
    int64_t request_timeout_us;               /* 0: none */
    int64_t headers_us, idle_us, stall_us;    /* 0: 10 s, 75 s, 30 s */
    int64_t body_us;                          /* beside what its length allows; 0: 30 s */
    int64_t ping_us;                          /* a stream's silence; 0: 15 s; -1: for ever */
    int64_t body_bytes;                       /* of all requests' bodies at once; 0: 512 MiB */
    struct server *server;                    /* borrowed: what call_server says */
    struct background *work; /* borrowed: where handlers of long bodies run; NULL: nowhere else */
    size_t lane;             /* of it */
    /* 0: on to the handler; -1: the error is the answer. It may answer the call itself. NULL: all
     * are welcome. */
    int (*admit)(void *ctx, struct call *c, const struct http_headers *headers,
                 const struct route_match *match, struct api_error *e);
    void (*ended)(void *ctx, const struct http_record *r); /* NULL: nobody asks */
    void (*connection)(void *ctx, int change);             /* NULL: nobody asks */
    void *ctx;
};

struct http;

struct http *http_new(const struct http_options *o, struct err *e);
/* The socket listens already; it is the transport's, also when this fails. */
int http_listen(struct http *h, int fd, struct err *e);
/* Connections that are made elsewhere: a daemon for them, with the threads of one that listens;
 * and one of them, with the address that its other end is told by. is_unnamed: that is a proxy's,
 * which did not say for whom it comes, so X-Forwarded-For is not looked at. The socket moves in,
 * also when this fails. */
int http_await(struct http *h, struct err *e);
int http_adopt_from(struct http *h, int fd, const struct sockaddr *from, socklen_t n_from,
                    bool is_unnamed, struct err *e);
int http_adopt(struct http *h, int fd, struct err *e); /* the same, of one thread and no address */
size_t http_busy(const struct http *h);                /* calls that have no whole answer yet */
void http_cut(struct http *h);                         /* every client is gone from here on */
void http_free(struct http *h);                        /* cuts, too */

struct server *http_server(const struct http *h);

#endif
