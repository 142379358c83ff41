/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine whose model several ranks share, as threads: the greedy text and, nearly, the
 * log-probabilities of one rank, with adapters and without; at each size the same bits alone and in
 * company; vectors; adapters that come and go while steps run; and the end that a broken group
 * brings.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/comm/comm.h"
#include "engine/serve/resident.h"
#include "tests/lib/reply.h"

enum { N = 9, N_ADAPTER = 3, PROMPT = 40, NEW = 10, CTX = 64, WAIT_S = 60 };

/* Of one model's engine: requests of which every third has no adapter. */
struct world {
    const char *name, *adapter; /* what its adapters are of: "lora", or "experts" */
    int32_t prompt[N][PROMPT];
    struct gen_params params[N];
    struct gen_req req[N];
    struct reply one[N]; /* what one rank gives */
};

static const char *const adapters[N_ADAPTER] = {NULL, "lora", "lora_final"};

static struct engine *start(const struct world *w, int tp, bool is_eager, bool keeps)
{
    char dir[128], sub[160];
    struct err e = ERR_INIT;
    struct engine_options o = {.load.quantize = "f32",
                               .load.threads = 2,
                               .load.ctx = CTX,
                               .max_adapters = 4,
                               .max_seqs = 6,
                               .tp = tp,
                               .is_eager = is_eager,
                               .no_prefix_cache = !keeps};
    snprintf(dir, sizeof dir, "tests/golden/models/%s", w->name);
    struct engine *g = engine_on(dir, &o);
    assert_int_equal(engine_info(g)->n_rank, tp);
    for (int i = 1; i < N_ADAPTER; i++) {
        snprintf(sub, sizeof sub, "%s/%s%s", dir, w->adapter, i > 1 ? "_final" : "");
        assert_good(engine_adapter_load(g, adapters[i], sub, &e), &e);
    }
    return g;
}

static struct answer *submit(const struct world *w, struct engine *g, int i)
{
    struct answer *a;
    struct err e = ERR_INIT;
    struct gen_req req = w->req[i];
    req.adapter = i % N_ADAPTER ? engine_adapter_get(g, adapters[i % N_ADAPTER]) : NULL;
    assert_good(engine_submit(g, &req, 1, (struct gen_notify){0}, &a, &e), &e);
    adapter_unref(req.adapter);
    return a;
}

static void ask_one(const struct world *w, struct engine *g, int i, struct reply *r)
{
    reply_wait(r, submit(w, g, i), &w->req[i]);
}

static void world_init(struct world *w, const char *name, const char *adapter, uint64_t n_vocab)
{
    *w = (struct world){.name = name, .adapter = adapter};
    for (uint64_t i = 0; i < N; i++) {
        for (uint64_t k = 0; k < PROMPT; k++) /* a beginning that all share */
            w->prompt[i][k] = (int32_t)rng_below(3, k < 33 ? 0 : i + 1, k, n_vocab);
        w->params[i] = gen_greedy(NEW);
        w->params[i].wants_logprob = true;
        w->req[i] = (struct gen_req){
            .prompt = w->prompt[i], .n_prompt = PROMPT - (int64_t)i, .params = &w->params[i]};
    }
    struct engine *g = start(w, 1, false, false);
    for (int i = 0; i < N; i++)
        ask_one(w, g, i, &w->one[i]);
    engine_free(g);
}

static void world_release(struct world *w)
{
    for (int i = 0; i < N; i++)
        reply_release(&w->one[i]);
}

static void near_one(const struct world *w, const struct reply *got, int i, int tp)
{
    const struct reply *want = &w->one[i];
    assert_int_equal(got->n, want->n);
    for (int64_t k = 0; k < got->n; k++) {
        if (got->id[k] != want->id[k])
            fail_msg("%s, %d ranks, request %d: token %d is %d, not %d", w->name, tp, i, (int)k,
                     got->id[k], want->id[k]);
        if (fabsf(got->logprob[k] - want->logprob[k]) > 1e-5f * (1 + fabsf(want->logprob[k])))
            fail_msg("%s, %d ranks, request %d: log-probability %.9g, not %.9g", w->name, tp, i,
                     (double)got->logprob[k], (double)want->logprob[k]);
    }
}

/* All at once, and each as it is alone. */
static void in_company(const struct world *w, struct engine *g, const struct reply *alone,
                       const char *what)
{
    struct answer *a[N];
    for (int i = 0; i < N; i++)
        a[i] = submit(w, g, i);
    for (int i = 0; i < N; i++) {
        struct reply r;
        reply_wait(&r, a[i], &w->req[i]);
        reply_same(&r, &alone[i], what);
        reply_release(&r);
    }
}

/* Faults: an adapter's half cut at the wrong place, or by the wrong axis, or one of experts that is
 * cut at all; a group that a follower
 * gives another adapter; bits that depend on the company. */
static void check_size(const struct world *w, int tp)
{
    struct reply alone[N];
    char what[64];
    struct engine *g = start(w, tp, false, false);
    snprintf(what, sizeof what, "%s, %d ranks", w->name, tp);
    for (int i = 0; i < N; i++) {
        ask_one(w, g, i, &alone[i]);
        near_one(w, &alone[i], i, tp);
    }
    in_company(w, g, alone, what);
    engine_free(g);
    g = start(w, tp, tp == 2, true); /* eager, and with prefixes that are found again */
    in_company(w, g, alone, what);
    in_company(w, g, alone, what);
    engine_free(g);
    for (int i = 0; i < N; i++)
        reply_release(&alone[i]);
}

