/* SPDX-License-Identifier: Apache-2.0
 *
 * Alone: the runner, a chunk of the prompt at a time, then token by token, and the same sampler.
 */
#include "tests/lib/reply.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"
#include "engine/sample/sampler.h"
#include "tests/lib/test.h"

enum { CHUNK_MAX = 64, WAIT_S = 120 };

struct gen_params gen_greedy(int64_t n)
{
    struct gen_params p = {.sample = SAMPLE_PARAMS_INIT, .max_new = n, .ignore_eos = true};
    return p;
}

struct engine *engine_on(const char *dir, const struct engine_options *o)
{
    struct engine_options all = o ? *o : (struct engine_options){0};
    struct err e = ERR_INIT;
    all.model = dir;
    struct engine *g = engine_new(&all, &e);
    assert_good(g ? 0 : -1, &e);
    assert_good(engine_start(g, &e), &e);
    return g;
}

static void make_room(struct reply *r, const struct gen_req *req, int64_t n)
{
    const struct gen_params *p = req->params;
    r->n_top = p->n_top;
    r->n_prompt = p->wants_prompt ? req->n_prompt : 0;
    size_t room = (size_t)(n + 1), room_p = (size_t)(r->n_prompt + 1), top = (size_t)p->n_top + 1;
    r->id = xcalloc(room, sizeof *r->id);
    r->logprob = xcalloc(room, sizeof *r->logprob);
    r->text_safe = xcalloc(room, sizeof *r->text_safe);
    r->top = xcalloc(room * top, sizeof *r->top);
    r->prompt_logprob = xcalloc(room_p, sizeof *r->prompt_logprob);
    r->p_top = xcalloc(room_p * top, sizeof *r->p_top);
}

void reply_release(struct reply *r)
{
    free(r->id);
    free(r->logprob);
    free(r->text_safe);
    free(r->top);
    free(r->prompt_logprob);
    free(r->p_top);
    memset(r, 0, sizeof *r);
}

/* ---- from an engine ------------------------------------------------------------------------ */

enum gen_end answer_wait(const struct answer *a)
{
    int64_t begin = clock_us();
    while (answer_state(a) == GEN_RUNS) {
        if (clock_us() - begin > WAIT_S * INT64_C(1000000))
            fail_msg("an answer does not end");
        usleep(50);
    }
    return answer_state(a);
}

void reply_wait(struct reply *r, struct answer *a, const struct gen_req *req)
{
    memset(r, 0, sizeof *r);
    r->why = answer_wait(a);
    r->end = *answer_end(a);
    if (req->kind == GEN_EMBED) {
        answer_unref(a);
        return;
    }
    r->n = (int64_t)answer_count(a);
    make_room(r, req, r->n);
    size_t n_top = (size_t)r->n_top;
    for (size_t i = 0; i < (size_t)r->n; i++) {
        r->id[i] = answer_token(a, i)->id;
        r->logprob[i] = answer_token(a, i)->logprob;
        r->text_safe[i] = answer_token(a, i)->text_safe;
        memcpy(r->top + i * n_top, answer_top(a, i), n_top * sizeof *r->top);
    }
    for (size_t i = 1; i < (size_t)r->n_prompt; i++) {
        r->prompt_logprob[i] = answer_prompt_logprob(a, i);
        memcpy(r->p_top + i * n_top, answer_prompt_top(a, i), n_top * sizeof *r->p_top);
    }
    answer_unref(a);
}

void reply_ask(struct reply *r, struct engine *g, const struct gen_req *req)
{
    struct err e = ERR_INIT;
    struct answer *a;
    assert_good(engine_submit(g, req, 1, (struct gen_notify){0}, &a, &e), &e);
    reply_wait(r, a, req);
}

/* ---- alone --------------------------------------------------------------------------------- */

