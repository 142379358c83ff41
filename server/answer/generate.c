/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a chat request, from its body to its last byte. A completion's is the same without a
 * template. The transport has read the headers, found the route, checked key and limits
 * (front_admit, server/http/front.c), and read the body; the route's function calls generate.
 * In order, with the file that has the details:
 *
 * - generation_admit (admit.c): JSON to a struct api_request. The model that it names is there, and
 *   this key may use it.
 * - prompts_make (prompt.c): the messages through the model's chat template, the text to token ids,
 *   and their number held against the context.
 * - constraining_begin (constraining.c): the grammar that the text must follow. One that was not
 *   seen before is compiled as background work, which the call waits for.
 * - fetching_begin (fetching.c): an adapter that is not loaded now is, while the call waits.
 * - generation_submit (submit.c): all choices to the engine, in one piece.
 *
 * There the HTTP thread leaves the call. The engine's thread makes tokens (ARCHITECTURE.md, "The
 * life of a request"). It wakes the call behind each step that made some of a stream's, or when an
 * answer has ended; an HTTP thread then runs `step`:
 *
 * - choice_pull (choice.c): new tokens to the text that may be shown.
 * - keeping_begin (keeping.c): a response that can be asked for again is on the disk before its end
 *   is told.
 * - tell_events, tell_whole (tell.c): what is new as events, or everything when the last choice has
 *   ended. Usage comes with the end.
 * - `done`, when nobody looks at the call any more: the figures, and what was held is given back.
 *
 * What fails on the way is told by generation_fail (end.c), and a client that leaves cancels what
 * is under way (`gone`).
 */
#include "server/answer/generate.h"

#include <stdlib.h>
#include <string.h>

#include "server/answer/bad_words.h"
#include "server/answer/breakers.h"
#include "server/answer/generate_own.h"
#include "server/metrics/metrics.h"
#include "server/server.h"

static void await_answers(struct generation *g);

const struct prompt *generation_prompt(const struct generation *g, const struct choice *c)
{
    return &g->prompt[(size_t)(c - g->choice) / (size_t)g->q->best_of];
}

/* ---- from the body to the engine ------------------------------------------------------------- */

static struct generation *begin(struct call *c)
{
    struct generation *g = ARENA_NEW(call_arena(c), struct generation);
    g->call = c;
    g->q = &g->at.q;
    buf_init(&g->out, OUT_BYTES_MAX);
    buf_init(&g->keeping.body, OUT_BYTES_MAX);
    return g;
}

/* Whether calls of tools are looked for, and what texts are held to for them, is known before. */
static int make_prompts(struct generation *g, struct api_error *e)
{
    struct arena *a = call_arena(g->call);
    if (calling_begin(&g->calling, g->at.engine, g->q, a, e) ||
        bad_words_encode(g->at.engine, &g->at.q, a, e) ||
        breakers_encode(server_breakers(call_server(g->call)), g->at.engine, &g->at.q, a, e) ||
        prompts_make(g->at.engine, &g->at.q, a, &g->prompt, &g->n_prompt, e))
        return -1;
    if (g->q->route & API_CHATS) {
        thinking_let(&g->calling.constraint, g->at.engine, g->q, g->prompt);
        thinking_limit(&g->at.q, g->at.engine, g->prompt);
    }
    return 0;
}

/* What says how many answers there are. */
static const char *texts_field(const struct generation *g)
{
    return g->q->best_of > 1 ? "n" : "prompt";
}

/* Room for the choices of each prompt, and for their answers. */
static int make_choices(struct generation *g, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct arena *a = call_arena(g->call);
    int64_t most = engine_info(g->at.engine)->max_waiting;
    g->n_asked = g->n_prompt * (size_t)g->q->best_of;
    if (g->n_asked > (size_t)most)
        return api_fail(e, 400, "invalid_value", texts_field(g),
                        "%zu generations are asked for at once: the limit is %lld.", g->n_asked,
                        (long long)most);
    g->choice = arena_try(a, g->n_asked, sizeof *g->choice, &why);
    g->answer = g->choice ? arena_try(a, g->n_asked, sizeof *g->answer, &why) : NULL;
    return g->answer ? 0 : api_fail_err(e, &why, NULL);
}

