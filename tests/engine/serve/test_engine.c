/* SPDX-License-Identifier: Apache-2.0
 *
 * Law 2 through the whole engine: what a request gets is what it gets alone, to the last bit, in
 * whatever company, order, chunks and shortage of cells.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/token/tokenizer.h"
#include "tests/lib/reply.h"

#define MODELS "tests/golden/models/"
#define LLAMA  "llama_plain"
#define HYBRID "qwen3_5"
#define LATENT "deepseek_v3"
#define SCAN   "granite_hybrid"
#define SHARED "gemma4"

enum { N = 64, PROMPT_MAX = 90, NEW_MAX = 40, GROW = 70, CTX = 160, N_BIAS = 3 };

/* Requests of every kind, drawn from a seed. */
struct mix {
    struct golden g;
    char dir[64];
    bool grows; /* short prompts, long answers */
    struct gen_req req[N];
    struct gen_params params[N];
    int32_t prompt[N][PROMPT_MAX], stop_id[N];
    struct sample_bias bias[N][N_BIAS];
    struct reply want[N];
};

static uint64_t draw(uint64_t i, uint64_t what, uint64_t below)
{
    return rng_below(11, what, i, below);
}

static double real(uint64_t i, uint64_t what)
{
    return (double)draw(i, what, 1000) / 1000;
}

static void draw_params(struct mix *m, size_t i)
{
    struct gen_params *p = &m->params[i];
    int64_t n_vocab = m->g.model->cfg.n_vocab;
    *p = gen_greedy((int64_t)draw(i, 2, NEW_MAX) + 1 + (m->grows ? GROW : 0));
    p->ignore_eos = draw(i, 3, 2);
    p->wants_logprob = draw(i, 4, 2);
    p->n_top = (int32_t)(draw(i, 5, 3) * draw(i, 6, 10));
    p->wants_prompt = draw(i, 7, 4) == 0;
    m->stop_id[i] = (int32_t)draw(i, 8, (uint64_t)n_vocab);
    p->stop_id = &m->stop_id[i];
    p->n_stop_id = draw(i, 9, 4) == 0;
    if (draw(i, 10, 3) == 0)
        return; /* greedy */
    p->sample.temperature = 0.1 + 2 * real(i, 11);
    p->sample.seed = draw(i, 12, 1000000);
    p->sample.top_p = draw(i, 13, 2) ? 1 : 0.5 + real(i, 14) / 2;
    p->sample.min_p = draw(i, 15, 3) ? 0 : real(i, 16) / 5;
    p->sample.top_k = (int64_t)(draw(i, 17, 2) * draw(i, 18, 50));
    p->sample.repetition = draw(i, 19, 2) ? 1 : 1.3;
    p->sample.presence = draw(i, 20, 2) ? 0 : 0.5;
    p->sample.frequency = draw(i, 21, 2) ? 0 : -0.25;
    p->sample.mirostat = draw(i, 28, 4) ? 0 : 2;
    p->sample.mirostat_tau = 1 + 4 * real(i, 29);
    p->sample.mirostat_eta = 0.5;
    p->sample.dry_multiplier = draw(i, 30, 4) ? 0 : 3;
    p->sample.dry_base = 1.75;
    p->sample.dry_allowed = (int64_t)draw(i, 31, 3);
    p->sample.dry_last = draw(i, 32, 2) ? -1 : 40;
    for (uint64_t k = 0; k < N_BIAS; k++)
        m->bias[i][k].id = (int32_t)(draw(i * 3 + k, 22, (uint64_t)n_vocab / N_BIAS) * N_BIAS + k);
    for (uint64_t k = 0; k < N_BIAS; k++)
        m->bias[i][k].add = 2;
    p->sample.bias = m->bias[i];
    p->sample.n_bias = draw(i, 23, 2) ? 0 : N_BIAS;
}