struct alone {
    struct golden *g;
    const struct gen_req *req;
    struct reply *r;
    struct runner *runner;
    struct sampler *sampler;
    struct seen *seen;
    int32_t *token, *length; /* [n_prompt + max_new] */
    int64_t n_tok;
};

static void copy_top(struct answer_top *at, const struct sample_taken *t, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        at[i] = i < t->n_top ? (struct answer_top){t->top[i].id, t->top[i].logprob}
                             : (struct answer_top){.id = -1};
}

static void score_prompt(struct alone *a, const float *logits, int64_t i)
{
    struct sample_taken t;
    struct err e = ERR_INIT;
    int32_t n_top = a->req->params->n_top;
    if (!a->req->params->wants_prompt || i >= a->req->n_prompt)
        return;
    assert_good(sampler_score(a->sampler, logits, a->token[i], n_top, &t, &e), &e);
    a->r->prompt_logprob[i] = t.logprob;
    copy_top(a->r->p_top + i * n_top, &t, n_top);
}

/* As runner_feed, with an adapter. */
static void feed_adapter(struct alone *a, int64_t pos, int64_t n, struct op_view *out)
{
    struct batch *b = runner_batch(a->runner);
    int32_t turn = model_turn(a->g->model, a->req->n_prompt + a->req->params->max_new);
    struct err e = ERR_INIT;
    for (int64_t i = 0; i < n; i++) {
        b->token[i] = a->token[pos + i];
        b->pos[i] = (int32_t)(pos + i);
        b->turn[i] = turn + b->pos[i];
        b->seq_of[i] = b->segment[i] = 0;
        b->out_row[i] = (int32_t)i;
    }
    for (int64_t c = 0; c < b->cell_stride; c++)
        b->cell[c] = (int32_t)c;
    b->q_start[0] = 0;
    b->q_start[1] = (int32_t)n;
    b->kv_len[0] = (int32_t)(pos + n);
    b->n[DIM_TOK] = b->n[DIM_OUT] = n;
    b->n[DIM_SEQ] = b->n[DIM_GROUP] = 1;
    adapter_group(a->g->model, a->req->adapter, 0, n, b, 0);
    assert_good(runner_step(a->runner, out, &e), &e);
}

/* The last row of what is fed. */
static const float *feed(struct alone *a, int64_t pos, int64_t n)
{
    struct op_view out;
    struct err e = ERR_INIT;
    if (a->req->adapter)
        feed_adapter(a, pos, n, &out);
    else
        assert_good(runner_feed(a->runner, a->token + pos, n, pos, n, &out, &e), &e);
    for (int64_t i = 0; i < n; i++)
        score_prompt(a, out.p + i * out.ld, pos + i + 1);
    return out.p + (n - 1) * out.ld;
}

static bool ends(const struct alone *a, int32_t id)
{
    const struct generation *gen = &a->g->dir.generation;
    for (int32_t i = 0; i < gen->n_eos && !a->req->params->ignore_eos; i++)
        if (gen->eos[i] == id)
            return true;
    for (int32_t i = 0; i < a->req->params->n_stop_id; i++)
        if (a->req->params->stop_id[i] == id)
            return true;
    return false;
}

static void generate(struct alone *a, const float *logits)
{
    const struct gen_params *p = a->req->params;
    struct reply *r = a->r;
    struct err e = ERR_INIT;
    double mu = 2 * p->sample.mirostat_tau;
    r->why = GEN_LENGTH;
    for (int64_t i = 0; i < p->max_new; i++) {
        struct sample_row row = {.logits = logits,
                                 .params = &p->sample,
                                 .place = (uint64_t)i,
                                 .seen = a->seen,
                                 .text = a->token,
                                 .n_text = a->n_tok,
                                 .n_said = i,
                                 .length = a->length,
                                 .mu = mu,
                                 .wants_logprob = p->wants_logprob,
                                 .n_top = p->n_top};
        struct sample_taken t;
        assert_good(sampler_next(a->sampler, &row, &t, &e), &e);
        mu = t.mu;
        if (ends(a, t.id)) {
            r->why = GEN_STOPPED;
            r->end.stop_id = t.id;
            break;
        }
        r->id[r->n] = t.id;
        r->logprob[r->n] = t.logprob;
        copy_top(r->top + r->n * p->n_top, &t, p->n_top);
        r->n++;
        seen_answer(a->seen, t.id);
        a->token[a->n_tok++] = t.id;
        if (i + 1 < p->max_new)
            logits = feed(a, a->n_tok - 1, 1);
    }
}

