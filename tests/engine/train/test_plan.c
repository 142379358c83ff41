/* SPDX-License-Identifier: Apache-2.0
 *
 * The planned memory of trainings against what they really hold: by the device's count, and by the
 * process's pages. Faults: a part that is forgotten or counted twice, a plan for other options than
 * those that are run, a choice that does not fit, a refusal without its numbers.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/train/plan.h"
#include "tests/lib/golden.h"

enum { N_ROW = 4, LENGTH = 256 };

struct world {
    struct golden g;
    struct model *m;
    struct dataset d;
};

/* Numbers that a model could have. */
static void fill(struct world *w)
{
    struct err e = ERR_INIT;
    for (int32_t i = 0; i < w->m->n_param; i++) {
        const struct param *p = &w->m->param[i];
        float *x = try_alloc((size_t)(p->n * p->k), sizeof *x, "weights", &e);
        struct k_weight_pack a = {
            .src = x, .src_type = K_F32, .ld_src = p->k, .w = p->w, .n_src = p->n};
        for (int64_t j = 0; j < p->n * p->k; j++)
            x[j] = p->is_vector ? 1 : (float)(0.1 * (rng_unit(1, (uint64_t)i, (uint64_t)j) - 0.5));
        if (p->is_vector)
            memcpy(p->vec, x, (size_t)p->n * sizeof *x);
        else
            stream_launch(w->g.stream, K_weight_pack, &a, sizeof a);
        mem_free(x);
    }
}

/* A model of some megabytes; what it computes does not matter here. */
static void world_init(struct world *w, int type, int64_t width)
{
    struct err e = ERR_INIT;
    golden_init(&w->g, "llama_tied", K_F32, 0);
    struct config c = w->g.model->cfg;
    c.d_model = width;
    c.d_ff = 2 * width;
    c.n_head = c.n_kv_head = 4;
    c.d_head = (int32_t)width / 4;
    c.n_vocab = 512;
    c.n_layer = 3;
    c.max_pos = LENGTH;
    w->m = model_new(&c, &(struct model_options){.type = type, .kv_type = -1}, w->g.device, &e);
    assert_good(w->m ? 0 : -1, &e);
    fill(w);
    dataset_init(&w->d, &(struct dataset_options){.max_tok = LENGTH});
    for (int64_t i = 0; i < N_ROW; i++) {
        struct dataset_row r = {.at = w->d.id.n, .n = LENGTH, .n_learn = LENGTH - 1};
        for (int64_t k = 0; k < LENGTH; k++) {
            vec_push(&w->d.id, (int32_t)(i + k));
            vec_push(&w->d.is_learned, k > 0);
        }
        vec_push(&w->d.row, r);
        w->d.n_learn += r.n_learn;
    }
    w->d.longest = LENGTH;
}

static void world_release(struct world *w)
{
    dataset_release(&w->d);
    model_free(w->m);
    golden_release(&w->g);
}

static struct tuning_options options(const struct world *w, int64_t rank)
{
    struct tuning_options o = {.n_epoch = 1, .batch = 2, .data = &w->d};
    train_options_default(&o.train);
    o.train.lora.rank = rank;
    o.train.cap_tok = 2 * LENGTH;
    return o;
}

/* Two steps for real; what the trainer holds then. */
static size_t really(struct world *w, const struct tuning_options *o)
{
    struct err e = ERR_INIT;
    bool is_done;
    struct tuning *t = tuning_new(w->m, o, w->g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    assert_good(tuning_run(t, &is_done, &e), &e);
    size_t bytes = trainer_bytes(tuning_trainer(t));
    tuning_free(t);
    return bytes;
}

static void planned_is_held(void **state)
{
    static const struct {
        int type;
        int64_t rank;
        enum train_recompute how;
        int64_t width, batch; /* of 4 rows: two micro-batches */
        bool has_codes;
    } row[] = {{K_F32, 8, RECOMPUTE_OFF, 64, 2, true},   {K_BF16, 0, RECOMPUTE_OFF, 384, 4, true},
               {K_F32, 8, RECOMPUTE_OFF, 64, 2, false},  {K_BF16, 8, RECOMPUTE_ON, 64, 2, false},
               {K_INT8, 8, RECOMPUTE_OFF, 64, 2, false}, {K_INT4, 8, RECOMPUTE_OFF, 64, 2, false},
               {K_F32, 0, RECOMPUTE_OFF, 64, 2, false},  {K_BF16, 0, RECOMPUTE_ON, 64, 2, false},
               {K_BF16, 0, RECOMPUTE_OFF, 64, 2, false}, {K_BF16, 0, RECOMPUTE_ON, 384, 4, false},
               {K_BF16, 0, RECOMPUTE_OFF, 384, 4, false}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct world w;
        struct train_plan p;
        struct err e = ERR_INIT;
        world_init(&w, row[i].type, row[i].width);
        struct tuning_options o = options(&w, row[i].rank);
        o.batch = row[i].batch;
        o.train.has_codes = row[i].has_codes;
        w.d.n_top = i % 2 ? 21 : 0; /* what a teacher names is a micro-batch's input */
        assert_good(train_plan(w.m, w.g.device, &o, row[i].how, false, 0, &p, &e), &e);
        assert_int_equal(p.recomputes, row[i].how == RECOMPUTE_ON);
        o.train.checkpoints_blocks = p.recomputes;
        size_t planned = p.total - p.host, held = really(&w, &o);
        if (held > planned || (double)held < 0.98 * (double)planned)
            fail_msg("row %zu: %zu bytes planned, %zu held", i, planned, held);
        assert_int_equal(p.values + p.gradients + p.moments + p.inputs + p.activations, planned);
        size_t lacks = row[i].rank > 0 ? 4 : row[i].type == K_BF16 ? 2 : 0; /* of each value */
        if (row[i].has_codes) /* each tensor begins between two blocks */
            assert_true(p.moments >= p.gradients / 2 && p.moments < p.gradients * 52 / 100);
        else
            assert_int_equal(p.moments, 2 * p.gradients);
        assert_int_equal(p.values, p.gradients / 4 * lacks);
        assert_true(p.logits > 0 && p.logits <= p.activations);
        assert_true(p.total_recomputed < p.total_plain);
        world_release(&w);
    }
}

static void a_copy_is_counted(void **state)
{
    struct world w;
    struct train_plan shared, copied;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, K_BF16, 64);
    struct tuning_options o = options(&w, 0);
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, 0, &shared, &e), &e);
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, true, 0, &copied, &e), &e);
    assert_int_equal(copied.total - shared.total, w.m->block_bytes);
    o.valid = &w.d; /* its rows are held beside those that train */
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, true, 0, &shared, &e), &e);
    assert_int_equal(shared.host - copied.host, row_set_bytes(&w.d, o.batch));
    world_release(&w);
}

