/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters on the experts of tiny mixtures beside what PEFT computes with them
 * (tests/golden/make_expert_adapters.py): one pair of tensors for all experts of a layer, whose
 * gate and up stand apart or by turns, beside biases or without; and pairs of each expert's own.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/load/path.h"
#include "engine/load/st_writer.h"
#include "engine/model/export.h"
#include "engine/sample/sampler.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/ancestor.h"
#include "engine/train/label_loss.h"
#include "tests/lib/adapted.h"
#include "tests/lib/golden_rows.h"

enum { PATH_BYTES = 300, SEQS = ADAPTED_SEQS, TOK_MAX = ADAPTED_TOK };

static const char *const names[] = {"qwen3_moe", "mixtral", "gpt_oss", "gemma4_experts"};
enum { N_NAME = 4, N_APART = 2 /* of which the first have pairs of their own */ };

static const char *path_of(const char *name, const char *sub, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "tests/golden/models/%s/%s", name, sub);
    return path;
}

/* A golden with the numbers of its adapters in place of its own tensors. */
struct adapted {
    struct golden g;
    struct weights *tensors;
    struct json_doc *doc;
    struct json root;
    int32_t token[TOK_MAX];
    int64_t n;    /* tokens */
    int64_t size; /* logits of all of them */
    float *want, *got;
};

static void adapted_init(struct adapted *a, const char *name, enum k_type type)
{
    char path[PATH_BYTES];
    struct err e = ERR_INIT;
    golden_init_short(&a->g, name, type);
    a->tensors = weights_open_file(path_of(name, "experts.safetensors", path), &e);
    assert_good(a->tensors ? 0 : -1, &e);
    a->doc = json_read(path_of(name, "experts.json", path), "experts.json", &json_rules_config, &e);
    assert_good(a->doc ? 0 : -1, &e);
    a->root = json_root(a->doc);
    a->n = golden_ids(&a->g.root, "prompt", a->token, TOK_MAX);
    a->size = a->n * a->g.model->cfg.n_vocab;
    a->want = xcalloc((size_t)(SEQS * a->size), sizeof *a->want);
    a->got = xcalloc((size_t)(SEQS * a->size), sizeof *a->got);
}

static void adapted_release(struct adapted *a)
{
    free(a->want);
    free(a->got);
    json_free(a->doc);
    weights_close(a->tensors);
    golden_release(&a->g);
}

static float *read_whole(const struct weights *w, const char *name, int64_t *n)
{
    struct err e = ERR_INIT;
    const struct weight *x = weights_get(w, name);
    if (!x)
        fail_msg("no %s", name);
    *n = weight_rows(x) * weight_row_len(x);
    float *to = xcalloc((size_t)*n, sizeof *to);
    assert_good(weight_read_f32(x, 0, weight_rows(x), to, &e), &e);
    return to;
}

/* ---- against PEFT --------------------------------------------------------------------------- */

static void near_logits(struct adapted *a, const char *dir, const char *tensor)
{
    int64_t n;
    float *want = read_whole(a->tensors, tensor, &n);
    struct runner *r = adapted_runner(&a->g, false);
    struct adapter *on = adapted_load(a->g.model, dir);
    assert_int_equal(n, a->size);
    adapted_step(&a->g, r, &(struct adapted_part){on, a->token, 0, a->n, 0}, 1, a->got);
    golden_near(dir, a->got, want, n, 1e-4);
    adapter_unref(on);
    runner_free(r);
    free(want);
}

/* Faults: an expert that has another's halves, a B whose experts are read one behind the other, the
 * inner of two parameters taken for the outer, outputs that come by turns, a scale; of pairs of
 * their own gate's A for up's. */
static void logits_are_pefts(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        struct adapted a;
        char path[PATH_BYTES];
        adapted_init(&a, names[i], K_F32);
        near_logits(&a, path_of(names[i], "experts", path), "logits");
        if (i < N_APART)
            near_logits(&a, path_of(names[i], "experts_apart", path), "logits_apart");
        adapted_release(&a);
    }
}

