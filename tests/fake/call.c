/* SPDX-License-Identifier: Apache-2.0
 *
 * The promises of server/http/call.h, kept without a connection; breaches of the other side's (a
 * second answer, a send when full, a reference that stays) fail the test.
 */
#include "tests/fake/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "engine/base/clock.h"
#include "server/server.h"
#include "tests/lib/test.h"

static struct engine *engine; /* one test runs at a time */
static struct background *work;
static struct metrics *metrics;
static const char *adapter_root;
static const struct who who = {.name = "test", .salt = 7};

void fake_engine(struct engine *g)
{
    engine = g;
}

void fake_work(struct background *b)
{
    work = b;
}

void fake_metrics(struct metrics *m)
{
    metrics = m;
}

void fake_adapter_root(const char *path)
{
    adapter_root = path;
}

bool server_is_ready(const struct server *s)
{
    (void)s;
    return engine;
}

const char *server_adapter_root(const struct server *s)
{
    (void)s;
    return adapter_root;
}

struct engine *server_engine(const struct server *s)
{
    (void)s;
    return engine;
}

struct background *server_work(const struct server *s)
{
    (void)s;
    return work;
}

struct breakers *server_breakers(const struct server *s)
{
    (void)s;
    return NULL;
}

struct metrics *server_metrics(const struct server *s)
{
    (void)s;
    return metrics;
}

const struct call_request *call_request(const struct call *c)
{
    return &c->request;
}

struct server *call_server(const struct call *c)
{
    (void)c;
    return NULL;
}

struct arena *call_arena(struct call *c)
{
    return &c->arena;
}

int call_reserve(struct call *c, const struct call_most *most, struct api_error *e)
{
    (void)c, (void)most, (void)e;
    return 0;
}

int call_charge(struct call *c, size_t bytes, struct api_error *e)
{
    (void)c, (void)bytes, (void)e;
    return 0;
}

int64_t call_tokens_most(const struct call *c)
{
    (void)c;
    return 0;
}

void call_set_header(struct call *c, const char *name, const char *value)
{
    size_t n = strlen(c->headers);
    snprintf(c->headers + n, sizeof c->headers - n, "%s: %s\n", name, value);
}

void call_reply(struct call *c, int status, const char *type, struct buf *body)
{
    assert_false(c->is_over || c->is_stream);
    snprintf(c->type, sizeof c->type, "%s", type);
    c->is_over = true;
    c->status = status;
    buf_add(&c->body, body->data, body->len);
    buf_release(body);
}

void call_error(struct call *c, const struct api_error *error)
{
    struct buf body;
    buf_init(&body, 1 << 16);
    api_error_write(error, API_ERROR_PLAIN, &body);
    call_reply(c, error->status, "application/json", &body);
}

void call_wait(struct call *c, const struct call_later *later)
{
    c->later = *later;
    c->is_later = true;
    call_wake(c);
}

void call_wake(struct call *c)
{
    pthread_mutex_lock(&c->lock);
    c->is_woken = true;
    pthread_cond_signal(&c->woken);
    pthread_mutex_unlock(&c->lock);
}

struct call *call_ref(struct call *c)
{
    pthread_mutex_lock(&c->lock);
    c->n_ref++;
    pthread_mutex_unlock(&c->lock);
    return c;
}

void call_unref(struct call *c)
{
    pthread_mutex_lock(&c->lock);
    c->n_ref--;
    pthread_cond_signal(&c->woken);
    pthread_mutex_unlock(&c->lock);
}

void call_stream(struct call *c, const char *type)
{
    assert_string_equal(type, "text/event-stream");
    assert_false(c->is_over);
    c->is_stream = true;
    c->status = 200;
}

bool call_is_streaming(const struct call *c)
{
    return c->is_stream;
}

void call_send(struct call *c, const void *p, size_t n)
{
    assert_true(c->is_stream && !c->is_over && n > 0);
    assert_false(c->is_full);
    buf_add(&c->body, p, n);
    c->n_send++;
}

bool call_is_full(const struct call *c)
{
    return c->is_full;
}

void call_end(struct call *c)
{
    assert_true(c->is_stream && !c->is_over);
    c->is_over = true;
}

void call_span(struct call *c, const char *name, int64_t begin_us, int64_t end_us)
{
    (void)c;
    assert_non_null(name);
    assert_true(begin_us <= end_us);
}

void call_note(struct call *c, const char *model, int64_t in, int64_t out)
{
    assert_non_null(model);
    c->tok_in = in;
    c->tok_out = out;
}

/* True when woken; false after so many milliseconds. */
static bool rest(struct call *c, int ms)
{
    int64_t until_ns = clock_ns() + ms * INT64_C(1000000);
    pthread_mutex_lock(&c->lock);
    while (!c->is_woken && clock_cond_wait(&c->woken, &c->lock, until_ns))
        continue;
    bool was = c->is_woken;
    c->is_woken = false;
    pthread_mutex_unlock(&c->lock);
    return was;
}

static void serve(struct call *c, const struct fake_client *client)
{
    while (!c->is_over) {
        if (!rest(c, 60000))
            fail_msg("nothing happened for a minute");
        if (client->leaves && c->n_send >= client->leave_at) {
            c->later.gone(c->later.ctx);
            break;
        }
        c->later.step(c, c->later.ctx);
        if (!client->reads_slowly || c->is_over)
            continue;
        c->is_full = c->n_send > 0;
        c->is_full = c->is_full && rest(c, 50);
        call_wake(c);
    }
}

/* Whoever else holds the call lets go of it. */
static void await_last(struct call *c)
{
    int64_t until_ns = clock_ns() + INT64_C(60000000000);
    bool in_time = true;
    pthread_mutex_lock(&c->lock);
    while (c->n_ref > 1 && in_time)
        in_time = clock_cond_wait(&c->woken, &c->lock, until_ns);
    pthread_mutex_unlock(&c->lock);
    assert_true(in_time);
}

static struct call *ask(void (*route)(struct call *c), struct call_request request,
                        struct fake_client client)
{
    struct call *c = calloc(1, sizeof *c);
    arena_init(&c->arena, (size_t)256 << 20);
    buf_init(&c->body, (size_t)256 << 20);
    pthread_mutex_init(&c->lock, NULL);
    clock_cond_init(&c->woken);
    c->request = request;
    c->request.who = &who;
    c->request.id = "id-1";
    c->n_ref = 1;
    route(c);
    if (!c->is_later)
        return c;
    serve(c, &client);
    await_last(c);
    c->later.done(c->later.ctx);
    return c;
}

struct call *fake_post(void (*route)(struct call *c), const char *body, struct fake_client client)
{
    return ask(route, (struct call_request){.method = "POST", .body = body, .n_body = strlen(body)},
               client);
}

struct call *fake_get(void (*route)(struct call *c), const char *param)
{
    return ask(route, (struct call_request){.method = "GET", .param = param},
               (struct fake_client){.leaves = false});
}

void fake_free(struct call *c)
{
    arena_release(&c->arena);
    buf_release(&c->body);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->woken);
    free(c);
}
