/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's thread under what goes wrong and what goes on at once: cancels, stops, full queues,
 * waits without end, rows that are not finite, many threads that ask.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/gate.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/serve/engine_own.h"
#include "tests/lib/reply.h"

#define LLAMA "tests/golden/models/llama_plain"

enum { N_KIND = 12, PROMPT = 20, LONG_CTX = 65536 /* seconds of work */, N_VOCAB = 203 };

/* A few kinds of requests and what each gets. */
struct kinds {
    int32_t prompt[N_KIND][PROMPT];
    struct gen_params params[N_KIND];
    struct gen_req req[N_KIND];
    struct reply want[N_KIND];
};

static void kinds_init(struct kinds *k, struct engine *g)
{
    for (uint64_t i = 0; i < N_KIND; i++) {
        for (uint64_t t = 0; t < PROMPT; t++)
            k->prompt[i][t] = (int32_t)rng_below(2, i, t, N_VOCAB);
        k->params[i] = gen_greedy((int64_t)(5 + 7 * i));
        k->params[i].sample.temperature = i % 2 ? 1.5 : 0;
        k->params[i].sample.seed = i;
        k->req[i] = (struct gen_req){
            .prompt = k->prompt[i], .n_prompt = PROMPT - (int64_t)i, .params = &k->params[i]};
        reply_ask(&k->want[i], g, &k->req[i]);
        assert_int_equal(k->want[i].why, GEN_LENGTH);
    }
}

static void kinds_release(struct kinds *k)
{
    for (size_t i = 0; i < N_KIND; i++)
        reply_release(&k->want[i]);
}

static struct engine *start(int64_t max_seqs, int64_t ctx)
{
    struct engine_options o = {
        .load.quantize = "f32", .load.threads = 2, .load.ctx = ctx, .max_seqs = max_seqs};
    return engine_on(LLAMA, &o);
}

static struct answer *submit(struct engine *g, const struct gen_req *req)
{
    struct answer *a;
    struct err e = ERR_INIT;
    assert_good(engine_submit(g, req, 1, (struct gen_notify){0}, &a, &e), &e);
    return a;
}

static void check_good(const struct kinds *k, size_t kind, struct answer *a)
{
    struct reply r;
    reply_wait(&r, a, &k->req[kind]);
    reply_same(&r, &k->want[kind], "among others that go away");
    reply_release(&r);
}

static void nothing_is_held(struct engine *g)
{
    struct engine_stat s = engine_stat(g);
    for (int i = 0; i < 60000 && (s.n_running || s.n_waiting || s.cell_used); i++) {
        usleep(1000);
        s = engine_stat(g);
    }
    assert_int_equal(s.n_running, 0);
    assert_int_equal(s.n_waiting, 0);
    assert_int_equal(s.cell_used, 0);
    for (int i = 0; i < 10000 && atomic_load(&g->told.hold_bytes); i++)
        usleep(1000); /* a work is freed behind the step that its answer ended in */
    assert_int_equal(atomic_load(&g->told.hold_bytes), 0); /* else all is refused in the end */
    assert_int_equal(atomic_load(&g->told.n_waiting), 0);
}

/* ---- cancelling ---------------------------------------------------------------------------- */

/* Faults: cells or places that a cancel leaves taken; a cancel that hits a neighbour, or is lost
 * because it came between two rounds. */
static void cancels_hurt_nobody(void **state)
{
    (void)state;
    enum { ROUNDS = 40, MANY = 30 };
    struct engine *g = start(6, 128);
    struct kinds k;
    kinds_init(&k, g);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct answer *a[MANY];
        bool is_cancelled[MANY];
        for (uint64_t i = 0; i < MANY; i++) {
            a[i] = submit(g, &k.req[i % N_KIND]);
            is_cancelled[i] = rng_below(4, round, i, 2);
        }
        for (uint64_t i = 0; i < MANY; i++) {
            if (!is_cancelled[i])
                continue;
            if (rng_below(4, round, 100 + i, 4) == 0)
                usleep((useconds_t)rng_below(4, round, 200 + i, 500));
            answer_cancel(a[i]);
        }
        for (uint64_t i = 0; i < MANY; i++) {
            if (!is_cancelled[i]) {
                check_good(&k, i % N_KIND, a[i]);
                continue;
            }
            answer_wait(a[i]);
            answer_unref(a[i]);
        }
    }
    nothing_is_held(g);
    kinds_release(&k);
    engine_free(g);
}