/* Prompts that share beginnings of several cells, so that prefixes are found. */
static void draw_prompt(struct mix *m, size_t i)
{
    int64_t n = (int64_t)draw(i, 24, m->grows ? NEW_MAX : PROMPT_MAX) + 1,
            shared = (int64_t)draw(i, 25, 3) * 35;
    for (int64_t k = 0; k < n; k++)
        m->prompt[i][k] = (int32_t)draw((uint64_t)k + (k < shared ? 0 : 1000 * (i + 1)), 26,
                                        (uint64_t)m->g.model->cfg.n_vocab);
    m->req[i] = (struct gen_req){.kind = GEN_TEXT,
                                 .prompt = m->prompt[i],
                                 .n_prompt = n,
                                 .params = &m->params[i],
                                 .priority = (int32_t)draw(i, 27, 3)};
}

static struct mix *mix_new_cells(const char *model, enum k_type type, bool grows, bool is_int8)
{
    struct mix *m = xcalloc(1, sizeof *m);
    m->grows = grows;
    snprintf(m->dir, sizeof m->dir, MODELS "%s", model);
    (is_int8 ? golden_init_cells_int8 : golden_init)(&m->g, model, type, CTX);
    for (size_t i = 0; i < N; i++) {
        draw_params(m, i);
        draw_prompt(m, i);
        reply_alone(&m->want[i], &m->g, &m->req[i], i % 2 ? 64 : 13);
    }
    return m;
}

static struct mix *mix_new(const char *model, enum k_type type, bool grows)
{
    return mix_new_cells(model, type, grows, false);
}

static void mix_free(struct mix *m)
{
    for (size_t i = 0; i < N; i++)
        reply_release(&m->want[i]);
    golden_release(&m->g);
    free(m);
}

/* All of them at once, from the one given on, in steps that visit each. */
static void ask_all(const struct mix *m, struct engine *g, size_t from, size_t stride,
                    const char *what)
{
    struct answer *a[N];
    struct err e = ERR_INIT;
    for (size_t k = 0; k < N; k++) {
        size_t i = (from + k * stride) % N;
        assert_good(engine_submit(g, &m->req[i], 1, (struct gen_notify){0}, &a[i], &e), &e);
    }
    for (size_t i = 0; i < N; i++) {
        struct reply got;
        char name[128];
        snprintf(name, sizeof name, "%s: request %zu", what, i);
        reply_wait(&got, a[i], &m->req[i]);
        reply_same(&got, &m->want[i], name);
        reply_release(&got);
    }
}

static void nothing_is_held(struct engine *g)
{
    struct engine_stat s;
    for (int i = 0; i < 60000; i++) { /* answers are told before the round's end */
        s = engine_stat(g);
        if (s.n_running == 0 && s.n_waiting == 0 && s.cell_used == 0)
            return;
        usleep(1000);
    }
    fail_msg("%lld running, %lld waiting, %lld cells used", (long long)s.n_running,
             (long long)s.n_waiting, (long long)s.cell_used);
}

static int64_t cell_bytes(const struct mix *m)
{
    return (int64_t)model_kv_token_bytes(m->g.model) * K_CELL;
}

static struct engine_options small(const char *type)
{
    return (struct engine_options){.load.quantize = type, .load.threads = 2, .load.ctx = CTX};
}

/* Faults: a draw, a log-probability or a logit that depends on company, order, cached prefixes,
 * chunks, or on having been preempted; rows given to the wrong sequence; parameters mixed up. */
static void check_company(const char *model, enum k_type type, const char *name)
{
    struct mix *m = mix_new(model, type, false);
    struct engine_options o = small(name);
    struct engine *g = engine_on(m->dir, &o);
    for (size_t i = 0; i < N; i++) {
        struct reply got;
        reply_ask(&got, g, &m->req[i]);
        reply_same(&got, &m->want[i], "one by one");
        reply_release(&got);
    }
    ask_all(m, g, 0, 1, "together, prefixes cached");
    ask_all(m, g, 17, 27, "in another order");
    nothing_is_held(g);
    assert_true(engine_stat(g).prefix_hit > 0);
    engine_free(g);

    o.no_prefix_cache = true;
    o.max_batch_tokens = 16;
    o.max_seqs = 5;
    g = engine_on(m->dir, &o);
    ask_all(m, g, 3, 5, "small steps");
    nothing_is_held(g);
    engine_free(g);

    o = small(name);
    o.is_eager = true;
    o.load.threads = 1;
    g = engine_on(m->dir, &o);
    ask_all(m, g, 5, 3, "eager, one thread");
    engine_free(g);
    mix_free(m);
}

