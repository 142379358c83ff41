/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling the client what came, whole or as a stream. What a choice holds is described once for
 * both (describe), and written by api/reply.
 */
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "server/answer/generate_own.h"

/* ---- what a choice holds ------------------------------------------------------------------- */

void tell_spell(void *ctx, int32_t id, struct buf *out)
{
    struct generation *g = ctx;
    if (g->spell)
        detok_bytes(g->spell, id, out, NULL);
}

/* Entries of log-probabilities and of ids that telling a choice takes now. */
static size_t count_room(const struct generation *g, const struct choice *c)
{
    const struct api_request *q = g->q;
    size_t n_new = c->n_ready - c->n_told, n_prompt = (size_t)generation_prompt(g, c)->n;
    size_t n = n_new * ((size_t)q->wants_logprobs + (size_t)q->sends_ids);
    if (!c->is_begun)
        n += n_prompt * ((size_t)(q->wants_logprobs && q->echo) + (q->prompt_logprobs >= 0));
    return n;
}

static int make_room(struct generation *g, size_t n)
{
    size_t bytes = n * sizeof(struct api_logprob) + 1;
    if (bytes <= g->room_bytes)
        return 0;
    void *room = try_resize(g->room, 2 * bytes, "log-probabilities", NULL);
    if (!room)
        return -1;
    g->room = room;
    g->room_bytes = 2 * bytes;
    return 0;
}

static const char *finish_word(const struct choice *c)
{
    return c->state == GEN_LENGTH                         ? "length"
           : c->state == GEN_STOPPED && calling_called(c) ? "tool_calls"
           : c->state == GEN_STOPPED                      ? "stop"
                                                          : NULL;
}

/* vLLM tells which of the client's own stops it was; the model's end of text is none of these. */
static void describe_stop(const struct generation *g, const struct choice *c,
                          struct api_choice *out)
{
    const struct answer_end *end = answer_end(c->answer);
    const struct gen_params *p = &g->q->gen;
    for (int32_t i = 0; i < p->n_stop_id; i++)
        if (p->stop_id[i] == end->stop_id)
            out->stop_id = end->stop_id;
    if (end->stop_index >= 0 && end->stop_index < p->n_stop)
        out->stop = &p->stop[end->stop_index];
}

/* The first choice of each prompt is asked for what the prompt's tokens are worth, for all. */
static size_t first_of_prompt(const struct generation *g, const struct choice *c)
{
    return (size_t)(generation_prompt(g, c) - g->prompt) * (size_t)g->q->best_of;
}

/* Entries go to *room, which is moved on. */
static void describe_logprobs(const struct generation *g, struct choice *c, struct api_choice *out,
                              struct api_logprob **room)
{
    const struct prompt *p = generation_prompt(g, c);
    const struct answer *of_prompt = g->answer[first_of_prompt(g, c)];
    const struct api_request *q = g->q;
    if (q->wants_logprobs) {
        struct api_logprob *first = *room;
        out->logprob = first;
        if (q->echo && !c->is_begun) {
            choice_prompt_logprobs(of_prompt, p->id, (size_t)p->n, q->top_logprobs, *room);
            *room += p->n;
        }
        *room += choice_logprobs(c, q->top_logprobs, q->route != API_RESPONSES, *room);
        out->n_logprob = (size_t)(*room - out->logprob);
        choice_offsets(c, first, out->n_logprob);
    }
    if (q->prompt_logprobs >= 0 && !c->is_begun) {
        out->prompt = *room;
        out->n_prompt = (size_t)p->n;
        choice_prompt_logprobs(of_prompt, p->id, (size_t)p->n, q->prompt_logprobs, *room);
        *room += p->n;
    }
}

static void describe_ids(const struct generation *g, const struct choice *c, struct api_choice *out,
                         struct api_logprob **room)
{
    const struct prompt *p = generation_prompt(g, c);
    int32_t *id = (int32_t *)*room;
    size_t n = c->n_ready - c->n_told;
    if (!g->q->sends_ids)
        return;
    for (size_t i = 0; i < n; i++)
        id[i] = answer_token(c->answer, c->n_told + i)->id;
    *room += n;
    out->id = id;
    out->n_id = n;
    if (!c->is_begun) {
        out->prompt_id = p->id;
        out->n_prompt_id = (size_t)p->n;
    }
}

/* All that is new of a choice; what it borrows holds until the next pull. */
static struct api_choice describe(const struct generation *g, struct choice *c, int64_t index,
                                  struct api_logprob **room)
{
    struct api_choice out = {.index = index,
                             .text = c->text.data,
                             .n_text = c->n_show,
                             .is_first = !c->is_begun,
                             .finish = finish_word(c),
                             .stop_id = -1};
    thinking_describe(c, g->q, &out);
    if (out.finish)
        describe_stop(g, c, &out);
    describe_logprobs(g, c, &out, room);
    describe_ids(g, c, &out, room);
    return out;
}

