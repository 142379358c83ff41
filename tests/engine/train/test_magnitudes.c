/* SPDX-License-Identifier: Apache-2.0
 *
 * DoRA: PEFT's steps, gradients, files and logits, ours to the bit from training to serving, among
 * others and behind a checkpoint, merged, gone on from, and what is refused.
 * tests/golden/make_dora.py made the goldens.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/model/export.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/ancestor.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/adapted.h"
#include "tests/lib/peft_case.h"

enum { PATH_BYTES = 300 };

static const char *const cases[] = {"llama", "biased", "gpt2", "plus"};
enum { N_CASE = sizeof cases / sizeof *cases };

/* ---- against PEFT --------------------------------------------------------------------------- */

/* Faults: a length through which a gradient flows, or that is of the weight alone; a bias that is
 * scaled, or counts for a magnitude; halves whose gradients miss the gain; a magnitude that does
 * not decay, or is not as fast as LoRA+ has it; a name or a shape that is not PEFT's. */
static void steps_and_files_are_pefts(void **state)
{
    (void)state;
    peft_case_steps("dora", cases, N_CASE);
}

/* Faults: a gain of another layer's, or of halves by another scale. */
static void logits_are_pefts(void **state)
{
    (void)state;
    peft_case_logits("dora", cases, N_CASE);
}

/* ---- against itself ------------------------------------------------------------------------- */

static const struct train_options some = {.lora = {.rank = 4, .alpha = 8, .is_dora = true},
                                          .lr = 1e-2,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .decay = 0.01,
                                          .max_norm = 1,
                                          .seed = 5,
                                          .cap_tok = 256};

/* Models of several families, with biases and without, in each kind of numbers: as they are packed
 * here, and as files hold them, with inputs in an order of their own. */
static const struct {
    const char *model;
    int type; /* -1: as the files have it */
} bases[] = {{"llama_plain", K_F32},  {"llama_plain", K_BF16}, {"qwen2", K_BF16},
             {"qwen2", K_F16},        {"gpt2", K_F32},         {"gpt2", K_INT8},
             {"phi3", K_INT4},        {"gemma2", K_BF16},      {"qwen3_5", K_F32},
             {"packed_gptq_act", -1}, {"packed_awq", -1},      {"packed_nf4", -1},
             {"deepseek_v3", K_BF16}, {"qwen3_moe", K_BF16},   {"granite_hybrid", K_BF16}};
enum { N_BASE = sizeof bases / sizeof *bases };

static void base_init(struct golden *g, int i)
{
    if (bases[i].type < 0)
        golden_init_stored(g, bases[i].model);
    else
        golden_init_short(g, bases[i].model, (enum k_type)bases[i].type);
}

/* Faults: a gain of serving that is made otherwise than training's; one of the step before. */
static void what_is_served_is_what_was_trained(void **state)
{
    (void)state;
    for (int i = 0; i < N_BASE; i++) {
        struct golden g;
        base_init(&g, i);
        peft_case_served(&g, &some);
        golden_release(&g);
    }
}

/* B is zero, and magnitudes are lengths: gains are 1, and change no bit of the loss. Fault: lengths
 * of other rows than the product has, as where its inputs have an order of their own. */
static void it_begins_as_the_model(void **state)
{
    (void)state;
    for (int i = 0; i < N_BASE; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        struct train_result with, without;
        struct train_options plain = some;
        base_init(&g, i);
        struct golden_rows *r = golden_rows_new(&g);
        plain.lora.is_dora = false;
        struct trainer *t = peft_case_trainer(&g, &some), *of = peft_case_trainer(&g, &plain);
        assert_good(trainer_eval(t, r->row, r->n, &with, &e), &e);
        assert_good(trainer_eval(of, r->row, r->n, &without, &e), &e);
        assert_memory_equal(&with.loss, &without.loss, sizeof with.loss);
        trainer_free(t);
        trainer_free(of);
        free(r);
        golden_release(&g);
    }
}

