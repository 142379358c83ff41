/* SPDX-License-Identifier: Apache-2.0
 *
 * What the transport asks of the server and tells it: who comes in, what a request came to. One
 * line of the log for each request, whose texts the log escapes; never what a prompt or an answer
 * says.
 */
#include "api/error.h"
#include "engine/base/log.h"
#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/server_own.h"

/* Where the engine's queue is full, a request for it is refused before its body is parsed and made
 * into tokens, which under overload is most of what a refusal costs. The engine looks again. */
static int check_queue(const struct server *s, const struct route *r, struct api_error *e)
{
    struct engine *g = atomic_load(&s->engine);
    if (!r->asks_engine)
        return 0;
    int64_t n = engine_waiting(g);
    if (n < engine_info(g)->max_waiting)
        return 0;
    api_fail(e, 503, NULL, NULL, "%lld generations wait already: try again later", (long long)n);
    e->retry_after_s = SERVER_RETRY_S;
    return -1;
}

/* Long tokens have 128 bytes, JSON's escapes make six of one, and templates leave some out. Tools
 * and schemas, whose faults are named, come to BODY_LEAST. */
enum { POSITION_BYTES = 1024, BODY_LEAST = 16 << 20 };

static int check_length(const struct server *s, const struct http_headers *h, const struct route *r,
                        struct api_error *e)
{
    struct engine *g = atomic_load(&s->engine);
    if (!r->is_one_text || h->length <= BODY_LEAST)
        return 0;
    int64_t ctx = engine_info(g)->ctx;
    if (h->length <= ctx * POSITION_BYTES || h->length > (int64_t)r->max_body)
        return 0;
    return api_fail(e, 413, "context_length_exceeded", NULL,
                    "The body has %lld bytes, and this model's maximum context length is %lld "
                    "tokens: no prompt that fits is so long.",
                    (long long)h->length, (long long)ctx);
}

int server_admit(void *ctx, struct call *c, const struct http_headers *headers,
                 const struct route_match *match, struct api_error *e)
{
    struct server *s = ctx;
    enum front_will will = FRONT_GOOD;
    if (atomic_load(&s->state) == SERVER_REFUSING)
        will = FRONT_REFUSING;
    else if (!atomic_load(&s->engine))
        will = FRONT_LOADING;
    if (door_admit(s, will, c, headers, match, e))
        return -1;
    if (!match->route || will != FRONT_GOOD)
        return 0;
    return check_length(s, headers, match->route, e) || check_queue(s, match->route, e) ? -1 : 0;
}

static void log_request(const struct http_record *r)
{
    const struct call_request *q = r->request;
    log_event(LOG_INFO, "request", LOG_TEXT("id", q->id), LOG_TEXT("method", q->method),
              LOG_TEXT("path", q->path), LOG_INT("status", r->status), LOG_BOOL("cut", r->is_cut),
              LOG_REAL("ms", (double)r->took_us / 1000), LOG_TEXT("key", q->who->name),
              LOG_TEXT("peer", q->peer), LOG_TEXT("model", r->model), LOG_INT("tok_in", r->tok_in),
              LOG_INT("tok_out", r->tok_out), LOG_INT("in", (int64_t)r->n_in),
              LOG_INT("out", (int64_t)r->n_out));
}

/* Who changed what, for who looks back; refused or not, and whatever the access log has. */
static void log_act(const struct http_record *r)
{
    const struct call_request *q = r->request;
    log_event(LOG_INFO, "act", LOG_TEXT("id", q->id), LOG_TEXT("act", r->route->name),
              LOG_TEXT("path", q->path), LOG_TEXT("key", q->who->name), LOG_TEXT("peer", q->peer),
              LOG_INT("status", r->status));
}

void server_ended(void *ctx, const struct http_record *r)
{
    const struct server *s = ctx;
    metrics_http(s->metrics, r->route ? (int)(r->route - routes) : -1, r->request->method,
                 r->status ? r->status : 499, r->took_us);
    metrics_key(s->metrics, r->request->who->name, r->status, r->tok_in, r->tok_out);
    if (s->traces)
        traces_add(s->traces, r);
    if (s->logs_requests)
        log_request(r);
    if (r->route && r->route->acts)
        log_act(r);
}

void server_connection(void *ctx, int change)
{
    const struct server *s = ctx;
    metrics_connection(s->metrics, change);
}