/* Faults: a cancelled text that runs on; one in the queue that keeps its place until it would run.
 */
static void cancels_are_prompt(void **state)
{
    (void)state;
    struct engine *g = start(1, LONG_CTX);
    int32_t token = 3;
    struct gen_params p = gen_greedy(-1);
    struct gen_req req = {.prompt = &token, .n_prompt = 1, .params = &p};
    struct answer *running = submit(g, &req), *waiting = submit(g, &req);
    while (answer_count(running) < 3)
        usleep(100);
    answer_cancel(waiting);
    assert_int_equal(answer_wait(waiting), GEN_CANCELLED);
    assert_int_equal(answer_state(running), GEN_RUNS);
    answer_cancel(running);
    size_t n = answer_count(running);
    assert_int_equal(answer_wait(running), GEN_CANCELLED);
    assert_true(answer_count(running) < LONG_CTX - 10 && answer_count(running) >= n);
    answer_unref(running);
    answer_unref(waiting);
    nothing_is_held(g);
    engine_free(g);
}

/* Faults: a cancel that comes while its request is on its way in, and is forgotten. */
static void cancels_on_the_way_in(void **state)
{
    (void)state;
    enum { TRIES = 3000 };
    struct engine *g = start(4, LONG_CTX);
    int32_t token = 3;
    struct gen_params p = gen_greedy(-1);
    struct gen_req req = {.prompt = &token, .n_prompt = 1, .params = &p};
    struct answer *other = NULL; /* keeps the rounds going */
    for (uint64_t i = 0; i < TRIES; i++) {
        if (!other || answer_state(other) != GEN_RUNS) {
            answer_unref(other);
            other = submit(g, &req);
        }
        struct answer *a = submit(g, &req);
        int64_t until = clock_ns() + (int64_t)rng_below(9, 0, i, 60000);
        while (clock_ns() < until)
            ;
        answer_cancel(a);
        assert_int_equal(answer_wait(a), GEN_CANCELLED);
        answer_unref(a);
    }
    engine_stop(g);
    answer_unref(other);
    engine_free(g);
}

/* ---- the queue ----------------------------------------------------------------------------- */

/* Faults: a queue without an end; a group let in in part; a place that is not given back. */
static void the_queue_has_an_end(void **state)
{
    (void)state;
    enum { ROOM = 5 };
    struct engine_options o = {.load.quantize = "f32",
                               .load.threads = 1,
                               .load.ctx = LONG_CTX,
                               .max_seqs = 1,
                               .max_waiting = ROOM};
    struct engine *g = engine_on(LLAMA, &o);
    int32_t token = 3;
    struct gen_params p = gen_greedy(-1);
    struct gen_req req[ROOM + 1];
    struct answer *first, *a[ROOM + 1];
    struct err e = ERR_INIT;
    for (int i = 0; i < ROOM + 1; i++)
        req[i] = (struct gen_req){.prompt = &token, .n_prompt = 1, .params = &p};
    first = submit(g, req);
    while (answer_count(first) < 1)
        usleep(100);
    assert_err(engine_submit(g, req, ROOM + 1, (struct gen_notify){0}, a, &e), &e, ERR_TOO_LARGE,
               "at most 5");
    assert_err(engine_submit(g, req, 0, (struct gen_notify){0}, a, &e), &e, ERR_TOO_LARGE, "0");
    assert_good(engine_submit(g, req, ROOM - 1, (struct gen_notify){0}, a, &e), &e);
    assert_err(engine_submit(g, req, 2, (struct gen_notify){0}, a + ROOM - 1, &e), &e, ERR_BUSY,
               "4 generations wait already");
    assert_good(engine_submit(g, req, 1, (struct gen_notify){0}, a + ROOM - 1, &e), &e);
    assert_int_equal(engine_stat(g).n_waiting, ROOM);
    answer_cancel(a[2]);
    answer_wait(a[2]);
    assert_good(engine_submit(g, req, 1, (struct gen_notify){0}, a + ROOM, &e), &e);
    for (int i = 0; i < ROOM + 1; i++) {
        answer_cancel(a[i]);
        answer_wait(a[i]);
        answer_unref(a[i]);
    }
    answer_cancel(first);
    answer_wait(first);
    answer_unref(first);
    nothing_is_held(g);
    engine_free(g);
}

