/* SPDX-License-Identifier: Apache-2.0
 *
 * What the transport asks of the server and tells it: who comes in, what a request came to. One
 * line of the log for each request, whose texts the log escapes; never what a prompt or an answer
 * says.
 */
#include "engine/base/log.h"
#include "server/metrics.h"
#include "server/server_own.h"

int server_admit(void *ctx, struct call *c, const struct http_head *head,
                 const struct route_match *match, struct api_error *e)
{
    const struct server *s = ctx;
    enum front_will will = FRONT_GOOD;
    if (atomic_load(&s->state) == SERVER_REFUSING)
        will = FRONT_REFUSING;
    else if (!atomic_load(&s->engine))
        will = FRONT_LOADING;
    return front_admit(&s->front, will, http_busy(s->http), c, head, match, e);
}

static void log_request(const struct http_record *r)
{
    const struct call_request *q = r->request;
    log_event(LOG_INFO, "request", LOG_TEXT("id", q->id), LOG_TEXT("method", q->method),
              LOG_TEXT("path", q->path), LOG_INT("status", r->status), LOG_BOOL("cut", r->is_cut),
              LOG_REAL("ms", (double)r->took_us / 1000), LOG_TEXT("key", q->who->name),
              LOG_TEXT("peer", r->peer), LOG_TEXT("model", r->model), LOG_INT("tok_in", r->tok_in),
              LOG_INT("tok_out", r->tok_out), LOG_INT("in", (int64_t)r->n_in),
              LOG_INT("out", (int64_t)r->n_out));
}

void server_ended(void *ctx, const struct http_record *r)
{
    const struct server *s = ctx;
    metrics_http(s->metrics, r->route ? (int)(r->route - routes) : -1, r->request->method,
                 r->status ? r->status : 499, r->took_us);
    if (s->logs_requests)
        log_request(r);
}

void server_connection(void *ctx, int change)
{
    const struct server *s = ctx;
    metrics_connection(s->metrics, change);
}
