/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of a prompt are asked for together, so that they share its cells, and no more at a
 * time than may run at once: the queue is for others. One that is full is waited for; a sample that
 * waited too long in it is asked for again.
 */
#include "engine/train/rollout.h"

#include <pthread.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "engine/engine.h"

enum { PRIORITY = 16, LOOK_NS = 100 * 1000 * 1000 };

struct run {
    const struct rollout *o; /* borrowed */
    struct row_set *rows;    /* borrowed */
    struct answer **answer;  /* owned: [rows->n_row]; NULL: not asked for, or read */
    int64_t n_each, n_most;  /* rows of a prompt; groups that are asked for at a time */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int64_t n_asked, n_done; /* groups; that the engine has let go of */
    bool is_ended;
};

static void on_done(void *ctx)
{
    struct run *r = ctx;
    pthread_mutex_lock(&r->lock);
    r->n_done++;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

static int64_t count_done(struct run *r)
{
    pthread_mutex_lock(&r->lock);
    int64_t n = r->n_done;
    pthread_mutex_unlock(&r->lock);
    return n;
}

/* Until `n` groups are done in all, or it is time to look around. */
static bool wait_for(struct run *r, int64_t n)
{
    pthread_mutex_lock(&r->lock);
    if (r->n_done < n)
        clock_cond_wait(&r->wake, &r->lock, clock_ns() + LOOK_NS);
    bool is_so = r->n_done >= n;
    pthread_mutex_unlock(&r->lock);
    return is_so;
}

/* Told apart by the example and by its place among the prompt's, not by where in the batch it is.
 */
static uint64_t seed_of(const struct run *r, int64_t i)
{
    const int64_t at[2] = {r->rows->example[i], i % r->n_each};
    return siphash((struct siphash_key){r->o->seed, 0}, at, sizeof at);
}

/* The rows from i on that share a prompt. */
static int ask(struct run *r, int64_t i, struct err *e)
{
    const struct rollout *o = r->o;
    struct gen_params *p = xcalloc((size_t)r->n_each, sizeof *p);
    struct gen_req *q = xcalloc((size_t)r->n_each, sizeof *q);
    for (int64_t k = 0; k < r->n_each; k++) {
        p[k] = (struct gen_params){.sample = SAMPLE_PARAMS_INIT,
                                   .max_new = o->max_new,
                                   .wants_logprob = true,
                                   .special_shown = true};
        p[k].sample.temperature = 1;
        p[k].sample.seed = seed_of(r, i + k);
        q[k] = (struct gen_req){.kind = GEN_TEXT,
                                .prompt = r->rows->row[i + k].id,
                                .n_prompt = row_set_prompt(r->rows, i + k),
                                .params = &p[k],
                                .adapter = o->adapter,
                                .salt = o->tenant,
                                .tenant = o->tenant,
                                .priority = PRIORITY};
    }
    const struct gen_notify n = {.done = on_done, .ctx = r};
    int rc = engine_submit(o->engine, q, (size_t)r->n_each, n, r->answer + i, e);
    free(p);
    free(q);
    return rc;
}

static void cancel_all(struct run *r)
{
    r->is_ended = true;
    for (int64_t i = 0; i < r->rows->n_row; i++)
        if (r->answer[i])
            answer_cancel(r->answer[i]);
}

static bool is_to_end(const struct run *r)
{
    return r->o->is_wanted_end && r->o->is_wanted_end(r->o->ctx);
}

/* Asks for all that is not there, and waits until the engine has let go of all of them, however it
 * ends: its answers call into r. */
static int ask_all(struct run *r, struct err *e)
{
    int rc = 0;
    for (int64_t next = 0; next < r->rows->n_row && !rc && !r->is_ended;) {
        struct err why = ERR_INIT;
        int64_t n_done = count_done(r);
        bool is_full = r->n_asked - n_done >= r->n_most;
        if (r->answer[next]) {
            next += r->n_each;
        } else if (is_full) {
            if (!wait_for(r, n_done + 1) && is_to_end(r))
                cancel_all(r);
        } else if (!ask(r, next, &why)) {
            r->n_asked++;
        } else if (why.code != ERR_BUSY || engine_check(r->o->engine, e)) {
            rc = err_set(e, why.code, "%s", why.msg);
        } else if (!wait_for(r, n_done + 1) && is_to_end(r)) {
            cancel_all(r);
        }
    }
    if (rc)
        cancel_all(r);
    while (!wait_for(r, r->n_asked))
        if (!r->is_ended && is_to_end(r))
            cancel_all(r);
    return rc;
}

static void read_row(struct run *r, int64_t i)
{
    const struct answer *a = r->answer[i];
    const struct answer_end *end = answer_end(a);
    size_t n = answer_count(a);
    for (size_t k = 0; k < n; k++)
        row_set_put(r->rows, i, (int64_t)k, answer_token(a, k)->id, answer_token(a, k)->logprob);
    if (end->stop_id >= 0)
        row_set_put(r->rows, i, (int64_t)n++, end->stop_id, end->stop_logprob);
    row_set_end(r->rows, i, (int64_t)n);
}

/* Reads a prompt's rows, or forgets them for another try: *again. */
static int read_group(struct run *r, int64_t i, bool *again, struct err *e)
{
    int rc = 0;
    bool is_late = false;
    for (int64_t k = i; k < i + r->n_each; k++) {
        enum gen_end how = answer_state(r->answer[k]);
        if (how == GEN_CANCELLED)
            r->is_ended = true;
        else if (how == GEN_FAILED && answer_end(r->answer[k])->err.code == ERR_BUSY)
            is_late = true;
        else if (how == GEN_FAILED)
            rc = err_set(e, answer_end(r->answer[k])->err.code, "a rollout: %s",
                         answer_end(r->answer[k])->err.msg);
        else
            read_row(r, k);
    }
    *again = *again || is_late;
    for (int64_t k = i; k < i + r->n_each && is_late; k++) {
        answer_unref(r->answer[k]);
        r->answer[k] = NULL;
    }
    return rc;
}

static int run(struct run *r, struct err *e)
{
    for (bool again = true; again && !r->is_ended;) {
        again = false;
        if (ask_all(r, e))
            return -1;
        for (int64_t i = 0; i < r->rows->n_row && !r->is_ended; i += r->n_each)
            if (r->answer[i] && read_group(r, i, &again, e))
                return -1;
        if (again && engine_check(r->o->engine, e))
            return -1;
    }
    return 0;
}

int rollout_run(const struct rollout *o, struct row_set *rows, bool *is_ended, struct err *e)
{
    struct run r = {.o = o, .rows = rows, .n_each = rows->n_each};
    r.n_most = engine_info(o->engine)->max_seqs / r.n_each;
    r.n_most = r.n_most > 1 ? r.n_most : 1;
    r.answer = try_alloc((size_t)rows->n_row, sizeof(struct answer *), "rollouts", e);
    if (!r.answer)
        return -1;
    for (int64_t i = 0; i < rows->n_row; i++)
        r.answer[i] = NULL;
    pthread_mutex_init(&r.lock, NULL);
    clock_cond_init(&r.wake);
    int rc = run(&r, e);
    *is_ended = r.is_ended;
    for (int64_t i = 0; i < rows->n_row; i++)
        answer_unref(r.answer[i]);
    pthread_cond_destroy(&r.wake);
    pthread_mutex_destroy(&r.lock);
    mem_free(r.answer);
    return rc;
}
