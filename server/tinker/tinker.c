/* SPDX-License-Identifier: Apache-2.0
 *
 * Its life, and how requests come in and end.
 */
#include "server/tinker/tinker.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/data/data_dir.h"
#include "server/tinker/tinker_own.h"

enum {
    REST_NS = 1000 * 1000 * 1000,
    WAITING_MAX = 4096,
    WAITING_BYTES_MAX = 256 << 20,
    MODELS_MAX = 256
};

const char *tinker_path(const struct tinker *t, const char *name, struct arena *a)
{
    return arena_printf(a, "%s/%s/%s", t->opt.dir, data_folder_name(DATA_LOOPS), name);
}

static const char *dashed(const char *id, struct arena *a)
{
    char *name = arena_strdup(a, id);
    for (char *p = name; *p; p++)
        if (*p == ':')
            *p = '-';
    return name;
}

const char *tinker_state_name(const char *model, int64_t seq, struct arena *a)
{
    return arena_printf(a, "%s-state-%lld", dashed(model, a), (long long)seq);
}

const char *tinker_saved_name(const char *request, struct arena *a)
{
    return dashed(request, a);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void wake(struct tinker *t, bool samples)
{
    pthread_mutex_lock(&t->lock);
    if (samples)
        t->has_sample = true;
    else
        t->has_train = true;
    pthread_cond_signal(samples ? &t->sample_wake : &t->train_wake);
    pthread_mutex_unlock(&t->lock);
}

static int refuse(const struct err *why, const struct loop_request *r, const char *session,
                  struct api_error *e)
{
    if (why->code == ERR_BUSY) {
        api_fail(e, 429, "requests_waiting_limit", NULL, "%s.", why->msg);
        e->retry_after_s = 1;
        return -1;
    }
    if (why->code == ERR_NO_SPACE && session)
        return api_fail(e, 400, "models_limit", NULL, "%s: finish sessions that have ended.",
                        why->msg);
    if (why->code == ERR_TOO_LARGE)
        return api_fail(e, 400, "files_quota_exceeded", NULL,
                        "%s: step, finish sessions that have ended, or delete what was saved.",
                        why->msg);
    if (why->code != ERR_NOT_FOUND)
        return api_fail_err(e, why, NULL);
    return api_fail(e, 404, "not_found", r->kind == TINKER_SAMPLE ? "sampling_session_id" : NULL,
                    "This key has no session, model or sampler '%.96s'.", r->line);
}

/* One that no turn would come for while this base is served. */
static int check_base(struct tinker *t, const struct loop_request *r, struct api_error *e)
{
    struct loop_model m;
    struct arena a;
    struct err unknown = ERR_INIT; /* the store says it once more */
    int rc = 0;
    arena_init(&a, TINKER_ARENA_BYTES);
    if (!store_loop_model(t->opt.store, r->owner, r->line, &a, &m, &unknown) &&
        strcmp(m.fingerprint, engine_info(t->opt.engine)->fingerprint) != 0)
        rc = api_fail(e, 400, "base_not_served", "model_id",
                      "This model is trained over '%.100s' as it was loaded when it was made: that "
                      "base is not served now.",
                      m.base);
    arena_release(&a);
    return rc;
}

/* For what has no place in a model's line. What has takes it, and fails when its turn comes: a line
 * that lacks a number stands still. */
static int64_t stored_most(struct tinker *t, const struct loop_request *r)
{
    bool is_bound = r->kind == TINKER_SAMPLE || r->kind == TINKER_CREATE;
    struct who who;
    int64_t quota = 0;
    return is_bound && t->opt.who(t->opt.ctx, r->owner, &who, &quota) ? quota : 0;
}

int tinker_put(struct tinker *t, const struct loop_request *r, const char *session, bool *is_new,
               struct api_error *e)
{
    const struct loop_most most = {WAITING_MAX, WAITING_BYTES_MAX, MODELS_MAX, stored_most(t, r)};
    const struct engine_info *on = engine_info(t->opt.engine);
    const struct loop_model m = {.id = r->line,
                                 .owner = r->owner,
                                 .session = session,
                                 .base = on->name,
                                 .fingerprint = on->fingerprint,
                                 .created = r->created};
    struct err why = ERR_INIT;
    if (r->kind != TINKER_SAMPLE && check_base(t, r, e))
        return -1;
    pthread_mutex_lock(&t->lock);
    bool was_open = map_get_str(&t->open, r->id) != NULL; /* another key may name it, too */
    if (!was_open) /* before its row, which may come to something at once */
        map_put_str(&t->open, r->id, t);
    pthread_mutex_unlock(&t->lock);
    int rc = store_loop_put(t->opt.store, r, session ? &m : NULL, &most, is_new, &why);
    if (rc || !*is_new) { /* who asks looks into the store */
        struct loop_request known;
        struct arena a;
        struct err unknown = ERR_INIT;
        arena_init(&a, TINKER_ARENA_BYTES);
        bool waits = !rc && !store_loop_get(t->opt.store, r->owner, r->id, &a, &known, &unknown) &&
                     known.state == LOOP_WAITS;
        arena_release(&a);
        if (!waits && !was_open)
            tinker_told(t, r->id);
        return rc ? refuse(&why, r, session, e) : 0;
    }
    if (r->kind == TINKER_SAMPLE)
        tinker_asked(t, r->owner);
    else
        wake(t, false);
    return 0;
}

void tinker_fail(struct buf *out, const struct err *why)
{
    struct api_error e;
    api_fail_err(&e, why, NULL);
    bool is_users = e.status < 500 || why->code == ERR_DIVERGED || why->code == ERR_TOO_LARGE ||
                    why->code == ERR_UNSUPPORTED;
    buf_clear(out);
    tinker_failed_write(
        out, is_users ? why->msg : "The server failed at this request; its log says more.",
        is_users);
    if (!is_users)
        log_event(LOG_ERROR, "a request of a training failed", LOG_TEXT("why", why->msg));
}

static void rest(struct tinker *t)
{
    pthread_mutex_lock(&t->lock);
    if (!atomic_load(&t->stops))
        clock_cond_wait(&t->train_wake, &t->lock, clock_ns() + REST_NS);
    pthread_mutex_unlock(&t->lock);
}

int tinker_end(struct tinker *t, const struct loop_end *end)
{
    struct err e = ERR_INIT;
    while (store_loop_end(t->opt.store, end, &e)) {
        log_event(LOG_ERROR, "the end of a training's request cannot be stored",
                  LOG_TEXT("request", end->request->id), LOG_TEXT("why", e.msg));
        if (atomic_load(&t->stops))
            return -1;
        rest(t);
        e = (struct err)ERR_INIT;
    }
    tinker_told(t, end->request->id);
    return 0;
}

/* ---- its life -------------------------------------------------------------------------------- */

static int remember_open(struct tinker *t, struct err *e)
{
    struct arena a;
    struct loop_request *list;
    size_t n = 0;
    arena_init(&a, TINKER_ARENA_BYTES);
    int rc = store_loop_open(t->opt.store, &a, &list, &n, e);
    for (size_t i = 0; i < n && !rc; i++) {
        map_put_str(&t->open, list[i].id, t);
        if (list[i].kind == TINKER_SAMPLE)
            tinker_asked(t, list[i].owner);
    }
    arena_release(&a);
    return rc;
}

static int know_all(struct tinker *t, struct err *e)
{
    struct arena a;
    struct loop_weights *list;
    size_t n = 0;
    arena_init(&a, TINKER_ARENA_BYTES);
    int rc = store_loop_weights_list(t->opt.store, NULL, NULL, &a, &list, &n, e);
    for (size_t i = 0; i < n && !rc; i++) {
        struct err why = ERR_INIT;
        if (list[i].is_sampler && tinker_know(t, &list[i], &why))
            log_event(LOG_ERROR, "weights of a sampler cannot be served",
                      LOG_TEXT("path", list[i].path), LOG_TEXT("why", why.msg));
    }
    arena_release(&a);
    return rc;
}

static int start(struct tinker *t, struct err *e)
{
    if (pthread_create(&t->trainer, NULL, tinker_train, t))
        return err_set(e, ERR_NO_MEMORY, "a thread of trainings cannot be started");
    if (pthread_create(&t->sampler, NULL, tinker_sample, t)) {
        atomic_store(&t->stops, true);
        wake(t, false);
        pthread_join(t->trainer, NULL);
        return err_set(e, ERR_NO_MEMORY, "a thread of samples cannot be started");
    }
    t->has_threads = true;
    return 0;
}

struct tinker *tinker_new(const struct tinker_options *o, struct err *e)
{
    struct tinker *t = xcalloc(1, sizeof *t);
    t->opt = *o;
    pthread_mutex_init(&t->lock, NULL);
    clock_cond_init(&t->train_wake);
    clock_cond_init(&t->sample_wake);
    map_init(&t->open);
    if (!remember_open(t, e) && !know_all(t, e) && !tinker_sweep(t, e) && !start(t, e))
        return t;
    tinker_free(t);
    return NULL;
}

void tinker_leave(struct tinker *t)
{
    if (!t)
        return;
    atomic_store(&t->leaves, true);
    tinker_tick(t, true);
}

void tinker_stop(struct tinker *t)
{
    tinker_leave(t);
    if (!t || atomic_exchange(&t->stops, true))
        return;
    wake(t, false);
    wake(t, true);
    if (!t->has_threads)
        return;
    pthread_join(t->trainer, NULL);
    pthread_join(t->sampler, NULL);
}

void tinker_free(struct tinker *t)
{
    if (!t)
        return;
    tinker_stop(t);
    map_release(&t->open);
    tinker_askers_free(t);
    pthread_cond_destroy(&t->train_wake);
    pthread_cond_destroy(&t->sample_wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
