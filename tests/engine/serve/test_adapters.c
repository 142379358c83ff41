/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for several adapters and for the base side by side; adapters that are replaced and
 * dropped while requests run on them.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/rng.h"
#include "tests/lib/reply.h"

#define LLAMA "tests/golden/models/llama_plain"

enum { N_ADAPTER = 3, N = 48, PROMPT = 70, CTX = 128, N_VOCAB = 203, RANK = 64 };

static const char *const dirs[N_ADAPTER] = {NULL, LLAMA "/lora", LLAMA "/lora_final"};

struct world {
    struct golden g;
    struct adapter *mine[N_ADAPTER]; /* of the golden's model */
    int32_t prompt[N][PROMPT];
    struct gen_params params[N];
    struct gen_req req[N];
    struct reply want[N];
};

static void world_init(struct world *w)
{
    static struct adapter_budget plenty = {.bytes_max = 1 << 30};
    struct err e = ERR_INIT;
    golden_init(&w->g, "llama_plain", K_F32, CTX);
    for (int i = 1; i < N_ADAPTER; i++) {
        struct adapter_options o = {
            .name = "x", .version = (uint64_t)i, .rank_max = RANK, .budget = &plenty};
        w->mine[i] = adapter_load(w->g.model, dirs[i], &o, &e);
        assert_good(w->mine[i] ? 0 : -1, &e);
    }
    for (uint64_t i = 0; i < N; i++) {
        for (uint64_t k = 0; k < PROMPT; k++) /* a long beginning that all share */
            w->prompt[i][k] = (int32_t)rng_below(8, k < 40 ? 0 : i + 1, k, N_VOCAB);
        w->params[i] = gen_greedy(20);
        w->params[i].wants_logprob = true;
        w->params[i].sample.temperature = i % 2 ? 1 : 0;
        w->req[i] = (struct gen_req){.prompt = w->prompt[i],
                                     .n_prompt = 41 + (int64_t)rng_below(8, 99, i, PROMPT - 41),
                                     .params = &w->params[i],
                                     .adapter = w->mine[i % N_ADAPTER]};
        reply_alone(&w->want[i], &w->g, &w->req[i], 64);
    }
}

static void world_release(struct world *w)
{
    for (int i = 0; i < N; i++)
        reply_release(&w->want[i]);
    for (int i = 1; i < N_ADAPTER; i++)
        adapter_unref(w->mine[i]);
    golden_release(&w->g);
}

static struct engine *start(void)
{
    struct engine_options o = {.load.quantize = "f32",
                               .load.threads = 2,
                               .load.ctx = CTX,
                               .max_adapters = 4,
                               .max_lora_rank = RANK,
                               .max_seqs = 20};
    struct engine *g = engine_on(LLAMA, &o);
    struct err e = ERR_INIT;
    assert_good(engine_adapter_load(g, "one", dirs[1], &e), &e);
    assert_good(engine_adapter_load(g, "two", dirs[2], &e), &e);
    return g;
}

/* Every request on the version that its name means now; the references are dropped at once. */
static void submit_all(const struct world *w, struct engine *g, struct answer **a)
{
    struct err e = ERR_INIT;
    for (int i = 0; i < N; i++) {
        static const char *const name[N_ADAPTER] = {NULL, "one", "two"};
        struct gen_req req = w->req[i];
        req.adapter = i % N_ADAPTER ? engine_adapter_get(g, name[i % N_ADAPTER]) : NULL;
        assert_true(i % N_ADAPTER == 0 || req.adapter != NULL);
        assert_good(engine_submit(g, &req, 1, (struct gen_notify){0}, &a[i], &e), &e);
        adapter_unref(req.adapter);
    }
}

static void check_all(const struct world *w, struct answer **a, const char *what)
{
    for (int i = 0; i < N; i++) {
        struct reply r;
        reply_wait(&r, a[i], &w->req[i]);
        reply_same(&r, &w->want[i], what);
        reply_release(&r);
    }
}