/* What says how long an answer may be. */
static const char *length_field(enum api_route route)
{
    return route == API_RESPONSES                        ? "max_output_tokens"
           : route & (API_OLLAMA_CHATS | API_OLLAMA_RAW) ? "num_predict"
           : route == API_INFILL                         ? "n_predict"
                                                         : "max_tokens";
}

/* The most that prompts and answers may come to, set aside. An answer of no said length is not
 * longer than what its key may have a minute. */
static int reserve(struct generation *g, struct api_error *e)
{
    int64_t ctx = engine_info(g->at.engine)->ctx, most = call_tokens_most(g->call);
    int64_t n = (int64_t)g->n_asked, prompt = 0, left = ctx, *max_new = &g->at.q.gen.max_new;
    for (size_t i = 0; i < g->n_prompt; i++) {
        prompt += g->prompt[i].n;
        left = ctx - g->prompt[i].n < left ? ctx - g->prompt[i].n : left;
    }
    left = left > 0 ? left : 0;
    if (*max_new < 0 && most && most - prompt >= n && (most - prompt) / n < left)
        *max_new = (most - prompt) / n;
    const struct call_most all = {.texts = n,
                                  .tokens = prompt + n * (*max_new < 0 ? left : *max_new),
                                  .texts_field = texts_field(g),
                                  .tokens_field = length_field(g->q->route)};
    return call_reserve(g->call, &all, e);
}

enum { LOGPROB_BYTES = 64 };

/* What is told of prompts' tokens for each choice that is written, besides what the engine keeps of
 * them once: it may be many times that. */
static int charge_prompts(struct generation *g, struct api_error *e)
{
    const struct api_request *q = g->q;
    int64_t each = (q->prompt_logprobs >= 0 ? 1 + q->prompt_logprobs : 0) +
                   (q->echo && q->wants_logprobs ? 1 + q->top_logprobs : 0);
    int64_t n = q->route & API_CHATS ? 1 : q->n, prompt = 0;
    for (size_t i = 0; i < g->n_prompt && each; i++)
        prompt += g->prompt[i].n;
    int64_t bytes = prompt * n * each * LOGPROB_BYTES;
    if (bytes <= OUT_BYTES_MAX)
        return bytes ? call_charge(g->call, (size_t)bytes, e) : 0;
    return api_fail(
        e, 400, "invalid_value", q->prompt_logprobs >= 0 ? "prompt_logprobs" : "logprobs",
        "%lld log-probabilities of prompts' tokens are asked for, %lld for each of %lld "
        "choices: the limit is %d. Ask for fewer, or for fewer choices at once.",
        (long long)(prompt * n * each), (long long)(prompt * each), (long long)n,
        OUT_BYTES_MAX / LOGPROB_BYTES);
}

static int constrain(struct generation *g, bool *waits, struct api_error *e)
{
    return constraining_begin(&g->constraining, g->call, g->at.engine, &g->calling.constraint,
                              waits, e);
}

/* Of an adapter that is not loaded now. */
static int fetch(struct generation *g, bool *waits, struct api_error *e)
{
    if (!g->at.is_cold)
        return 0;
    *waits = true;
    return fetching_begin(&g->fetching, g->call, g->at.engine, g->q->model, e);
}

static void refuse(struct generation *g, const struct api_error *e)
{
    constraining_release(&g->constraining);
    call_error(g->call, e);
}

static void say_ignored(const struct generation *g)
{
    if (g->q->ignored)
        call_set_header(g->call, "x-tandem-ignored", g->q->ignored);
}

