/* SPDX-License-Identifier: Apache-2.0
 *
 * How a chat request or completion ends: what it used, and what the client is told where it cannot
 * be answered.
 */
#include "server/answer/generate_own.h"

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
        u.reasoning += think_count_get(&c->thoughts);
        u.accepted += end ? end->n_accepted : 0;
        u.rejected += end ? end->n_drafted - end->n_accepted : 0;
    }
    return u;
}

/* Where the engine's part of the request went, of each answer that ended. */
static void note_spans(const struct generation *g)
{
    for (size_t i = 0; i < g->n_choice; i++) {
        const struct choice *c = &g->choice[i];
        const struct answer_end *end = c->state == GEN_RUNS ? NULL : answer_end(c->answer);
        if (!end || !end->queued_us)
            continue;
        call_span(g->call, "queue", g->submit_us, end->queued_us);
        call_span(g->call, "prefill", end->queued_us, end->first_us ? end->first_us : end->end_us);
        if (end->first_us)
            call_span(g->call, "decode", end->first_us, end->end_us);
    }
}

void generation_note(struct generation *g)
{
    struct api_usage u = generation_usage(g);
    if (!g->is_over)
        note_spans(g);
    g->is_over = true;
    call_note(g->call, g->q->model, u.prompt, u.completion);
}

void generation_cancel(struct generation *g)
{
    for (size_t i = 0; i < g->n_choice; i++)
        answer_cancel(g->choice[i].answer);
}

void generation_error(void *generation, const struct api_error *e, struct buf *out)
{
    struct generation *g = generation;
    api_face(g->q->route)->error(&g->reply, e, out);
}

void generation_fail(struct generation *g, const struct api_error *e)
{
    generation_cancel(g);
    generation_note(g);
    if (!call_is_streaming(g->call)) {
        call_error(g->call, e);
        return;
    }
    buf_clear(&g->out);
    generation_error(g, e, &g->out);
    tell_send(g);
    call_end(g->call);
}

void generation_fail_err(struct generation *g, const struct err *why)
{
    struct api_error e;
    api_fail_err(&e, why, NULL);
    generation_fail(g, &e);
}

bool generation_has_failed(struct generation *g)
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
