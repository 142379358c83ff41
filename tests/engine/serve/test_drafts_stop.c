/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop strings and guesses: a text that is stopped in the middle of guesses that were right ends
 * where it ends without them, to the byte that is shown. Faults: a token behind a stop string that
 * is told, a guess that reaches the matcher of strings twice or never, or out of its order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "tests/lib/reply.h"
#include "tests/lib/test.h"

#define MODEL "tests/golden/models/llama_tied"

enum { N = 200, N_PROMPT = 24, NEW_MAX = 90, N_BIAS = 2, N_STOP = 3, BYTES = 4 };

struct ask {
    struct gen_req req;
    struct gen_params params;
    int32_t prompt[N_PROMPT];
    struct sample_bias bias[N_BIAS];
    char stop[N_STOP][BYTES];
    struct reply want;
};

static uint64_t draw(uint64_t i, uint64_t what, uint64_t below)
{
    return rng_below(29, what, i, below);
}

/* A text over two letters, which repeats itself, and strings of these that it comes to say. */
static void draw_ask(struct ask *a, uint64_t i)
{
    enum { LETTER_A = 70 }; /* the token of "a"; that of "b" follows */
    struct gen_params *p = &a->params;
    *p = gen_greedy(1 + (int64_t)draw(i, 1, NEW_MAX));
    for (uint64_t k = 0; k < N_PROMPT; k++)
        a->prompt[k] = LETTER_A + (int32_t)draw(i * 100 + k % 5, 2, N_BIAS);
    for (int32_t k = 0; k < N_BIAS; k++)
        a->bias[k] = (struct sample_bias){LETTER_A + k, 100};
    p->sample.bias = a->bias;
    p->sample.n_bias = N_BIAS;
    p->sample.temperature = draw(i, 3, 2) ? 0.3 : 0;
    p->sample.seed = i;
    p->wants_logprob = true;
    p->min_new = draw(i, 4, 4) ? p->max_new / 2 : 0;
    p->stop_is_shown = draw(i, 5, 2);
    p->n_stop = 1 + (int32_t)draw(i, 6, N_STOP);
    for (uint64_t s = 0; s < N_STOP; s++) {
        uint64_t n = 2 + draw(i * N_STOP + s, 7, BYTES - 1);
        for (uint64_t k = 0; k < n; k++)
            a->stop[s][k] = (char)('a' + draw((i * N_STOP + s) * BYTES + k, 8, N_BIAS));
        p->stop[s] = (struct gen_text){a->stop[s], (uint32_t)n};
    }
    a->req = (struct gen_req){
        .kind = GEN_TEXT, .prompt = a->prompt, .n_prompt = N_PROMPT, .params = &a->params};
}

static struct engine *start(enum engine_speculate how)
{
    struct engine_options o = {.max_seqs = 8, .load.threads = 2, .load.ctx = 128, .speculate = how};
    return engine_on(MODEL, &o);
}

static void same_end(const struct reply *got, const struct reply *want, size_t i)
{
    char name[64];
    snprintf(name, sizeof name, "generation %zu", i);
    reply_same(got, want, name);
    assert_int_equal(got->end.stop_index, want->end.stop_index);
    assert_true(got->end.text_bytes == want->end.text_bytes);
    assert_memory_equal(got->text_safe, want->text_safe, (size_t)got->n * sizeof *got->text_safe);
}

static void guesses_move_no_stop(void **state)
{
    struct ask *ask = xcalloc(N, sizeof *ask);
    struct answer *answer[N];
    struct engine *g = start(ENGINE_SPECULATE_OFF);
    struct err e = ERR_INIT;
    int64_t n_stopped = 0;
    (void)state;
    for (size_t i = 0; i < N; i++) {
        draw_ask(&ask[i], i);
        reply_ask(&ask[i].want, g, &ask[i].req);
    }
    engine_free(g);
    g = start(ENGINE_SPECULATE_ALWAYS);
    for (size_t i = 0; i < N; i++)
        assert_good(engine_submit(g, &ask[i].req, 1, (struct gen_notify){0}, &answer[i], &e), &e);
    for (size_t i = 0; i < N; i++) {
        struct reply got;
        reply_wait(&got, answer[i], &ask[i].req);
        same_end(&got, &ask[i].want, i);
        n_stopped += got.end.stop_index >= 0 && got.end.n_accepted > 0;
        reply_release(&got);
        reply_release(&ask[i].want);
    }
    print_message("%lld stopped among guesses\n", (long long)n_stopped);
    assert_true(n_stopped > N / 20);
    engine_free(g);
    free(ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(guesses_move_no_stop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
