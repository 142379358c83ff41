/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/train/vector_loss: slopes by differences; and whole trainings of models of vectors and of
 * labels beside sentence-transformers' and transformers' (tests/golden/make_vectors.py).
 *
 * Faults they can catch: a slope of the wrong sign, scale or mean; positives and negatives in
 * another order; a vector that is taken from another row, or is not the served one; a cut into
 * micro-batches, or a second run of a block, that is seen.
 */
#include "engine/train/vector_loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"
#include "tests/lib/golden.h"
#include "tests/lib/test.h"

/* ---- slopes -------------------------------------------------------------------------------- */

enum { N = 4, D = 5, ROWS = 3 * N };

static double loss_of(const struct train_vectors *o, const struct train_row *row, int64_t n_row,
                      const float *v)
{
    struct err e = ERR_INIT;
    struct vector_told told[ROWS];
    double sum = 0;
    int64_t n = n_row / o->n_each;
    assert_good(vector_loss(o, row, n_row, n, v, D, NULL, told, &e), &e);
    for (int64_t i = 0; i < n; i++)
        sum += told[i].loss;
    return sum / (double)n;
}

static void slopes(void **state)
{
    static const struct train_vectors all[] = {{TRAIN_CONTRAST, 20, 2},
                                               {TRAIN_CONTRAST, 3, 3},
                                               {TRAIN_CLASSES, 0, 1},
                                               {TRAIN_SIGMOIDS, 0, 1},
                                               {TRAIN_SQUARES, 0, 1}};
    static const float target[D] = {0, 1, 0, 0, 0};
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        const struct train_vectors *o = &all[k];
        struct train_row row[ROWS];
        float v[ROWS * D], grad[ROWS * D];
        int64_t n_row = N * o->n_each;
        struct err e = ERR_INIT;
        for (int64_t i = 0; i < n_row; i++)
            row[i] = (struct train_row){.target = target};
        for (int64_t i = 0; i < n_row * D; i++)
            v[i] = (float)sin((double)(7 * i + 1));
        assert_good(vector_loss(o, row, n_row, N, v, D, grad, NULL, &e), &e);
        for (int64_t i = 0; i < n_row * D; i++) {
            float was = v[i], step = 1e-3f;
            v[i] = was + step;
            double more = loss_of(o, row, n_row, v);
            v[i] = was - step;
            double less = loss_of(o, row, n_row, v);
            v[i] = was;
            double want = (more - less) / (2 * (double)step);
            if (fabs(want - (double)grad[i]) > 1e-4 + 1e-3 * fabs(want))
                fail_msg("loss %zu, number %lld: %g, by differences %g", k, (long long)i,
                         (double)grad[i], want);
        }
    }
}

/* ---- trainings ----------------------------------------------------------------------------- */

enum { STEPS = 10, BATCH = 4, EACH_MAX = 3, LENGTH_MAX = 32, LABELS_MAX = 3, PATH_BYTES = 256 };

struct run {
    const char *name, *model;
    int64_t n_each;
    enum train_vector_loss loss;
};

static const struct run runs[] = {
    {"bert_pairs", "bert_mean", 2, TRAIN_CONTRAST},
    {"qwen3_triplets", "qwen3_last", 3, TRAIN_CONTRAST},
    {"bert_all", "bert_mean", 3, TRAIN_CONTRAST},
    {"xlmr_labels", "xlmr_label", 1, TRAIN_CLASSES},
    {"xlmr_labels_all", "xlmr_label", 1, TRAIN_CLASSES},
    {"bert_scores_all", "bert_rank", 1, TRAIN_SIGMOIDS},
};

struct example {
    int32_t id[LENGTH_MAX], label[LENGTH_MAX];
    float logprob[LENGTH_MAX], target[LABELS_MAX];
};

struct world {
    struct golden g;
    struct json_doc *doc;
    struct json run, steps;
    struct train_options opt;
    char name[8][PATH_BYTES]; /* of targets */
    struct example x[STEPS * BATCH * EACH_MAX];
    struct train_row row[STEPS * BATCH * EACH_MAX];
    int64_t n_row;
};