/* Faults: a wait without end; one that has begun and is called late. The first one stands in its
 * first step, for want of the gate, until the other has waited too long. */
static void waiting_has_an_end(void **state)
{
    (void)state;
    enum { TIMEOUT_US = 300000 };
    struct engine_options o = {.load.quantize = "f32",
                               .load.threads = 1,
                               .load.ctx = LONG_CTX,
                               .max_seqs = 1,
                               .queue_timeout_us = TIMEOUT_US};
    struct engine *g = engine_on(LLAMA, &o);
    int32_t token = 3;
    struct gen_params p = gen_greedy(8);
    struct gen_req req = {.prompt = &token, .n_prompt = 1, .params = &p};
    bool has_begun = false;
    /* Where the first was not in its step in time, as the machine held the engine up so long, it
     * has no answer, and the other, before which nobody stood then, may have one. */
    for (int i = 0; i < 50 && !has_begun; i++) {
        gate_enter(engine_gate(g), GATE_TRAIN);
        struct answer *first = submit(g, &req);
        while (engine_stat(g).n_waiting)
            usleep(100);
        struct answer *late = submit(g, &req);
        usleep(TIMEOUT_US + 1000);
        gate_leave(engine_gate(g), GATE_TRAIN);
        has_begun = answer_wait(first) == GEN_LENGTH;
        enum gen_end end = answer_wait(late);
        assert_true(end == GEN_FAILED || !has_begun);
        if (end == GEN_FAILED) {
            assert_int_equal(answer_end(late)->err.code, ERR_BUSY);
            assert_non_null(strstr(answer_end(late)->err.msg, "300 ms"));
        }
        answer_unref(first);
        answer_unref(late);
        nothing_is_held(g);
    }
    assert_true(has_begun);
    engine_free(g);
}

/* ---- stopping ------------------------------------------------------------------------------ */

struct told {
    _Atomic int n_fn, n_done, late; /* late: calls behind done */
};

static void on_news(void *ctx)
{
    struct told *t = ctx;
    t->n_fn++;
    t->late += t->n_done;
}

static void on_done(void *ctx)
{
    struct told *t = ctx;
    t->n_done++;
}

/* Faults: answers without an end when the engine goes; a request that is let in behind the stop; a
 * notification that is lost, doubled, or comes when its context may be gone. */
static void stopping_ends_all(void **state)
{
    (void)state;
    enum { MANY = 40 };
    struct engine *g = start(8, LONG_CTX);
    int32_t token = 3;
    struct gen_params p = gen_greedy(-1);
    struct gen_req req[2] = {{.prompt = &token, .n_prompt = 1, .params = &p},
                             {.prompt = &token, .n_prompt = 1, .params = &p}};
    struct answer *a[2 * MANY];
    struct told told[MANY] = {0};
    struct err e = ERR_INIT;
    for (size_t i = 0; i < MANY; i++) {
        struct gen_notify n = {
            .fn = on_news, .done = on_done, .ctx = &told[i], .every_token = i % 2};
        assert_good(engine_submit(g, req, 2, n, &a[2 * i], &e), &e);
    }
    while (answer_count(a[2]) < 6)
        usleep(100);
    engine_stop(g);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(answer_state(a[2 * i]), GEN_CANCELLED);
        assert_int_equal(answer_state(a[2 * i + 1]), GEN_CANCELLED);
        assert_int_equal(told[i].n_done, 1);
        assert_int_equal(told[i].late, 0);
        assert_true(told[i].n_fn >= 1);
        answer_unref(a[2 * i]);
        answer_unref(a[2 * i + 1]);
    }
    assert_true(told[1].n_fn > 4 && told[0].n_fn <= 2);
    assert_err(engine_submit(g, req, 1, (struct gen_notify){0}, a, &e), &e, ERR_BUSY, "stopping");
    engine_free(g);
}