static void held_out_rows_are_counted(void **state)
{
    struct world w;
    struct train_plan plain, both;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, K_BF16, 64);
    struct tuning_options o = options(&w, 8);
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, 0, &plain, &e), &e);
    o.valid = &w.d;
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, 0, &both, &e), &e);
    assert_int_equal(both.host - plain.host, row_set_bytes(&w.d, o.batch));
    world_release(&w);
}

static void memory_chooses(void **state)
{
    struct world w;
    struct train_plan p;
    struct err e = ERR_INIT;
    char text[TRAIN_PLAN_TEXT_BYTES], mb[32];
    (void)state;
    world_init(&w, K_BF16, 64);
    struct tuning_options o = options(&w, 8);
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, 0, &p, &e), &e);
    assert_false(p.recomputes);
    size_t plain = p.total_plain, again = p.total_recomputed;
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, plain, &p, &e), &e);
    assert_false(p.recomputes);
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, plain - 1, &p, &e), &e);
    assert_true(p.recomputes && p.total == again);
    assert_non_null(strstr(train_plan_text(&p, text), "run again"));
    assert_err(train_plan(w.m, w.g.device, &o, RECOMPUTE_OFF, false, plain - 1, &p, &e), &e,
               ERR_TOO_LARGE, "the training takes");
    assert_err(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, again - 1, &p, &e), &e,
               ERR_TOO_LARGE, "MB");
    snprintf(mb, sizeof mb, "%.1f MB", (double)again / 1e6);
    assert_non_null(strstr(e.msg, mb));
    world_release(&w);
}

/* A trainer under a limit runs in what the plan leaves it; with less it ends with the numbers, has
 * changed nothing, and another runs. */
static void the_limit_holds(void **state)
{
    struct world w;
    struct train_plan p;
    struct err e = ERR_INIT;
    bool is_done;
    (void)state;
    world_init(&w, K_BF16, 64);
    struct tuning_options o = options(&w, 8);
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, 0, &p, &e), &e);
    assert_int_equal(p.value_bytes, 0);
    size_t least = p.total_recomputed;
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_AUTO, false, least, &p, &e), &e);
    assert_int_equal(p.fixed + p.value_bytes, least);
    o.train.checkpoints_blocks = p.recomputes;
    o.train.value_bytes = p.value_bytes;
    assert_true(really(&w, &o) + p.host <= least);
    o.train.value_bytes = p.value_bytes / 2;
    struct tuning *t = tuning_new(w.m, &o, w.g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    assert_err(tuning_run(t, &is_done, &e), &e, ERR_NO_MEMORY, "that were planned");
    assert_int_equal(trainer_n_step(tuning_trainer(t)), 0);
    tuning_free(t);
    o.train.value_bytes = p.value_bytes;
    assert_true(really(&w, &o) + p.host <= least);
    world_release(&w);
}

/* The pages of a training in which every value is written. */
static void pages_are_planned(void **state)
{
    struct world w;
    struct train_plan p;
    struct err e = ERR_INIT;
    struct rusage use;
    long page = 0;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("skipped: a sanitizer's own pages are among the process's\n");
    skip();
#endif
    world_init(&w, K_BF16, 256);
    struct tuning_options o = options(&w, 0);
    assert_good(train_plan(w.m, w.g.device, &o, RECOMPUTE_OFF, false, 0, &p, &e), &e);
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &page), 1);
    fclose(f);
    double before = (double)page * 4096;
    really(&w, &o);
    getrusage(RUSAGE_SELF, &use);
    double grown = (double)use.ru_maxrss * 1024 - before, planned = (double)p.total;
    if (grown > 1.05 * planned + (16 << 20) || grown < 0.6 * planned)
        fail_msg("%.1f MB planned, the process grew by %.1f MB", planned / 1e6, grown / 1e6);
    print_message("%.1f MB planned, the process grew by %.1f MB\n", planned / 1e6, grown / 1e6);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_planned), /* first: the process has no other pages to use again
                                              */
        cmocka_unit_test(planned_is_held),
        cmocka_unit_test(a_copy_is_counted),
        cmocka_unit_test(memory_chooses),
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(held_out_rows_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
