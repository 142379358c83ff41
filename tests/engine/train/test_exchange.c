/* SPDX-License-Identifier: Apache-2.0
 *
 * A step that fails at one rank while sums of gradients are under way: what becomes of them, and of
 * the memory that they were of. How long ranks wait for each other's rows.
 */
#include "tests/lib/test.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "engine/train/exchange.h"
#include "engine/train/team.h"
#include "engine/train/trainer.h"
#include "tests/lib/golden.h"

enum { ROUNDS = 12, STEP_US = 30 };

static const float own = 7;

struct story {
    int round;
    atomic_bool is_over; /* rank 0 has its answer */
    struct err other;    /* that answer */
};

/* Rank 1 drops a layer's sums, and has other things to do with the memory. */
static void drop(struct story *s, struct exchange *x)
{
    struct err why = ERR_INIT;
    assert_true(x->n_flight > 0);
    err_set(&why, ERR_NO_MEMORY, "a test");
    usleep((useconds_t)(s->round * STEP_US));
    exchange_drop(x, &why);
    assert_int_equal(x->n_flight, 0);
    for (int64_t i = 0; i < x->on->n_elem; i++)
        x->on->g[i] = own;
    while (!atomic_load(&s->is_over))
        usleep(STEP_US);
    for (int64_t i = 0; i < x->on->n_elem; i++)
        assert_true(x->on->g[i] == own);
}

static int exchange(struct story *s, struct team_rank *r, struct trainer *t, struct err *e)
{
    struct exchange x;
    int64_t last = r->model->cfg.n_layer - 1;
    if (exchange_init(&x, &trainer_subject(t)->tensors, r->model, NULL, r->stream, e))
        return -1;
    exchange_begin(&x, 0, 0);
    if (train_is_lead(&r->ranks)) { /* it may hear of it in either */
        assert_true(exchange_block(&x, (int)last, &s->other) || exchange_end(&x, &s->other));
        exchange_drop(&x, &s->other);
        atomic_store(&s->is_over, true);
    } else {
        assert_int_equal(exchange_block(&x, (int)last, e), 0);
        drop(s, &x);
    }
    exchange_release(&x);
    return err_set(e, ERR_IO, "over");
}

static int work(void *ctx, struct team_rank *r, struct err *e)
{
    const struct train_options o = {
        .lora = {.rank = 64, .alpha = 8}, .lr = 1e-3, .cap_tok = 64, .ranks = r->ranks};
    struct trainer *t = trainer_new(r->model, &o, r->stream, e);
    int rc = t ? exchange(ctx, r, t, e) : -1;
    trainer_free(t);
    return rc;
}

/* Faults: a rank that waits for sums that nobody finishes; an end of a step whose memory the others
 * go on writing; sums that are finished in the next step. */
static void dropped_under_way(void **state)
{
    struct golden g;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    for (int round = 0; round < ROUNDS; round++) {
        struct story s = {.round = round, .other = ERR_INIT};
        struct err e = ERR_INIT;
        struct team_options o = {.dir = &g.dir,
                                 .model = {.type = K_F32, .kv_type = -1, .ctx = g.model->ctx},
                                 .device = "cpu",
                                 .n_tensor = 1,
                                 .n_data = 2,
                                 .n_thread = 1,
                                 .work = work,
                                 .ctx = &s};
        assert_int_equal(team_run(&o, &e), -1);
        assert_non_null(strstr(s.other.msg, "rank 1 gave up: a test"));
    }
    golden_release(&g);
}

enum { N_TOK = 64, WORK_US = 50 * 1000 };

/* What each rank takes for the time of a token. */
struct pace {
    double ns[2];
};

/* A step in which rank 0 alone has rows, and takes WORK_US for them. */
static int keep_pace(void *ctx, struct team_rank *r, struct err *e)
{
    struct pace *p = ctx;
    struct exchange x;
    const struct train_options o = {
        .lora = {.rank = 2, .alpha = 8}, .lr = 1e-3, .cap_tok = 64, .ranks = r->ranks};
    struct trainer *t = trainer_new(r->model, &o, r->stream, e);
    bool is_lead = train_is_lead(&r->ranks);
    float one = 1;
    int rc = t ? exchange_init(&x, &trainer_subject(t)->tensors, r->model, NULL, r->stream, e) : -1;
    if (!rc) {
        exchange_begin(&x, is_lead ? N_TOK : 0, N_TOK);
        usleep(is_lead ? WORK_US : 0);
        rc = exchange_rows(&x, &one, 1, e);
        assert_true(rc || one == 2);
        p->ns[!is_lead] = x.all_ns;
        exchange_release(&x);
    }
    trainer_free(t);
    return rc;
}

/* A rank without rows that waits for ever for those that have some, as it cannot know how long they
 * take, or by the deadline alone; ranks that give each other different times. */
static void pace_is_shared(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct pace p = {{0}};
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct team_options o = {.dir = &g.dir,
                             .model = {.type = K_F32, .kv_type = -1, .ctx = g.model->ctx},
                             .device = "cpu",
                             .n_tensor = 1,
                             .n_data = 2,
                             .n_thread = 1,
                             .work = keep_pace,
                             .ctx = &p};
    assert_good(team_run(&o, &e), &e);
    assert_true(p.ns[0] >= WORK_US * 1e3 / N_TOK);
    assert_true(p.ns[0] == p.ns[1]);
    golden_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dropped_under_way),
                                       cmocka_unit_test(pace_is_shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
