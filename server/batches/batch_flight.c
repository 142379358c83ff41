/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines in flight: each is a call of the batch's route, and what it is answered goes to the log. A
 * line that the engine had no room for is asked again. So is one whose batch does not wait for
 * it any more: its call ends in its own time, and is counted until then, since it wakes us.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "server/batches/batches_own.h"
#include "server/http/inside.h"
#include "server/http/route.h"
#include "server/metrics/metrics.h"

enum { HOLD_US = 500 * 1000, LINE_ARENA = 256 << 20, ANSWER_BYTES = 512 << 20, DISK_FULL = 507 };

/* ---- what the call tells, on any thread ------------------------------------------------------ */

static void woken(void *ctx)
{
    struct batch_flight *f = ctx;
    struct batches *b = f->all;
    pthread_mutex_lock(&b->lock);
    f->is_woken = true;
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

static void freed(void *ctx)
{
    struct batch_flight *f = ctx;
    struct batches *b = f->all;
    free((void *)(uintptr_t)f->who.name);
    free(f->custom_id);
    free(f);
    pthread_mutex_lock(&b->lock);
    b->n_live--;
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

/* ---- a line begins --------------------------------------------------------------------------- */

static struct batch_flight *flight_new(struct batch_run *r, size_t i, const char *custom_id)
{
    struct batch_flight *f = xcalloc(1, sizeof *f);
    *f = (struct batch_flight){.all = r->all, .run = r, .who = r->who, .line = i, .is_woken = true};
    f->who.name = xstrdup(r->who.name);
    f->custom_id = xstrdup(custom_id);
    store_id("batch_req_", f->id);
    return f;
}

static const struct route *route_of(const struct batch *b)
{
    return route_find(routes, n_routes, "POST", b->endpoint).route;
}

static int ask(struct batch_run *r, size_t i, const struct batch_line *line, struct err *e)
{
    struct batches *b = r->all;
    struct buf body;
    buf_init(&body, line->n_body); /* may be longer than it was in its line */
    if (buf_add(&body, line->body, line->n_body)) {
        int rc = buf_check(&body, "a request of a batch", e);
        buf_release(&body);
        return rc;
    }
    struct batch_flight *f = flight_new(r, i, line->custom_id);
    const struct inside_ask ask = {.route = route_of(&r->batch),
                                   .who = &f->who,
                                   .id = f->id,
                                   .body = &body,
                                   .woken = woken,
                                   .freed = freed,
                                   .ctx = f};
    pthread_mutex_lock(&b->lock);
    b->n_live++;
    pthread_mutex_unlock(&b->lock);
    r->log.mark[i].kind = BATCH_FLIES;
    r->n_flying++;
    vec_push(&b->flight, f);
    metrics_add(b->opt.metrics, METRIC_batch_running, 0, 1);
    f->call = inside_begin(b->opt.http, &ask);
    return 0;
}

int batch_flight_begin(struct batch_run *r, struct err *e)
{
    struct batch_log *l = &r->log;
    struct batch_line line;
    struct api_error fault;
    struct arena a;
    while (r->next < l->n_line && l->mark[r->next].kind)
        r->next++;
    if (r->next == l->n_line)
        return 1;
    arena_init(&a, LINE_ARENA);
    const char *text = batch_input_read(&r->input, r->next, &a, e);
    int rc = text ? 0 : -1;
    if (!rc && batch_line_parse(text, (size_t)r->input.line.at[r->next].n, r->batch.endpoint, &a,
                                &line, &fault)) /* it was good before */
        rc = err_set(e, ERR_NO_MEMORY, "%s", fault.message);
    if (!rc)
        rc = ask(r, r->next, &line, e);
    arena_release(&a);
    return rc;
}

/* ---- a line ends ----------------------------------------------------------------------------- */

static void leave(struct batch_flight *f)
{
    struct batches *b = f->all;
    struct call *c = f->call;
    f->run->n_flying--;
    f->run = NULL;
    f->call = NULL;
    for (size_t i = 0; i < b->flight.n; i++)
        if (b->flight.at[i] == f) {
            b->flight.at[i] = b->flight.at[--b->flight.n];
            break;
        }
    metrics_add(b->opt.metrics, METRIC_batch_running, 0, -1);
    inside_drop(c); /* f may be gone */
}

static void open_again(struct batch_flight *f)
{
    struct batch_run *r = f->run;
    r->log.mark[f->line].kind = BATCH_OPEN_LINE;
    r->next = f->line < r->next ? f->line : r->next;
    leave(f);
}

/* What says nothing of the request: there was no room, in the engine or on the disk, the server
 * leaves, or the engine is lost. */
static bool is_no_answer(struct batches *b, int status)
{
    struct err unheard = ERR_INIT;
    return status == 503 || status == DISK_FULL ||
           (status >= 500 && engine_check(b->opt.engine, &unheard));
}

static int keep(struct batch_flight *f, const struct inside_answer *a)
{
    struct batch_run *r = f->run;
    bool is_good = a->status >= 200 && a->status < 300;
    struct buf json;
    buf_init(&json, ANSWER_BYTES);
    batch_answer_write(&json, f->id, f->custom_id, a->status, f->id, a->body.data, a->body.len);
    int rc = batch_log_add(&r->log, f->line, is_good ? BATCH_GOOD : BATCH_BAD, &json);
    if (!rc) {
        r->batch.n_good += is_good;
        r->batch.n_bad += !is_good;
        r->bytes_left -= (int64_t)json.len + 1;
        r->has_news = true;
        batch_usage_add(json.data, json.len, &r->batch.usage);
        metrics_add(r->all->opt.metrics, METRIC_batch_answers, 0, 1);
        metrics_key(r->all->opt.metrics, f->who.name, a->status, a->tok_in, a->tok_out);
    }
    buf_release(&json);
    return rc;
}

static void look(struct batch_flight *f)
{
    struct batches *b = f->all;
    struct inside_answer a;
    if (!inside_look(f->call, &a))
        return;
    bool is_kept = !is_no_answer(b, a.status) && !keep(f, &a);
    buf_release(&a.body);
    f->run->is_full = a.status == DISK_FULL;
    if (f->run->is_full) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_NO_SPACE, "the disk has no room for a response that is to be kept");
        batch_rest(f->run, &e);
    }
    if (is_kept) {
        leave(f);
        return;
    }
    b->hold_us = clock_us() + HOLD_US;
    open_again(f);
}

void batch_flights_look(struct batches *b)
{
    for (size_t i = b->flight.n; i-- > 0;) { /* who leaves is replaced by one that was looked at */
        struct batch_flight *f = b->flight.at[i];
        pthread_mutex_lock(&b->lock);
        bool was = f->is_woken;
        f->is_woken = false;
        pthread_mutex_unlock(&b->lock);
        if (was)
            look(f);
    }
}

void batch_flights_drop(const struct batch_run *r)
{
    struct batches *b = r->all;
    for (size_t i = b->flight.n; i-- > 0;)
        if (b->flight.at[i]->run == r)
            open_again(b->flight.at[i]);
}