void tell_send(struct generation *g)
{
    if (g->out.len)
        call_send(g->call, g->out.data, g->out.len);
    buf_clear(&g->out);
}

/* Of one answer; several overlap, and have no pace of their own. */
static bool take_times(const struct generation *g, struct api_times *t)
{
    const struct answer *a = g->choice[0].answer;
    const struct answer_end *end = g->n_choice == 1 ? answer_end(a) : NULL;
    size_t n = answer_count(a);
    if (!end || !end->queued_us || !end->first_us || n == 0)
        return false;
    *t = (struct api_times){.queue_us = end->queued_us - g->submit_us,
                            .prompt_us = end->first_us - end->queued_us,
                            .decode_us = answer_token(a, n - 1)->at_us - end->first_us};
    return true;
}

/* ---- a whole answer ------------------------------------------------------------------------ */

/* The n best of each prompt come first among its choices, the best of all first. */
static void sort_best(struct generation *g)
{
    size_t m = (size_t)g->q->best_of;
    for (size_t p = 0; p < g->n_prompt; p++) {
        struct choice *c = g->choice + p * m;
        for (size_t i = 1; i < m; i++)
            for (size_t k = i; k > 0 && choice_mean_logprob(&c[k]) > choice_mean_logprob(&c[k - 1]);
                 k--) {
                struct choice swap = c[k];
                c[k] = c[k - 1];
                c[k - 1] = swap;
            }
    }
}

static int read_all(struct generation *g, struct err *e)
{
    for (size_t i = 0; i < g->n_choice; i++) {
        struct choice *c = &g->choice[i];
        if (thinking_reads(c) && thinking_read(c, c->text.data, c->n_show, true, e))
            return -1;
    }
    return 0;
}

static bool describe_calls(struct generation *g, struct choice *c, struct api_choice *out,
                           struct err *e)
{
    if (c->reads)
        out->call = calling_whole(&g->calling, c, call_arena(g->call), &out->n_call, e);
    return !c->reads || out->call;
}

/* All choices that are wanted, whole. */
static int write_whole(struct generation *g, const struct api_usage *u, struct buf *out,
                       struct err *e)
{
    size_t n = (size_t)g->q->n, m = (size_t)g->q->best_of, n_room = 0, k = 0;
    struct api_choice *choice = arena_try(call_arena(g->call), g->n_prompt * n, sizeof *choice, e);
    struct api_times times;
    for (size_t i = 0; i < g->n_choice; i++)
        n_room += count_room(g, &g->choice[i]);
    if (!choice || make_room(g, n_room))
        return err_set(e, ERR_NO_MEMORY, "there is no memory for the answer now: try again later");
    struct api_logprob *room = g->room;
    for (size_t i = 0; i < g->n_choice; i++)
        if (i % m < n) {
            choice[k] = describe(g, &g->choice[i], (int64_t)k, &room);
            if (!describe_calls(g, &g->choice[i], &choice[k++], e))
                return -1;
        }
    api_face(g->q->route)
        ->write(&g->reply, choice, k, u, take_times(g, &times) ? &times : NULL, out);
    return buf_check(out, "the answer", e);
}

/* What a face cannot say once more by itself is written again, whole. */
static int write_kept(struct generation *g, const struct api_usage *u, struct err *e)
{
    struct buf *body = &g->keeping.body;
    if (api_face(g->q->route)->keep) {
        api_face(g->q->route)->keep(&g->reply, u, body);
        return 0;
    }
    if (!g->q->stream) {
        buf_add(body, g->out.data, g->out.len);
        return 0;
    }
    for (size_t i = 0; i < g->n_choice; i++)
        if (choice_rewind(&g->choice[i], e))
            return -1;
    return write_whole(g, u, body, e);
}

/* Keeps the answer, where it is to be; true: its end, which lies in g->out, is told later, or it
 * has failed and that was told. */
static bool keep(struct generation *g, const struct api_usage *u)
{
    struct err e = ERR_INIT;
    if (!g->keeping.keeper || g->q->store != API_STORE)
        return false;
    if (write_kept(g, u, &e) || keeping_begin(&g->keeping, g->call, g->q, g->reply.id, &e))
        generation_fail_err(g, &e);
    return true;
}

void tell_whole(struct generation *g)
{
    struct err e = ERR_INIT;
    struct api_usage u = generation_usage(g);
    if (g->q->best_of > g->q->n && !g->q->gen.beams.width) /* whose answers are in order */
        sort_best(g);
    if (read_all(g, &e) || write_whole(g, &u, &g->out, &e)) {
        generation_fail_err(g, &e);
        return;
    }
    generation_note(g);
    if (!keep(g, &u))
        call_reply(g->call, 200, "application/json", &g->out);
}

void tell_nothing(struct generation *g)
{
    const struct api_usage none = {.prompt = 0};
    api_reply_init(&g->reply, g->q->route, "", g->q->model, clock_wall_us() / 1000000,
                   (struct api_vocab){.bytes = NULL});
    api_face(g->q->route)->write(&g->reply, NULL, 0, &none, NULL, &g->out);
    api_reply_release(&g->reply);
    call_note(g->call, g->q->model, 0, 0);
    call_reply(g->call, 200, "application/json", &g->out);
}

