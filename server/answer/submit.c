/* SPDX-License-Identifier: Apache-2.0
 *
 * The step of a chat request or completion in which it becomes generations of the engine: their
 * seeds, one submission of them all, and the choices that their answers are read through.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/clock.h"
#include "engine/base/letters.h"
#include "engine/base/rng.h"
#include "server/answer/generate_own.h"

/* ---- to the engine ------------------------------------------------------------------------- */

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

/* A constraint is matched with the tokens' bytes, so a space that its text begins with is kept. */
static bool goes_on(const struct generation *g, const struct prompt *p)
{
    return p->text_goes_on || g->constraining.masks;
}

/* As those who read the text do. */
static bool shows_marks(const struct generation *g)
{
    bool splits = (g->q->route & API_CHATS) && g->q->splits_thoughts;
    return g->calling.format || (splits && engine_info(g->at.engine)->think);
}

static int submit(struct generation *g, struct err *e)
{
    const struct api_request *q = g->q;
    struct arena *a = call_arena(g->call);
    struct gen_req *req = arena_try(a, g->n_asked, sizeof *req, e);
    struct gen_params *params = req ? arena_try(a, g->n_asked, sizeof *params, e) : NULL;
    if (!params)
        return -1;
    uint64_t base = base_seed(q), salt = generate_salt(g->call, q);
    const struct who *who = call_request(g->call)->who;
    for (size_t i = 0; i < g->n_asked; i++) {
        const struct prompt *p = &g->prompt[i / (size_t)q->best_of];
        params[i] = q->gen;
        /* what a prompt's tokens are worth is the same for all of its choices */
        params[i].wants_prompt = q->gen.wants_prompt && i % (size_t)q->best_of == 0;
        params[i].sample.seed = seed_of(q, base, i);
        params[i].text_goes_on = goes_on(g, p);
        params[i].masks = g->constraining.masks;
        params[i].marks_shown = shows_marks(g);
        req[i] = (struct gen_req){.kind = GEN_TEXT,
                                  .prompt = p->id,
                                  .n_prompt = p->n,
                                  .params = &params[i],
                                  .adapter = g->at.adapter,
                                  .salt = salt,
                                  .tenant = who->tenant,
                                  .weight = who->weight,
                                  .is_idle = who->is_idle,
                                  .priority = (int32_t)q->priority};
    }
    call_ref(g->call);
    g->submit_us = clock_us();
    if (!engine_submit(g->at.engine, req, g->n_asked, generate_notify(g->call, q->stream),
                       g->answer, e))
        return 0;
    call_unref(g->call);
    return -1;
}

/* ---- what its answers are read through ------------------------------------------------------ */

/* Of what can be asked for again, that others cannot guess it. */
static const char *id_of(const struct generation *g)
{
    const struct api_request *q = g->q;
    const char *prefix = api_face(q->route)->prefix;
    const char *id = q->request_id ? q->request_id : call_request(g->call)->id;
    char drawn[33];
    if (q->route != API_RESPONSES && q->store != API_STORE)
        return arena_printf(call_arena(g->call), "%s-%s", prefix, id ? id : "0");
    letters_draw(drawn, sizeof drawn - 1);
    return arena_printf(call_arena(g->call), "%s%c%s", prefix,
                        q->route == API_RESPONSES ? '_' : '-', drawn);
}

static void begin_reply(struct generation *g)
{
    const struct api_request *q = g->q;
    const struct tokenizer *t = engine_tokenizer(g->at.engine);
    api_reply_init(&g->reply, q->route, id_of(g), q->model, clock_wall_us() / 1000000,
                   (struct api_vocab){.bytes = tell_spell, .ctx = g, .names_ids = q->names_ids});
    g->reply.q = q;
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

static void begin_choices(struct generation *g, struct err *e)
{
    const struct tokenizer *t = engine_tokenizer(g->at.engine);
    bool wants_places = g->q->wants_logprobs && g->q->route == API_COMPLETIONS;
    int rc = 0;
    for (size_t i = 0; i < g->n_choice; i++) {
        struct choice *c = &g->choice[i];
        choice_init(c, g->answer[i], t, g->q->gen.special_shown,
                    goes_on(g, generation_prompt(g, c)));
        c->holds_doubtful = g->q->route == API_RESPONSES && g->q->wants_logprobs;
        calling_listen(&g->calling, c);
        thinking_listen(c, g->at.engine, g->q, generation_prompt(g, c));
    }
    for (size_t i = 0; i < g->n_choice && !rc; i++)
        rc = g->q->echo     ? echo(g, &g->choice[i], e)
             : wants_places ? choice_place(&g->choice[i], NULL, 0, e)
                            : 0;
}

int generation_submit(struct generation *g, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (constraining_check(&g->constraining, e) || fetching_check(&g->fetching, e))
        return -1;
    if (g->at.is_cold)
        g->at.adapter = g->fetching.adapter;
    if (submit(g, &why))
        return api_fail_err(e, &why, NULL);
    g->n_choice = g->n_asked;
    g->is_submitted = true;
    begin_reply(g);
    begin_choices(g, &g->begin_err);
    return 0;
}