static void as_one_rank(void **state)
{
    static const struct {
        const char *name, *adapter;
        uint64_t n_vocab;
    } models[] = {
        {"llama_plain", "lora", 200},      {"qwen2", "lora", 170},      {"gpt2", "lora", 170},
        {"qwen3_moe", "experts", 170},     {"mixtral", "experts", 170}, {"gpt_oss", "experts", 170},
        {"gemma4_experts", "experts", 170}};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct world w;
        world_init(&w, models[i].name, models[i].adapter, models[i].n_vocab);
        check_size(&w, 2);
        check_size(&w, 4);
        world_release(&w);
    }
}

/* Faults: a version that followers drop while rows of it run, or keep for ever; an adapter's
 * message inside a step. */
static void adapters_come_and_go(void **state)
{
    struct world w;
    struct answer *a[N];
    struct reply r;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, "llama_plain", "lora", 200);
    struct engine *g = start(&w, 2, false, true);
    size_t before = mem_stat().now_bytes;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < N; i++)
            a[i] = submit(&w, g, i);
        assert_good(engine_adapter_load(g, "lora", "tests/golden/models/llama_plain/lora", &e), &e);
        assert_good(engine_adapter_drop(g, "lora_final", &e), &e);
        assert_err(engine_adapter_load(g, "bad", "tests/golden/models/gpt2/lora", &e), &e,
                   ERR_BAD_INPUT, "");
        assert_good(
            engine_adapter_load(g, "lora_final", "tests/golden/models/llama_plain/lora_final", &e),
            &e);
        for (int i = 0; i < N; i++) {
            reply_wait(&r, a[i], &w.req[i]);
            near_one(&w, &r, i, 2);
            reply_release(&r);
        }
    }
    ask_one(&w, g, 0, &r); /* behind all that was to be dropped */
    reply_release(&r);
    int64_t begin = clock_us();
    while (mem_stat().now_bytes > before && clock_us() - begin < WAIT_S * INT64_C(1000000))
        usleep(1000);
    assert_true(mem_stat().now_bytes <= before);
    engine_free(g);
    world_release(&w);
}

/* Faults: a head that is cut where all of it is wanted; texts of a step mixed up. */
static void vectors(void **state)
{
    static const char *const names[] = {"bert_mean", "bert_cls"};
    (void)state;
    for (int m = 0; m < 2; m++) {
        char dir[128];
        float one[64 * 3];
        int32_t ids[3][24];
        snprintf(dir, sizeof dir, "tests/golden/models/%s", names[m]);
        for (int tp = 1; tp <= 4; tp *= 2) {
            struct engine_options o = {.load.quantize = "f32", .load.threads = 2, .tp = tp};
            struct engine *g = engine_on(dir, &o);
            size_t d = (size_t)engine_info(g)->d_model, n;
            struct answer *a[3];
            struct err e = ERR_INIT;
            assert_true(d <= 64);
            for (int i = 0; i < 3; i++) {
                for (int k = 0; k < 24; k++)
                    ids[i][k] = 1 + (i * 31 + k * 7) % 150;
                struct gen_req r = {.kind = GEN_EMBED, .prompt = ids[i], .n_prompt = 24 - 5 * i};
                assert_good(engine_submit(g, &r, 1, (struct gen_notify){0}, &a[i], &e), &e);
            }
            for (int i = 0; i < 3; i++) {
                assert_int_equal(answer_wait(a[i]), GEN_STOPPED);
                const float *v = answer_vector(a[i], &n);
                if (tp == 1)
                    memcpy(one + (size_t)i * d, v, d * sizeof *v);
                golden_near(names[m], v, one + (size_t)i * d, (int64_t)d, 1e-5);
                answer_unref(a[i]);
            }
            engine_free(g);
        }
    }
}

static void note(void *ctx)
{
    atomic_store((atomic_bool *)ctx, true);
}

/* Faults: an engine that goes on, or waits, without one of its ranks; an owner who is not told; an
 * answer without an end. */
static void a_rank_is_gone(void **state)
{
    (void)state;
    for (int is_idle = 0; is_idle < 2; is_idle++) {
        atomic_bool told = false;
        struct world w = {.name = "llama_plain"};
        struct err e = ERR_INIT;
        struct answer *a;
        struct engine_options o = {.model = "tests/golden/models/llama_plain",
                                   .load.threads = 2,
                                   .tp = 3,
                                   .broke = note,
                                   .broke_ctx = &told};
        struct engine *g = engine_new(&o, &e);
        assert_good(g ? 0 : -1, &e);
        struct comm *c = engine_resident(g)->model->ranks.comm;
        w.params[0] = gen_greedy(40);
        w.req[0] = (struct gen_req){.prompt = w.prompt[0], .n_prompt = 3, .params = &w.params[0]};
        assert_good(engine_check(g, &e), &e);
        assert_good(engine_start(g, &e), &e);
        if (!is_idle)
            a = submit(&w, g, 0);
        comm_abort(c, "it fell");
        if (!is_idle) {
            enum gen_end why = answer_wait(a); /* it may have come to its end before */
            assert_true(why == GEN_FAILED || why == GEN_LENGTH);
            if (why == GEN_FAILED)
                assert_int_equal(answer_end(a)->err.code, ERR_BUSY);
            answer_unref(a);
        }
        int64_t begin = clock_us();
        while (!atomic_load(&told) && clock_us() - begin < WAIT_S * INT64_C(1000000))
            usleep(1000);
        assert_true(atomic_load(&told));
        assert_err(engine_check(g, &e), &e, ERR_DEVICE, "it fell");
        assert_err(engine_submit(g, &w.req[0], 1, (struct gen_notify){0}, &a, &e), &e, ERR_BUSY,
                   "a rank that shares this model is gone");
        engine_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_one_rank),
        cmocka_unit_test(adapters_come_and_go),
        cmocka_unit_test(vectors),
        cmocka_unit_test(a_rank_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
