/* SPDX-License-Identifier: Apache-2.0
 *
 * Time is taken from the answers' own marks, which the engine sets once a step; so that this side
 * needs no cycles while the engine is measured, it sleeps until an answer ends. What the engine
 * calls stays until it has called for the last time, which may be after the last answer was seen to
 * end.
 */
#include "clients/local/bench_served.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

enum { TAIL = 16 }; /* tokens behind the measured ones, so that streams end one by one outside */

struct asking {
    const struct bench_served *s;
    int32_t *prompt; /* owned */
    struct gen_params params;
    sem_t ended, done; /* posted for answers that ended; for submissions that are over */
    int64_t n_asked, n_submitted;
};

static void on_end(void *ctx)
{
    struct asking *a = ctx;
    sem_post(&a->ended);
}

static void on_done(void *ctx)
{
    struct asking *a = ctx;
    sem_post(&a->done);
}

static int submit(struct asking *a, const struct gen_req *r, size_t n, struct answer **answer,
                  struct err *e)
{
    struct gen_notify notify = {.fn = on_end, .done = on_done, .ctx = a};
    int rc = engine_submit(a->s->engine, r, n, notify, answer, e);
    a->n_submitted += rc == 0;
    return rc;
}

static void asking_init(struct asking *a, const struct bench_served *s, int64_t max_new)
{
    *a = (struct asking){.s = s, .prompt = xcalloc((size_t)s->prompt, sizeof *a->prompt)};
    a->params = (struct gen_params){
        .sample = SAMPLE_PARAMS_INIT, .masks = s->masks, .max_new = max_new, .ignore_eos = true};
    a->params.sample.temperature = s->temperature;
    sem_init(&a->ended, 0, 0);
    sem_init(&a->done, 0, 0);
}

static void asking_release(struct asking *a)
{
    while (a->n_submitted > 0) /* all their answers have ended */
        a->n_submitted -= sem_wait(&a->done) == 0;
    sem_destroy(&a->done);
    sem_destroy(&a->ended);
    free(a->prompt);
}

/* The prompt is in a->prompt until the next. */
static struct gen_req next_request(struct asking *a)
{
    uint64_t n_vocab = (uint64_t)engine_info(a->s->engine)->n_vocab;
    for (int64_t i = 0; i < a->s->prompt; i++)
        a->prompt[i] = (int32_t)rng_below(a->s->round, (uint64_t)a->n_asked, (uint64_t)i, n_vocab);
    a->n_asked++;
    return (struct gen_req){.prompt = a->prompt, .n_prompt = a->s->prompt, .params = &a->params};
}

static struct answer *ask(struct asking *a, struct err *e)
{
    struct gen_req r = next_request(a);
    struct answer *answer;
    return submit(a, &r, 1, &answer, e) ? NULL : answer;
}

/* Waits for the end; the answer's tokens, 0 where it failed. */
static size_t end_of(struct asking *a, const struct answer *answer, struct err *e)
{
    while (answer_state(answer) == GEN_RUNS)
        sem_wait(&a->ended);
    if (answer_state(answer) != GEN_FAILED)
        return answer_count(answer);
    err_set(e, answer_end(answer)->err.code, "%s", answer_end(answer)->err.msg);
    return 0;
}

static double rate_of(struct answer *const *answer, int64_t n)
{
    int64_t from = 0, to = INT64_MAX, n_tok = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t count = answer_count(answer[i]);
        int64_t first = answer_token(answer[i], 0)->at_us;
        int64_t last = answer_token(answer[i], count - 1)->at_us;
        from = first > from ? first : from;
        to = last < to ? last : to;
    }
    for (int64_t i = 0; i < n; i++)
        for (size_t k = 0; k < answer_count(answer[i]); k++)
            n_tok +=
                answer_token(answer[i], k)->at_us > from && answer_token(answer[i], k)->at_us <= to;
    return to > from ? (double)n_tok * 1e6 / (double)(to - from) : 0;
}