static void options_of(const struct json *said, struct train_options *o)
{
    train_options_default(o);
    *o = (struct train_options){.lora = {.rank = (int64_t)golden_num(said, "r"),
                                         .alpha = golden_num(said, "lora_alpha"),
                                         .target = {"q_proj", "v_proj", "experts"},
                                         .n_target = 3},
                                .lr = golden_num(said, "lr"),
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = golden_num(said, "eps"),
                                .decay = golden_num(said, "weight_decay"),
                                .max_norm = golden_num(said, "max_grad_norm"),
                                .cap_tok = 256};
}

/* A trainer that goes on from an adapter. */
static struct trainer *trainer_from(struct adapted *a, const char *dir)
{
    struct train_options o;
    struct train_ancestor from;
    struct train_lora lora;
    struct arena names_of;
    struct err e = ERR_INIT;
    options_of(&a->root, &o);
    struct trainer *t = trainer_new(a->g.model, &o, a->g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    bool is_gemma = a->g.model->cfg.family == FAMILY_GEMMA4;
    arena_init(&names_of, 4096);
    assert_good(train_ancestor_read(dir, &from, &lora, &names_of, &e), &e);
    assert_true(train_lora_same_targets(
        &lora, &(struct train_lora){
                   .target = {"q_proj", "v_proj",
                              is_gemma ? "experts.gate_up_proj" : "mlp.experts.gate_up_proj",
                              is_gemma ? "experts.down_proj" : "mlp.experts.down_proj"},
                   .n_target = 4}));
    assert_good(train_ancestor_load(&from, trainer_subject(t), &e), &e);
    arena_release(&names_of);
    return t;
}

/* What the trainer holds, written as a directory, beside tensors whose names have `kind` before. */
static void near_tensors(struct trainer *t, const struct weights *want, const char *kind,
                         double rel)
{
    char path[PATH_BYTES], *dir = test_dir_new(), *to = path_join(dir, "out");
    struct err e = ERR_INIT;
    assert_good(adapter_dir_write(to, trainer_subject(t), NULL, &e), &e);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", to);
    struct weights *got = weights_open_file(path, &e);
    assert_good(got ? 0 : -1, &e);
    for (size_t i = 0; i < weights_count(got); i++) {
        const struct weight *g = weights_at(got, i), *w;
        int64_t n;
        snprintf(path, sizeof path, "%s%s", kind, g->t->name);
        w = weights_get(want, path);
        if (!w || weight_rows(g) != weight_rows(w))
            fail_msg("%s is not there, or in another shape", path);
        float *x = read_whole(got, g->t->name, &n), *y = read_whole(want, path, &n);
        golden_near(path, x, y, n, rel);
        free(x);
        free(y);
    }
    weights_close(got);
    free(to);
    test_dir_free(dir);
}

static void near_written(struct trainer *t, const char *golden, double rel)
{
    char *path = path_join(golden, "adapter_model.safetensors");
    struct err e = ERR_INIT;
    struct weights *want = weights_open_file(path, &e);
    assert_good(want ? 0 : -1, &e);
    assert_int_equal(trainer_subject(t)->tensors.list.n, weights_count(want));
    near_tensors(t, want, "", rel);
    weights_close(want);
    free(path);
}

/* Faults: a tensor that is written in another order than it is read in, or under another name. */
static void what_is_read_is_written(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        struct adapted a;
        char path[PATH_BYTES];
        adapted_init(&a, names[i], K_F32);
        path_of(names[i], "experts", path);
        struct trainer *t = trainer_from(&a, path);
        near_written(t, path, 0);
        trainer_free(t);
        adapted_release(&a);
    }
}

/* The gradients take the values' place, so that they are written as these are. */
static void near_gradients(struct adapted *a, struct trainer *t, const struct golden_rows *r)
{
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct label_loss loss = {.kind = LABEL_CROSS_ENTROPY};
    struct train_result got;
    struct err e = ERR_INIT;
    float ones[2][GOLDEN_ROW_MAX];
    struct train_row two[2] = {r->row[0], r->row[1]};
    for (int i = 0; i < GOLDEN_ROW_MAX; i++)
        ones[0][i] = ones[1][i] = 1;
    for (int i = 0; i < 2; i++)
        two[i].counts = ones[i];
    assert_good(trainer_pass(t, two, 2, &loss, true, &got, &e), &e);
    for (size_t i = 0; i < on->list.n; i++) {
        const struct train_tensor *x = &on->list.at[i];
        for (int64_t k = 0; k < x->rows * x->cols; k++)
            x->p[k] = x->g[k] / (float)got.n_label;
    }
    near_tensors(t, a->tensors, "grad.", 1e-4);
}

