/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices that are trained whole beside an adapter: PEFT's steps and files, ours to the bit from
 * training to serving, among others and behind a checkpoint, and what is refused.
 * tests/golden/make_saved.py made the goldens.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/model/export.h"
#include "engine/sample/sampler.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/ancestor.h"
#include "engine/train/checkpoint.h"
#include "engine/train/trainer.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/adapted.h"
#include "tests/lib/golden_rows.h"

enum { PATH_BYTES = 300, STEPS = 20, TEXT_BYTES = 1 << 16 };

static struct json_doc *open_golden(struct json *root)
{
    struct err e = ERR_INIT;
    struct json_doc *doc =
        json_read("tests/golden/saved/golden.json", "golden.json", &json_rules_config, &e);
    assert_good(doc ? 0 : -1, &e);
    *root = json_root(doc);
    return doc;
}

static struct trainer *trainer_for(struct golden *g, const struct train_options *o)
{
    struct err e = ERR_INIT;
    struct trainer *t = trainer_new(g->model, o, g->stream, &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

/* ---- against PEFT --------------------------------------------------------------------------- */

/* The golden's adapter before its first step, taken as one that a training goes on from. */
static struct trainer *begin_as_peft(struct golden *g, const char *name, const struct json *of,
                                     struct arena *a)
{
    struct err e = ERR_INIT;
    char dir[PATH_BYTES];
    struct train_ancestor from;
    struct train_options o = {.lr = golden_num(of, "lr"),
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .eps = golden_num(of, "eps"),
                              .decay = golden_num(of, "weight_decay"),
                              .max_norm = golden_num(of, "max_grad_norm"),
                              .cap_tok = 256};
    snprintf(dir, sizeof dir, "tests/golden/saved/%s/first", name);
    assert_good(train_ancestor_read(dir, &from, &o.lora, a, &e), &e);
    struct trainer *t = trainer_for(g, &o);
    from.dir = dir;
    assert_good(train_ancestor_load(&from, trainer_subject(t), &e), &e);
    return t;
}

static void take_pefts_steps(struct trainer *t, const char *name, const struct golden_rows *r,
                             const struct json *of)
{
    struct err e = ERR_INIT;
    struct json steps, s;
    assert_good(json_get(of, "steps", JSON_ARRAY, &steps, &e), &e);
    json_each(s, steps)
    {
        int32_t at[2];
        struct train_result got;
        assert_int_equal(golden_ids(&s, "rows", at, 2), 2);
        struct train_row two[2] = {r->row[at[0]], r->row[at[1]]};
        assert_good(trainer_step(t, two, 2, &got, &e), &e);
        double loss = golden_num(&s, "loss"), norm = golden_num(&s, "grad_norm");
        if (fabs(got.loss - loss) > 1e-4 * loss || fabs(got.grad_norm - norm) > 1e-3 * norm)
            fail_msg("%s: step %lld: loss %.9g and norm %.9g, PEFT has %.9g and %.9g", name,
                     (long long)trainer_n_step(t), got.loss, got.grad_norm, loss, norm);
    }
    assert_int_equal(trainer_n_step(t), STEPS);
}

static float *tensor_of(struct weights *w, const char *name, int64_t *n)
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

/* Every tensor of the one file is in the other, and near. */
static void near_files(const char *ours, const char *theirs)
{
    struct err e = ERR_INIT;
    struct weights *a = weights_open_file(ours, &e), *b = weights_open_file(theirs, &e);
    assert_good(a && b ? 0 : -1, &e);
    assert_int_equal(weights_count(a), weights_count(b));
    for (size_t i = 0; i < weights_count(b); i++) {
        const char *name = weights_at(b, i)->t->name;
        int64_t n, m;
        float *got = tensor_of(a, name, &n), *want = tensor_of(b, name, &m);
        assert_int_equal(n, m);
        golden_near(name, got, want, n, 1e-3);
        mem_free(got);
        mem_free(want);
    }
    weights_close(a);
    weights_close(b);
}

/* Faults: a matrix whose gradient misses rows, or those of the lm_head where both are tied in the
 * model; one that does not decay, or has other moments; a name that is not PEFT's. */
static void steps_and_files_are_pefts(void **state)
{
    static const char *const names[] = {"both", "head_apart", "wte_apart"};
    struct json root, of;
    struct json_doc *doc = open_golden(&root);
    char *dir = test_dir_new();
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        struct arena a;
        const char *model;
        char ours[PATH_BYTES], theirs[PATH_BYTES];
        arena_init(&a, TEXT_BYTES);
        assert_good(json_get(&root, names[i], JSON_OBJECT, &of, &e), &e);
        assert_good(json_get_str(&of, "model", &model, &e), &e);
        golden_init_short(&g, model, K_F32);
        struct golden_rows *r = golden_rows_new(&g);
        struct trainer *t = begin_as_peft(&g, names[i], &of, &a);
        take_pefts_steps(t, names[i], r, &of);
        snprintf(ours, sizeof ours, "%s/%s", dir, names[i]);
        assert_good(adapter_dir_write(ours, trainer_subject(t), NULL, &e), &e);
        snprintf(ours, sizeof ours, "%s/%s/adapter_model.safetensors", dir, names[i]);
        snprintf(theirs, sizeof theirs, "tests/golden/saved/%s/last/adapter_model.safetensors",
                 names[i]);
        near_files(ours, theirs);
        trainer_free(t);
        free(r);
        golden_release(&g);
        arena_release(&a);
    }
    json_free(doc);
    test_dir_free(dir);
}

static float *prompt_logits(struct golden *g, const char *dir, int64_t *n)
{
    int32_t token[ADAPTED_TOK];
    *n = golden_ids(&g->root, "prompt", token, ADAPTED_TOK);
    float *to = xcalloc((size_t)(*n * g->model->cfg.n_vocab), sizeof *to);
    struct adapter *a = dir ? adapted_load(g->model, dir) : NULL;
    struct runner *r = adapted_runner(g, false);
    adapted_step(g, r, &(struct adapted_part){a, token, 0, *n, 0}, 1, to);
    runner_free(r);
    adapter_unref(a);
    return to;
}

/* Faults: a table that stands in for the lm_head as well where the model ties them and the adapter
 * does not, or does not where it does; a matrix that is not scaled as the model's is. */
static void logits_are_pefts(void **state)
{
    static const struct {
        const char *name, *model;
    } of[] = {
        {"both", "gemma3"}, {"head_apart", "qwen2"}, {"wte_apart", "gpt2"}, {"tied", "qwen2"}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        char path[PATH_BYTES];
        int64_t n, m;
        golden_init_short(&g, of[i].model, K_F32);
        snprintf(path, sizeof path, "tests/golden/saved/%s/logits.safetensors", of[i].name);
        struct weights *w = weights_open_file(path, &e);
        assert_good(w ? 0 : -1, &e);
        float *want = tensor_of(w, "logits", &m);
        snprintf(path, sizeof path, "tests/golden/saved/%s/last", of[i].name);
        float *got = prompt_logits(&g, path, &n);
        assert_true(m <= n * g.model->cfg.n_vocab);
        golden_near(of[i].name, got, want, m, 1e-4);
        free(got);
        mem_free(want);
        weights_close(w);
        golden_release(&g);
    }
}

/* ---- against itself ------------------------------------------------------------------------- */

static const struct train_options some = {.lora = {.rank = 4,
                                                   .alpha = 8,
                                                   .target = {"q_proj", "down_proj"},
                                                   .n_target = 2,
                                                   .saves = TRAIN_SAVES_EMBED | TRAIN_SAVES_HEAD},
                                          .lr = 1e-2,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .decay = 0.01,
                                          .max_norm = 1,
                                          .seed = 5,
                                          .cap_tok = 256};

static void take_steps(struct trainer *t, const struct golden_rows *r, int n)
{
    struct err e = ERR_INIT;
    struct train_result got;
    for (int i = 0; i < n; i++)
        assert_good(trainer_step(t, r->row + i % (r->n - 1), 2, &got, &e), &e);
}

/* What serving gives the first row's labels with what is trained now. */
static void check_served(struct golden *g, struct trainer *t, const struct golden_rows *r,
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

/* Faults: a matrix written otherwise than products read it, a product of serving with other sums
 * than training's, one that stands in for a neighbour's rows. */
static void what_is_served_is_what_was_trained(void **state)
{
    static const struct {
        const char *model;
        enum k_type type;
        unsigned saves;
    } of[] = {{"llama_plain", K_F32, 3}, {"llama_plain", K_BF16, 3}, {"qwen2", K_BF16, 2},
              {"qwen2", K_BF16, 1},      {"gemma2", K_BF16, 3},      {"qwen2", K_F32, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct golden g;
        char *dir = test_dir_new(), path[PATH_BYTES];
        struct train_options o = some;
        golden_init_short(&g, of[i].model, of[i].type);
        struct golden_rows *r = golden_rows_new(&g);
        o.lora.saves = of[i].saves;
        struct trainer *t = trainer_for(&g, &o);
        take_steps(t, r, 3);
        snprintf(path, sizeof path, "%s/adapter", dir);
        check_served(&g, t, r, path);
        trainer_free(t);
        free(r);
        golden_release(&g);
        test_dir_free(dir);
    }
}

/* An adapter of `saves`, trained for some steps into dir. */
static void make_adapter(struct golden *g, unsigned saves, const char *dir)
{
    struct err e = ERR_INIT;
    struct train_options o = some;
    struct golden_rows *r = golden_rows_new(g);
    o.lora.saves = saves;
    struct trainer *t = trainer_for(g, &o);
    take_steps(t, r, 4);
    assert_good(adapter_dir_write(dir, trainer_subject(t), NULL, &e), &e);
    trainer_free(t);
    free(r);
}

static void same_rows(struct golden *g, struct runner *r, struct runner *eager,
                      const struct adapted_part *p, int n_part, int64_t n_row)
{
    int64_t v = g->model->cfg.n_vocab;
    float *all = xcalloc((size_t)(n_row * v), sizeof *all), *at = all;
    float *one = xcalloc((size_t)(n_row * v), sizeof *one);
    adapted_step(g, eager, p, n_part, one);
    adapted_step(g, r, p, n_part, all);
    assert_memory_equal(all, one, (size_t)(n_row * v) * sizeof *all);
    for (int i = 0; i < n_part; at += p[i++].n * v) {
        adapted_step(g, r, &p[i], 1, one);
        assert_memory_equal(at, one, (size_t)(p[i].n * v) * sizeof *one);
    }
    free(all);
    free(one);
}

/* What op_saved and the tables of op_embed_tokens do of a step's groups. Faults: rows that get
 * another group's matrix, or keep one of the step before; rows with halves
 * alone, or with none, that are changed by their neighbours' matrices; a plan that is not eager. */
static void among_others_is_alone(void **state)
{
    static const enum k_type type[] = {K_F32, K_BF16, K_INT8};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct golden g;
        int32_t token[ADAPTED_TOK];
        char *dir = test_dir_new(), both[PATH_BYTES], head[PATH_BYTES], none[PATH_BYTES];
        snprintf(both, sizeof both, "%s/both", dir);
        snprintf(head, sizeof head, "%s/head", dir);
        snprintf(none, sizeof none, "%s/none", dir);
        golden_init_short(&g, "llama_plain", K_F32);
        make_adapter(&g, 3, both);
        make_adapter(&g, TRAIN_SAVES_HEAD, head);
        make_adapter(&g, 0, none);
        golden_release(&g);
        golden_init_short(&g, "llama_plain", type[i]);
        int64_t n = golden_ids(&g.root, "prompt", token, ADAPTED_TOK);
        struct adapter *a = adapted_load(g.model, both), *b = adapted_load(g.model, head),
                       *c = adapted_load(g.model, none);
        struct runner *r = adapted_runner(&g, false), *eager = adapted_runner(&g, true);
        const struct adapted_part mixed[] = {{c, token, 0, n - 1, 0},
                                             {a, token, 0, n - 4, 4},
                                             {NULL, token, 0, n - 1, 8},
                                             {b, token + 2, 0, n - 3, 12}};
        const struct adapted_part last[] = {{b, token, 0, 3, 0}, {NULL, token, 0, n, 4}};
        same_rows(&g, r, eager, mixed, 4, 4 * n - 9);
        same_rows(&g, r, eager, last, 2, n + 3);
        runner_free(r);
        runner_free(eager);
        adapter_unref(a);
        adapter_unref(b);
        adapter_unref(c);
        golden_release(&g);
        test_dir_free(dir);
    }
}

/* Fault: a checkpoint without one of the matrices, its low halves or its moments. */
static void it_goes_on_to_the_bit(void **state)
{
    static const bool has_codes[] = {false, true};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        struct train_result straight, after;
        struct checkpoint c = {.step = 3, .subject = "1"};
        char *dir = test_dir_new();
        struct train_options o = some;
        golden_init_short(&g, "qwen2", K_BF16);
        struct golden_rows *r = golden_rows_new(&g);
        o.has_codes = has_codes[i];
        struct trainer *t = trainer_for(&g, &o), *again = trainer_for(&g, &o);
        take_steps(t, r, 3);
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
}

/* Fault: a training that moves the matrix which everybody else is served from. */
static void the_models_own_stay(void **state)
{
    struct golden g;
    int64_t n;
    (void)state;
    golden_init_short(&g, "qwen2", K_BF16);
    float *before = prompt_logits(&g, NULL, &n);
    struct golden_rows *r = golden_rows_new(&g);
    struct trainer *t = trainer_for(&g, &some);
    take_steps(t, r, 3);
    float *after = prompt_logits(&g, NULL, &n);
    assert_memory_equal(before, after, (size_t)(n * g.model->cfg.n_vocab) * sizeof *before);
    trainer_free(t);
    free(r);
    free(before);
    free(after);
    golden_release(&g);
}

/* Faults: a merged model with the old matrix, or one that is merged though it would be tied. */
static void merging(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    char *dir = test_dir_new(), adapter[PATH_BYTES], merged[PATH_BYTES];
    int64_t n;
    (void)state;
    snprintf(adapter, sizeof adapter, "%s/adapter", dir);
    snprintf(merged, sizeof merged, "%s/merged", dir);
    golden_init_short(&g, "llama_plain", K_F32);
    make_adapter(&g, 3, adapter);
    float *want = prompt_logits(&g, adapter, &n);
    assert_good(model_export_merged(&g.dir, g.model, adapter, merged, &e), &e);
    struct model_dir of;
    struct model_options mo = {.type = K_F32, .kv_type = K_F32, .ctx = g.model->ctx};
    assert_good(model_dir_init(&of, merged, &e), &e);
    struct model *base = g.model;
    g.model = model_load(&of, &mo, g.device, &e);
    assert_good(g.model ? 0 : -1, &e);
    float *got = prompt_logits(&g, NULL, &n);
    golden_near("merged", got, want, n * g.model->cfg.n_vocab, 1e-4);
    model_free(g.model);
    g.model = base;
    model_dir_release(&of);
    golden_release(&g);
    golden_init_short(&g, "qwen2", K_F32);
    snprintf(merged, sizeof merged, "%s/tied", dir);
    assert_int_equal(
        model_export_merged(&g.dir, g.model, "tests/golden/saved/head_apart/last", merged, &e), -1);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "ties its lm_head"));
    assert_good(model_export_merged(&g.dir, g.model, "tests/golden/saved/tied/last", merged, &e),
                &e);
    golden_release(&g);
    free(want);
    free(got);
    test_dir_free(dir);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(struct golden *g, const struct train_options *o, const char *why)
{
    struct err e = ERR_INIT;
    struct trainer *t = trainer_new(g->model, o, g->stream, &e);
    assert_null(t);
    if (!strstr(e.msg, why))
        fail_msg("%s, wanted '%s'", e.msg, why);
}

/* Faults: a matrix trained in codes that cannot hold it, a loss that trains it by the wrong
 * weights, a name that is passed over. */
static void some_trainings_are_refused(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_options o = some;
    unsigned saves;
    (void)state;
    golden_init_short(&g, "llama_plain", K_INT8);
    refused(&g, &o, "int8");
    golden_release(&g);
    golden_init_short(&g, "llama_plain", K_BF16);
    o.preference = (struct train_preference){.loss = TRAIN_DPO, .beta = 0.1};
    refused(&g, &o, "lm_head");
    o.preference = (struct train_preference){0};
    o.lora.rank = 0;
    refused(&g, &o, "no adapter");
    golden_release(&g);
    assert_int_equal(train_saved_parse("lm_head,score", &saves, &e), -1);
    assert_non_null(strstr(e.msg, "'score'"));
    assert_good(train_saved_parse("wte,lm_head", &saves, &e), &e);
    assert_int_equal(saves, 3);
    assert_string_equal(train_saved_text(saves), "embed_tokens,lm_head");
}

/* Every [199, 48] of a file's header turned. */
static void turn_shapes(struct buf *b)
{
    static const char shape[] = "[199,48]", other[] = "[48,199]";
    int n = 0;
    for (size_t i = 0; i + sizeof shape < b->len; i++)
        if (memcmp(b->data + i, shape, sizeof shape - 1) == 0) {
            memcpy(b->data + i, other, sizeof other - 1);
            n++;
        }
    assert_int_equal(n, 2);
}

/* Loads `last` of a golden with another config; turns: of matrices of other shapes. */
static void config_is_refused(const char *golden, const char *model, const char *config, bool turns,
                              const char *why)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct adapter_budget plenty = {.bytes_max = 1 << 30};
    struct adapter_options o = {.name = "a", .version = 1, .rank_max = 8, .budget = &plenty};
    char *dir = test_dir_new(), from[PATH_BYTES], to[PATH_BYTES];
    snprintf(from, sizeof from, "tests/golden/saved/%s/last/adapter_model.safetensors", golden);
    snprintf(to, sizeof to, "%s/adapter_model.safetensors", dir);
    struct buf b;
    buf_init(&b, 1 << 20);
    assert_good(fs_read(from, &b, &e), &e);
    if (turns)
        turn_shapes(&b);
    FILE *f = fopen(to, "wb");
    assert_true(f && fwrite(b.data, 1, b.len, f) == b.len && fclose(f) == 0);
    buf_release(&b);
    put_text(dir, "adapter_config.json", config);
    golden_init_short(&g, model, K_F32);
    assert_null(adapter_load(g.model, dir, &o, &e));
    if (!strstr(e.msg, why))
        fail_msg("%s, wanted '%s'", e.msg, why);
    golden_release(&g);
    test_dir_free(dir);
}

