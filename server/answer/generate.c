/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of chat and completions: begin, submit, pull what is new of every choice at each step,
 * end. A stream tells it at once, a whole answer waits for the last (tell.c).
 */
#include "server/answer/generate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "server/answer/generate_own.h"
#include "server/metrics/metrics.h"
#include "server/server.h"

const struct prompt *generation_prompt(const struct generation *g, const struct choice *c)
{
    return &g->prompt[(size_t)(c - g->choice) / (size_t)g->q->best_of];
}

/* ---- submitting ---------------------------------------------------------------------------- */

/* Choice 0 has the seed itself, so that it is the one of `tandem run`. Without a seed every
 * generation draws for itself. */
static uint64_t seed_of(const struct api_request *q, uint64_t base, size_t i)
{
    size_t k = q->has_seed ? i % (size_t)q->best_of : i;
    struct rng_block b = rng_at(base, k, 0);
    return k || !q->has_seed ? (uint64_t)b.v[0] << 32 | b.v[1] : base;
}

static uint64_t base_seed(const struct api_request *q)
{
    uint64_t seed = (uint64_t)q->seed;
    if (!q->has_seed && getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)clock_ns();
    return seed;
}

/* What a constraint is held against is the tokens' bytes, a space at the beginning among them. */
static bool goes_on(const struct generation *g, const struct prompt *p)
{
    return p->text_goes_on || g->constraining.masks;
}

static int submit(struct generation *g, struct answer **answer, struct err *e)
{
    const struct api_request *q = g->q;
    struct arena *a = call_arena(g->call);
    struct gen_req *req = arena_try(a, g->n_asked, sizeof *req, e);
    struct gen_params *params = req ? arena_try(a, g->n_asked, sizeof *params, e) : NULL;
    if (!params)
        return -1;
    uint64_t base = base_seed(q), salt = generate_salt(g->call, q);
    for (size_t i = 0; i < g->n_asked; i++) {
        const struct prompt *p = &g->prompt[i / (size_t)q->best_of];
        params[i] = q->gen;
        params[i].sample.seed = seed_of(q, base, i);
        params[i].text_goes_on = goes_on(g, p);
        params[i].masks = g->constraining.masks;
        req[i] = (struct gen_req){.kind = GEN_TEXT,
                                  .prompt = p->id,
                                  .n_prompt = p->n,
                                  .params = &params[i],
                                  .adapter = g->at.adapter,
                                  .salt = salt,
                                  .priority = (int32_t)q->priority};
    }
    call_ref(g->call);
    g->submit_us = clock_us();
    if (!engine_submit(g->at.engine, req, g->n_asked, generate_notify(g->call, q->stream), answer,
                       e))
        return 0;
    call_unref(g->call);
    return -1;
}

struct api_usage generation_usage(const struct generation *g)
{
    struct api_usage u = {.prompt = 0};
    for (size_t i = 0; i < g->n_prompt && g->n_choice; i++) {
        const struct choice *c = &g->choice[i * (size_t)g->q->best_of];
        u.prompt += g->prompt[i].n;
        if (c->state != GEN_RUNS)
            u.cached += answer_end(c->answer)->n_cached;
    }
    for (size_t i = 0; i < g->n_choice; i++) {
        const struct choice *c = &g->choice[i];
        const struct answer_end *end = c->state == GEN_RUNS ? NULL : answer_end(c->answer);
        u.completion += choice_tokens(c);
        u.accepted += end ? end->n_accepted : 0;
        u.rejected += end ? end->n_drafted - end->n_accepted : 0;
    }
    return u;
}

/* ---- ends ---------------------------------------------------------------------------------- */

void generation_note(struct generation *g)
{
    struct api_usage u = generation_usage(g);
    g->is_over = true;
    call_note(g->call, g->q->model, u.prompt, u.completion);
}

static void cancel(struct generation *g)
{
    for (size_t i = 0; i < g->n_choice; i++)
        answer_cancel(g->choice[i].answer);
}

/* Nothing more can be said: as a status, or as the last event of a stream that has begun. */
void generation_fail(struct generation *g, const struct api_error *e)
{
    cancel(g);
    generation_note(g);
    if (!call_is_streaming(g->call)) {
        call_error(g->call, e);
        return;
    }
    buf_clear(&g->out);
    api_event_error(e, &g->out);
    tell_send(g);
    call_end(g->call);
}

