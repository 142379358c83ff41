/* SPDX-License-Identifier: Apache-2.0
 *
 * A scaling of rotary positions with two forms, served with a context beyond the first training's:
 * a request has the short form if its prompt and what it asks for fit that training's context, else
 * the long one from its first token on. Faults: a form that depends on the other requests, on the
 * text so far or on what was asked before; keys of one form that the other finds as its prefix.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "tests/lib/golden.h"
#include "tests/lib/reply.h"

#define MODEL "tests/golden/models/llama_rope_longrope"

/* The contexts of the model and of its first training; a prompt of more than one cell. */
enum { CTX = 128, SHORT_CTX = 64, N_PROMPT = 40, N = 10 };

/* Tokens of prompt and answer: short and long in turn, up to both borders. */
static const int64_t n_all[N] = {48, 100, SHORT_CTX, SHORT_CTX + 1, 41, CTX, 60, 120, 49, 110};

struct asked {
    struct golden g;
    int32_t prompt[CTX];
    struct gen_params params[N];
    struct gen_req req[N];
    struct reply want[N];
};

/* step: tokens from one request's prompt to the next's; 0: all have the same. */
static void asked_init(struct asked *a, int64_t n_prompt, int step)
{
    golden_init(&a->g, "llama_rope_longrope", K_F32, 0);
    assert_int_equal(a->g.model->ctx, CTX);
    for (int i = 0; i < CTX; i++)
        a->prompt[i] = (i * 37 + 11) % (int)a->g.model->cfg.n_vocab;
    for (int i = 0; i < N; i++) {
        a->params[i] = gen_greedy(n_all[i] - n_prompt);
        a->params[i].wants_logprob = true;
        a->req[i] = (struct gen_req){.kind = GEN_TEXT,
                                     .prompt = a->prompt + i * step,
                                     .n_prompt = n_prompt,
                                     .params = &a->params[i]};
        reply_alone(&a->want[i], &a->g, &a->req[i], i % 2 ? 7 : n_prompt);
    }
}

static void asked_release(struct asked *a)
{
    for (int i = 0; i < N; i++)
        reply_release(&a->want[i]);
    golden_release(&a->g);
}

static void each_has_its_own_form(void **state)
{
    struct asked a;
    (void)state;
    asked_init(&a, N_PROMPT, 0);
    for (int i = 1; i < N; i++) /* the first token of a short one is that of all short ones */
        assert_int_equal(a.want[i].logprob[0] == a.want[0].logprob[0], n_all[i] <= SHORT_CTX);
    struct engine *g =
        engine_on(MODEL, &(struct engine_options){.model = MODEL, .load.threads = 2});
    for (int round = 0; round < 2; round++) { /* the second finds prefixes of both */
        for (int i = 0; i < N; i++) {
            struct reply got;
            reply_ask(&got, g, &a.req[i]);
            reply_same(&got, &a.want[i], round ? "behind its prefix" : "at first");
            reply_release(&got);
        }
    }
    assert_true(engine_stat(g).prefix_hit > 0);
    engine_free(g);
    asked_release(&a);
}

/* Together, with guesses, in memory that does not hold them all at once. */
static void company_and_preemption_change_nothing(void **state)
{
    struct asked a;
    struct answer *answer[3 * N];
    struct gen_req req[3 * N];
    struct err e = ERR_INIT;
    (void)state;
    asked_init(&a, 9, 1);
    int64_t bytes = (int64_t)model_kv_token_bytes(a.g.model) * K_CELL * 6;
    struct engine_options o = {.load.threads = 2, .kv_bytes = bytes};
    o.speculate = ENGINE_SPECULATE_ALWAYS;
    struct engine *g = engine_on(MODEL, &o);
    for (int i = 0; i < 3 * N; i++)
        req[i] = a.req[i % N];
    assert_good(engine_submit(g, req, 3 * N, (struct gen_notify){0}, answer, &e), &e);
    for (int i = 0; i < 3 * N; i++) {
        struct reply got;
        reply_wait(&got, answer[i], &a.req[i % N]);
        reply_same(&got, &a.want[i % N], "in company");
        reply_release(&got);
    }
    assert_true(engine_stat(g).preempted > 0 && engine_stat(g).tok_drafted > 0);
    engine_free(g);
    asked_release(&a);
}

/* Where nothing is said of its length an answer ends at the border that its prompt is before. */
static void an_unsaid_length_keeps_the_form(void **state)
{
    static const struct {
        int64_t n_prompt, n_answer;
    } row[] = {{N_PROMPT, SHORT_CTX - N_PROMPT},
               {SHORT_CTX - 1, 1},
               {SHORT_CTX, CTX - SHORT_CTX},
               {100, CTX - 100}};
    struct asked a;
    (void)state;
    asked_init(&a, N_PROMPT, 0);
    struct engine *g =
        engine_on(MODEL, &(struct engine_options){.model = MODEL, .load.threads = 2});
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct reply got;
        a.req[0].n_prompt = row[i].n_prompt;
        a.params[0].max_new = -1;
        reply_ask(&got, g, &a.req[0]);
        assert_int_equal(got.n, row[i].n_answer);
        reply_release(&got);
    }
    engine_free(g);
    asked_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_its_own_form),
        cmocka_unit_test(company_and_preemption_change_nothing),
        cmocka_unit_test(an_unsaid_length_keeps_the_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
