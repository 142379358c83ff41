/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that share a model: of every golden model, over 2 and 4 threads, the logits and the greedy
 * text of one rank; the same bits for any chunks, threads and mode at each size; and each layer's
 * collectives, no more than two.
 */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/graph/shard.h"
#include "engine/run/crew.h"
#include "engine/run/ranks.h"
#include "engine/run/runner.h"
#include "tests/lib/formats.h"
#include "tests/lib/golden.h"

enum { TOK_MAX = 512, GREEDY = 12 };

/* Rank 0 of a crew over a golden model's files. */
struct shared {
    struct crew *crew;
    struct pool *pool;
    struct device *device;
    struct stream *stream;
    struct model *model;
    struct runner *runner;
};

static enum model_output output_of(const struct model *m)
{
    return m->cfg.is_encoder ? MODEL_HIDDEN : MODEL_LOGITS;
}

static struct runner *runner_for(const struct model *m, struct stream *s, bool is_eager)
{
    struct err e = ERR_INIT;
    struct runner_options o = {
        .cap = {[DIM_TOK] = TOK_MAX, [DIM_OUT] = TOK_MAX, [DIM_SEQ] = 8, [DIM_GROUP] = 1},
        .n_cell = 2 * TOK_MAX / K_CELL,
        .passes = PASS_ALL,
        .is_eager = is_eager,
        .output = output_of(m)};
    struct runner *r = runner_new(m, &o, s, &e);
    assert_good(r ? 0 : -1, &e);
    return r;
}

static void shared_init(struct shared *s, const struct golden *g, enum k_type type, int n_rank,
                        int n_thread, bool is_eager)
{
    struct err e = ERR_INIT;
    struct crew_options o = {.dir = &g->dir,
                             .model = {.type = (int)type, .kv_type = -1, .ctx = g->model->ctx},
                             .n_rank = n_rank,
                             .n_thread = n_thread};
    memset(s, 0, sizeof *s);
    s->crew = crew_new(&o, &e);
    assert_good(s->crew ? 0 : -1, &e);
    s->pool = pool_new(n_thread, false, &e);
    s->device = device_cpu_new(s->pool, NULL, &e);
    s->stream = stream_new(s->device, &e);
    o.model.share = crew_share(s->crew);
    o.model.pool = s->pool;
    s->model = model_load(&g->dir, &o.model, s->device, &e);
    assert_good(s->model ? 0 : -1, &e);
    assert_good(crew_ready(s->crew, s->model, &e), &e);
    s->runner = runner_for(s->model, s->stream, is_eager);
}

static void shared_release(struct shared *s)
{
    runner_free(s->runner);
    crew_free(s->crew, s->model);
    model_free(s->model);
    stream_free(s->stream);
    device_free(s->device);
    pool_free(s->pool);
}

/* All rows of a prompt fed in chunks; mem_free(). */
static float *feed(struct runner *r, const int32_t *ids, int64_t n, int64_t chunk, int64_t *cols)
{
    struct err e = ERR_INIT;
    struct op_view out;
    float *all = NULL;
    for (int64_t pos = 0; pos < n; pos += chunk) {
        int64_t m = pos + chunk < n ? chunk : n - pos;
        assert_good(runner_feed(r, ids + pos, m, pos, m, &out, &e), &e);
        *cols = out.shape.cols;
        if (!all)
            all = try_alloc((size_t)(n * *cols), sizeof *all, "rows", &e);
        for (int64_t i = 0; i < m; i++)
            memcpy(all + (pos + i) * *cols, out.p + i * out.ld, (size_t)*cols * sizeof *all);
    }
    return all;
}

static int64_t prompt_of(const struct golden *g, int32_t *ids)
{
    if (!g->model->cfg.is_encoder)
        return golden_ids(&g->root, "prompt", ids, TOK_MAX);
    for (int32_t i = 0; i < 40; i++)
        ids[i] = 1 + i * 3 % 170;
    return 40;
}

static int32_t best_of(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return (int32_t)best;
}

static void greedy(struct runner *r, const int32_t *prompt, int64_t n, int32_t *text)
{
    struct err e = ERR_INIT;
    struct op_view out;
    assert_good(runner_feed(r, prompt, n, 0, 1, &out, &e), &e);
    for (int64_t i = 0; i < GREEDY; i++) {
        text[i] = best_of(out.p, out.shape.cols);
        assert_good(runner_feed(r, text + i, 1, n + i, 1, &out, &e), &e);
    }
}

/* Faults: a part of a weight at the wrong place, a head that two ranks have or none, an offset of
 * the vocabulary, a bias that is added twice, a collective that is missing. */
static void as_one_rank(void **state)
{
    (void)state;
    for (const char *const *name = golden_names; *name; name++) {
        struct golden g;
        int32_t ids[TOK_MAX], want_text[GREEDY], text[GREEDY];
        int64_t cols;
        golden_init_short(&g, *name, K_F32);
        int64_t n = prompt_of(&g, ids);
        struct runner *one = runner_for(g.model, g.stream, false);
        float *want = feed(one, ids, n, n, &cols);
        bool is_decoder = !g.model->cfg.is_encoder;
        if (is_decoder)
            greedy(one, ids, n, want_text);
        for (int size = 2; size <= 4; size += 2) {
            struct shared s;
            shared_init(&s, &g, K_F32, size, 1, false);
            float *got = feed(s.runner, ids, n, n, &cols);
            golden_near(*name, got, want, n * cols, 1e-5);
            mem_free(got);
            if (is_decoder) {
                greedy(s.runner, ids, n, text);
                assert_memory_equal(text, want_text, sizeof text);
            }
            shared_release(&s);
        }
        mem_free(want);
        runner_free(one);
        golden_release(&g);
    }
}

static const char *const some[] = {"llama_tied", "llama_mha_bias", "qwen2", "gpt2", NULL};

/* Law 2 and law 3 at a size. Faults: a sum whose order follows the batch or the threads, a mode in
 * which ranks differ. */
static void same_bits(void **state)
{
    (void)state;
    for (const char *const *name = some; *name; name++)
        for (size_t k = 0; k < FORMATS_PACKED; k++) {
            struct golden g;
            int32_t ids[TOK_MAX];
            int64_t cols;
            float *want = NULL;
            golden_init_short(&g, *name, formats_packed[k]);
            int64_t n = prompt_of(&g, ids);
            for (int i = 0; i < 4; i++) {
                struct shared s;
                shared_init(&s, &g, formats_packed[k], 2 + (int)k % 2, i == 1 ? 2 : 1, i == 2);
                float *got = feed(s.runner, ids, n, i == 3 ? 5 : n, &cols);
                if (want && memcmp(got, want, (size_t)(n * cols) * sizeof *got) != 0)
                    fail_msg("%s, type %d: way %d differs", *name, formats_packed[k], i);
                mem_free(want);
                want = got;
                shared_release(&s);
            }
            mem_free(want);
            golden_release(&g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_one_rank),
        cmocka_unit_test(same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