#define CONFIG(saved)                                                                              \
    "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":6,"                                            \
    "\"target_modules\":[\"q_proj\",\"down_proj\"]" saved "}"

/* Faults: a matrix in the file that the config does not name, one that it names and that is not
 * there, and a module of which we know nothing, each of which would be served without. */
static void some_files_are_refused(void **state)
{
    (void)state;
    config_is_refused("both", "gemma3", CONFIG(""), false, "does not name this module");
    config_is_refused("both", "gemma3", CONFIG(",\"modules_to_save\":[\"lm_head\"]"), false,
                      "does not name this module");
    config_is_refused("head_apart", "qwen2",
                      CONFIG(",\"modules_to_save\":[\"lm_head\",\"embed_tokens\"]"), false,
                      "of which no tensor is there");
    config_is_refused("head_apart", "qwen2", CONFIG(",\"modules_to_save\":[\"lm_head\",\"score\"]"),
                      false, "'score'");
    config_is_refused("both", "gemma3",
                      CONFIG(",\"modules_to_save\":[\"lm_head\",\"embed_tokens\"]"), true,
                      "embed_tokens.weight: expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_files_are_pefts),
        cmocka_unit_test(logits_are_pefts),
        cmocka_unit_test(what_is_served_is_what_was_trained),
        cmocka_unit_test(among_others_is_alone),
        cmocka_unit_test(it_goes_on_to_the_bit),
        cmocka_unit_test(the_models_own_stay),
        cmocka_unit_test(merging),
        cmocka_unit_test(some_trainings_are_refused),
        cmocka_unit_test(some_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