void generation_fail_err(struct generation *g, const struct err *why)
{
    struct api_error e;
    api_fail_err(&e, why, NULL);
    generation_fail(g, &e);
}

/* True where a choice ended other than by its own end: the request is answered with that. */
static bool has_failed(struct generation *g)
{
    struct api_error e;
    for (size_t i = 0; i < g->n_choice; i++) {
        const struct choice *c = &g->choice[i];
        if (c->state == GEN_FAILED) {
            generation_fail_err(g, &answer_end(c->answer)->err);
            return true;
        }
        if (c->state == GEN_CANCELLED) {
            api_fail(&e, 503, "shutting_down", NULL, "The server is being stopped.");
            e.retry_after_s = 1;
            generation_fail(g, &e);
            return true;
        }
    }
    return false;
}

/* ---- beginning ----------------------------------------------------------------------------- */

static void begin_reply(struct generation *g)
{
    const struct api_request *q = g->q;
    const char *id = q->request_id ? q->request_id : call_request(g->call)->id;
    const char *prefix = q->route == API_CHAT ? "chatcmpl" : "cmpl";
    const struct tokenizer *t = engine_tokenizer(g->at.engine);
    api_reply_init(&g->reply, q->route,
                   arena_printf(call_arena(g->call), "%s-%s", prefix, id ? id : "0"), q->model,
                   clock_wall_us() / 1000000,
                   (struct api_vocab){.bytes = tell_spell, .ctx = g, .names_ids = q->names_ids});
    g->spell = t && (q->wants_logprobs || q->prompt_logprobs >= 0) ? detok_new(t, false) : NULL;
}

/* As the ids spell it; and where each begins. */
static int spell_prompt(const struct generation *g, const struct prompt *p, struct buf *text,
                        uint64_t *at, struct err *e)
{
    const struct tokenizer *t = engine_tokenizer(g->at.engine);
    struct detok *d = detok_new(t, !g->q->gen.special_shown);
    int rc = 0;
    for (int64_t i = 0; i < p->n && !rc; i++) {
        rc = detok_push(d, p->id[i], text, e);
        at[i] = detok_begin(d);
    }
    if (!rc)
        rc = detok_finish(d, text, e);
    detok_free(d);
    return rc;
}

/* The prompt's text, as it came or as its ids spell it. */
static int echo(struct generation *g, struct choice *c, struct err *e)
{
    const struct prompt *p = generation_prompt(g, c);
    struct buf text;
    uint64_t *at = arena_try(call_arena(g->call), (size_t)p->n, sizeof *at, e);
    if (!at)
        return -1;
    memset(at, 0, (size_t)p->n * sizeof *at);
    for (int64_t i = 0; p->text && p->span && i < p->n; i++)
        at[i] = p->span[i].lo;
    buf_init(&text, CHOICE_TEXT_MAX);
    int rc = p->text || !engine_tokenizer(g->at.engine) ? 0 : spell_prompt(g, p, &text, at, e);
    if (!rc && p->text)
        rc = choice_echo(c, p->text, p->n_text, e);
    else if (!rc)
        rc = choice_echo(c, text.len ? text.data : "", text.len, e);
    buf_release(&text);
    return rc || !g->q->wants_logprobs ? rc : choice_place(c, at, (size_t)p->n, e);
}

static void take_answers(struct generation *g, struct answer **answer, struct err *e)
{
    const struct tokenizer *t = engine_tokenizer(g->at.engine);
    bool wants_places = g->q->wants_logprobs && g->q->route == API_COMPLETIONS;
    int rc = 0;
    for (size_t i = 0; i < g->n_choice; i++) {
        struct choice *c = &g->choice[i];
        choice_init(c, answer[i], t, g->q->gen.special_shown, goes_on(g, generation_prompt(g, c)));
    }
    for (size_t i = 0; i < g->n_choice && !rc; i++)
        rc = g->q->echo     ? echo(g, &g->choice[i], e)
             : wants_places ? choice_place(&g->choice[i], NULL, 0, e)
                            : 0;
}