static void take_text(struct world *w, const struct json *ids, const struct json *example)
{
    struct example *x = &w->x[w->n_row];
    struct json v, list;
    struct err e = ERR_INIT;
    int64_t n = 0, i = 0;
    json_each(v, *ids)
    {
        int64_t id;
        assert_good(json_as_int(&v, 0, 1000, &id, &e), &e);
        x->id[n++] = (int32_t)id;
    }
    for (int64_t k = 0; k < n; k++)
        x->label[k] = k == (w->g.model->cfg.pool == POOL_LAST ? n - 1 : 0) ? 0 : -1;
    if (json_member(example, "target").node) {
        assert_good(json_get(example, "target", JSON_ARRAY, &list, &e), &e);
        json_each(v, list)
        {
            double y;
            assert_good(json_as_num(&v, &y, &e), &e);
            x->target[i++] = (float)y;
        }
    }
    w->row[w->n_row++] = (struct train_row){
        .id = x->id,
        .label = x->label,
        .logprob = x->logprob,
        .target = x->target,
        .n = n,
        .n_first = json_member(example, "first").node ? (int64_t)golden_num(example, "first") : 0,
        .key = (uint64_t)w->n_row};
}

static void take_examples(struct world *w)
{
    struct json list, example, texts, ids;
    struct err e = ERR_INIT;
    assert_good(json_get(&w->run, "examples", JSON_ARRAY, &list, &e), &e);
    json_each(example, list)
    {
        assert_good(json_get(&example, "texts", JSON_ARRAY, &texts, &e), &e);
        json_each(ids, texts)
        {
            take_text(w, &ids, &example);
        }
    }
}

static void take_options(struct world *w, const struct run *r)
{
    struct json o, list, v;
    struct err e = ERR_INIT;
    struct json root = json_root(w->doc);
    assert_good(json_get(&root, "options", JSON_OBJECT, &o, &e), &e);
    w->opt = (struct train_options){
        .lora = {.rank = (int64_t)golden_num(&o, "r"), .alpha = golden_num(&o, "lora_alpha")},
        .vectors = {r->loss, golden_num(&o, "scale"), r->n_each},
        .lr = golden_num(&o, "lr"),
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = golden_num(&o, "eps"),
        .decay = golden_num(&o, "weight_decay"),
        .max_norm = golden_num(&o, "max_grad_norm"),
        .cap_tok = 1024};
    assert_good(json_get(&w->run, "targets", JSON_ARRAY, &list, &e), &e);
    json_each(v, list)
    {
        const char *said;
        assert_good(json_as_str(&v, &said, &e), &e);
        snprintf(w->name[w->opt.lora.n_target], PATH_BYTES, "%s", said);
        w->opt.lora.target[w->opt.lora.n_target] = w->name[w->opt.lora.n_target];
        w->opt.lora.n_target++;
    }
    if (w->opt.lora.n_target == 0)
        w->opt.lora.rank = 0;
}

static struct world *world_new(const struct run *r)
{
    struct world *w = xcalloc(1, sizeof *w);
    struct err e = ERR_INIT;
    struct json all;
    golden_init(&w->g, r->model, K_F32, 0);
    w->doc = json_read("tests/golden/vectors/golden.json", "golden.json", &json_rules_config, &e);
    assert_good(w->doc ? 0 : -1, &e);
    struct json root = json_root(w->doc);
    assert_good(json_get(&root, "runs", JSON_OBJECT, &all, &e), &e);
    assert_good(json_get(&all, r->name, JSON_OBJECT, &w->run, &e), &e);
    assert_good(json_get(&w->run, "steps", JSON_ARRAY, &w->steps, &e), &e);
    take_options(w, r);
    take_examples(w);
    assert_int_equal(w->n_row, STEPS * BATCH * r->n_each);
    return w;
}

static void world_free(struct world *w)
{
    json_free(w->doc);
    golden_release(&w->g);
    free(w);
}