static void company_changes_nothing(void **state)
{
    (void)state;
    check_company(LLAMA, K_BF16, "bf16");
}

static void company_changes_nothing_int8(void **state)
{
    (void)state;
    check_company(LLAMA, K_INT8, "int8");
}

static void company_changes_nothing_int4(void **state)
{
    (void)state;
    check_company(LLAMA, K_INT4, "int4");
}

/* Faults besides: what heads share of a key, of another's row; experts that a neighbour picks. */
static void company_changes_no_latent(void **state)
{
    (void)state;
    check_company(LATENT, K_BF16, "bf16");
    check_company(LATENT, K_F32, "f32");
}

/* Faults besides: a recurrent state of another text or place, or one that two share. */
static void company_changes_no_state(void **state)
{
    (void)state;
    check_company(HYBRID, K_BF16, "bf16");
    check_company(HYBRID, K_F32, "f32");
    check_company(SCAN, K_BF16, "bf16");
    check_company(SHARED, K_BF16, "bf16");
}

/* Faults: a text that goes on otherwise when its cells were taken away and it was computed again;
 * numbers of a prompt that change under the reader. */
static void check_shortage(const char *model)
{
    struct mix *m = mix_new(model, K_BF16, true);
    struct engine_options o = small("bf16");
    o.kv_bytes = cell_bytes(m) * (CTX / K_CELL + 4);
    o.kv_bytes += model_state_bytes(m->g.model) ? o.kv_bytes : 0;
    struct engine *g = engine_on(m->dir, &o);
    for (size_t round = 0; round < 3; round++)
        ask_all(m, g, round, 2 * round + 1, "cells run out");
    nothing_is_held(g);
    assert_true(engine_stat(g).preempted > 10);
    engine_free(g);
    mix_free(m);
}

/* Faults: a scale that is not the token's own: left from who had the cell before, kept where a
 * guess was cut, shared by rows that came in together; cells that are counted as those of bf16. */
static void check_codes(const char *model)
{
    struct mix *m = mix_new_cells(model, K_BF16, true, true);
    struct engine_options o = small("bf16");
    o.load.kv_type = "int8";
    o.speculate = ENGINE_SPECULATE_ALWAYS;
    struct engine *g = engine_on(m->dir, &o);
    ask_all(m, g, 0, 1, "keys of codes, guesses");
    ask_all(m, g, 17, 27, "keys of codes, prefixes");
    nothing_is_held(g);
    assert_true(engine_stat(g).prefix_hit > 0);
    engine_free(g);
    o.kv_bytes = cell_bytes(m) * (CTX / K_CELL + 4);
    g = engine_on(m->dir, &o);
    ask_all(m, g, 3, 5, "keys of codes, cells run out");
    nothing_is_held(g);
    assert_true(engine_stat(g).preempted > 5);
    engine_free(g);
    mix_free(m);
}

static void keys_of_codes_change_nothing(void **state)
{
    (void)state;
    check_codes(LLAMA);
    check_codes(SHARED); /* windows, and layers that read another's keys */
}

static void running_out_of_cells_changes_nothing(void **state)
{
    (void)state;
    check_shortage(LLAMA);
    check_shortage(HYBRID);
    check_shortage(SCAN);
    check_shortage("qwen3_next");
    check_shortage(LATENT);
    check_shortage(SHARED);
}