/* Faults: the gradient of either half; that of what a row's experts count, or of the rows, without
 * what adapters add; a weight of a row that counts twice or not at all. */
static void gradients_and_steps_are_pefts(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        struct adapted a;
        struct err e = ERR_INIT;
        struct json steps, s;
        char path[PATH_BYTES];
        adapted_init(&a, names[i], K_F32);
        struct golden_rows *r = golden_rows_new(&a.g);
        struct trainer *t = trainer_from(&a, path_of(names[i], "experts", path));
        assert_good(json_get(&a.root, "steps", JSON_ARRAY, &steps, &e), &e);
        json_each(s, steps)
        {
            int32_t at[2];
            struct train_result got;
            assert_int_equal(golden_ids(&s, "rows", at, 2), 2);
            struct train_row two[2] = {r->row[at[0]], r->row[at[1]]};
            assert_good(trainer_step(t, two, 2, &got, &e), &e);
            double loss = golden_num(&s, "loss"), norm = golden_num(&s, "grad_norm");
            if (fabs(got.loss - loss) > 1e-4 * loss || fabs(got.grad_norm - norm) > 1e-3 * norm)
                fail_msg("%s: loss %.9g and norm %.9g, the golden has %.9g and %.9g", names[i],
                         got.loss, got.grad_norm, loss, norm);
        }
        near_written(t, path_of(names[i], "experts_final", path), 1e-3);
        trainer_free(t);
        t = trainer_from(&a, path_of(names[i], "experts", path));
        near_gradients(&a, t, r);
        trainer_free(t);
        free(r);
        adapted_release(&a);
    }
}

/* Faults: what a merged model's files hold is not what the adapter does. */
static void merged_files_have_the_adapters_logits(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME + N_APART; i++) {
        struct adapted a;
        struct model_dir dir;
        struct err e = ERR_INIT;
        char path[PATH_BYTES], *root = test_dir_new(), *to = path_join(root, "merged");
        const char *name = names[i % N_NAME];
        int64_t n;
        adapted_init(&a, name, K_F32);
        struct model_options mo = {.type = K_F32, .kv_type = K_F32, .ctx = a.g.model->ctx};
        path_of(name, i < N_NAME ? "experts" : "experts_apart", path);
        assert_good(model_export_merged(&a.g.dir, a.g.model, path, to, &e), &e);
        assert_good(model_dir_init(&dir, to, &e), &e);
        struct model *base = a.g.model, *merged = model_load(&dir, &mo, a.g.device, &e);
        assert_good(merged ? 0 : -1, &e);
        a.g.model = merged;
        struct runner *r = adapted_runner(&a.g, false);
        adapted_step(&a.g, r, &(struct adapted_part){NULL, a.token, 0, a.n, 0}, 1, a.got);
        float *want = read_whole(a.tensors, i < N_NAME ? "logits" : "logits_apart", &n);
        golden_near(name, a.got, want, n, 1e-4);
        free(want);
        runner_free(r);
        a.g.model = base;
        model_free(merged);
        model_dir_release(&dir);
        adapted_release(&a);
        free(to);
        test_dir_free(root);
    }
}

/* ---- against itself ------------------------------------------------------------------------- */

static const enum k_type types[] = {K_F32, K_BF16, K_INT8};

static void same_rows(const struct adapted *a, const float *x, const float *y, int64_t n)
{
    assert_memory_equal(x, y, (size_t)(n * a->g.model->cfg.n_vocab) * sizeof *x);
}

/* Faults: routed rows that get another group's adapter, sums whose order depends on who is beside
 * or how a text was cut, a plan that differs from eager. */