/* Two micro-batches, and blocks that are run again, find the gains of one step. */
static void cuts_change_no_loss(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_result whole, cut;
    struct train_options o = some;
    (void)state;
    golden_init_short(&g, "qwen2", K_BF16);
    struct golden_rows *r = golden_rows_new(&g);
    struct trainer *t = peft_case_trainer(&g, &some);
    o.cap_tok = r->row[0].n + r->row[1].n - 1;
    o.checkpoints_blocks = true;
    struct trainer *other = peft_case_trainer(&g, &o);
    for (int i = 0; i < 3; i++) {
        assert_good(trainer_step(t, r->row, 2, &whole, &e), &e);
        assert_good(trainer_step(other, r->row, 2, &cut, &e), &e);
        assert_true(whole.n_micro == 1 && cut.n_micro == 2);
        if (i == 0)
            assert_memory_equal(&whole.loss, &cut.loss, sizeof cut.loss);
        assert_true(whole.loss - cut.loss < 1e-4 && cut.loss - whole.loss < 1e-4);
    }
    trainer_free(t);
    trainer_free(other);
    free(r);
    golden_release(&g);
}

/* Faults: rows that get another group's gains, or keep some of the step before; rows with halves
 * alone, or with none, that are changed by their neighbours' gains; a plan that is not eager. */
static void among_others_is_alone(void **state)
{
    static const enum k_type type[] = {K_F32, K_BF16, K_INT8};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct golden g;
        struct train_options o = some;
        char *dir = test_dir_new(), all[PATH_BYTES], few[PATH_BYTES], none[PATH_BYTES];
        snprintf(all, sizeof all, "%s/all", dir);
        snprintf(few, sizeof few, "%s/few", dir);
        snprintf(none, sizeof none, "%s/none", dir);
        golden_init_short(&g, "qwen2", type[i]);
        peft_case_make(&g, &o, all);
        o.lora.target[0] = "v_proj";
        o.lora.n_target = 1;
        peft_case_make(&g, &o, few);
        o.lora.is_dora = false;
        peft_case_make(&g, &o, none);
        peft_case_among(&g, all, few, none);
        golden_release(&g);
        test_dir_free(dir);
    }
}

/* Fault: a checkpoint without magnitudes, or their moments. */
static void it_goes_on_to_the_bit(void **state)
{
    (void)state;
    peft_case_resumes("qwen2", K_BF16, &some);
}

/* Faults: lengths of the weight alone, or of what was rounded to the file. */
static void merging(void **state)
{
    static const char *const models[] = {"llama_plain", "qwen2", "phi3"};
    struct golden g;
    struct err e = ERR_INIT;
    char *dir = test_dir_new(), adapter[PATH_BYTES], merged[PATH_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        golden_init_short(&g, models[i], K_F32);
        snprintf(adapter, sizeof adapter, "%s/adapter%zu", dir, i);
        snprintf(merged, sizeof merged, "%s/merged%zu", dir, i);
        peft_case_make(&g, &some, adapter);
        peft_case_merges(&g, adapter, merged);
        golden_release(&g);
    }
    golden_init_short(&g, "gpt2", K_F32);
    snprintf(merged, sizeof merged, "%s/gpt2", dir);
    assert_int_equal(
        model_export_merged(&g.dir, g.model, "tests/golden/dora/gpt2/last", merged, &e), -1);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "by inputs"));
    golden_release(&g);
    test_dir_free(dir);
}

/* Faults: an adapter that is gone on from without its magnitudes, or whose reference has the gains
 * of the values as they are. */