void reply_alone(struct reply *r, struct golden *g, const struct gen_req *req, int64_t chunk)
{
    struct err e = ERR_INIT;
    int64_t room = req->n_prompt + req->params->max_new;
    struct runner_options o = {
        .cap = {[DIM_TOK] = CHUNK_MAX, [DIM_OUT] = CHUNK_MAX, [DIM_SEQ] = 1, [DIM_GROUP] = 1},
        .n_cell = room / K_CELL + 1,
        .n_feed = room,
        .passes = PASS_ALL,
        .lora_rank_max = req->adapter ? 16 : 0,
        .output = MODEL_LOGITS};
    struct alone a = {.g = g, .req = req, .r = r, .n_tok = req->n_prompt};
    memset(r, 0, sizeof *r);
    make_room(r, req, req->params->max_new);
    r->end = (struct answer_end){.stop_id = -1, .stop_index = -1};
    a.runner = runner_new(g->model, &o, g->stream, &e);
    assert_non_null(a.runner);
    a.sampler = sampler_new(g->model->cfg.n_vocab, device_kernels(g->device), &e);
    a.seen = seen_new(room, &e);
    a.token = xcalloc((size_t)room, sizeof *a.token);
    a.length = xcalloc((size_t)room, sizeof *a.length);
    memcpy(a.token, req->prompt, (size_t)req->n_prompt * sizeof *a.token);
    for (int64_t i = 0; i < req->n_prompt; i++)
        seen_prompt(a.seen, a.token[i]);
    const float *logits = NULL;
    for (int64_t pos = 0; pos < req->n_prompt; pos += chunk)
        logits = feed(&a, pos, req->n_prompt - pos < chunk ? req->n_prompt - pos : chunk);
    generate(&a, logits);
    free(a.token);
    free(a.length);
    seen_free(a.seen);
    sampler_free(a.sampler);
    runner_free(a.runner);
}

/* ---- comparing ----------------------------------------------------------------------------- */

static void same_bits(const void *a, const void *b, size_t bytes, const char *what,
                      const char *part)
{
    if (memcmp(a, b, bytes) != 0)
        fail_msg("%s: other %s", what, part);
}

void reply_same(const struct reply *got, const struct reply *want, const char *what)
{
    if (got->why == GEN_FAILED)
        fail_msg("%s: %s", what, got->end.err.msg);
    if (got->why != want->why || got->n != want->n || got->end.stop_id != want->end.stop_id)
        fail_msg("%s: %lld tokens, end %d, by %d; not %lld, %d, %d", what, (long long)got->n,
                 got->why, got->end.stop_id, (long long)want->n, want->why, want->end.stop_id);
    size_t n = (size_t)got->n, n_top = (size_t)got->n_top, n_prompt = (size_t)got->n_prompt;
    same_bits(got->id, want->id, n * sizeof *got->id, what, "tokens");
    same_bits(got->logprob, want->logprob, n * sizeof *got->logprob, what, "log-probabilities");
    same_bits(got->top, want->top, n * n_top * sizeof *got->top, what, "likeliest");
    same_bits(got->prompt_logprob, want->prompt_logprob, n_prompt * sizeof *got->logprob, what,
              "log-probabilities of the prompt");
    same_bits(got->p_top, want->p_top, n_prompt * n_top * sizeof *got->p_top, what,
              "likeliest of the prompt");
}