/* Faults: requests that came before the thread did, and are dropped silently. */
static void never_started(void **state)
{
    (void)state;
    struct engine_options o = {.model = LLAMA, .load.threads = 1};
    struct err e = ERR_INIT;
    struct engine *g = engine_new(&o, &e);
    int32_t token = 3;
    struct gen_params p = gen_greedy(5);
    struct gen_req req = {.prompt = &token, .n_prompt = 1, .params = &p};
    struct answer *a = submit(g, &req);
    assert_int_equal(answer_state(a), GEN_RUNS);
    engine_free(g);
    assert_int_equal(answer_state(a), GEN_CANCELLED);
    answer_cancel(a); /* may come when the engine is gone */
    answer_unref(a);
}

/* ---- training beside it -------------------------------------------------------------------- */

/* Fault: a step's time holds its wait for training, and the scheduler learns that from it. */
static void a_wait_is_no_step(void **state)
{
    (void)state;
    struct engine *g = start(4, 128);
    struct gate *gate = engine_gate(g);
    int32_t token = 3;
    struct gen_params p = gen_greedy(5);
    struct gen_req req = {.prompt = &token, .n_prompt = 1, .params = &p};
    struct reply r;
    gate_enter(gate, GATE_TRAIN);
    struct answer *a = submit(g, &req);
    while (engine_stat(g).n_waiting)
        usleep(100);
    usleep(5000); /* its first step has begun, and waits */
    gate_leave(gate, GATE_TRAIN);
    reply_wait(&r, a, &req);
    assert_true(engine_stat(g).step_us > 0);
    assert_true(engine_stat(g).step_us <= gate_stat(gate).of[GATE_SERVE].held_us);
    reply_release(&r);
    engine_free(g);
}

/* ---- idle work ----------------------------------------------------------------------------- */

/* Somebody comes while a step of idle work is at the gate: it begins, and is to be given up. */
static struct answer *come_in_its_step(struct engine *g, const struct kinds *k, size_t kind,
                                       const struct gen_req *idle)
{
    struct gate *gate = engine_gate(g);
    gate_enter(gate, GATE_TRAIN);
    struct answer *first = submit(g, idle);
    while (!gate_stat(gate).of[GATE_SERVE].n_wait)
        usleep(100);
    struct answer *a = submit(g, &k->req[kind]);
    gate_leave(gate, GATE_TRAIN);
    check_good(k, kind, a);
    return first;
}

/* Faults: who comes waits for the end of a step of idle work; one that was given up leaves
 * something behind: a token, a key, a place in its text. */
static void idle_work_gives_way(void **state)
{
    (void)state;
    enum { MANY = 5 };
    struct engine *g = start(8, 256);
    struct answer *a[MANY];
    struct gen_req req[MANY];
    struct kinds k;
    kinds_init(&k, g);
    for (size_t i = 0; i < MANY; i++) {
        req[i] = k.req[N_KIND - MANY + i];
        req[i].is_idle = true;
    }
    assert_int_equal(engine_stat(g).n_given_up, 0);
    for (size_t i = 0; i < MANY; i++) {
        a[i] = come_in_its_step(g, &k, i, &req[i]);
        assert_int_equal(engine_stat(g).n_given_up, i + 1);
        while (answer_count(a[0]) < (i + 1))
            usleep(100);
    }
    for (size_t i = 0; i < MANY; i++)
        check_good(&k, N_KIND - MANY + i, a[i]);
    nothing_is_held(g);
    kinds_release(&k);
    engine_free(g);
}

/* ---- rows that are not finite -------------------------------------------------------------- */

