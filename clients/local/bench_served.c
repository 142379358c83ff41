/* SPDX-License-Identifier: Apache-2.0
 *
 * Time is taken from the answers' own marks, which the engine sets once a step; so that this side
 * needs no cycles while the engine is measured, it sleeps until an answer ends.
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
    sem_t ended;
    int64_t n_asked;
};

static void on_end(void *ctx)
{
    sem_post(ctx);
}

static void asking_init(struct asking *a, const struct bench_served *s, int64_t max_new)
{
    *a = (struct asking){.s = s, .prompt = xcalloc((size_t)s->prompt, sizeof *a->prompt)};
    a->params =
        (struct gen_params){.sample = SAMPLE_PARAMS_INIT, .max_new = max_new, .ignore_eos = true};
    sem_init(&a->ended, 0, 0);
}

static void asking_release(struct asking *a)
{
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
    struct gen_notify notify = {.fn = on_end, .ctx = &a->ended};
    struct answer *answer;
    return engine_submit(a->s->engine, &r, 1, notify, &answer, e) ? NULL : answer;
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
    struct gen_notify notify = {.fn = on_end, .ctx = &a->ended};
    for (size_t i = 0; i < n; i++) {
        r[i] = next_request(a);
        r[i].prompt = memcpy(prompt + i * len, a->prompt, len * sizeof *prompt);
    }
    int rc = engine_submit(a->s->engine, r, n, notify, answer, e);
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

int bench_served_requests(const struct bench_served *s, int64_t n, double *per_s, struct err *e)
{
    struct asking a;
    struct answer **ring = xcalloc((size_t)s->streams, sizeof(struct answer *));
    int rc = 0;
    asking_init(&a, s, 1);
    int64_t begin = clock_ns();
    for (int64_t i = 0; i < n + s->streams; i++) {
        struct answer **at = &ring[i % s->streams];
        if (*at && !end_of(&a, *at, e))
            rc = -1;
        answer_unref(*at);
        *at = !rc && i < n ? ask(&a, e) : NULL;
        rc |= !rc && i < n && !*at ? -1 : 0;
    }
    *per_s = (double)n * 1e9 / (double)(clock_ns() - begin);
    free(ring);
    asking_release(&a);
    return rc;
}