/* ---- a stream ------------------------------------------------------------------------------ */

/* It begins with the prompt's log-probabilities, and these are not there yet. */
static bool awaits_prompt(const struct generation *g, const struct choice *c)
{
    const struct choice *first = &g->choice[first_of_prompt(g, c)];
    return g->q->gen.wants_prompt && !c->is_begun && first->state == GEN_RUNS && !first->n_tok;
}

static bool has_news(const struct generation *g, const struct choice *c)
{
    bool tells_tokens = g->q->wants_logprobs || g->q->sends_ids;
    return !c->is_over && !awaits_prompt(g, c) &&
           (c->n_show || c->state != GEN_RUNS || (tells_tokens && c->n_ready > c->n_told));
}

static void put_event(struct generation *g, const struct api_choice *choice)
{
    const struct api_request *q = g->q;
    struct api_usage u =
        q->sends_usage_always ? generation_usage(g) : (struct api_usage){.prompt = 0};
    api_face(q->route)->event(&g->reply, choice, &u, &g->out);
}

/* The events of pieces of calls, each its own; the first also has what is new besides, the last
 * also the end. False: there is no piece. */
static bool put_calls(struct generation *g, struct choice *c, struct api_choice choice)
{
    struct api_call piece, next;
    const struct api_choice end = choice;
    if (!calling_next(&g->calling, c, &piece))
        return false;
    if (choice.n_text || choice.n_thoughts) { /* words are an event of their own */
        choice.finish = NULL;
        put_event(g, &choice);
        choice = (struct api_choice){.index = choice.index, .stop_id = -1};
    }
    for (bool has_more = true; has_more; piece = next) {
        has_more = calling_next(&g->calling, c, &next);
        choice.call = &piece;
        choice.n_call = 1;
        choice.finish = has_more ? NULL : end.finish;
        choice.stop = has_more ? NULL : end.stop;
        choice.stop_id = has_more ? -1 : end.stop_id;
        put_event(g, &choice);
        choice = (struct api_choice){.index = choice.index};
    }
    return true;
}

/* Tokens whose text is still held back are told with it. */
static bool says_nothing(const struct choice *c, const struct api_choice *choice)
{
    return thinking_reads(c) && !choice->n_text && !choice->n_thoughts && !choice->finish &&
           !choice->n_logprob && !choice->n_id;
}

static int tell(struct generation *g, struct choice *c, struct err *e)
{
    if (make_room(g, count_room(g, c)))
        return -1;
    if (thinking_reads(c) && thinking_read(c, c->text.data, c->n_show, c->state != GEN_RUNS, e))
        return -1;
    struct api_logprob *room = g->room;
    struct api_choice choice = describe(g, c, c - g->choice, &room);
    bool has_calls = c->reads && put_calls(g, c, choice);
    if (!has_calls && !says_nothing(c, &choice))
        put_event(g, &choice);
    c->is_begun |= has_calls || !says_nothing(c, &choice);
    choice_told(c);
    c->is_over = c->state != GEN_RUNS;
    return 0;
}

static void end_stream(struct generation *g)
{
    struct api_usage u = generation_usage(g);
    struct api_times times;
    api_face(g->q->route)->end(&g->reply, &u, take_times(g, &times) ? &times : NULL, &g->out);
    generation_note(g);
    if (keep(g, &u))
        return;
    tell_send(g);
    call_end(g->call);
}

void tell_kept(struct generation *g)
{
    if (g->keeping.err.code) {
        generation_fail_err(g, &g->keeping.err);
    } else if (g->q->stream) {
        tell_send(g);
        call_end(g->call);
    } else {
        call_reply(g->call, 200, "application/json", &g->out);
    }
}

static void begin_events(struct generation *g)
{
    const struct api_face *face = api_face(g->q->route);
    if (face->begin && !g->has_begun) {
        struct api_usage u = generation_usage(g);
        face->begin(&g->reply, &u, &g->out);
    }
    g->has_begun = true;
}

/* A reader that is slow gets later what came meanwhile, in fewer events. */
void tell_events(struct generation *g)
{
    size_t n_over = 0;
    struct err e = ERR_INIT;
    if (call_is_streaming(g->call) && call_is_full(g->call))
        return;
    for (size_t i = 0; i < g->n_choice; i++) {
        struct choice *c = &g->choice[i];
        if (has_news(g, c)) {
            call_stream(g->call, api_face(g->q->route)->media);
            begin_events(g);
            if (tell(g, c, &e) || buf_check(&g->out, "the answer", &e)) {
                err_set(&e, ERR_NO_MEMORY, "there is no memory for the answer");
                generation_fail_err(g, &e);
                return;
            }
        }
        n_over += c->is_over;
    }
    if (n_over == g->n_choice)
        end_stream(g);
    else
        tell_send(g);
}