static void it_is_gone_on_from(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_result before, after;
    struct train_ancestor from;
    struct train_options o = some;
    struct arena a;
    char *dir = test_dir_new(), path[PATH_BYTES];
    (void)state;
    arena_init(&a, 1 << 16);
    golden_init_short(&g, "qwen2", K_BF16);
    struct golden_rows *r = golden_rows_new(&g);
    struct trainer *t = peft_case_trainer(&g, &some);
    peft_case_take(t, r, 3);
    snprintf(path, sizeof path, "%s/adapter", dir);
    assert_good(adapter_dir_write(path, trainer_subject(t), NULL, &e), &e);
    assert_good(trainer_eval(t, r->row, 2, &before, &e), &e);
    assert_good(train_ancestor_read(path, &from, &o.lora, &a, &e), &e);
    assert_true(o.lora.is_dora);
    o.has_ancestor = true;
    struct trainer *next = peft_case_trainer(&g, &o);
    assert_good(train_ancestor_load(&from, trainer_subject(next), &e), &e);
    assert_good(trainer_eval(next, r->row, 2, &after, &e), &e);
    assert_memory_equal(&before.loss, &after.loss, sizeof after.loss);
    trainer_free(next);
    o.preference = (struct train_preference){.loss = TRAIN_DPO, .beta = 0.1};
    next = peft_case_trainer(&g, &o);
    assert_good(train_ancestor_load(&from, trainer_subject(next), &e), &e);
    static float found[2][GOLDEN_ROW_MAX], first[2][GOLDEN_ROW_MAX];
    struct train_row pair[2] = {r->row[0], r->row[1]};
    for (int i = 0; i < 2; i++) {
        pair[i].reference = found[i];
        found[i][0] = NAN;
    }
    assert_good(trainer_step(next, pair, 2, &after, &e), &e);
    assert_true(after.loss > 0.693147 && after.loss < 0.693148); /* log 2: it is its reference */
    memcpy(first, found, sizeof first);
    found[0][0] = found[1][0] = NAN;
    assert_good(trainer_step(next, pair, 2, &after, &e), &e);
    assert_true(after.loss < 0.6931);
    assert_memory_equal(first, found, sizeof first); /* which has stayed */
    trainer_free(next);
    o.lora.is_dora = false;
    next = peft_case_trainer(&g, &o);
    assert_err(train_ancestor_load(&from, trainer_subject(next), &e), &e, ERR_BAD_INPUT,
               "use_dora");
    trainer_free(next);
    trainer_free(t);
    free(r);
    golden_release(&g);
    arena_release(&a);
    test_dir_free(dir);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Faults: a training that leaves out what it does not know. */
static void some_trainings_are_refused(void **state)
{
    struct train_options o[3] = {some, some, some};
    static const char *const why[] = {"lora_dropout", "no adapter", "experts"};
    struct golden g;
    (void)state;
    golden_init_short(&g, "qwen3_moe", K_BF16);
    o[0].lora.dropout = 0.1;
    o[1].lora.rank = 0;
    o[2].lora.target[o[2].lora.n_target++] = "experts";
    for (int i = 0; i < 3; i++) {
        struct err e = ERR_INIT;
        assert_null(trainer_new(g.model, &o[i], g.stream, &e));
        if (!strstr(e.msg, why[i]))
            fail_msg("%s, wanted '%s'", e.msg, why[i]);
    }
    golden_release(&g);
}

/* The golden's adapter with a part of its tensors' file, or its config, replaced by another. */
static void file_is_refused(const char *from, const char *to, const char *dora, const char *why)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct adapter_budget plenty = {.bytes_max = 1 << 30};
    struct adapter_options o = {.name = "a", .version = 1, .rank_max = 8, .budget = &plenty};
    char *dir = test_dir_new(), path[PATH_BYTES], config[PATH_BYTES];
    struct buf b;
    buf_init(&b, 1 << 20);
    assert_good(fs_read("tests/golden/dora/llama/last/adapter_model.safetensors", &b, &e), &e);
    for (size_t i = 0; *from && i + strlen(from) < b.len; i++)
        if (memcmp(b.data + i, from, strlen(from)) == 0) {
            memcpy(b.data + i, to, strlen(to));
            break;
        }
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(b.data, 1, b.len, f) == b.len && fclose(f) == 0);
    buf_release(&b);
    snprintf(config, sizeof config,
             "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":6,\"use_dora\":%s,"
             "\"target_modules\":[\"q_proj\",\"v_proj\",\"down_proj\"]}",
             dora);
    put_text(dir, "adapter_config.json", config);
    golden_init_short(&g, "llama_tied", K_F32);
    assert_null(adapter_load(g.model, dir, &o, &e));
    if (!strstr(e.msg, why))
        fail_msg("%s, wanted '%s'", e.msg, why);
    golden_release(&g);
    test_dir_free(dir);
}

/* Faults: magnitudes that are passed over, or served as if they were 1 where they are missing. */
static void some_files_are_refused(void **state)
{
    (void)state;
    file_is_refused("", "", "false", "does not say use_dora");
    file_is_refused("lora_magnitude_vector", "lora_magnitude_victor", "true", "expected");
    file_is_refused("v_proj.lora_magnitude_vector", "x_proj.lora_magnitude_vector", "true",
                    "no product");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_files_are_pefts),
        cmocka_unit_test(logits_are_pefts),
        cmocka_unit_test(what_is_served_is_what_was_trained),
        cmocka_unit_test(it_begins_as_the_model),
        cmocka_unit_test(cuts_change_no_loss),
        cmocka_unit_test(among_others_is_alone),
        cmocka_unit_test(it_goes_on_to_the_bit),
        cmocka_unit_test(merging),
        cmocka_unit_test(it_is_gone_on_from),
        cmocka_unit_test(some_trainings_are_refused),
        cmocka_unit_test(some_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
