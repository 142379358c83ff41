/* SPDX-License-Identifier: Apache-2.0
 *
 * Errands as background work, in a lane where one runs after the other; and the data directory.
 */
#include "server/desk/desk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/background.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "server/data/data_dir.h"
#include "server/desk/desk_own.h"
#include "server/http/limit.h"
#include "server/jobs/jobs.h"
#include "server/server.h"

enum {
    AGAIN_US = 100 * 1000,
    KEEP_HOUSE_US = 60 * 1000 * 1000,
    LOOK_HOME_US = 1000 * 1000,
    FULL_BYTES = 256 << 10
};

/* ---- errands ------------------------------------------------------------------------------- */

/* Under the lock, as the next. */
static void enter_asking(struct errand *t)
{
    struct desk *d = t->desk;
    if (d->is_left)
        atomic_store(&t->is_gone, true);
    t->next = d->asking;
    d->asking = t;
}

static void leave_asking(struct errand *t)
{
    for (struct errand **at = &t->desk->asking; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
}

void desk_leave(struct desk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->is_left = true;
    for (struct errand *t = d->asking; t; t = t->next)
        atomic_store(&t->is_gone, true);
    pthread_mutex_unlock(&d->lock);
    store_leave(d->store);
}

bool desk_is_lost(struct desk *d, struct api_error *e)
{
    if (!store_is_lost(d->store))
        return false;
    api_fail(e, 503, "data_lost", NULL,
             "The server's data directory is gone: nothing can be kept now.");
    e->retry_after_s = 1;
    return true;
}

/* What makes room must be written down first, for which a full disk has the reserve alone. */
static bool has_more_room(struct desk *d, const struct errand *t, const struct api_error *e)
{
    const char *last = strrchr(t->ask->path, '/');
    bool makes_room = strcmp(t->ask->method, "DELETE") == 0 || (last && !strcmp(last, "/cancel"));
    return makes_room && e->code && strcmp(e->code, "no_space") == 0 &&
           data_reserve_give(store_dir(d->store));
}

/* One turn of an errand, on the lane's thread. What it wrote is moved to `ready`, which the HTTP
 * thread reads. */
static int64_t run(void *ctx)
{
    struct errand *t = ctx;
    struct desk *d = t->desk;
    struct api_error e = {0};
    pthread_mutex_lock(&d->lock);
    bool is_full = t->ready.len > FULL_BYTES;
    if (t->asks_others)
        enter_asking(t);
    pthread_mutex_unlock(&d->lock);
    enum errand_end end = is_full ? ERRAND_AGAIN : t->work(t, &e);
    if (end == ERRAND_FAILED && has_more_room(d, t, &e))
        end = ERRAND_ON;
    int64_t rest_us = end == ERRAND_ON ? 0 : AGAIN_US;
    end = end == ERRAND_ON ? ERRAND_AGAIN : end;
    if (end == ERRAND_FAILED)
        desk_is_lost(d, &e); /* whatever else it came to by that */
    t->n_run++;
    pthread_mutex_lock(&d->lock);
    if (t->asks_others)
        leave_asking(t);
    if (t->is_stream && t->out.len) {
        buf_add(&t->ready, t->out.data, t->out.len);
        buf_clear(&t->out);
    }
    t->end = end;
    t->error = e;
    bool goes_on = end == ERRAND_AGAIN && !atomic_load(&t->is_gone),
         has_news = !goes_on || t->ready.len;
    pthread_mutex_unlock(&d->lock);
    if (has_news)
        call_wake(t->call);
    if (goes_on)
        return clock_us() + rest_us;
    call_unref(t->call); /* t may be gone */
    return BACKGROUND_DONE;
}

static void fail(struct errand *t, const char *code, const char *why)
{
    pthread_mutex_lock(&t->desk->lock);
    api_fail(&t->error, 503, code, NULL, "%s", why);
    t->error.retry_after_s = 1;
    t->end = ERRAND_FAILED;
    pthread_mutex_unlock(&t->desk->lock);
    call_wake(t->call);
    call_unref(t->call);
}

static void drop(void *ctx)
{
    fail(ctx, "shutting_down", "The server is being stopped.");
}

void desk_put(struct desk *d, struct errand *t)
{
    struct err e = ERR_INIT;
    const struct who *who = t->ask->who;
    const struct background_task task = {
        .run = run, .drop = drop, .ctx = t, .tenant = who->tenant, .weight = who->weight};
    if (background_give(d->opt.work, t->asks_others ? SERVER_GRADERS : SERVER_DESK, &task, &e))
        fail(t, "overloaded", e.msg);
}

static int64_t keep_house(void *ctx)
{
    return clock_us() + (desk_keep_house(ctx) ? 0 : KEEP_HOUSE_US);
}

static int64_t look_home(void *ctx)
{
    struct desk *d = ctx;
    if (store_look_home(d->store))
        jobs_look_room(d->jobs);
    return clock_us() + LOOK_HOME_US;
}

static int64_t copy_store(void *ctx)
{
    desk_copy_store(ctx);
    return clock_us() + KEEP_HOUSE_US;
}

/* ---- the data directory -------------------------------------------------------------------- */

struct desk *desk_new(const struct desk_options *o, struct err *e)
{
    struct desk *d = xcalloc(1, sizeof *d);
    d->opt = *o;
    pthread_mutex_init(&d->lock, NULL);
    d->store = store_new(o->dir, e);
    if (d->store && !data_dir_sweep(store_dir(d->store), e) && !desk_sweep(d, e))
        return d;
    err_wrap(e, "--data-dir");
    desk_free(d);
    return NULL;
}

int desk_open(struct desk *d, struct engine *g, struct err *e)
{
    struct jobs_options o = {.engine = g,
                             .store = d->store,
                             .metrics = d->opt.metrics,
                             .dir = d->opt.dir,
                             .board = d->opt.board,
                             .wandb = d->opt.wandb,
                             .min_examples = d->opt.min_examples,
                             .at_once = d->opt.jobs_at_once,
                             .train_memory = d->opt.train_memory,
                             .graders = d->opt.graders,
                             .graders_at_once = d->opt.graders_at_once};
    d->engine = g;
    d->jobs = jobs_new(&o, e);
    if (!d->jobs)
        return -1;
    const struct background_task house = {.run = keep_house, .ctx = d},
                                 look = {.run = look_home, .ctx = d},
                                 copies = {.run = copy_store, .ctx = d};
    if (background_give(d->opt.work, SERVER_DESK, &look, e) ||
        background_give(d->opt.work, SERVER_DESK, &house, e) ||
        background_give(d->opt.work, SERVER_COPIES, &copies, e))
        return -1;
    atomic_store(&d->is_open, true);
    return 0;
}

void desk_stop(struct desk *d)
{
    if (!d)
        return;
    jobs_free(d->jobs);
    d->jobs = NULL;
}

void desk_free(struct desk *d)
{
    if (!d)
        return;
    desk_stop(d);
    store_free(d->store);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

bool desk_is_open(const struct desk *d)
{
    return atomic_load(&d->is_open);
}

const struct desk_options *desk_options(const struct desk *d)
{
    return &d->opt;
}

struct store *desk_store(struct desk *d)
{
    return d->store;
}

struct engine *desk_engine(struct desk *d)
{
    return d->engine;
}

void desk_wake_jobs(struct desk *d)
{
    jobs_wake(d->jobs);
}

char *desk_file_path(const struct desk *d, const char *id)
{
    return jobs_path(d->opt.dir, "files", id);
}

char *desk_part_path(const struct desk *d, const char *id)
{
    return jobs_path(d->opt.dir, data_folder_name(DATA_PARTS), id);
}

/* ---- claims -------------------------------------------------------------------------------- */

int64_t desk_quota(const struct desk *d, const struct call_request *ask)
{
    return ask->who->rule ? ask->who->rule->bytes : d->opt.quota;
}

void desk_claim_begin(struct desk *d, struct desk_claim *c, const char *owner, int64_t most)
{
    pthread_mutex_lock(&d->lock);
    *c = (struct desk_claim){.owner = owner, .most = most, .next = d->claim};
    d->claim = c;
    pthread_mutex_unlock(&d->lock);
}

int desk_claim_grow(struct desk *d, struct desk_claim *c, int64_t n, struct api_error *e)
{
    int64_t all = n, most = c->most;
    if (most == 0)
        return 0;
    pthread_mutex_lock(&d->lock);
    for (const struct desk_claim *x = d->claim; x; x = x->next)
        if (strcmp(x->owner, c->owner) == 0)
            all += x->bytes;
    /* who is refused holds nothing from here on: it must not refuse the next one, too */
    c->bytes = all <= most ? c->bytes + n : 0;
    pthread_mutex_unlock(&d->lock);
    return all <= most ? 0
                       : api_fail(e, 400, "files_quota_exceeded", "file",
                                  "This key's uploads under way have more than the %lld bytes that "
                                  "its files may have.",
                                  (long long)most);
}

void desk_claim_end(struct desk *d, struct desk_claim *c)
{
    pthread_mutex_lock(&d->lock);
    for (struct desk_claim **at = &d->claim; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&d->lock);
}
