/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings through the engine, against what transformers computed.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "tests/lib/reply.h"

enum { TEXTS_MAX = 8, TOK_MAX = 64, N_MANY = 200 };

struct texts {
    int32_t id[TEXTS_MAX][TOK_MAX];
    int64_t n_id[TEXTS_MAX];
    int32_t first[TEXTS_MAX]; /* tokens of the first type */
    int64_t n;
};

static void read_texts(const struct golden *g, struct texts *t)
{
    struct json list, text, id;
    struct err e = ERR_INIT;
    int64_t v;
    assert_good(json_get(&g->root, "texts", JSON_ARRAY, &list, &e), &e);
    *t = (struct texts){.n = 0};
    if (json_member(&g->root, "first").node)
        golden_ids(&g->root, "first", t->first, TEXTS_MAX);
    json_each(text, list)
    {
        int64_t n = 0;
        json_each(id, text)
        {
            assert_good(json_as_int(&id, 0, 1 << 30, &v, &e), &e);
            t->id[t->n][n++] = (int32_t)v;
        }
        t->n_id[t->n++] = n;
    }
}

static struct gen_req request(const struct engine *engine, const struct texts *t, int64_t i)
{
    return (struct gen_req){.kind = engine_info(engine)->embeds ? GEN_EMBED : GEN_CLASSIFY,
                            .prompt = t->id[i],
                            .n_prompt = t->n_id[i],
                            .n_first = t->first[i]};
}

/* Faults: the wrong pooling or label, rows of one text in another's vector, vectors that change
 * with what shares the step. */
static void check_model(const char *name, int64_t max_seqs)
{
    struct golden g;
    struct texts t;
    char dir[128];
    int64_t n_want;
    struct answer *a[N_MANY];
    struct err e = ERR_INIT;
    golden_init(&g, name, K_F32, 0);
    read_texts(&g, &t);
    snprintf(dir, sizeof dir, "tests/golden/models/%s", name);
    struct engine_options o = {.load.quantize = "f32", .load.threads = 2, .max_seqs = max_seqs};
    struct engine *engine = engine_on(dir, &o);
    const struct engine_info *info = engine_info(engine);
    assert_true(!info->generates && info->embeds == !info->n_label);
    float *want = golden_tensor(&g, "embedding", &n_want);
    size_t d = (size_t)(n_want / t.n);
    assert_int_equal(info->n_vector, d);
    float *first = xcalloc((size_t)n_want, sizeof *first);
    for (int64_t i = 0; i < N_MANY; i++) {
        struct gen_req r = request(engine, &t, i % t.n);
        assert_good(engine_submit(engine, &r, 1, (struct gen_notify){0}, &a[i], &e), &e);
    }
    for (int64_t i = 0; i < N_MANY; i++) {
        size_t n, at = (size_t)(i % t.n) * d;
        assert_int_equal(answer_wait(a[i]), GEN_STOPPED);
        const float *got = answer_vector(a[i], &n);
        assert_int_equal(n, d);
        golden_near(name, got, want + at, (int64_t)d, 1e-4);
        if (i < t.n)
            memcpy(first + at, got, d * sizeof *got);
        assert_memory_equal(got, first + at, d * sizeof *got);
        answer_unref(a[i]);
    }
    free(first);
    mem_free(want);
    engine_free(engine);
    golden_release(&g);
}

static void sentence_vectors(void **state)
{
    (void)state;
    for (const char *const *name = golden_encoders; *name; name++) {
        check_model(*name, 0);
        check_model(*name, 1);
        check_model(*name, 3);
    }
}

/* All texts of a golden, one behind the other; mem_free(). */
static float *all_vectors(const char *name, const struct texts *t, bool is_eager, size_t *d)
{
    char dir[128];
    struct err e = ERR_INIT;
    float *all = NULL;
    snprintf(dir, sizeof dir, "tests/golden/models/%s", name);
    struct engine_options o = {.load.threads = 2, .is_eager = is_eager};
    struct engine *engine = engine_on(dir, &o);
    for (int64_t i = 0; i < t->n; i++) {
        struct gen_req r = request(engine, t, i);
        struct answer *a;
        assert_good(engine_submit(engine, &r, 1, (struct gen_notify){0}, &a, &e), &e);
        assert_int_equal(answer_wait(a), GEN_STOPPED);
        const float *got = answer_vector(a, d);
        if (!all)
            all = try_alloc((size_t)t->n * *d, sizeof *all, "vectors", &e);
        memcpy(all + (size_t)i * *d, got, *d * sizeof *got);
        answer_unref(a);
    }
    engine_free(engine);
    return all;
}

/* Fault: a pass that changes what becomes of a text; in the weights' own format, and its rounding.
 */
static void eager_is_static(void **state)
{
    (void)state;
    for (const char *const *name = golden_encoders; *name; name++) {
        struct golden g;
        struct texts t;
        size_t d;
        golden_init(&g, *name, K_F32, 0);
        read_texts(&g, &t);
        float *of_static = all_vectors(*name, &t, false, &d);
        float *of_eager = all_vectors(*name, &t, true, &d);
        assert_memory_equal(of_static, of_eager, (size_t)t.n * d * sizeof *of_eager);
        mem_free(of_static);
        mem_free(of_eager);
        golden_release(&g);
    }
}

/* Faults: a decoder's rows sold as embeddings, an encoder that is asked to write; a text longer
 * than the encoder's. */
static void refusals(void **state)
{
    (void)state;
    struct engine *bert = engine_on("tests/golden/models/bert_mean", NULL);
    struct engine *llama = engine_on("tests/golden/models/llama_plain", NULL);
    int64_t ctx = engine_info(bert)->ctx;
    int32_t *token = xcalloc((size_t)ctx + 1, sizeof *token);
    struct gen_params p = gen_greedy(3);
    struct gen_req embed = {.kind = GEN_EMBED, .prompt = token, .n_prompt = 3};
    struct gen_req text = {.prompt = token, .n_prompt = 3, .params = &p};
    struct answer *a;
    struct err e = ERR_INIT;
    struct gen_notify none = {0};
    assert_err(engine_submit(llama, &embed, 1, none, &a, &e), &e, ERR_UNSUPPORTED, "not made for");
    assert_err(engine_submit(bert, &text, 1, none, &a, &e), &e, ERR_UNSUPPORTED, "an encoder");
    embed.n_prompt = ctx + 1;
    assert_err(engine_submit(bert, &embed, 1, none, &a, &e), &e, ERR_TOO_LARGE, "prompt");
    embed.n_prompt = ctx;
    assert_good(engine_submit(bert, &embed, 1, none, &a, &e), &e);
    assert_int_equal(answer_wait(a), GEN_STOPPED);
    answer_unref(a);
    free(token);
    engine_free(bert);
    engine_free(llama);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentence_vectors),
        cmocka_unit_test(eager_is_static),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