static struct trainer *trainer_for(struct world *w)
{
    struct err e = ERR_INIT;
    struct trainer *t = trainer_new(w->g.model, &w->opt, w->g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

static struct weights *open_golden(const char *name, const char *kind)
{
    struct err e = ERR_INIT;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "tests/golden/vectors/%s%s.safetensors", name, kind);
    struct weights *t = weights_open_file(path, &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

/* PEFT's name of a half, or the file's of a parameter: it ends as ours. */
static const struct weight *find(const struct weights *w, const struct world *x, const char *name,
                                 bool is_half)
{
    char full[PATH_BYTES];
    const char *prefix = spec_prefix_of_class(&x->g.model->cfg);
    snprintf(full, sizeof full, "%s%s%s", is_half ? "base_model.model." : "", prefix, name);
    const struct weight *found = weights_get(w, full);
    return found || is_half ? found : weights_get(w, name);
}

static void load_first(struct world *w, struct trainer *t, const char *name)
{
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct weights *from = open_golden(name, ".first");
    for (size_t i = 0; i < on->list.n; i++) {
        struct train_tensor *x = &on->list.at[i];
        struct err e = ERR_INIT;
        const struct weight *v = find(from, w, x->name, true);
        if (!v)
            fail_msg("no %s in the adapter that %s begins with", x->name, name);
        assert_good(weight_read_f32(v, 0, weight_rows(v), x->p, &e), &e);
    }
    weights_close(from);
}

static void check_final(struct world *w, struct trainer *t, const char *name)
{
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct weights *want = open_golden(name, "");
    int n = 0;
    for (size_t i = 0; i < on->list.n; i++) {
        struct train_tensor *x = &on->list.at[i];
        struct err e = ERR_INIT;
        const struct weight *v = find(want, w, x->name, w->opt.lora.rank > 0);
        if (!v)
            continue;
        int64_t all = weight_rows(v) * weight_row_len(v);
        float *a = try_alloc((size_t)all, sizeof *a, "values", &e);
        float *b = try_alloc((size_t)all, sizeof *b, "values", &e);
        assert_good(weight_read_f32(v, 0, weight_rows(v), a, &e), &e);
        struct k_weight_unpack u = {.dst = b, .ld_dst = x->param ? x->param->k : 0};
        if (x->param && !x->param->is_vector) {
            u.w = x->param->w;
            kernel_run(device_kernels(w->g.device), K_weight_unpack, &u, NULL);
        } else
            memcpy(b, x->param ? x->param->vec : x->p, (size_t)all * sizeof *b);
        golden_near(x->name, b, a, all, 2e-3);
        mem_free(a);
        mem_free(b);
        n++;
    }
    assert_true(n >= 2);
    weights_close(want);
}

/* Ten steps; the losses. */
static void run_steps(struct world *w, struct trainer *t, struct train_result out[STEPS])
{
    int64_t n = w->n_row / STEPS;
    struct err e = ERR_INIT;
    for (int s = 0; s < STEPS; s++)
        assert_good(trainer_step(t, w->row + s * n, n, &out[s], &e), &e);
}

static void near(const char *name, int step, const char *what, double got, double want, double rel)
{
    if (!(fabs(got - want) <= rel * (fabs(want) + 1e-2)))
        fail_msg("%s, step %d: %s is %.9g, and %.9g elsewhere", name, step, what, got, want);
}

static void beside_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct world *w = world_new(&runs[i]);
        struct trainer *t = trainer_for(w);
        struct train_result got[STEPS];
        struct json step;
        int s = 0;
        if (w->opt.lora.rank)
            load_first(w, t, runs[i].name);
        run_steps(w, t, got);
        json_each(step, w->steps)
        {
            near(runs[i].name, s, "the loss", got[s].loss, golden_num(&step, "loss"), 2e-4);
            near(runs[i].name, s, "the norm", got[s].grad_norm, golden_num(&step, "grad_norm"),
                 2e-3);
            s++;
        }
        assert_int_equal(s, STEPS);
        check_final(w, t, runs[i].name);
        trainer_free(t);
        world_free(w);
    }
}

static void fail_step(struct world *w, struct trainer *t, int64_t n)
{
    struct train_result out;
    struct err e = ERR_INIT;
    int32_t id = w->x[1].id[0];
    w->x[1].id[0] = INT32_MAX;
    assert_err(trainer_step(t, w->row, n, &out, &e), &e, ERR_BAD_INPUT, "row 1");
    w->x[1].id[0] = id;
}

/* Faults: a step that is said to be taken though a row of it is none; one that leaves a trace. */
static void a_step_that_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct train_result got[2][STEPS];
        for (int fails = 0; fails < 2; fails++) {
            struct world *w = world_new(&runs[i]);
            struct trainer *t = trainer_for(w);
            if (fails)
                fail_step(w, t, BATCH * runs[i].n_each);
            run_steps(w, t, got[fails]);
            trainer_free(t);
            world_free(w);
        }
        for (int s = 0; s < STEPS; s++)
            assert_true(got[0][s].loss == got[1][s].loss &&
                        got[0][s].grad_norm == got[1][s].grad_norm);
    }
}

