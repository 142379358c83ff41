/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices that are trained whole beside an adapter: PEFT's steps and files, ours to the bit from
 * training to serving, among others and behind a checkpoint, and what is refused.
 * tests/golden/make_saved.py made the goldens.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/model/export.h"
#include "engine/train/trainer.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/adapted.h"
#include "tests/lib/peft_case.h"

enum { PATH_BYTES = 300 };

/* ---- against PEFT --------------------------------------------------------------------------- */

/* Faults: a matrix whose gradient misses rows, or those of the lm_head where both are tied in the
 * model; one that does not decay, or has other moments; a name that is not PEFT's. */
static void steps_and_files_are_pefts(void **state)
{
    static const char *const names[] = {"both", "head_apart", "wte_apart"};
    (void)state;
    peft_case_steps("saved", names, sizeof names / sizeof *names);
}

/* Faults: a table that stands in for the lm_head as well where the model ties them and the adapter
 * does not, or does not where it does; a matrix that is not scaled as the model's is. */
static void logits_are_pefts(void **state)
{
    static const char *const names[] = {"both", "head_apart", "wte_apart", "tied"};
    (void)state;
    peft_case_logits("saved", names, sizeof names / sizeof *names);
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
        struct train_options o = some;
        o.lora.saves = of[i].saves;
        golden_init_short(&g, of[i].model, of[i].type);
        peft_case_served(&g, &o);
        golden_release(&g);
    }
}

/* An adapter of `saves`. */
static void make_adapter(struct golden *g, unsigned saves, const char *dir)
{
    struct train_options o = some;
    o.lora.saves = saves;
    peft_case_make(g, &o, dir);
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
        peft_case_among(&g, both, head, none);
        golden_release(&g);
        test_dir_free(dir);
    }
}

/* Fault: a checkpoint without one of the matrices, its low halves or its moments. */
static void it_goes_on_to_the_bit(void **state)
{
    (void)state;
    peft_case_resumes("qwen2", K_BF16, &some);
}

/* Fault: a training that moves the matrix which everybody else is served from. */
static void the_models_own_stay(void **state)
{
    struct golden g;
    int64_t n;
    (void)state;
    golden_init_short(&g, "qwen2", K_BF16);
    float *before = adapted_prompt(&g, NULL, &n);
    struct golden_rows *r = golden_rows_new(&g);
    struct trainer *t = peft_case_trainer(&g, &some);
    peft_case_take(t, r, 3);
    float *after = adapted_prompt(&g, NULL, &n);
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
    (void)state;
    snprintf(adapter, sizeof adapter, "%s/adapter", dir);
    snprintf(merged, sizeof merged, "%s/merged", dir);
    golden_init_short(&g, "llama_plain", K_F32);
    make_adapter(&g, 3, adapter);
    peft_case_merges(&g, adapter, merged);
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