static void rows_are_each_alone_however_cut(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME * 3; i++) {
        struct adapted a;
        char path[PATH_BYTES];
        const char *name = names[i / 3];
        adapted_init(&a, name, types[i % 3]);
        struct adapter *x = adapted_load(a.g.model, path_of(name, "experts", path)),
                       *y = adapted_load(a.g.model, path_of(name, "experts_final", path));
        struct runner *r = adapted_runner(&a.g, false), *eager = adapted_runner(&a.g, true);
        struct adapted_part p[SEQS] = {{x, a.token, 0, a.n, 0},
                                       {NULL, a.token, 0, a.n - 4, 4},
                                       {y, a.token, 0, a.n - 1, 8},
                                       {x, a.token + 2, 0, a.n - 3, 12}};
        int64_t v = a.g.model->cfg.n_vocab;
        float *at = a.want;
        adapted_step(&a.g, r, p, SEQS, a.want);
        adapted_step(&a.g, eager, p, SEQS, a.got);
        same_rows(&a, a.got, a.want, 4 * a.n - 8);
        for (int s = 0; s < SEQS; at += p[s++].n * v) {
            adapted_step(&a.g, r, &p[s], 1, a.got);
            same_rows(&a, at, a.got, p[s].n);
        }
        assert_memory_not_equal(a.want, a.want + (2 * a.n - 4) * v, (size_t)v * sizeof *a.want);
        struct adapted_part part = p[0]; /* in pieces of 1, 2, 3, ... tokens */
        for (part.pos = 0, part.n = 1; part.pos < a.n; part.pos += part.n, part.n++) {
            part.n = part.n < a.n - part.pos ? part.n : a.n - part.pos;
            adapted_step(&a.g, r, &part, 1, a.got);
            same_rows(&a, a.want + part.pos * v, a.got, part.n);
        }
        runner_free(r);
        runner_free(eager);
        adapter_unref(x);
        adapter_unref(y);
        adapted_release(&a);
    }
}

/* Faults: a served product in another order than the trained one, or one that reads other rows. */
static void a_served_logprob_is_the_trained_one(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME * 3; i++) {
        struct adapted a;
        struct err e = ERR_INIT;
        struct train_result got;
        char path[PATH_BYTES];
        float logprob[TOK_MAX];
        int32_t label[TOK_MAX];
        adapted_init(&a, names[i / 3], types[i % 3]);
        path_of(names[i / 3], "experts", path);
        struct trainer *t = trainer_from(&a, path);
        struct adapter *on = adapted_load(a.g.model, path);
        struct runner *r = adapted_runner(&a.g, false);
        struct sampler *s = sampler_new(a.g.model->cfg.n_vocab, device_kernels(a.g.device), &e);
        for (int64_t k = 0; k < a.n; k++)
            label[k] = a.token[(k + 1) % a.n];
        struct train_row row = {.id = a.token, .label = label, .logprob = logprob, .n = a.n};
        assert_good(trainer_eval(t, &row, 1, &got, &e), &e);
        adapted_step(&a.g, r, &(struct adapted_part){on, a.token, 0, a.n, 0}, 1, a.got);
        for (int64_t k = 0; k < a.n; k++) {
            struct sample_taken taken;
            assert_good(
                sampler_score(s, a.got + k * a.g.model->cfg.n_vocab, label[k], 0, &taken, &e), &e);
            assert_memory_equal(&taken.logprob, &logprob[k], sizeof taken.logprob);
        }
        sampler_free(s);
        runner_free(r);
        adapter_unref(on);
        trainer_free(t);
        adapted_release(&a);
    }
}

/* ---- what is wrong -------------------------------------------------------------------------- */

