/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sizes `--parallel auto` takes as memory gets short. Faults: more ranks than hold it need,
 * fewer than do; a size that does not divide the devices; a choice where nothing fits; a CPU or
 * processes that are taken for GPUs; a training planned with another's rows or ranks.
 */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "clients/local/parallel.h"
#include "clients/local/plan_size.h"
#include "engine/base/mem.h"
#include "tests/lib/golden.h"

enum { DEVICES = 4, N_TOK = 64, N_ROW = 8, LENGTH = 8, STEP = 16 << 10 };

static const struct model_options options = {.type = K_F32, .kv_type = -1};

static int serve(struct parallel *p, const struct golden *g, size_t memory, struct err *e)
{
    struct parallel_place place = {.n_device = DEVICES, .memory = memory};
    return parallel_serve(p, &place, &g->dir, &options, N_TOK, e);
}

/* From much memory to too little: as `tandem plan` has it, and never fewer ranks for less. */
static void serving(void **state)
{
    struct golden g;
    struct parallel p;
    int last = 1, seen = 0;
    (void)state;
    golden_init(&g, "llama_tied", K_F32, 0);
    for (size_t memory = 2 << 20; memory > STEP; memory -= STEP) {
        struct err e = ERR_INIT;
        struct plan_sizes s;
        plan_sizes_init(&s, &g.dir, &options, DEVICES, memory, N_TOK);
        if (serve(&p, &g, memory, &e)) {
            assert_int_equal(e.code, ERR_TOO_LARGE);
            assert_true(s.taken < 0);
            last = DEVICES + 1; /* and so it stays */
            continue;
        }
        assert_true(p.tp >= last && DEVICES % p.tp == 0 && p.dp == 1);
        if (s.taken >= 0)
            assert_int_equal(p.tp, s.at[s.taken].tp);
        last = p.tp;
        seen |= 1 << p.tp;
    }
    assert_true(seen & 1 << 1 && seen & (1 << 2 | 1 << 4) && last > DEVICES);
    golden_release(&g);
}

static void no_gpus(void **state)
{
    struct golden g;
    struct parallel p;
    struct err e = ERR_INIT;
    struct parallel_place cpu = {.is_cpu = true, .n_device = 1, .memory = 1 << 30};
    struct parallel_place started = {
        .is_cpu = true, .n_device = 3, .memory = 1 << 30, .is_started = true};
    (void)state;
    golden_init(&g, "llama_tied", K_F32, 0);
    assert_good(parallel_serve(&p, &cpu, &g.dir, &options, N_TOK, &e), &e);
    assert_int_equal(p.tp, 1);
    assert_non_null(strstr(p.why, "CPU"));
    assert_good(parallel_serve(&p, &started, &g.dir, &options, N_TOK, &e), &e);
    assert_int_equal(p.tp, 3);
    cpu.memory = STEP;
    assert_err(parallel_serve(&p, &cpu, &g.dir, &options, N_TOK, &e), &e, ERR_TOO_LARGE,
               "--parallel auto");
    golden_release(&g);
}

/* ---- training -------------------------------------------------------------------------------- */

struct world {
    struct golden g;
    struct dataset d;
    struct tuning_options o;
};

static void world_init(struct world *w)
{
    golden_init(&w->g, "llama_tied", K_F32, 0);
    dataset_init(&w->d, &(struct dataset_options){.max_tok = LENGTH});
    for (size_t i = 0; i < N_ROW; i++) {
        vec_push(&w->d.row,
                 (struct dataset_row){.at = i * LENGTH, .n = LENGTH, .n_learn = LENGTH / 2});
        for (int k = 0; k < LENGTH; k++) {
            vec_push(&w->d.id, 1);
            vec_push(&w->d.is_learned, k >= LENGTH / 2);
        }
    }
    w->d.longest = LENGTH;
    w->d.n_learn = N_ROW * LENGTH / 2;
    /* a step of one row: with more, groups of more ranks have more rows each */
    w->o = (struct tuning_options){.n_epoch = 1, .batch = 1, .data = &w->d};
    train_options_default(&w->o.train);
    w->o.train.lora.rank = 4;
    w->o.train.cap_tok = LENGTH;
}

static void world_release(struct world *w)
{
    dataset_release(&w->d);
    golden_release(&w->g);
}

static int train(struct parallel *p, struct world *w, size_t memory, struct err *e)
{
    struct parallel_place place = {.n_device = DEVICES, .memory = memory};
    return parallel_train(p, &place, &w->g.dir, &options, w->g.device, &w->o, 0, e);
}

static void training(void **state)
{
    struct world w;
    struct parallel p;
    int last = 1, seen = 0;
    (void)state;
    world_init(&w);
    for (size_t memory = 8 << 20; memory > STEP; memory -= memory / 16) {
        struct err e = ERR_INIT;
        if (train(&p, &w, memory, &e)) {
            assert_int_equal(e.code, ERR_TOO_LARGE);
            last = DEVICES + 1;
            continue;
        }
        assert_true(p.tp >= last && p.tp * p.dp == DEVICES);
        last = p.tp;
        seen |= 1 << p.tp;
    }
    assert_true(seen & 1 << 1 && seen & (1 << 2 | 1 << 4) && last > DEVICES);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(serving), cmocka_unit_test(no_gpus),
                                       cmocka_unit_test(training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