/* Faults: rows given to another adapter's group; a prefix of one adapter taken for another; a
 * group that changes its neighbours' bits. */
static void adapters_side_by_side(void **state)
{
    (void)state;
    static struct world w;
    struct answer *a[N];
    world_init(&w);
    assert_true(w.want[1].id[0] != w.want[0].id[0] || w.want[1].logprob[0] < w.want[0].logprob[0] ||
                w.want[1].logprob[0] > w.want[0].logprob[0]);
    struct engine *g = start();
    for (int round = 0; round < 3; round++) {
        submit_all(&w, g, a);
        check_all(&w, a, round ? "prefixes cached" : "side by side");
    }
    engine_free(g);
    world_release(&w);
}

/* Faults: an adapter that is freed, or replaced, under a request that began with it; prefixes of
 * the old version found for the new one. */
static void replaced_while_in_use(void **state)
{
    (void)state;
    static struct world w;
    struct answer *a[N];
    struct err e = ERR_INIT;
    struct engine_adapter_info info[4];
    world_init(&w);
    struct engine *g = start();
    for (int round = 0; round < 4; round++) {
        submit_all(&w, g, a);
        usleep(2000);
        assert_good(engine_adapter_load(g, "one", dirs[2 - round % 2], &e), &e);
        assert_good(engine_adapter_load(g, "two", dirs[1 + round % 2], &e), &e);
        check_all(&w, a, "replaced while in use");
        assert_good(engine_adapter_drop(g, "one", &e), &e);
        assert_err(engine_adapter_drop(g, "one", &e), &e, ERR_NOT_FOUND, "one");
        assert_null(engine_adapter_get(g, "one"));
        assert_int_equal(engine_adapters(g, info, 4), 1);
        assert_string_equal(info[0].name, "two");
        assert_good(engine_adapter_load(g, "one", dirs[1], &e), &e);
        assert_good(engine_adapter_load(g, "two", dirs[2], &e), &e);
    }
    submit_all(&w, g, a);
    engine_stop(g);
    for (int i = 0; i < N; i++)
        answer_unref(a[i]);
    engine_free(g);
    world_release(&w);
}

static void *load_anns(void *arg)
{
    struct err e = ERR_INIT;
    assert_good(engine_adapter_load_for(arg, "anns", dirs[1], "ann", false, 0, &e), &e);
    return NULL;
}

/* Faults: a name that is loaded again while it is dropped, and is everybody's then; one that
 * another drops. */
static void dropped_beside_a_load(void **state)
{
    (void)state;
    struct engine *g = start();
    for (int i = 0; i < 50; i++) {
        pthread_t loader;
        struct err e = ERR_INIT;
        load_anns(g);
        assert_err(engine_adapter_drop_for(g, "anns", "bob", &e), &e, ERR_NOT_FOUND, "anns");
        assert_int_equal(pthread_create(&loader, NULL, load_anns, g), 0);
        e = (struct err)ERR_INIT;
        assert_good(engine_adapter_drop_for(g, "anns", "ann", &e), &e);
        pthread_join(loader, NULL);
        struct adapter *a = engine_adapter_get(g, "anns");
        assert_true(!a || !engine_adapter_may_use(g, "anns", "bob"));
        adapter_unref(a);
    }
    engine_stop(g);
    engine_free(g);
}

/* Faults: an engine without room for adapters that takes one. */
static void no_room(void **state)
{
    (void)state;
    struct engine_options o = {.load.quantize = "f32", .load.threads = 1};
    struct engine *g = engine_on(LLAMA, &o);
    struct err e = ERR_INIT;
    assert_err(engine_adapter_load(g, "one", dirs[1], &e), &e, ERR_UNSUPPORTED, "without room");
    assert_null(engine_adapter_get(g, "one"));
    assert_int_equal(engine_adapters(g, NULL, 0), 0);
    engine_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_side_by_side),
        cmocka_unit_test(replaced_while_in_use),
        cmocka_unit_test(dropped_beside_a_load),
        cmocka_unit_test(no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