/* The directory without the tensors whose names have `end` in them. */
static void copy_without(const char *from, const char *to, const char *end)
{
    struct err e = ERR_INIT;
    char *in = path_join(from, "adapter_model.safetensors"),
         *out = path_join(to, "adapter_model.safetensors");
    struct weights *w = weights_open_file(in, &e);
    struct st_writer *x = st_writer_new();
    const struct st_tensor *next;
    struct buf config;
    int64_t n;
    assert_good(w ? 0 : -1, &e);
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct st_tensor *t = weights_at(w, i)->t;
        if (!strstr(t->name, end))
            assert_good(st_writer_add(x, t->name, ST_F32, 2, t->dim, &e), &e);
    }
    assert_good(st_writer_open(x, out, &e), &e);
    while ((next = st_writer_next(x))) {
        float *all = read_whole(w, next->name, &n);
        assert_good(st_writer_write(x, all, (size_t)n * sizeof *all, &e), &e);
        free(all);
    }
    assert_good(st_writer_commit(x, &e), &e);
    st_writer_free(x);
    weights_close(w);
    free(in);
    free(out);
    buf_init(&config, 1 << 16);
    in = path_join(from, "adapter_config.json");
    assert_good(fs_read(in, &config, &e), &e);
    free(in);
    out = path_join(to, "adapter_config.json");
    assert_good(aside_put(out, config.data, config.len, &e), &e);
    free(out);
    buf_release(&config);
}

/* Faults: a half, an expert or a product that is missing and taken for zeros. */
static void what_lacks_is_named(void **state)
{
    static const struct {
        const char *sub, *without, *words;
    } bad[] = {
        {"experts", "layers.1.mlp.experts.lora_B", "its other half is not"},
        {"experts", "layers.0.mlp.experts.base_layer", "layers.0.mlp.experts.gate_up_proj"},
        {"experts_apart", "layers.1.mlp.experts.2.up_proj.lora_A", "its other half is not"},
        {"experts_apart", "layers.1.mlp.experts.2.up_proj", "all experts of a layer have, or none"},
    };
    struct adapted a;
    struct adapter_budget plenty = {.bytes_max = 1 << 30};
    struct adapter_options o = {.name = "x", .version = 1, .rank_max = 64, .budget = &plenty};
    (void)state;
    adapted_init(&a, "qwen3_moe", K_F32);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = ERR_INIT;
        char path[PATH_BYTES], *dir = test_dir_new();
        copy_without(path_of("qwen3_moe", bad[i].sub, path), dir, bad[i].without);
        assert_err(adapter_load(a.g.model, dir, &o, &e) == NULL, &e, ERR_BAD_INPUT, bad[i].words);
        test_dir_free(dir);
    }
    adapted_release(&a);
}

/* ---- what is asked for ---------------------------------------------------------------------- */

static size_t trained_tensors(struct adapted *a, const struct train_lora *lora, struct err *e)
{
    struct train_options o;
    options_of(&a->root, &o);
    o.lora = *lora;
    struct trainer *t = trainer_new(a->g.model, &o, a->g.stream, e);
    size_t n = t ? trainer_subject(t)->tensors.list.n : 0;
    trainer_free(t);
    return n;
}

/* Faults: experts that are adapted though nobody named them, or by a name that other products have;
 * dropout that PEFT would not read again. */
static void experts_are_named(void **state)
{
    struct adapted a;
    struct err e = ERR_INIT;
    (void)state;
    adapted_init(&a, "qwen3_moe", K_F32);
    int64_t layers = a.g.model->cfg.n_layer;
    struct train_lora l = {.rank = 2, .alpha = 4};
    assert_int_equal(trained_tensors(&a, &l, &e), 2 * 4 * layers);
    l.target[0] = "down_proj";
    l.n_target = 1;
    assert_int_equal(trained_tensors(&a, &l, &e), 0);
    assert_non_null(strstr(e.msg, "down_proj"));
    l.target[0] = "experts.down_proj";
    assert_int_equal(trained_tensors(&a, &l, &e), 2 * layers);
    l.target[0] = "experts";
    assert_int_equal(trained_tensors(&a, &l, &e), 2 * 2 * layers);
    l.dropout = 0.1;
    assert_int_equal(trained_tensors(&a, &l, &e), 0);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "lora_dropout"));
    adapted_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_pefts),
        cmocka_unit_test(what_is_read_is_written),
        cmocka_unit_test(gradients_and_steps_are_pefts),
        cmocka_unit_test(merged_files_have_the_adapters_logits),
        cmocka_unit_test(rows_are_each_alone_however_cut),
        cmocka_unit_test(a_served_logprob_is_the_trained_one),
        cmocka_unit_test(what_lacks_is_named),
        cmocka_unit_test(experts_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
