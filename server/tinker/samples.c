/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that samples: a key's requests are taken from the store in their order, as many as may
 * run at once, given to the engine as any client's are, and written down when their last answer
 * ended. One whose seed is not said has one that follows from its id: asked again behind a kill it
 * has the same answer. How much of the engine a key may have is askers.c's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "server/tinker/tinker_own.h"

enum { BUSY_NS = 10 * 1000 * 1000, TICK_NS = 1000 * 1000 * 1000 };

struct tinker_flight {
    struct tinker *all;
    struct tinker_asker *asker;
    struct arena arena;
    struct loop_request request; /* its texts lie in the arena */
    struct tinker_sample ask;
    struct loop_sampler from;
    struct gen_params *params; /* [ask.n_sample] of what the engine is asked for, as gen is */
    struct gen_req *gen;
    struct answer **answer; /* [ask.n_sample] counted; NULL: not given yet */
    bool is_given;
    atomic_bool is_done;
    struct tinker_flight *next;
};

static void flight_free(struct tinker_flight *f)
{
    for (int64_t i = 0; f->answer && i < f->ask.n_sample; i++)
        if (f->answer[i])
            answer_unref(f->answer[i]);
    f->asker->n_text -= f->is_given ? f->ask.n_sample : 0;
    f->asker->n_flight--;
    f->all->n_flight--;
    arena_release(&f->arena);
    free(f);
}

