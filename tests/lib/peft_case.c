/* SPDX-License-Identifier: Apache-2.0
 *
 * See peft_case.h. What a golden begins with is taken as an adapter that a training goes on from.
 */
#include "tests/lib/peft_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/load/path.h"
#include "engine/model/export.h"
#include "engine/sample/sampler.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/ancestor.h"
#include "engine/train/checkpoint.h"
#include "engine/train/state.h"
#include "tests/lib/adapted.h"
#include "tests/lib/test.h"

enum { PATH_BYTES = 300, STEPS = 20, TEXT_BYTES = 1 << 16 };

/* A case of a golden, with its model. */
struct one {
    char dir[PATH_BYTES];
    const char *name;
    struct json_doc *doc;
    struct json of;
    struct golden g;
    struct arena a;
};

static void one_init(struct one *o, const char *folder, const char *name)
{
    struct err e = ERR_INIT;
    char path[PATH_BYTES];
    const char *model;
    arena_init(&o->a, TEXT_BYTES);
    o->name = name;
    snprintf(o->dir, sizeof o->dir, "tests/golden/%s/%s", folder, name);
    snprintf(path, sizeof path, "tests/golden/%s/golden.json", folder);
    o->doc = json_read(path, "golden.json", &json_rules_config, &e);
    assert_good(o->doc ? 0 : -1, &e);
    struct json root = json_root(o->doc);
    assert_good(json_get(&root, name, JSON_OBJECT, &o->of, &e), &e);
    assert_good(json_get_str(&o->of, "model", &model, &e), &e);
    golden_init_short(&o->g, model, K_F32);
}

static void one_release(struct one *o)
{
    golden_release(&o->g);
    json_free(o->doc);
    arena_release(&o->a);
}

static void file_of(const struct one *o, const char *name, char path[PATH_BYTES])
{
    ASSERT(snprintf(path, PATH_BYTES, "%s/%s", o->dir, name) < PATH_BYTES);
}

static struct weights *open_file(const char *path)
{
    struct err e = ERR_INIT;
    struct weights *w = weights_open_file(path, &e);
    assert_good(w ? 0 : -1, &e);
    return w;
}

static float *tensor_of(const struct weights *w, const char *name, int64_t *n)
{
    struct err e = ERR_INIT;
    const struct weight *x = weights_get(w, name);
    if (!x)
        fail_msg("no tensor %s", name);
    *n = weight_rows(x) * weight_row_len(x);
    float *to = try_alloc((size_t)*n, sizeof *to, "tensor", &e);
    assert_good(weight_read_f32(x, 0, weight_rows(x), to, &e), &e);
    return to;
}