/* Faults: a group that is let in in part; answers in another order than the requests. */
static void a_group_is_one_submission(void **state)
{
    (void)state;
    struct mix *m = mix_new(LLAMA, K_F32, false);
    struct engine_options o = small("f32");
    struct engine *g = engine_on(m->dir, &o);
    struct answer *a[N];
    struct err e = ERR_INIT;
    assert_good(engine_submit(g, m->req, N, (struct gen_notify){0}, a, &e), &e);
    for (size_t i = 0; i < N; i++) {
        struct reply got;
        reply_wait(&got, a[i], &m->req[i]);
        reply_same(&got, &m->want[i], "in a group");
        reply_release(&got);
    }
    nothing_is_held(g);
    engine_free(g);
    mix_free(m);
}

/* Fault: answers that were given back are still pointed to, and waited for. */
static void a_refused_group_leaves_nothing(void **state)
{
    (void)state;
    struct mix *m = mix_new(LLAMA, K_F32, false);
    struct engine_options o = small("f32");
    struct engine *g = engine_on(m->dir, &o);
    struct answer *a[N] = {NULL};
    struct err e = ERR_INIT;
    engine_stop(g);
    assert_int_not_equal(engine_submit(g, m->req, N, (struct gen_notify){0}, a, &e), 0);
    assert_int_equal(e.code, ERR_BUSY);
    for (size_t i = 0; i < N; i++)
        assert_null(a[i]);
    nothing_is_held(g);
    engine_free(g);
    mix_free(m);
}

/* Faults: what only real weights and a real tokenizer show: texts that end by themselves, stop
 * strings in whole words, log-probabilities over a real distribution. */
static void a_real_model(void **state)
{
    (void)state;
    enum { NEW = 120 };
    static const char text[] = "Once upon a time";
    const char *data = getenv("TANDEM_TEST_DATA");
    struct golden g;
    struct gen_params p = gen_greedy(NEW);
    struct gen_req req = {.params = &p};
    struct reply want, got;
    struct tok_list list;
    struct err e = ERR_INIT;
    char dir[400];
    if (!golden_init_real(&g, "stories260K", NULL, NULL))
        return;
    snprintf(dir, sizeof dir, "%s/models/stories260K", data ? data : "../shared/data");
    struct engine_options o = {.load.quantize = "f32", .load.threads = 2};
    struct engine *engine = engine_on(dir, &o);
    tok_list_init(&list, 100, false);
    assert_good(
        tokenizer_encode(engine_tokenizer(engine), text, strlen(text), true, true, &list, &e), &e);
    req.prompt = list.id;
    req.n_prompt = (int64_t)list.n;
    p.ignore_eos = false;
    p.wants_prompt = true;
    p.n_top = 5;
    for (uint64_t seed = 0; seed < 8; seed++) {
        p.sample.temperature = seed ? 0.8 : 0;
        p.sample.seed = seed;
        reply_alone(&want, &g, &req, 64);
        reply_ask(&got, engine, &req);
        reply_same(&got, &want, "stories260K");
        reply_release(&got);
        reply_release(&want);
    }
    p = gen_greedy(NEW);
    p.stop[p.n_stop++] = (struct gen_text){"Lily", 4};
    reply_ask(&got, engine, &req);
    assert_int_equal(got.why, GEN_STOPPED);
    assert_int_equal(got.end.stop_index, 0);
    assert_true(got.end.text_bytes > 10 && got.n > 5 && got.n < NEW);
    reply_release(&got);
    tok_list_release(&list);
    engine_free(engine);
    golden_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(company_changes_nothing_int8),
        cmocka_unit_test(company_changes_nothing_int4),
        cmocka_unit_test(company_changes_no_latent),
        cmocka_unit_test(company_changes_no_state),
        cmocka_unit_test(running_out_of_cells_changes_nothing),
        cmocka_unit_test(keys_of_codes_change_nothing),
        cmocka_unit_test(a_group_is_one_submission),
        cmocka_unit_test(a_refused_group_leaves_nothing),
        cmocka_unit_test(a_real_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