/* All streams in one submission, so that they begin in one step. */
static int ask_all(struct asking *a, struct answer **answer, struct err *e)
{
    size_t n = (size_t)a->s->streams, len = (size_t)a->s->prompt;
    struct gen_req *r = xcalloc(n, sizeof *r);
    int32_t *prompt = xcalloc(n * len, sizeof *prompt);
    for (size_t i = 0; i < n; i++) {
        r[i] = next_request(a);
        r[i].prompt = memcpy(prompt + i * len, a->prompt, len * sizeof *prompt);
    }
    int rc = submit(a, r, n, answer, e);
    free(prompt);
    free(r);
    return rc;
}

int bench_served_together(const struct bench_served *s, double *per_s, struct err *e)
{
    struct asking a;
    struct answer **answer = xcalloc((size_t)s->streams, sizeof(struct answer *));
    asking_init(&a, s, s->new_tokens + TAIL);
    int rc = ask_all(&a, answer, e);
    int64_t n = rc ? 0 : s->streams;
    for (int64_t i = 0; i < n; i++)
        rc |= end_of(&a, answer[i], e) ? 0 : -1;
    if (!rc)
        *per_s = rate_of(answer, n);
    for (int64_t i = 0; i < n; i++)
        answer_unref(answer[i]);
    free(answer);
    asking_release(&a);
    return rc;
}

/* ---- clients in a closed loop --------------------------------------------------------------- */

struct client {
    struct answer *answer; /* owned; NULL: it asks no more */
    int64_t asked_us;
};

struct clients {
    struct asking ask;
    struct client *at; /* owned: [streams] */
    int64_t *first_us; /* owned: [n], of those that ended */
    int64_t n, n_ended;
};

static int client_ask(struct clients *c, struct client *at, struct err *e)
{
    at->answer = NULL;
    if (c->ask.n_asked == c->n)
        return 0;
    at->asked_us = clock_us();
    at->answer = ask(&c->ask, e);
    return at->answer ? 0 : -1;
}

/* The answer ended. */
static int client_take(struct clients *c, struct client *at, struct err *e)
{
    struct answer *a = at->answer;
    size_t count = end_of(&c->ask, a, e);
    if (count)
        c->first_us[c->n_ended++] = answer_token(a, 0)->at_us - at->asked_us;
    answer_unref(a);
    return count ? client_ask(c, at, e) : (at->answer = NULL, -1);
}

/* Who ended asks again. */
static int look_round(struct clients *c, struct err *e)
{
    for (int64_t i = 0; i < c->ask.s->streams; i++) {
        struct client *at = &c->at[i];
        if (at->answer && answer_state(at->answer) != GEN_RUNS && client_take(c, at, e))
            return -1;
    }
    return 0;
}

static int run_clients(struct clients *c, struct err *e)
{
    for (int64_t i = 0; i < c->ask.s->streams; i++)
        if (client_ask(c, &c->at[i], e))
            return -1;
    while (c->n_ended < c->n) {
        sem_wait(&c->ask.ended);
        if (look_round(c, e))
            return -1;
    }
    return 0;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int bench_served_clients(const struct bench_served *s, int64_t n, struct bench_clients *out,
                         struct err *e)
{
    struct clients c = {.n = n,
                        .at = xcalloc((size_t)s->streams, sizeof *c.at),
                        .first_us = xcalloc((size_t)n, sizeof *c.first_us)};
    asking_init(&c.ask, s, s->new_tokens);
    int64_t begin = clock_ns();
    int rc = run_clients(&c, e);
    out->per_s = (double)n * 1e9 / (double)(clock_ns() - begin);
    qsort(c.first_us, (size_t)c.n_ended, sizeof *c.first_us, by_size);
    out->first_ms = c.n_ended ? (double)c.first_us[c.n_ended / 2] / 1e3 : 0;
    for (int64_t i = 0; i < s->streams; i++) { /* those of a loop that broke off run on */
        struct err quiet = ERR_INIT;
        if (c.at[i].answer)
            end_of(&c.ask, c.at[i].answer, &quiet);
        answer_unref(c.at[i].answer);
    }
    free(c.at);
    free(c.first_us);
    asking_release(&c.ask);
    return rc;
}