struct trainer *peft_case_trainer(struct golden *g, const struct train_options *o)
{
    struct err e = ERR_INIT;
    struct trainer *t = trainer_new(g->model, o, g->stream, &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

/* ---- against PEFT --------------------------------------------------------------------------- */

static struct trainer *begin(struct one *o)
{
    struct err e = ERR_INIT;
    char dir[PATH_BYTES];
    struct train_ancestor from;
    struct train_options to = {.lr = golden_num(&o->of, "lr"),
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = golden_num(&o->of, "eps"),
                               .decay = golden_num(&o->of, "weight_decay"),
                               .max_norm = golden_num(&o->of, "max_grad_norm"),
                               .cap_tok = 256};
    file_of(o, "first", dir);
    assert_good(train_ancestor_read(dir, &from, &to.lora, &o->a, &e), &e);
    if (json_member(&o->of, "loraplus_lr_ratio").node)
        to.lora.lr_ratio = golden_num(&o->of, "loraplus_lr_ratio");
    struct trainer *t = peft_case_trainer(&o->g, &to);
    from.dir = dir;
    assert_good(train_ancestor_load(&from, trainer_subject(t), &e), &e);
    return t;
}

/* A first moment is a tenth of the gradient, as it was clipped. */
static void near_moments(struct one *o, struct trainer *t)
{
    struct err e = ERR_INIT;
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct train_state state;
    char path[PATH_BYTES];
    if (!path_exists(o->dir, "moments.safetensors"))
        return;
    file_of(o, "moments.safetensors", path);
    struct weights *w = open_file(path);
    assert_int_equal(weights_count(w), on->list.n);
    train_state_begin(&state, on, o->g.stream);
    for (size_t i = 0; i < on->list.n; i++) {
        int64_t n, dim[2];
        float *want = tensor_of(w, on->list.at[i].name, &n), *got = xcalloc((size_t)n, sizeof *got);
        train_state_shape(&on->list.at[i], dim);
        assert_int_equal(n, dim[0] * dim[1]);
        assert_good(train_state_get(&state, i, TRAIN_MOMENT1, 0, dim[0], got, &e), &e);
        golden_near(on->list.at[i].name, got, want, n, 1e-4);
        mem_free(want);
        free(got);
    }
    assert_good(train_state_end(&state, 0, &e), &e);
    weights_close(w);
}

static void take_pefts_steps(struct one *o, struct trainer *t, const struct golden_rows *r)
{
    struct err e = ERR_INIT;
    struct json steps, s;
    assert_good(json_get(&o->of, "steps", JSON_ARRAY, &steps, &e), &e);
    json_each(s, steps)
    {
        int32_t at[2];
        struct train_result got;
        assert_int_equal(golden_ids(&s, "rows", at, 2), 2);
        struct train_row two[2] = {r->row[at[0]], r->row[at[1]]};
        assert_good(trainer_step(t, two, 2, &got, &e), &e);
        double loss = golden_num(&s, "loss"), norm = golden_num(&s, "grad_norm");
        if (fabs(got.loss - loss) > 1e-4 * loss || fabs(got.grad_norm - norm) > 1e-3 * norm)
            fail_msg("%s: step %lld: loss %.9g and norm %.9g, PEFT has %.9g and %.9g", o->name,
                     (long long)trainer_n_step(t), got.loss, got.grad_norm, loss, norm);
        if (trainer_n_step(t) == 1)
            near_moments(o, t);
    }
    assert_int_equal(trainer_n_step(t), STEPS);
}

/* Every tensor of the one file is in the other, of its shape, and near. */
static void near_files(const char *ours, const char *theirs)
{
    struct weights *a = open_file(ours), *b = open_file(theirs);
    assert_int_equal(weights_count(a), weights_count(b));
    for (size_t i = 0; i < weights_count(b); i++) {
        const struct st_tensor *t = weights_at(b, i)->t;
        int64_t n, m;
        float *got = tensor_of(a, t->name, &n), *want = tensor_of(b, t->name, &m);
        assert_int_equal(n, m);
        assert_int_equal(weights_get(a, t->name)->t->rank, t->rank);
        golden_near(t->name, got, want, n, 1e-3);
        mem_free(got);
        mem_free(want);
    }
    weights_close(a);
    weights_close(b);
}

void peft_case_steps(const char *folder, const char *const *names, size_t n)
{
    char *dir = test_dir_new();
    for (size_t i = 0; i < n; i++) {
        struct one o;
        struct err e = ERR_INIT;
        char ours[PATH_BYTES], theirs[PATH_BYTES];
        one_init(&o, folder, names[i]);
        struct golden_rows *r = golden_rows_new(&o.g);
        struct trainer *t = begin(&o);
        take_pefts_steps(&o, t, r);
        snprintf(ours, sizeof ours, "%s/%s", dir, names[i]);
        assert_good(adapter_dir_write(ours, trainer_subject(t), NULL, &e), &e);
        snprintf(ours, sizeof ours, "%s/%s/adapter_model.safetensors", dir, names[i]);
        file_of(&o, "last/adapter_model.safetensors", theirs);
        near_files(ours, theirs);
        trainer_free(t);
        free(r);
        one_release(&o);
    }
    test_dir_free(dir);
}

void peft_case_logits(const char *folder, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct one o;
        char path[PATH_BYTES];
        int64_t n_row, m;
        one_init(&o, folder, names[i]);
        file_of(&o, "logits.safetensors", path);
        struct weights *w = open_file(path);
        float *want = tensor_of(w, "logits", &m);
        file_of(&o, "last", path);
        float *got = adapted_prompt(&o.g, path, &n_row);
        assert_true(m <= n_row * o.g.model->cfg.n_vocab);
        golden_near(names[i], got, want, m, 1e-4);
        free(got);
        mem_free(want);
        weights_close(w);
        one_release(&o);
    }
}

/* ---- against itself ------------------------------------------------------------------------- */

void peft_case_take(struct trainer *t, const struct golden_rows *r, int n)
{
    struct err e = ERR_INIT;
    struct train_result got;
    for (int i = 0; i < n; i++)
        assert_good(trainer_step(t, r->row + i % (r->n - 1), 2, &got, &e), &e);
}

void peft_case_make(struct golden *g, const struct train_options *o, const char *dir)
{
    struct err e = ERR_INIT;
    struct golden_rows *r = golden_rows_new(g);
    struct trainer *t = peft_case_trainer(g, o);
    peft_case_take(t, r, 4);
    assert_good(adapter_dir_write(dir, trainer_subject(t), NULL, &e), &e);
    trainer_free(t);
    free(r);
}

/* Of the first row; what training says of it is in r, where evaluating left it. */
static void same_as_served(struct golden *g, struct trainer *t, const struct golden_rows *r,
                           const char *dir)
{
    struct err e = ERR_INIT;
    const struct train_row *row = &r->row[0];
    int64_t v = g->model->cfg.n_vocab;
    float *logits = xcalloc((size_t)(row->n * v), sizeof *logits);
    struct train_result got;
    assert_good(trainer_eval(t, row, 1, &got, &e), &e);
    assert_good(adapter_dir_write(dir, trainer_subject(t), NULL, &e), &e);
    struct adapter *a = adapted_load(g->model, dir);
    struct runner *run = adapted_runner(g, false);
    struct sampler *s = sampler_new(v, device_kernels(g->device), &e);
    adapted_step(g, run, &(struct adapted_part){a, row->id, 0, row->n, 0}, 1, logits);
    int64_t n = 0;
    for (int64_t i = 0; i < row->n; i++) {
        struct sample_taken taken;
        if (row->label[i] < 0)
            continue;
        assert_good(sampler_score(s, logits + i * v, row->label[i], 0, &taken, &e), &e);
        assert_memory_equal(&taken.logprob, &r->logprob[0][i], sizeof taken.logprob);
        n++;
    }
    assert_true(n > 0);
    sampler_free(s);
    runner_free(run);
    adapter_unref(a);
    free(logits);
}

void peft_case_served(struct golden *g, const struct train_options *o)
{
    char *dir = test_dir_new(), path[PATH_BYTES];
    struct golden_rows *r = golden_rows_new(g);
    struct trainer *t = peft_case_trainer(g, o);
    peft_case_take(t, r, 3);
    snprintf(path, sizeof path, "%s/adapter", dir);
    same_as_served(g, t, r, path);
    trainer_free(t);
    free(r);
    test_dir_free(dir);
}

void peft_case_among(struct golden *g, const char *all, const char *few, const char *none)
{
    int32_t token[ADAPTED_TOK];
    int64_t n = golden_ids(&g->root, "prompt", token, ADAPTED_TOK);
    struct adapter *a = adapted_load(g->model, all), *b = adapted_load(g->model, few),
                   *c = adapted_load(g->model, none);
    struct runner *r = adapted_runner(g, false), *eager = adapted_runner(g, true);
    const struct adapted_part mixed[] = {{c, token, 0, n - 1, 0},
                                         {a, token, 0, n - 4, 4},
                                         {NULL, token, 0, n - 1, 8},
                                         {b, token + 2, 0, n - 3, 12}};
    const struct adapted_part last[] = {{b, token, 0, 3, 0}, {NULL, token, 0, n, 4}};
    const struct adapted_part rest[] = {{c, token, 0, 3, 0}, {NULL, token, 0, n, 4}};
    adapted_same_rows(g, r, eager, mixed, 4, 4 * n - 9);
    adapted_same_rows(g, r, eager, last, 2, n + 3);
    adapted_same_rows(g, r, eager, rest, 2, n + 3);
    runner_free(r);
    runner_free(eager);
    adapter_unref(a);
    adapter_unref(b);
    adapter_unref(c);
}

static void resumes(const char *model, enum k_type type, const struct train_options *o)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_result straight, after;
    struct checkpoint c = {.step = 3, .subject = "1"};
    char *dir = test_dir_new();
    golden_init_short(&g, model, type);
    struct golden_rows *r = golden_rows_new(&g);
    struct trainer *t = peft_case_trainer(&g, o), *again = peft_case_trainer(&g, o);
    peft_case_take(t, r, 3);
    assert_good(checkpoint_open(dir, &e), &e);
    assert_good(checkpoint_save(dir, &c, &trainer_subject(t)->tensors, g.stream, &e), &e);
    assert_good(checkpoint_load(dir, &c, &trainer_subject(again)->tensors, g.stream, &e), &e);
    trainer_set_step(again, 3);
    for (int s = 0; s < 3; s++) {
        assert_good(trainer_step(t, r->row + s, 2, &straight, &e), &e);
        assert_good(trainer_step(again, r->row + s, 2, &after, &e), &e);
        assert_memory_equal(&straight.loss, &after.loss, sizeof straight.loss);
        assert_memory_equal(&straight.grad_norm, &after.grad_norm, sizeof after.grad_norm);
    }
    trainer_free(t);
    trainer_free(again);
    free(r);
    golden_release(&g);
    test_dir_free(dir);
}

void peft_case_resumes(const char *model, enum k_type type, const struct train_options *o)
{
    struct train_options with = *o;
    for (int i = 0; i < 2; i++) {
        with.has_codes = i;
        resumes(model, type, &with);
    }
}

void peft_case_merges(struct golden *g, const char *adapter, const char *merged)
{
    struct err e = ERR_INIT;
    struct model_dir of;
    struct model_options mo = {.type = K_F32, .kv_type = K_F32, .ctx = g->model->ctx};
    int64_t n;
    float *want = adapted_prompt(g, adapter, &n);
    assert_good(model_export_merged(&g->dir, g->model, adapter, merged, &e), &e);
    assert_good(model_dir_init(&of, merged, &e), &e);
    struct model *base = g->model;
    g->model = model_load(&of, &mo, g->device, &e);
    assert_good(g->model ? 0 : -1, &e);
    float *got = adapted_prompt(g, NULL, &n);
    golden_near("merged", got, want, n * g->model->cfg.n_vocab, 1e-4);
    model_free(g->model);
    g->model = base;
    model_dir_release(&of);
    free(want);
    free(got);
}
