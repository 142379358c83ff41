/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem bench drafts MODEL`: what guesses gain, and what they cost, on one engine that makes them
 * and makes none in turns, so that both sides meet the same machine. Their texts are compared too.
 *
 *   loop   greedy: what a model of random weights says goes round in circles sooner or later
 *   copy   the prompt holds the text: what the same seed said behind another prompt, over a few
 *          tokens that a bias leaves. A draw is by seed and place and the tokens weigh about the
 * same behind any prompt, so most of the text comes again, and the rest does not: as when a text is
 * copied with edits, here with about as many as --temperature makes fresh  drawn from the whole
 * vocabulary: nothing comes again
 */
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/local/load.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

enum { ROUNDS_MAX = 101, STREAMS_MAX = 256, CHOICE = 16, BIAS = 100, N_CASE = 3 };

struct drafts_values {
    struct local_options model;
    int64_t prompt, new_tokens, streams, rounds;
    double temperature;
    const char *only;
    bool json;
};

#define AT(field) offsetof(struct drafts_values, field)
#define COUNT(name_, fallback_, max_, help_, field_)                                               \
    {                                                                                              \
        .name = (name_), .type = OPT_INT, .fallback = (fallback_), .min = 1, .max = (max_),        \
        .hint = "N", .help = (help_), .offset = AT(field_)                                         \
    }

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    LOCAL_WEIGHTS_ROW,
    {.section = "Bench",
     .name = "case",
     .type = OPT_CHOICE,
     .fallback = "all",
     .hint = "all|loop|copy|fresh",
     .help = "measure only this",
     .offset = AT(only)},
    COUNT("streams", "1", STREAMS_MAX, "texts at once", streams),
    COUNT("prompt", "64", 1 << 20, "tokens of a prompt, besides the text that it may hold", prompt),
    COUNT("new-tokens", "256", 1 << 20, "tokens of a text", new_tokens),
    COUNT("rounds", "5", ROUNDS_MAX, "rounds behind the warm-up", rounds),
    {.name = "temperature",
     .type = OPT_DOUBLE,
     .fallback = "5",
     .min = 0.1,
     .max = 5,
     .hint = "T",
     .help = "of the draws in \"copy\": the higher, the more of the text comes again",
     .offset = AT(temperature)},
    {.name = "json", .type = OPT_BOOL, .help = "print a line of JSON each", .offset = AT(json)},
};

const struct cmd_opt cmd_opt_bench_drafts = {rows, sizeof rows / sizeof *rows,
                                             sizeof(struct drafts_values)};

struct bench {
    const struct drafts_values *v; /* borrowed */
    struct engine *engine;         /* owned */
    sem_t ended, done;
    struct sample_bias bias[CHOICE];
};

/* What was asked, and what came: n texts at once. */
struct load {
    const char *name;
    struct gen_params params;
    int64_t n_prompt;
    int32_t *prompt, *text; /* owned: [streams, n_prompt], [streams, new_tokens] */
    double off[ROUNDS_MAX], on[ROUNDS_MAX], ratio[ROUNDS_MAX]; /* tokens/s */
    int64_t n_drafted, n_accepted;
};

/* ---- asking -------------------------------------------------------------------------------- */

static void on_end(void *ctx)
{
    struct bench *b = ctx;
    sem_post(&b->ended);
}

static void on_done(void *ctx)
{
    struct bench *b = ctx;
    sem_post(&b->done);
}

static int wait_for(struct bench *b, struct answer *const *answer, int64_t n, struct err *e)
{
    int rc = 0;
    for (int64_t i = 0; i < n; i++) {
        while (answer_state(answer[i]) == GEN_RUNS)
            sem_wait(&b->ended);
        if (answer_state(answer[i]) == GEN_FAILED)
            rc = err_set(e, answer_end(answer[i])->err.code, "%s", answer_end(answer[i])->err.msg);
    }
    while (sem_wait(&b->done))
        ;
    return rc;
}

/* Tokens a second from where all have begun to where the first ends. */
static double rate_of(struct answer *const *answer, int64_t n, int64_t n_new)
{
    int64_t from = 0, to = INT64_MAX, n_tok = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = answer_token(answer[i], 0)->at_us;
        int64_t last = answer_token(answer[i], (size_t)n_new - 1)->at_us;
        from = first > from ? first : from;
        to = last < to ? last : to;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n_new; k++) {
            int64_t at = answer_token(answer[i], (size_t)k)->at_us;
            n_tok += at > from && at <= to;
        }
    return to > from ? (double)n_tok * 1e6 / (double)(to - from) : 0;
}

/* All texts of a load; their tokens/s. Those that are known must come again to the bit. */
static int ask(struct bench *b, struct load *l, bool is_known, double *per_s, struct err *e)
{
    struct gen_notify notify = {.fn = on_end, .done = on_done, .ctx = b};
    int64_t n = b->v->streams, n_new = b->v->new_tokens;
    struct gen_params *params = xcalloc((size_t)n, sizeof *params);
    struct gen_req *req = xcalloc((size_t)n, sizeof *req);
    struct answer **answer = xcalloc((size_t)n, sizeof(struct answer *));
    for (int64_t i = 0; i < n; i++) {
        params[i] = l->params;
        params[i].sample.seed = (uint64_t)i + 1;
        req[i] = (struct gen_req){
            .prompt = l->prompt + i * l->n_prompt, .n_prompt = l->n_prompt, .params = &params[i]};
    }
    int rc = engine_submit(b->engine, req, (size_t)n, notify, answer, e);
    if (!rc)
        rc = wait_for(b, answer, n, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        int32_t *text = l->text + i * n_new;
        for (int64_t k = 0; k < n_new; k++) {
            int32_t id = answer_token(answer[i], (size_t)k)->id;
            if (is_known && text[k] != id)
                rc = err_set(e, ERR_DIVERGED, "%s: token %" PRId64 " is another with guesses",
                             l->name, k);
            text[k] = id;
        }
        l->n_drafted += answer_end(answer[i])->n_drafted;
        l->n_accepted += answer_end(answer[i])->n_accepted;
    }
    if (!rc && per_s)
        *per_s = rate_of(answer, n, n_new);
    for (int64_t i = 0; i < n; i++)
        answer_unref(answer[i]);
    free(answer);
    free(req);
    free(params);
    return rc;
}

/* ---- what is asked ------------------------------------------------------------------------- */

static void make_prompt(const struct bench *b, struct load *l)
{
    uint64_t n_vocab = (uint64_t)engine_info(b->engine)->n_vocab;
    size_t n = (size_t)b->v->streams;
    l->n_prompt = b->v->prompt;
    l->prompt = xcalloc(n * (size_t)l->n_prompt, sizeof *l->prompt);
    l->text = xcalloc(n * (size_t)b->v->new_tokens, sizeof *l->text);
    for (size_t i = 0; i < n * (size_t)l->n_prompt; i++)
        l->prompt[i] = (int32_t)rng_below(7, 0, i, n_vocab);
}

/* What was said goes behind each prompt. */
static void put_text(const struct bench *b, struct load *l)
{
    int64_t n = b->v->streams, n_new = b->v->new_tokens, len = l->n_prompt + n_new;
    int32_t *prompt = xcalloc((size_t)(n * len), sizeof *prompt);
    for (int64_t i = 0; i < n; i++) {
        memcpy(prompt + i * len, l->prompt + i * l->n_prompt, (size_t)l->n_prompt * sizeof *prompt);
        memcpy(prompt + i * len + l->n_prompt, l->text + i * n_new, (size_t)n_new * sizeof *prompt);
    }
    free(l->prompt);
    l->prompt = prompt;
    l->n_prompt = len;
}

static int load_init(struct bench *b, struct load *l, const char *name, struct err *e)
{
    struct sample_params *p = &l->params.sample;
    int64_t n_vocab = engine_info(b->engine)->n_vocab;
    *l = (struct load){
        .name = name,
        .params = {.sample = SAMPLE_PARAMS_INIT, .max_new = b->v->new_tokens, .ignore_eos = true}};
    make_prompt(b, l);
    if (strcmp(name, "loop") == 0)
        return 0;
    p->temperature = 1;
    if (strcmp(name, "fresh") == 0)
        return 0;
    p->temperature = b->v->temperature;
    for (int32_t i = 0; i < CHOICE; i++)
        b->bias[i] = (struct sample_bias){(int32_t)(i * (n_vocab / CHOICE)), BIAS};
    p->bias = b->bias;
    p->n_bias = n_vocab < CHOICE ? (int32_t)n_vocab : CHOICE;
    engine_speculate(b->engine, ENGINE_SPECULATE_OFF);
    if (ask(b, l, false, NULL, e))
        return -1;
    put_text(b, l);
    return 0;
}

static void load_release(struct load *l)
{
    free(l->prompt);
    free(l->text);
}

/* ---- rounds -------------------------------------------------------------------------------- */

/* Both sides, the one first in even rounds, the other in odd ones. */
static int run_round(struct bench *b, struct load *l, int64_t round, struct err *e)
{
    double per_s[2];
    for (int64_t i = 0; i < 2; i++) {
        int64_t on = (i + round) % 2 != 0;
        engine_speculate(b->engine, on ? ENGINE_SPECULATE_NGRAM : ENGINE_SPECULATE_OFF);
        if (ask(b, l, round >= 0 || i > 0, &per_s[on], e))
            return -1;
    }
    if (!(per_s[0] > 0 && per_s[1] > 0))
        return err_set(e, ERR_BAD_INPUT, "texts are too short to measure: give more --new-tokens");
    if (round < 0) {
        l->n_drafted = l->n_accepted = 0;
        return 0;
    }
    l->off[round] = per_s[0];
    l->on[round] = per_s[1];
    l->ratio[round] = per_s[1] / per_s[0];
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void show(const struct bench *b, struct load *l)
{
    int64_t n = b->v->rounds;
    qsort(l->off, (size_t)n, sizeof *l->off, by_value);
    qsort(l->on, (size_t)n, sizeof *l->on, by_value);
    qsort(l->ratio, (size_t)n, sizeof *l->ratio, by_value);
    double off = l->off[n / 2], on = l->on[n / 2], mid = l->ratio[n / 2];
    double least = l->ratio[0], most = l->ratio[n - 1];
    double all = (double)(n * b->v->streams * b->v->new_tokens);
    double of_text = (double)l->n_accepted / all;
    double right = l->n_drafted ? (double)l->n_accepted / (double)l->n_drafted : 0;
    if (b->v->json)
        printf("{\"case\":\"%s\",\"streams\":%" PRId64
               ",\"off_per_s\":%.2f,\"on_per_s\":%.2f,\"ratio\":%.4f,\"ratio_least\":%.4f,"
               "\"ratio_most\":%.4f,\"right\":%.4f,\"of_text\":%.4f}\n",
               l->name, b->v->streams, off, on, mid, least, most, right, of_text);
    else
        printf("%-6s %4" PRId64
               " streams  %8.1f tokens/s, with guesses %8.1f  x %.3f (%.3f to %.3f)"
               "  %.0f%% of guesses right, %.0f%% of the text guessed\n",
               l->name, b->v->streams, off, on, mid, least, most, 100 * right, 100 * of_text);
}

static int run_case(struct bench *b, const char *name, struct err *e)
{
    struct load l;
    int rc = load_init(b, &l, name, e);
    for (int64_t round = -1; round < b->v->rounds && !rc; round++)
        rc = run_round(b, &l, round, e);
    if (!rc)
        show(b, &l);
    load_release(&l);
    return rc;
}

static int run_all(struct bench *b, struct err *e)
{
    static const char *const name[N_CASE] = {"loop", "copy", "fresh"};
    for (int i = 0; i < N_CASE; i++)
        if (strcmp(b->v->only, "all") == 0 || strcmp(b->v->only, name[i]) == 0)
            if (run_case(b, name[i], e))
                return -1;
    return 0;
}

int cmd_bench_drafts(const struct opt *o)
{
    struct err e = ERR_INIT;
    struct bench b = {.v = o->values};
    struct engine_options with = {.max_seqs = b.v->streams, .max_waiting = b.v->streams};
    sem_init(&b.ended, 0, 0);
    sem_init(&b.done, 0, 0);
    b.engine = local_engine(o->arg[0], &b.v->model, &with, &e);
    int rc = b.engine ? engine_start(b.engine, &e) : -1;
    if (!rc)
        rc = run_all(&b, &e);
    engine_free(b.engine);
    sem_destroy(&b.ended);
    sem_destroy(&b.done);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