/* The golden's directory with NaN in the embedding of one token. */
static char *poisoned_model(int32_t token, int64_t d_model)
{
    char *dir = test_dir_new(), path[600];
    struct buf b;
    struct err e = ERR_INIT;
    uint64_t head;
    unsigned long long lo;
    buf_init(&b, 64 << 20);
    assert_good(fs_read(LLAMA "/model.safetensors", &b, &e), &e);
    memcpy(&head, b.data, sizeof head);
    const char *at = strstr(b.data + 8, "\"model.embed_tokens.weight\"");
    assert_non_null(at);
    at = strstr(at, "data_offsets\":[");
    assert_int_equal(sscanf(at, "data_offsets\":[%llu", &lo), 1);
    memset(b.data + 8 + head + lo + (size_t)(token * d_model) * sizeof(float), 0xff,
           (size_t)d_model * sizeof(float));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_good(aside_put(path, b.data, b.len, &e), &e);
    buf_clear(&b);
    assert_good(fs_read(LLAMA "/config.json", &b, &e), &e);
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_good(aside_put(path, b.data, b.len, &e), &e);
    buf_release(&b);
    return dir;
}

/* Faults: a row of NaN that ends the engine or its neighbours, draws a token, or leaves NaN where a
 * neighbour reads it. */
static void a_row_of_nan_ends_alone(void **state)
{
    (void)state;
    enum { BAD = 7, D_MODEL = 52, ROUNDS = 20 };
    char *dir = poisoned_model(BAD, D_MODEL);
    struct engine_options o = {
        .load.quantize = "f32", .load.threads = 2, .load.ctx = 128, .max_seqs = 4};
    struct engine *g = engine_on(dir, &o);
    int32_t good[3] = {1, 2, 3}, bad[3] = {1, BAD, 3};
    struct sample_bias bias = {BAD, -100}; /* its embedding is poison for who draws it */
    struct gen_params p = gen_greedy(60);
    p.sample.bias = &bias;
    p.sample.n_bias = 1;
    struct gen_req req = {.prompt = good, .n_prompt = 3, .params = &p};
    struct gen_req poison = {.prompt = bad, .n_prompt = 3, .params = &p};
    struct reply want, got;
    reply_ask(&want, g, &req);
    assert_int_equal(want.n, 60);
    for (int i = 0; i < ROUNDS; i++) {
        struct answer *a = submit(g, &req), *b = submit(g, &poison), *c = submit(g, &req);
        reply_wait(&got, b, &poison);
        assert_int_equal(got.why, GEN_FAILED);
        assert_int_equal(got.n, 0);
        assert_non_null(strstr(got.end.err.msg, "not finite"));
        reply_release(&got);
        reply_wait(&got, a, &req);
        reply_same(&got, &want, "beside NaN");
        reply_release(&got);
        reply_wait(&got, c, &req);
        reply_same(&got, &want, "beside NaN");
        reply_release(&got);
    }
    reply_release(&want);
    nothing_is_held(g);
    engine_free(g);
    test_dir_free(dir);
}

/* ---- many who ask -------------------------------------------------------------------------- */

struct asker {
    struct engine *g;
    const struct kinds *k;
    uint64_t number;
    pthread_t thread;
};

static void *ask_many(void *arg)
{
    const struct asker *me = arg;
    for (uint64_t i = 0; i < 40; i++) {
        size_t kind = rng_below(6, me->number, i, N_KIND);
        struct gen_req req[2] = {me->k->req[kind], me->k->req[kind]};
        struct answer *a[2];
        struct err e = ERR_INIT;
        struct told told = {0};
        struct gen_notify n = {.fn = on_news, .done = on_done, .ctx = &told, .every_token = i % 2};
        assert_good(engine_submit(me->g, req, 2, n, a, &e), &e);
        if (rng_below(6, me->number, 100 + i, 4) == 0)
            answer_cancel(a[1]);
        check_good(me->k, kind, a[0]);
        answer_wait(a[1]);
        answer_unref(a[1]);
        while (!told.n_done)
            usleep(20);
        assert_int_equal(told.late, 0);
    }
    return NULL;
}

