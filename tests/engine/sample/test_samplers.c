/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows side by side, and the promise that a served log-probability has the bits of the trained one.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/eager/eager.h"
#include "engine/graph/passes.h"
#include "engine/run/packed.h"
#include "engine/sample/samplers.h"
#include "tests/lib/tiny.h"

enum { VOCAB = 1000, ROWS = 64, TOK = 40, ODD = 7 };

static void fill(float *x, int64_t row)
{
    for (int64_t i = 0; i < VOCAB; i++)
        x[i] = rng_normal(6, (uint64_t)row, (uint64_t)i);
}

static void set(struct sample_task *t, const float *x, const struct sample_params *p, int i)
{
    *t = (struct sample_task){.known = i % 5 == 4 ? i : -1,
                              .row = {.logits = x,
                                      .params = &p[i],
                                      .place = (uint64_t)(i % 3),
                                      .wants_logprob = i % 2,
                                      .n_top = i % 4}};
}

/* Faults: a work space that two threads share, a token that depends on its neighbours, an error
 * that reaches another row. */
static void a_row_is_its_own(void **state)
{
    struct err e = ERR_INIT;
    struct kernel_table table;
    struct pool *pool = pool_new(4, false, &e);
    float *x = calloc(ROWS * VOCAB, sizeof *x);
    struct sample_params p[ROWS];
    struct sample_task *task = calloc(ROWS, sizeof *task), *alone = calloc(ROWS, sizeof *alone);
    (void)state;
    kernel_table_init(&table, NULL);
    struct samplers *s = samplers_new(pool, VOCAB, &table, &e);
    struct sampler *one = sampler_new(VOCAB, &table, &e);
    for (int i = 0; i < ROWS; i++) {
        fill(x + i * VOCAB, i);
        p[i] = (struct sample_params){.temperature = i % 3 * 0.5,
                                      .top_p = i % 2 ? 0.9 : 1,
                                      .top_k = i % 7 * 3,
                                      .seed = (uint64_t)(i % 10),
                                      .repetition = 1};
        set(&alone[i], x + i * VOCAB, p, i);
        struct sample_task *t = &alone[i];
        if (t->known < 0)
            assert_good(sampler_next(one, &t->row, &t->taken, &e), &e);
        else
            assert_good(sampler_score(one, t->row.logits, t->known, t->row.n_top, &t->taken, &e),
                        &e);
    }
    x[ODD * VOCAB + 500] = NAN;
    for (int trial = 0; trial < 50; trial++) {
        for (int i = 0; i < ROWS; i++)
            set(&task[i], x + i * VOCAB, p, i);
        samplers_run(s, task + trial, ROWS - trial);
        for (int i = trial; i < ROWS; i++) {
            assert_int_equal(task[i].rc, i == ODD ? -1 : 0);
            if (i != ODD)
                assert_memory_equal(&task[i].taken, &alone[i].taken, sizeof task[i].taken);
        }
    }
    sampler_free(one);
    samplers_free(s);
    pool_free(pool);
    free(x);
    free(task);
    free(alone);
}

/* The losses of training's tape over the text: the log-probability of each next token. */
static void trained(struct tiny *t, const int32_t *token, float *logprob)
{
    struct err e = ERR_INIT;
    struct packed_options o = {.cap_tok = TOK, .cap_row = 1};
    struct packed *p = packed_new(t->model, &o, t->stream, &e);
    struct eager *g = eager_new(t->stream, &e);
    int32_t label[TOK];
    for (int i = 0; i < TOK; i++)
        label[i] = token[(i + 1) % TOK];
    assert_good(packed_add(p, token, label, NULL, TOK, 1, &e), &e);
    eager_begin(g, packed_batch(p, TOK, 0), &(struct eager_options){.wants_grad = true});
    struct val v = model_build(t->model, eager_builder(g), MODEL_LOSS);
    assert_good(eager_builder(g)->failed ? -1 : 0, &eager_builder(g)->err);
    const struct k_ce_state *s = (const struct k_ce_state *)(const void *)eager_view(g, v).p;
    for (int i = 0; i < TOK; i++)
        logprob[i] = s[i].target_logit - k_ce_lse(&s[i]);
    eager_end(g);
    eager_free(g);
    packed_free(p);
}

/* Serves the text by chunks of n, and scores each next token. */
static void served(struct tiny *t, const int32_t *token, int64_t n, float *logprob)
{
    struct err e = ERR_INIT;
    struct runner *r = tiny_runner(t, TOK, MODEL_LOGITS, false, PASS_ALL);
    struct sampler *s = sampler_new(t->model->cfg.n_vocab, device_kernels(t->device), &e);
    for (int64_t pos = 0; pos < TOK; pos += n) {
        struct op_view out;
        struct sample_taken taken;
        int64_t len = TOK - pos < n ? TOK - pos : n;
        assert_good(runner_feed(r, token + pos, len, pos, len, &out, &e), &e);
        for (int64_t i = 0; i < len; i++) {
            const float *row = (const float *)(const void *)out.p + i * out.ld;
            assert_good(sampler_score(s, row, token[(pos + i + 1) % TOK], 0, &taken, &e), &e);
            logprob[pos + i] = taken.logprob;
        }
    }
    sampler_free(s);
    runner_free(r);
}

/* Faults: another order of the sum over the vocabulary, another kernel's exponential, a chunk that
 * ends elsewhere: any bit between what training minimises and what serving reports. */
static void a_served_logprob_is_the_trained_one(void **state)
{
    static const enum k_type type[] = {K_F32, K_BF16, K_INT8, K_INT4};
    static const char *const kernels[] = {NULL, "avx2", "ref"};
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct kernel_table table;
        struct config c = tiny_config(FAMILY_LLAMA);
        struct tiny t;
        int32_t token[TOK];
        float want[TOK], got[TOK];
        if (kernel_table_init(&table, kernels[i / 4]))
            continue; /* this CPU has no such level */
        c.n_vocab = 2 * K_CE_CHUNK + 77;
        tiny_init(&t, &c, type[i % 4], 2, kernels[i / 4]);
        tiny_tokens(t.model, token, TOK);
        trained(&t, token, want);
        served(&t, token, TOK, got);
        assert_memory_equal(got, want, sizeof want);
        served(&t, token, 7, got);
        assert_memory_equal(got, want, sizeof want);
        tiny_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_its_own),
        cmocka_unit_test(a_served_logprob_is_the_trained_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