/* A cut changes no loss by a bit, and gradients in the order of their sums alone. */
static void cut_is_not_seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct train_result whole[STEPS], cut[STEPS], again[STEPS];
        struct train_result *to[] = {whole, cut, again};
        for (int k = 0; k < 3; k++) {
            struct world *w = world_new(&runs[i]);
            w->opt.cap_tok = k ? LENGTH_MAX : 1024;
            w->opt.checkpoints_blocks = k == 2;
            w->opt.lora.dropout = w->opt.lora.rank ? 0.1 : 0;
            struct trainer *t = trainer_for(w);
            run_steps(w, t, to[k]);
            trainer_free(t);
            world_free(w);
        }
        assert_true(whole[0].n_micro == 1 && cut[0].n_micro > 1);
        assert_true(whole[0].loss == cut[0].loss && whole[0].weight == BATCH);
        /* behind a first step of AdamW the sign of a gradient that is nearly zero counts */
        near(runs[i].name, 0, "the norm in parts", cut[0].grad_norm, whole[0].grad_norm, 1e-5);
        for (int s = 0; s < STEPS; s++)
            assert_true(cut[s].loss == again[s].loss && cut[s].grad_norm == again[s].grad_norm);
    }
}

/* One text alone, as serving has it. */
static void serve_one(struct runner *r, const struct train_row *row, float *to, int64_t d)
{
    struct batch *b = runner_batch(r);
    struct op_view out;
    struct err e = ERR_INIT;
    for (int64_t p = 0; p < row->n; p++) {
        b->token[p] = row->id[p];
        b->segment[p] = row->n_first && p >= row->n_first;
        b->pos[p] = b->turn[p] = (int32_t)p;
        b->seq_of[p] = 0;
        if (row->label[p] >= 0)
            b->out_row[0] = (int32_t)p;
    }
    b->kv_len[0] = b->q_start[1] = (int32_t)row->n;
    b->cell[0] = b->q_start[0] = 0;
    b->n[DIM_TOK] = row->n;
    b->n[DIM_SEQ] = b->n[DIM_OUT] = 1;
    b->n[DIM_GROUP] = 0;
    assert_good(runner_step(r, &out, &e), &e);
    memcpy(to, out.p, (size_t)d * sizeof *to);
}

/* Law 1: a loss is that of the numbers which serving gives, to the bit. */
static void served(const struct run *run, enum k_type type)
{
    struct world *w = world_new(run);
    struct err e = ERR_INIT;
    struct train_result got;
    struct vector_told told[BATCH];
    int64_t n = BATCH * run->n_each;
    golden_release(&w->g);
    golden_init(&w->g, run->model, type, 0);
    struct trainer *t = trainer_for(w);
    assert_good(trainer_eval(t, w->row, n, &got, &e), &e);
    trainer_free(t);
    struct runner_options o = {
        .cap = {[DIM_TOK] = 256, [DIM_OUT] = 8, [DIM_SEQ] = 8, [DIM_GROUP] = 1},
        .n_cell = 64,
        .passes = PASS_ALL,
        .output = MODEL_EMBED};
    struct runner *r = runner_new(w->g.model, &o, w->g.stream, &e);
    assert_good(r ? 0 : -1, &e);
    int64_t d = config_vector_cols(&w->g.model->cfg);
    float *v = try_alloc((size_t)(n * d), sizeof *v, "vectors", &e);
    for (int64_t i = 0; i < n; i++)
        serve_one(r, &w->row[i], v + i * d, d);
    assert_good(vector_loss(&w->opt.vectors, w->row, n, BATCH, v, d, NULL, told, &e), &e);
    double sum = 0;
    for (int64_t i = 0; i < BATCH; i++)
        sum += told[i].loss;
    assert_true(sum / BATCH == got.loss);
    mem_free(v);
    runner_free(r);
    world_free(w);
}

static void trained_is_served(void **state)
{
    static const enum k_type types[] = {K_F32, K_BF16};
    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
            if (!strstr(runs[i].name, "_all") || runs[i].loss == TRAIN_SIGMOIDS)
                served(&runs[i], types[k]);
    }
    served(&runs[0], K_INT8);
    served(&runs[3], K_INT8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes),
        cmocka_unit_test(beside_others),
        cmocka_unit_test(a_step_that_fails),
        cmocka_unit_test(cut_is_not_seen),
        cmocka_unit_test(trained_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
