/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem bench beside MODEL`: what training and streams take from each other on one engine. The
 * training is halted and let go on in turns of some hundred milliseconds, so that both sides of a
 * comparison meet the same machine, whatever else moves on it.
 *
 * A gap is the time between two tokens of a stream, by the marks that the engine sets; it counts
 * where it lies in one turn, SETTLE_US behind its begin. Idle is what the gate calls so: no stream
 * has work. What training gets done is counted in the work of its kernels by
 * their shapes, so that no whole steps are needed, and told as a part of what it gets done alone.
 *
 * Thread: main, and one that trains.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clients/local/load.h"
#include "engine/base/clock.h"
#include "engine/base/gate.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/base/vec.h"
#include "engine/train/trainer.h"

enum { SETTLE_US = 20000, ALONE_US = 1500000, STREAMS_MAX = 1024 };

struct beside_values {
    struct local_options model;
    int64_t streams, prompt, new_tokens, rows, length, rank, turn, think;
    double seconds, train_share, target_itl, train_floor;
    bool json;
};

#define AT(field) offsetof(struct beside_values, field)
#define COUNT(name_, fallback_, min_, max_, hint_, help_, field_)                                  \
    {                                                                                              \
        .name = (name_), .type = OPT_INT, .fallback = (fallback_), .min = (min_), .max = (max_),   \
        .hint = (hint_), .help = (help_), .offset = AT(field_)                                     \
    }

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    {.section = "Streams",
     .name = "streams",
     .type = OPT_INT,
     .fallback = "8",
     .min = 1,
     .max = STREAMS_MAX,
     .hint = "N",
     .help = "at once; each asks again when it was answered",
     .offset = AT(streams)},
    COUNT("prompt", "32", 1, 1 << 20, "N", "tokens of a prompt", prompt),
    COUNT("new-tokens", "128", 2, 1 << 20, "N", "tokens of an answer", new_tokens),
    COUNT(
        "think", "0", 0, 1 << 20, "MS",
        "a stream waits so long before it asks again, on average; this is where idle time is from",
        think),
    {.section = "Training",
     .name = "train-share",
     .type = OPT_DOUBLE,
     .fallback = "0.03",
     .max = GATE_SHARE_MAX,
     .hint = "P",
     .help = "as of `tandem serve`",
     .offset = AT(train_share)},
    {.name = "target-itl",
     .type = OPT_DOUBLE,
     .fallback = "0",
     .max = 60000,
     .hint = "MS",
     .help = "as of `tandem serve`",
     .offset = AT(target_itl)},
    {.name = "train-floor",
     .type = OPT_DOUBLE,
     .fallback = "10",
     .max = GATE_SHARE_MAX * 100,
     .hint = "PERCENT",
     .help = "as of `tandem serve`",
     .offset = AT(train_floor)},
    COUNT("rows", "2", 1, 1024, "N", "rows of a step", rows),
    COUNT("length", "256", 2, 1 << 20, "N", "tokens of a row", length),
    COUNT("rank", "16", 0, TRAIN_RANK_MAX, "R",
          "of an adapter on every product; 0: all parameters are trained", rank),
    {.section = "Bench",
     .name = "seconds",
     .type = OPT_DOUBLE,
     .fallback = "20",
     .min = 0.01,
     .max = 1e6,
     .hint = "S",
     .help = "for the streams; the training alone takes 1.5 more",
     .offset = AT(seconds)},
    COUNT("turn", "400", 1, 1 << 20, "MS", "how long training is halted, and goes on, in turns",
          turn),
    {.name = "json", .type = OPT_BOOL, .help = "print a line of JSON", .offset = AT(json)},
};

const struct cmd_opt cmd_opt_bench_beside = {rows, sizeof rows / sizeof *rows,
                                             sizeof(struct beside_values)};

/* What is counted while training is halted, [0], and while it goes on, [1]. */
struct side {
    VEC(int64_t) gap; /* microseconds */
    struct gate_stat sum;
    int64_t us;
};

struct client {
    struct answer *answer; /* owned; NULL: it thinks */
    int64_t due_us;
};

struct beside {
    const struct beside_values *v; /* borrowed */
    struct engine *engine;         /* owned */
    struct gate *gate;             /* borrowed */

    pthread_t thread; /* trains */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool may_train;       /* under the lock */
    _Atomic bool is_over; /* the step at hand is the last */
    _Atomic int64_t work; /* of kernels: bytes and operations */
    _Atomic int64_t n_step;
    _Atomic int64_t piece_max_us; /* of training, since streams began */
    int64_t piece_us;             /* the training's thread: when the piece at hand began */
    struct err train_err;
    bool has_thread;

    struct client client[STREAMS_MAX];
    sem_t ended;
    int32_t *prompt; /* owned */
    uint64_t n_asked;
    VEC(int64_t) turn_us; /* when turns began; odd ones train */
    struct side side[2];
    double alone; /* work in a second */
};

/* ---- the training -------------------------------------------------------------------------- */

static void count_work(void *ctx, enum kernel_id k, struct k_shape shape, int64_t ns)
{
    struct beside *b = ctx;
    (void)k, (void)ns;
    atomic_fetch_add(&b->work, (int64_t)(shape.flops + 3 * shape.bytes));
}

static int64_t between(void *ctx)
{
    struct beside *b = ctx;
    int64_t took_us = clock_us() - b->piece_us, piece_ns;
    if (took_us > atomic_load(&b->piece_max_us))
        atomic_store(&b->piece_max_us, took_us);
    pthread_mutex_lock(&b->lock);
    if (!b->may_train) {
        gate_leave(b->gate, GATE_TRAIN);
        while (!b->may_train)
            pthread_cond_wait(&b->wake, &b->lock);
        pthread_mutex_unlock(&b->lock);
        gate_enter(b->gate, GATE_TRAIN);
    } else {
        pthread_mutex_unlock(&b->lock);
    }
    piece_ns = gate_go_on(b->gate) * 1000;
    b->piece_us = clock_us();
    return piece_ns;
}

static void let_train(struct beside *b, bool may)
{
    pthread_mutex_lock(&b->lock);
    b->may_train = may;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

static void enter(struct beside *b, struct stream *s)
{
    gate_enter(b->gate, GATE_TRAIN);
    b->piece_us = clock_us();
    stream_between(s, between, b);
}

static void leave(struct beside *b, struct stream *s)
{
    stream_between(s, NULL, NULL);
    gate_leave(b->gate, GATE_TRAIN);
}

static int steps(struct beside *b, struct trainer *t, struct stream *s, struct err *e)
{
    const struct beside_values *v = b->v;
    int64_t n = v->rows * v->length, n_vocab = engine_info(b->engine)->n_vocab;
    struct train_row *row = xcalloc((size_t)v->rows, sizeof *row);
    int32_t *id = xcalloc((size_t)(n + 1), sizeof *id);
    struct train_result r;
    for (int64_t i = 0; i < n + 1; i++)
        id[i] = (int32_t)rng_below(1, 0, (uint64_t)i, (uint64_t)n_vocab);
    for (int64_t i = 0; i < v->rows; i++)
        row[i] = (struct train_row){.id = id + i * v->length,
                                    .label = id + i * v->length + 1,
                                    .n = v->length,
                                    .key = (uint64_t)i};
    int rc = 0;
    while (!rc && !atomic_load(&b->is_over)) {
        enter(b, s);
        rc = trainer_step(t, row, v->rows, &r, e);
        leave(b, s);
        atomic_fetch_add(&b->n_step, 1);
    }
    free(id);
    free(row);
    return rc;
}

static struct trainer *prepare(struct beside *b, const struct train_options *o, struct stream *s)
{
    enter(b, s);
    struct trainer *t = trainer_new(engine_resident(b->engine)->model, o, s, &b->train_err);
    leave(b, s);
    return t;
}

static void *train(void *arg)
{
    struct beside *b = arg;
    const struct resident *on = engine_resident(b->engine);
    struct train_options o;
    train_options_default(&o);
    o.lora.rank = b->v->rank;
    o.schedule = TRAIN_CONSTANT;
    o.cap_tok = b->v->rows * b->v->length;
    struct stream *s = stream_new_yielding(on->device, &b->train_err);
    struct trainer *t = s ? prepare(b, &o, s) : NULL;
    if (t) {
        stream_trace(s, count_work, b);
        steps(b, t, s, &b->train_err);
    }
    trainer_free(t);
    stream_free(s);
    atomic_store(&b->is_over, true);
    return NULL;
}

/* ---- the streams --------------------------------------------------------------------------- */

static void on_end(void *ctx)
{
    sem_post(ctx);
}

static int ask(struct beside *b, struct client *c, struct err *e)
{
    const struct beside_values *v = b->v;
    struct gen_params params = {
        .sample = SAMPLE_PARAMS_INIT, .max_new = v->new_tokens, .ignore_eos = true};
    struct gen_req r = {.prompt = b->prompt, .n_prompt = v->prompt, .params = &params};
    struct gen_notify notify = {.fn = on_end, .ctx = &b->ended};
    for (int64_t i = 0; i < v->prompt; i++)
        b->prompt[i] = (int32_t)rng_below(2, b->n_asked, (uint64_t)i,
                                          (uint64_t)engine_info(b->engine)->n_vocab);
    b->n_asked++;
    return engine_submit(b->engine, &r, 1, notify, &c->answer, e);
}

/* The turn in which all of (from, to] lies; -1: none. */
static int turn_of(const struct beside *b, int64_t from, int64_t to)
{
    for (size_t i = b->turn_us.n; i-- > 0;) {
        if (b->turn_us.at[i] > to)
            continue;
        return from >= b->turn_us.at[i] + SETTLE_US ? (int)(i % 2) : -1;
    }
    return -1;
}

static void take_gaps(struct beside *b, const struct answer *a)
{
    for (size_t i = 1, n = answer_count(a); i < n; i++) {
        int64_t from = answer_token(a, i - 1)->at_us, to = answer_token(a, i)->at_us;
        int turn = turn_of(b, from, to);
        if (turn >= 0)
            vec_push(&b->side[turn].gap, to - from);
    }
}

static void think(struct beside *b, struct client *c)
{
    double u = rng_unit(3, 0, b->n_asked);
    c->due_us = clock_us() + (int64_t)(-log(1 - u) * 1000 * (double)b->v->think);
}

/* Who was answered thinks, who has thought asks; when the next will have. */
static int look_round(struct beside *b, int64_t *next_us, struct err *e)
{
    for (int64_t i = 0; i < b->v->streams; i++) {
        struct client *c = &b->client[i];
        if (c->answer && answer_state(c->answer) != GEN_RUNS) {
            take_gaps(b, c->answer);
            answer_unref(c->answer);
            c->answer = NULL;
            think(b, c);
        }
        if (!c->answer && c->due_us <= clock_us() && ask(b, c, e))
            return -1;
        if (!c->answer && c->due_us < *next_us)
            *next_us = c->due_us;
    }
    return 0;
}

static void sleep_until(struct beside *b, int64_t until_us)
{
    int64_t ns = (clock_wall_us() + until_us - clock_us()) * 1000;
    struct timespec at = {ns / 1000000000, ns % 1000000000};
    sem_timedwait(&b->ended, &at);
}

static int one_turn(struct beside *b, int64_t until_us, struct err *e)
{
    while (clock_us() < until_us && !atomic_load(&b->is_over)) {
        int64_t next_us = until_us;
        if (look_round(b, &next_us, e))
            return -1;
        sleep_until(b, next_us);
    }
    return 0;
}

static void add_stat(struct side *s, const struct gate_stat *from, const struct gate_stat *to)
{
    s->sum.idle_us += to->idle_us - from->idle_us;
    s->sum.idle_used_us += to->idle_used_us - from->idle_used_us;
    s->sum.busy_us += to->busy_us - from->busy_us;
    s->sum.busy_used_us += to->busy_used_us - from->busy_used_us;
    s->sum.n_yield += to->n_yield - from->n_yield;
}

static int turns(struct beside *b, struct err *e)
{
    int64_t end_us = clock_us() + (int64_t)(b->v->seconds * 1e6);
    while (clock_us() < end_us && !atomic_load(&b->is_over)) {
        int i = (int)(b->turn_us.n % 2);
        struct gate_stat from = gate_stat(b->gate), to;
        int64_t begin_us = clock_us();
        let_train(b, i);
        vec_push(&b->turn_us, begin_us);
        if (one_turn(b, begin_us + b->v->turn * 1000, e))
            return -1;
        to = gate_stat(b->gate);
        add_stat(&b->side[i], &from, &to);
        b->side[i].us += clock_us() - begin_us;
    }
    return 0;
}

static void end_streams(struct beside *b)
{
    for (int64_t i = 0; i < b->v->streams; i++) {
        struct answer *a = b->client[i].answer;
        if (!a)
            continue;
        answer_cancel(a);
        while (answer_state(a) == GEN_RUNS)
            sem_wait(&b->ended);
        take_gaps(b, a);
        answer_unref(a);
    }
}

/* ---- what came of it ----------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double gap_at(const struct side *s, double share)
{
    return s->gap.n ? (double)s->gap.at[(size_t)(share * (double)(s->gap.n - 1))] / 1e3 : 0;
}

static double part(double of, double all)
{
    return all > 0 ? of / all : 0;
}

static void show(struct beside *b, double work)
{
    struct side *off = &b->side[0], *on = &b->side[1];
    const struct gate_stat *g = &on->sum;
    double taken = b->alone * (double)g->busy_used_us / 1e6;
    bool has_idle = g->idle_us * 50 > on->us; /* what little there is tells nothing */
    double speed = has_idle ? part(work - taken, b->alone * (double)g->idle_us / 1e6) : 0;
    for (int i = 0; i < 2; i++)
        if (b->side[i].gap.n)
            qsort(b->side[i].gap.at, b->side[i].gap.n, sizeof(int64_t), by_size);
    double times = part(gap_at(on, 0.99), gap_at(off, 0.99));
    double idle = part((double)g->idle_us, (double)on->us);
    double used = part((double)g->idle_used_us, (double)g->idle_us);
    double share = part((double)g->busy_used_us, (double)g->busy_us);
    if (b->v->json)
        printf("{\"gaps\":[%zu,%zu],\"p50_ms\":[%.3f,%.3f],\"p99_ms\":[%.3f,%.3f],\"times\":%.4f,"
               "\"idle\":%.4f,\"idle_used\":%.4f,\"idle_speed\":%.4f,\"busy_taken\":%.4f,"
               "\"whole_speed\":%.4f,\"steps\":%" PRId64
               ",\"piece_max_ms\":%.3f,\"yields\":%" PRIu64 "}\n",
               off->gap.n, on->gap.n, gap_at(off, 0.5), gap_at(on, 0.5), gap_at(off, 0.99),
               gap_at(on, 0.99), times, idle, used, speed, share,
               part(work, b->alone * (double)on->us / 1e6), atomic_load(&b->n_step),
               (double)b->piece_max_us / 1e3, g->n_yield);
    else
        printf(
            "between tokens  halted: p50 %.2f p90 %.2f p99 %.2f ms   training: p50 %.2f p90 "
            "%.2f p99 %.2f ms   p99 x %.3f\n"
            "idle time       %.1f%% of all, %.1f%% of it used, for %.1f%% of the work of as much "
            "time alone\n"
            "busy time       %.1f%% of it taken by training; longest piece %.1f ms\n",
            gap_at(off, 0.5), gap_at(off, 0.9), gap_at(off, 0.99), gap_at(on, 0.5), gap_at(on, 0.9),
            gap_at(on, 0.99), times, 100 * idle, 100 * used, 100 * speed, 100 * share,
            (double)b->piece_max_us / 1e3);
}

/* Its first step finds its memory cold. */
static void train_alone(struct beside *b)
{
    struct timespec ms = {.tv_nsec = 1000000};
    let_train(b, true);
    while (!atomic_load(&b->n_step) && !atomic_load(&b->is_over))
        nanosleep(&ms, NULL);
    int64_t begin_us = clock_us(), work = atomic_load(&b->work);
    while (clock_us() - begin_us < ALONE_US && !atomic_load(&b->is_over))
        nanosleep(&ms, NULL);
    b->alone = (double)(atomic_load(&b->work) - work) * 1e6 / (double)(clock_us() - begin_us);
}

static int run(struct beside *b, struct err *e)
{
    int rc = pthread_create(&b->thread, NULL, train, b);
    if (rc)
        return err_set(e, ERR_NO_MEMORY, "the training's thread cannot be started");
    b->has_thread = true;
    train_alone(b);
    atomic_store(&b->piece_max_us, 0); /* its first step waited for the system to find memory */
    int64_t work = atomic_load(&b->work);
    rc = turns(b, e);
    work = atomic_load(&b->work) - work;
    end_streams(b);
    if (rc || atomic_load(&b->is_over))
        return rc;
    show(b, (double)work);
    return 0;
}

static void beside_release(struct beside *b)
{
    let_train(b, true);
    atomic_store(&b->is_over, true);
    if (b->has_thread)
        pthread_join(b->thread, NULL);
    engine_free(b->engine);
    for (int i = 0; i < 2; i++)
        vec_release(&b->side[i].gap);
    vec_release(&b->turn_us);
    free(b->prompt);
    sem_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->wake);
}

int cmd_bench_beside(const struct opt *o)
{
    const struct beside_values *v = o->values;
    struct err e = ERR_INIT;
    struct gate_policy policy = {.share = v->train_share,
                                 .latency_us = (int64_t)(v->target_itl * 1000),
                                 .floor = local_train_floor(o, v->train_floor) / 100};
    struct engine_options with = {.max_seqs = v->streams, .policy = &policy};
    struct beside *b = xcalloc(1, sizeof *b);
    b->v = v;
    b->prompt = xcalloc((size_t)v->prompt, sizeof *b->prompt);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->wake, NULL);
    sem_init(&b->ended, 0, 0);
    b->engine = local_engine(o->arg[0], &v->model, &with, &e);
    int rc = b->engine ? engine_start(b->engine, &e) : -1;
    if (!rc) {
        b->gate = engine_gate(b->engine);
        rc = run(b, &e);
    }
    beside_release(b);
    if (!rc && b->train_err.code) {
        e = b->train_err;
        rc = -1;
    }
    free(b);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