/* All but what is to be submitted: prompts, and room for their answers. */
static int prepare(struct generation *g, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct arena *a = call_arena(g->call);
    int64_t most = engine_info(g->at.engine)->max_waiting;
    if (prompts_make(g->at.engine, &g->at.q, a, &g->prompt, &g->n_prompt, e))
        return -1;
    g->n_asked = g->n_prompt * (size_t)g->q->best_of;
    if (g->n_asked > (size_t)most)
        return api_fail(e, 400, "invalid_value", g->q->best_of > 1 ? "n" : "prompt",
                        "%zu generations are asked for at once: the limit is %lld.", g->n_asked,
                        (long long)most);
    g->choice = arena_try(a, g->n_asked, sizeof *g->choice, &why);
    g->answer = g->choice ? arena_try(a, g->n_asked, sizeof *g->answer, &why) : NULL;
    return g->answer ? 0 : api_fail_err(e, &why, NULL);
}

static int begin(struct generation *g, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (constraining_check(&g->constraining, e))
        return -1;
    if (submit(g, g->answer, &why))
        return api_fail_err(e, &why, NULL);
    g->n_choice = g->n_asked;
    g->has_begun = true;
    begin_reply(g);
    take_answers(g, g->answer, &g->begin_err);
    return 0;
}

/* ---- the call's later ---------------------------------------------------------------------- */

static void step(struct call *call, void *ctx)
{
    struct generation *g = ctx;
    struct api_error refusal;
    struct err e = ERR_INIT;
    size_t n_ended = 0;
    (void)call;
    if (!g->has_begun && (g->is_over || !constraining_is_done(&g->constraining)))
        return;
    if (!g->has_begun && begin(g, &refusal)) {
        generation_fail(g, &refusal);
        return;
    }
    if (g->begin_err.code && !g->is_over)
        generation_fail_err(g, &g->begin_err);
    for (size_t i = 0; i < g->n_choice && !g->is_over; i++) {
        struct choice *c = &g->choice[i];
        if (!g->q->stream && answer_state(c->answer) == GEN_RUNS)
            continue;
        if (choice_pull(c, &e)) {
            generation_fail_err(g, &e);
            return;
        }
        n_ended += c->state != GEN_RUNS;
    }
    if (g->is_over || has_failed(g))
        return;
    if (g->q->stream)
        tell_events(g);
    else if (n_ended == g->n_choice)
        tell_whole(g);
}

static void gone(void *ctx)
{
    struct generation *g = ctx;
    constraining_leave(&g->constraining);
    cancel(g);
    generation_note(g);
}

static void done(void *ctx)
{
    struct generation *g = ctx;
    struct metrics *m = server_metrics(call_server(g->call));
    const struct call_request *r = call_request(g->call);
    for (size_t i = 0; i < g->n_choice; i++) {
        struct choice *c = &g->choice[i];
        const struct metrics_request at = {.begin_us = r->begin_us,
                                           .submit_us = g->submit_us,
                                           .n_prompt = generation_prompt(g, c)->n};
        if (m && answer_state(c->answer) != GEN_RUNS)
            metrics_answer(m, c->answer, &at);
        choice_release(c);
    }
    constraining_release(&g->constraining);
    api_reply_release(&g->reply);
    detok_free(g->spell);
    buf_release(&g->out);
    free(g->room);
}

void generate(struct call *c, enum api_route route)
{
    struct generation *g = ARENA_NEW(call_arena(c), struct generation);
    struct api_error e;
    g->call = c;
    g->q = &g->at.q;
    buf_init(&g->out, OUT_BYTES_MAX);
    if (!generate_admit(c, route, &g->at))
        return;
    bool waits = false;
    if (prepare(g, &e) ||
        constraining_begin(&g->constraining, c, g->at.engine, &g->q->constraint, &waits, &e) ||
        (!waits && begin(g, &e))) {
        constraining_release(&g->constraining);
        call_error(c, &e);
        return;
    }
    if (g->q->ignored)
        call_set_header(c, "x-tandem-ignored", g->q->ignored);
    const struct call_later later = {
        .step = step, .gone = gone, .done = done, .ctx = g, .streams = g->q->stream};
    call_wait(c, &later);
}