void generate(struct call *c, enum api_route route)
{
    generate_kept(c, route, NULL);
}

void generate_kept(struct call *c, enum api_route route, const struct keeper *keeper)
{
    struct generation *g = begin(c);
    struct api_error e;
    bool waits = false; /* for a constraint, or an adapter; `step` then submits */
    g->keeping.keeper = keeper;
    if (!generate_admit_kept(c, route, keeper, &g->at))
        return;
    if (g->q->asks_nothing) {
        say_ignored(g);
        tell_nothing(g);
        return;
    }
    if (make_prompts(g, &e) || make_choices(g, &e) || reserve(g, &e) || charge_prompts(g, &e) ||
        constrain(g, &waits, &e) || fetch(g, &waits, &e) || (!waits && generation_submit(g, &e))) {
        refuse(g, &e);
        return;
    }
    say_ignored(g);
    await_answers(g);
}

/* ---- from the engine to the client ----------------------------------------------------------- */

/* True once the choices are the engine's. */
static bool has_submitted(struct generation *g)
{
    struct api_error e;
    if (g->is_submitted)
        return true;
    if (g->is_over || !constraining_is_done(&g->constraining) || !fetching_is_done(&g->fetching))
        return false;
    if (!generation_submit(g, &e))
        return true;
    generation_fail(g, &e);
    return false;
}

/* The new tokens of all choices, of a whole answer once they have ended. False: it failed, and the
 * client was told. */
static bool collect(struct generation *g)
{
    struct err e = g->begin_err;
    g->n_ended = 0;
    for (size_t i = 0; i < g->n_choice && !e.code; i++) {
        struct choice *c = &g->choice[i];
        if (!g->q->stream && answer_state(c->answer) == GEN_RUNS)
            continue;
        if (!choice_pull(c, &e))
            g->n_ended += c->state != GEN_RUNS;
    }
    if (e.code)
        generation_fail_err(g, &e);
    return !e.code && !generation_has_failed(g);
}

static void step(struct call *call, void *ctx)
{
    struct generation *g = ctx;
    (void)call;
    if (g->keeping.is_begun) {
        if (keeping_is_done(&g->keeping))
            tell_kept(g);
        return;
    }
    if (!has_submitted(g) || g->is_over || !collect(g))
        return;
    if (g->q->stream)
        tell_events(g);
    else if (g->n_ended == g->n_choice)
        tell_whole(g);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void gone(void *ctx)
{
    struct generation *g = ctx;
    constraining_leave(&g->constraining);
    fetching_leave(&g->fetching);
    generation_cancel(g);
    generation_note(g);
}

static void count_answer(const struct generation *g, const struct choice *c)
{
    struct metrics *m = server_metrics(call_server(g->call));
    const struct metrics_request at = {.begin_us = call_request(g->call)->begin_us,
                                       .submit_us = g->submit_us,
                                       .n_prompt = generation_prompt(g, c)->n};
    if (m && answer_state(c->answer) != GEN_RUNS)
        metrics_answer(m, c->answer, &at);
}

static void done(void *ctx)
{
    struct generation *g = ctx;
    for (size_t i = 0; i < g->n_choice; i++) {
        count_answer(g, &g->choice[i]);
        choice_release(&g->choice[i]);
    }
    constraining_release(&g->constraining);
    keeping_release(&g->keeping);
    api_reply_release(&g->reply);
    detok_free(g->spell);
    buf_release(&g->out);
    free(g->room);
}

static void await_answers(struct generation *g)
{
    const struct api_face *face = api_face(g->q->route);
    bool has_events = strcmp(face->media, API_MEDIA_EVENTS) == 0;
    const struct call_later later = {.step = step,
                                     .gone = gone,
                                     .done = done,
                                     .ctx = g,
                                     .streams = g->q->stream && has_events,
                                     .error = generation_error,
                                     .ping = face->ping};
    call_wait(g->call, &later);
}