static void on_done(void *ctx)
{
    struct tinker_flight *f = ctx;
    struct tinker *t = f->all;
    pthread_mutex_lock(&t->lock);
    atomic_store(&f->is_done, true);
    t->has_sample = true;
    pthread_cond_signal(&t->sample_wake);
    pthread_mutex_unlock(&t->lock);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int check(const struct tinker_flight *f, struct err *e)
{
    const struct engine_info *on = engine_info(f->all->opt.engine);
    if (f->ask.n >= on->ctx)
        return err_set(e, ERR_BAD_INPUT, "a prompt of %lld tokens: the model takes %lld",
                       (long long)f->ask.n, (long long)on->ctx);
    for (int64_t i = 0; i < f->ask.n; i++)
        if (f->ask.id[i] >= on->n_vocab)
            return err_set(e, ERR_BAD_INPUT,
                           "token %lld of the prompt is not in the vocabulary of %lld",
                           (long long)i, (long long)on->n_vocab);
    return 0;
}

static int read(struct tinker_flight *f, struct err *e)
{
    struct api_error said;
    const struct loop_request *q = &f->request;
    if (tinker_sample_read(q->body, q->n_body, &f->arena, &f->ask, &said)) {
        f->ask.n_sample = 0;
        return err_set(e, ERR_BAD_INPUT, "%s", said.message);
    }
    int64_t left = engine_info(f->all->opt.engine)->ctx - f->ask.n;
    if (f->ask.params.max_new > left)
        f->ask.params.max_new = left;
    f->params = ARENA_ARRAY(&f->arena, struct gen_params, f->ask.n_sample);
    f->gen = ARENA_ARRAY(&f->arena, struct gen_req, f->ask.n_sample);
    f->answer = ARENA_ARRAY(&f->arena, struct answer *, f->ask.n_sample);
    return check(f, e) ||
                   store_loop_sampler(f->all->opt.store, q->owner, q->line, &f->arena, &f->from, e)
               ? -1
               : 0;
}

/* The adapter of the sampler's weights; *out NULL: the base. ERR_BUSY: ask again. */
static int find_adapter(const struct tinker_flight *f, struct adapter **out, struct err *e)
{
    struct engine *g = f->all->opt.engine;
    const char *path = f->from.path;
    *out = NULL;
    if (!path)
        return 0;
    *out = engine_adapter_get(g, path);
    if (*out)
        return 0;
    if (engine_adapter_knows(g, path))
        return engine_adapter_fetch(g, path, out, e);
    return err_set(e, ERR_NOT_FOUND,
                   "there are no weights '%.300s' any more: of a model's weights without a name "
                   "the newest %d are kept, and others until they are deleted",
                   path, TINKER_UNNAMED_KEPT);
}

static uint64_t seed_of(const struct tinker_flight *f, int64_t i)
{
    const struct siphash_key key = {0, 2};
    uint64_t seed = f->ask.has_seed ? f->ask.params.sample.seed
                                    : siphash(key, f->request.id, strlen(f->request.id));
    const struct siphash_key own = {seed, 3};
    return i == 0 ? seed : siphash(own, &i, sizeof i);
}

static int submit(struct tinker_flight *f, struct adapter *on, const struct who *who, struct err *e)
{
    int64_t n = f->ask.n_sample;
    for (int64_t i = 0; i < n; i++) {
        struct gen_params *p = &f->params[i];
        *p = f->ask.params;
        p->sample.seed = seed_of(f, i);
        p->wants_prompt = f->ask.wants_prompt && i == 0;
        f->gen[i] = (struct gen_req){.kind = GEN_TEXT,
                                     .prompt = f->ask.id,
                                     .n_prompt = f->ask.n,
                                     .params = p,
                                     .adapter = on,
                                     .salt = who->salt,
                                     .tenant = who->tenant,
                                     .weight = who->weight,
                                     .is_idle = who->is_idle};
    }
    const struct gen_notify notify = {.done = on_done, .ctx = f};
    return engine_submit(f->all->opt.engine, f->gen, (size_t)n, notify, f->answer, e);
}

/* To the engine; ERR_BUSY: there is no room now. */
static int give(struct tinker_flight *f, struct err *e)
{
    struct tinker *t = f->all;
    struct who who;
    struct adapter *on;
    int64_t quota;
    if (!tinker_asker_may_give(t, f->asker, f->ask.n_sample))
        return err_set(e, ERR_BUSY, "others have their part of the queue");
    if (!t->opt.who(t->opt.ctx, f->request.owner, &who, &quota))
        return err_set(e, ERR_NOT_FOUND, "no key has this name any more");
    if (find_adapter(f, &on, e))
        return -1;
    int rc = submit(f, on, &who, e);
    adapter_unref(on);
    f->is_given = !rc;
    f->asker->n_text += rc ? 0 : f->ask.n_sample;
    return rc;
}

/* ---- answering ------------------------------------------------------------------------------- */

static void write_one(struct tinker_flight *f, const struct answer *x, struct buf *out)
{
    const struct answer_end *end = answer_end(x);
    size_t n = answer_count(x);
    int32_t *id = ARENA_ARRAY(&f->arena, int32_t, n + 1);
    float *logprob = ARENA_ARRAY(&f->arena, float, n + 1);
    for (size_t i = 0; i < n; i++) {
        id[i] = answer_token(x, i)->id;
        logprob[i] = answer_token(x, i)->logprob;
    }
    if (end->stop_id >= 0) {
        id[n] = end->stop_id;
        logprob[n++] = end->stop_logprob;
    }
    const struct tinker_said s = {id, logprob, n, answer_state(x) == GEN_LENGTH};
    tinker_said_write(out, &s);
}

static void write_prompt(struct tinker_flight *f, const struct answer *x, struct buf *out)
{
    const struct tinker_sample *q = &f->ask;
    size_t n = q->wants_prompt ? (size_t)q->n : 0;
    float *logprob = ARENA_ARRAY(&f->arena, float, n + 1);
    for (size_t i = 0; i < n; i++)
        logprob[i] = i == 0 || (q->last_n && (int64_t)i < q->n - q->last_n)
                         ? NAN
                         : answer_prompt_logprob(x, i);
    tinker_prompt_write(out, logprob, n, answer_end(x)->n_cached);
}

/* 0, or how one of them failed. */
static int outcome(const struct tinker_flight *f, struct err *e)
{
    for (int64_t i = 0; i < f->ask.n_sample; i++) {
        enum gen_end how = answer_state(f->answer[i]);
        if (how == GEN_CANCELLED)
            return err_set(e, ERR_BUSY, "the engine stops");
        if (how == GEN_FAILED)
            return err_set(e, answer_end(f->answer[i])->err.code, "%s",
                           answer_end(f->answer[i])->err.msg);
    }
    return 0;
}

static void end(struct tinker_flight *f, const struct err *why)
{
    struct loop_request q = f->request;
    struct buf out;
    buf_init(&out, TINKER_ANSWER_BYTES);
    q.state = why ? LOOP_FAILED : LOOP_DONE;
    for (int64_t i = 0; !why && i < f->ask.n_sample; i++)
        write_one(f, f->answer[i], &out);
    if (why)
        tinker_fail(&out, why);
    else
        write_prompt(f, f->answer[0], &out);
    q.answer = out.data ? out.data : "";
    q.n_answer = out.len;
    q.created = (int64_t)time(NULL); /* its answer is kept from now on */
    const struct loop_end done = {.request = &q};
    tinker_end(f->all, &done);
    buf_release(&out);
}

/* What waited too long in the engine's queue, or was cut off, is asked for again. */
static void forget_answers(struct tinker_flight *f)
{
    for (int64_t i = 0; i < f->ask.n_sample; i++) {
        answer_unref(f->answer[i]);
        f->answer[i] = NULL;
    }
    f->asker->n_text -= f->ask.n_sample;
    f->is_given = false;
    atomic_store(&f->is_done, false);
}

/* true: it is over. */
static bool bring_on(struct tinker_flight *f)
{
    struct err e = ERR_INIT;
    if (f->is_given && !atomic_load(&f->is_done))
        return false;
    if (f->is_given && !outcome(f, &e)) {
        end(f, NULL);
        return true;
    }
    if (f->is_given && e.code == ERR_BUSY)
        forget_answers(f);
    else if (!e.code && !give(f, &e))
        return false;
    if (e.code == ERR_BUSY)
        return false;
    end(f, &e);
    return true;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static const char *copy(struct arena *a, const char *p, size_t n)
{
    char *at = arena_alloc(a, n + 1);
    memcpy(at, p, n);
    return at;
}

static void take(struct tinker *t, struct tinker_asker *k, const struct loop_request *q)
{
    struct tinker_flight *f = xcalloc(1, sizeof *f);
    struct err e = ERR_INIT;
    f->all = t;
    f->asker = k;
    k->n_flight++;
    t->n_flight++;
    arena_init(&f->arena, TINKER_ARENA_BYTES);
    f->request = *q;
    f->request.id = arena_strdup(&f->arena, q->id);
    f->request.owner = k->owner;
    f->request.line = arena_strdup(&f->arena, q->line);
    f->request.body = copy(&f->arena, q->body ? q->body : "", q->n_body);
    if (read(f, &e)) {
        end(f, &e);
        flight_free(f);
        return;
    }
    struct tinker_flight **at = &t->flight;
    while (*at)
        at = &(*at)->next;
    *at = f;
}

static void take_of(struct tinker *t, struct tinker_asker *k)
{
    struct loop_request *list;
    struct arena a;
    struct err e = ERR_INIT;
    size_t most = tinker_asker_turn(t, k), n = 0;
    if (!most)
        return;
    arena_init(&a, TINKER_ARENA_BYTES);
    int rc = store_loop_samples(t->opt.store, k->owner, k->place, most, &a, &list, &n, &e);
    for (size_t i = 0; !rc && i < n && !atomic_load(&t->stops); i++) {
        take(t, k, &list[i]);
        k->place = list[i].place;
    }
    arena_release(&a);
    if (rc || n == most)
        tinker_asker_again(t, k);
}

static void take_new(struct tinker *t)
{
    for (struct tinker_asker *k = tinker_asker_first(t); k; k = k->next)
        take_of(t, k);
}

/* True: some of them wait for room. */
static bool bring_all(struct tinker *t)
{
    bool waits = false;
    for (struct tinker_flight **at = &t->flight, *f; (f = *at) && !atomic_load(&t->stops);) {
        if (bring_on(f)) {
            *at = f->next;
            flight_free(f);
            continue;
        }
        waits = waits || !f->is_given;
        at = &f->next;
    }
    return waits;
}

static void sleep_for_mail(struct tinker *t, bool waits)
{
    pthread_mutex_lock(&t->lock);
    if (!t->has_sample && !atomic_load(&t->stops))
        clock_cond_wait(&t->sample_wake, &t->lock, clock_ns() + (waits ? BUSY_NS : TICK_NS));
    t->has_sample = false;
    pthread_mutex_unlock(&t->lock);
}

/* The engine calls into what is given to it until it has let go. */
static void leave(struct tinker *t)
{
    for (struct tinker_flight *f = t->flight; f; f = f->next)
        for (int64_t i = 0; f->is_given && i < f->ask.n_sample; i++)
            answer_cancel(f->answer[i]);
    for (struct tinker_flight *f; (f = t->flight); flight_free(f)) {
        pthread_mutex_lock(&t->lock);
        while (f->is_given && !atomic_load(&f->is_done))
            clock_cond_wait(&t->sample_wake, &t->lock, clock_ns() + TICK_NS);
        pthread_mutex_unlock(&t->lock);
        t->flight = f->next;
    }
}

void *tinker_sample(void *arg)
{
    struct tinker *t = arg;
    while (!atomic_load(&t->stops)) {
        bring_all(t);
        take_new(t);
        bool waits = bring_all(t);
        tinker_tick(t, false);
        sleep_for_mail(t, waits);
    }
    leave(t);
    return NULL;
}