/* Faults: races between submitting, reading, cancelling and the thread; texts that change hands. */
static void eight_threads(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    struct engine *g = start(0, 128);
    struct kinds k;
    struct asker asker[THREADS];
    kinds_init(&k, g);
    for (uint64_t i = 0; i < THREADS; i++) {
        asker[i] = (struct asker){.g = g, .k = &k, .number = i};
        pthread_create(&asker[i].thread, NULL, ask_many, &asker[i]);
    }
    for (int i = 0; i < 50; i++) { /* and one who looks */
        struct engine_stat s = engine_stat(g);
        assert_true(s.n_running >= 0 && s.cell_used <= s.cell_all);
        usleep(1000);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(asker[i].thread, NULL);
    nothing_is_held(g);
    kinds_release(&k);
    engine_free(g);
}

/* Faults: a thread that spins without work; a heartbeat that says it hangs. */
static void idling_costs_nothing(void **state)
{
    (void)state;
    struct engine *g = start(0, 128);
    struct kinds k;
    kinds_init(&k, g);
    clock_t used = CLOCKS_PER_SEC;
    for (int i = 0; i < 50 && used >= CLOCKS_PER_SEC / 50; i++) {
        usleep(20000); /* a thread that the machine held up may have work left */
        clock_t before = clock();
        usleep(300000);
        used = clock() - before;
    }
    assert_true(used < CLOCKS_PER_SEC / 50);
    int64_t now = clock_us(); /* whoever sleeps is well now */
    for (int i = 0; i < 6000 && engine_stat(g).heartbeat_us < now; i++)
        usleep(10000);
    assert_true(engine_stat(g).heartbeat_us >= now);
    struct engine_stat s = engine_stat(g);
    uint64_t tok_new = 0;
    for (size_t i = 0; i < N_KIND; i++)
        tok_new += (uint64_t)k.want[i].n;
    assert_int_equal(s.tok_new, tok_new);
    assert_true(s.n_step > 0 && s.tok_prompt > N_KIND);
    kinds_release(&k);
    engine_free(g);
}

/* Faults: an answer, a queue entry or a buffer that outlives all who know of it. */
static int nothing_is_left(void **state)
{
    (void)state;
    return mem_stat().n_block == 0 && mem_stat().now_bytes == 0 ? 0 : -1;
}

/* Half of the memory that requests may set aside is a tenant's, whatever it asks for; nobody's may
 * have all. Faults: one that leaves nothing to others; its part that is never given back. */
static void memory_is_shared(void **state)
{
    (void)state;
    struct engine *g = start(2, LONG_CTX);
    struct gen_params p = gen_greedy(LONG_CTX - PROMPT);
    int32_t prompt[PROMPT] = {0};
    struct gen_req q = {.prompt = prompt, .n_prompt = PROMPT, .params = &p, .tenant = 1};
    struct answer *a[4], *none;
    struct err e = ERR_INIT;
    p.ignore_eos = true;
    a[0] = submit(g, &q);
    g->fixed.room.hold_bytes = 4 * atomic_load(&g->told.hold_bytes) + 100;
    a[1] = submit(g, &q);
    assert_err(engine_submit(g, &q, 1, (struct gen_notify){0}, &none, &e), &e, ERR_BUSY, "half");
    q.tenant = 2;
    a[2] = submit(g, &q);
    q.tenant = 0;
    a[3] = submit(g, &q);
    for (int i = 0; i < 4; i++)
        answer_cancel(a[i]);
    for (int i = 0; i < 4; i++)
        answer_unref(a[i]);
    nothing_is_held(g);
    for (int i = 0; i < HOLD_PLACES; i++)
        assert_int_equal(atomic_load(&g->told.hold_of[i].bytes), 0);
    for (int i = 0; i < 4; i++) /* alone */
        a[i] = submit(g, &q);
    for (int i = 0; i < 4; i++) {
        answer_cancel(a[i]);
        answer_unref(a[i]);
    }
    nothing_is_held(g);
    engine_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancels_hurt_nobody),     cmocka_unit_test(cancels_are_prompt),
        cmocka_unit_test(cancels_on_the_way_in),   cmocka_unit_test(the_queue_has_an_end),
        cmocka_unit_test(waiting_has_an_end),      cmocka_unit_test(stopping_ends_all),
        cmocka_unit_test(never_started),           cmocka_unit_test(a_wait_is_no_step),
        cmocka_unit_test(a_row_of_nan_ends_alone), cmocka_unit_test(eight_threads),
        cmocka_unit_test(idling_costs_nothing),    cmocka_unit_test(idle_work_gives_way),
        cmocka_unit_test(memory_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_is_left);
}
