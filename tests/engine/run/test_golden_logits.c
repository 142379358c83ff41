/* SPDX-License-Identifier: Apache-2.0
 *
 * What Hugging Face transformers computes with a tiny model of every family and rope scaling, we
 * compute: logits, greedy text, prompts past the first training's context. f32
 * within 1e-4 relative, greedy ids exactly; bf16 within its rounding.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"
#include "tests/lib/golden.h"

enum { TOK_MAX = 512, GREEDY_MAX = 64, LONG_CTX = 96 };

/* n_feed: tokens that the sequence may come to. */
static struct runner *runner_for(struct golden *g, int64_t n_feed)
{
    struct err e = ERR_INIT;
    struct runner_options o = {
        .cap = {[DIM_TOK] = TOK_MAX, [DIM_OUT] = TOK_MAX, [DIM_SEQ] = 8, [DIM_GROUP] = 1},
        .n_cell = 8 * TOK_MAX / K_CELL,
        .n_feed = n_feed,
        .passes = PASS_ALL,
        .output = MODEL_LOGITS};
    struct runner *r = runner_new(g->model, &o, g->stream, &e);
    assert_good(r ? 0 : -1, &e);
    return r;
}

static int32_t best_of(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return (int32_t)best;
}

static void check_logits(struct golden *g, const char *name, double rel)
{
    struct err e = ERR_INIT;
    struct op_view out;
    int32_t prompt[TOK_MAX];
    int64_t n_want, n = golden_ids(&g->root, "prompt", prompt, TOK_MAX);
    struct runner *r = runner_for(g, n);
    float *want = golden_tensor(g, "logits", &n_want);
    assert_good(runner_feed(r, prompt, n, 0, n, &out, &e), &e);
    assert_int_equal(n * out.ld, n_want);
    golden_near(name, out.p, want, n_want, rel);
    mem_free(want);
    runner_free(r);
}

static void check_greedy(struct golden *g, const char *name)
{
    struct err e = ERR_INIT;
    struct op_view out;
    int32_t ids[TOK_MAX + GREEDY_MAX], want[GREEDY_MAX];
    int64_t n = golden_ids(&g->root, "prompt", ids, TOK_MAX);
    int64_t n_greedy = golden_ids(&g->root, "greedy", want, GREEDY_MAX);
    struct runner *r = runner_for(g, n + n_greedy);
    assert_good(runner_feed(r, ids, n, 0, 1, &out, &e), &e);
    for (int64_t i = 0; i < n_greedy; i++) {
        ids[n + i] = best_of(out.p, out.shape.cols);
        if (ids[n + i] != want[i])
            fail_msg("%s: greedy id %lld is %d, the golden has %d", name, (long long)i, ids[n + i],
                     want[i]);
        assert_good(runner_feed(r, ids + n + i, 1, n + i, 1, &out, &e), &e);
    }
    runner_free(r);
}

/* Faults: a rope scaling, a window, a bias, a norm or a tied head that differs from its model's. */
static void f32_logits_and_greedy_text(void **state)
{
    (void)state;
    for (const char *const *name = golden_names; *name; name++) {
        struct golden g;
        if (golden_is_encoder(*name))
            continue;
        golden_init_short(&g, *name, K_F32);
        check_logits(&g, *name, 1e-4);
        check_greedy(&g, *name);
        golden_release(&g);
    }
}

/* bf16 keeps 8 bits of each product's inputs: errors of 2^-9 each, summed over a few layers. */
static void bf16_logits_are_near(void **state)
{
    (void)state;
    for (const char *const *name = golden_names; *name; name++) {
        struct golden g;
        if (golden_is_encoder(*name))
            continue;
        golden_init_short(&g, *name, K_BF16);
        check_logits(&g, *name, 4e-2);
        golden_release(&g);
    }
}

/* Faults: the long form of dynamic and longrope scaling, which only long contexts take. */
static void long_contexts(void **state)
{
    int n_seen = 0;
    (void)state;
    for (const char *const *name = golden_names; *name; name++) {
        struct golden g;
        struct json l;
        struct err e = ERR_INIT;
        struct op_view out;
        int32_t prompt[TOK_MAX];
        int64_t n_want;
        golden_init(&g, *name, K_F32, 0);
        l = json_member(&g.root, "long");
        if (l.node) {
            int64_t ctx = (int64_t)golden_num(&l, "ctx");
            golden_release(&g);
            golden_init(&g, *name, K_F32, ctx);
            l = json_member(&g.root, "long");
            int64_t n = golden_ids(&l, "prompt", prompt, TOK_MAX);
            struct runner *r = runner_for(&g, n);
            float *want = golden_tensor(&g, "long.logits", &n_want);
            assert_good(runner_feed(r, prompt, n, 0, n, &out, &e), &e);
            assert_int_equal(n * out.ld, n_want);
            golden_near(*name, out.p, want, n_want, 1e-4);
            mem_free(want);
            runner_free(r);
            n_seen++;
        }
        golden_release(&g);
    }
    assert_true(n_seen >= 2);
}

/* Fault: a short text gets the long form because the model is opened with a long context; two forms
 * in one table that are not those of two. */
static void short_texts_in_long_contexts(void **state)
{
    static const char *const names[] = {"llama_rope_dynamic", "llama_rope_longrope",
                                        "phi3_longrope"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct golden g;
        golden_init(&g, names[i], K_F32, LONG_CTX);
        assert_int_equal(g.model->rope_short, 64);
        check_logits(&g, names[i], 1e-4);
        check_greedy(&g, names[i]);
        golden_release(&g);
    }
}

/* Faults: a tensor that llama.cpp's converter changed on the way and that is not changed back:
 * norms with the 1 in them, heads of values by turns, what is joined or stacked; a key that is not
 * read. */
static void gguf_logits(void **state)
{
    static const struct {
        const char *file, *name;
    } row[] = {{"qwen3_5", "qwen3_5"},           {"qwen3_5_moe", "qwen3_5_moe"},
               {"qwen3_next", "qwen3_5_moe"},    {"gpt_oss", "gpt_oss"},
               {"packed_mxfp4", "packed_mxfp4"}, {"lfm2", "lfm2"},
               {"qwen3_moe", "qwen3_moe"}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct golden g;
        golden_init_gguf(&g, row[i].file, row[i].name, K_F32);
        check_logits(&g, row[i].file, 1e-4);
        golden_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_logits),
        cmocka_unit_test(f32_logits_and_greedy_text),
        cmocka_unit_test(bf16_logits_are_near),
        cmocka_unit_test(long_contexts),
        cmocka_unit_test(short_texts_in_long_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
