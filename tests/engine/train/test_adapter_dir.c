/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters that are trained here from nothing but options and a seed, and the directories that they
 * are written to. Those in tests/golden/adapters/ were written by this program, and PEFT loaded
 * them: it is shown there, once, that PEFT understands them, and here that they are still written
 * so.
 *
 *     test_adapter_dir             compares
 *     test_adapter_dir FOLDER      writes FOLDER/NAME/ of each instead (make_adapters.py does this)
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/ancestor.h"
#include "tests/lib/adapted.h"
#include "tests/lib/golden_rows.h"

enum { PATH_BYTES = 512, CONFIG_BYTES = 1 << 16, STEPS = 12 };

static const char golden_dir[] = "tests/golden/adapters";

/* Both rules for the scale; targets that leave products out, that have one name in two places
 * (c_proj of gpt2), and none, which is all; weights that a file keeps turned (gpt2), or joined
 * (phi3); magnitudes; dropout, which is of the training alone; a text model in another, whose
 * products' names others have too; one name for products of two sorts of layers (lfm2); products
 * around a delta rule (qwen3_5), around a latent (deepseek_v3), and around a scan (granite_hybrid);
 * one of several that are numbered (gemma3n); experts beside other products, alone, and one of
 * their two products.
 */
static const struct {
    const char *name, *model;
    uint64_t seed; /* of its golden: cases come and go */
    struct train_lora lora;
} cases[] = {
    {"llama_lora",
     "llama_plain",
     7,
     {.rank = 3, .alpha = 6, .target = {"q_proj", "o_proj", "down_proj"}, .n_target = 3}},
    {"qwen2_rslora",
     "qwen2",
     8,
     {.rank = 5, .alpha = 7, .is_rs = true, .target = {"k_proj", "gate_proj"}, .n_target = 2}},
    {"gpt2_rslora",
     "gpt2",
     9,
     {.rank = 2, .alpha = 3.5, .is_rs = true, .target = {"c_attn", "c_proj"}, .n_target = 2}},
    {"qwen2_dora",
     "qwen2",
     22,
     {.rank = 3, .alpha = 5, .is_dora = true, .target = {"q_proj", "down_proj"}, .n_target = 2}},
    {"gpt2_dora",
     "gpt2",
     23,
     {.rank = 2,
      .alpha = 4,
      .is_rs = true,
      .is_dora = true,
      .target = {"c_attn", "c_fc"},
      .n_target = 2}},
    {"gpt2_lora_dropout", "gpt2", 10, {.rank = 2, .alpha = 4, .dropout = 0.1}},
    {"phi3_lora",
     "phi3",
     11,
     {.rank = 2, .alpha = 5, .target = {"qkv_proj", "gate_up_proj"}, .n_target = 2}},
    {"gemma3_vision_lora",
     "gemma3_vision",
     12,
     {.rank = 2, .alpha = 4, .target = {"v_proj", "up_proj"}, .n_target = 2}},
    {"lfm2_lora",
     "lfm2",
     13,
     {.rank = 3, .alpha = 5, .target = {"in_proj", "out_proj", "w2"}, .n_target = 3}},
    {"qwen3_5_lora",
     "qwen3_5",
     14,
     {.rank = 2, .alpha = 5, .target = {"in_proj_qkv", "in_proj_a", "out_proj"}, .n_target = 3}},
    {"deepseek_v3_lora",
     "deepseek_v3",
     15,
     {.rank = 2,
      .alpha = 5,
      .target = {"q_a_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"},
      .n_target = 4}},
    {"granite_hybrid_lora",
     "granite_hybrid",
     16,
     {.rank = 2, .alpha = 5, .target = {"in_proj", "out_proj", "input_linear"}, .n_target = 3}},
    {"gemma4_lora",
     "gemma4",
     17,
     {.rank = 2,
      .alpha = 5,
      .target = {"k_proj", "per_layer_input_gate", "per_layer_model_projection"},
      .n_target = 3}},
    {"gemma4_experts_lora",
     "gemma4_experts",
     18,
     {.rank = 2, .alpha = 5, .target = {"proj", "experts"}, .n_target = 2}},
    {"gemma3n_lora",
     "gemma3n",
     21,
     {.rank = 2,
      .alpha = 5,
      .target = {"k_proj", "linear_right", "prediction_coefs", "altup_projections.1"},
      .n_target = 4}},
    {"qwen3_moe_experts",
     "qwen3_moe",
     18,
     {.rank = 2, .alpha = 5, .target = {"k_proj", "experts"}, .n_target = 2}},
    {"gpt_oss_experts",
     "gpt_oss",
     19,
     {.rank = 2, .alpha = 5, .target = {"experts"}, .n_target = 1}},
    {"mixtral_experts",
     "mixtral",
     20,
     {.rank = 3, .alpha = 5, .target = {"o_proj", "experts.down_proj"}, .n_target = 2}},
};
enum { N_CASE = sizeof cases / sizeof *cases };

/* Trains case i and writes it to dir/NAME. */
static int train_and_write(size_t i, const char *dir, struct err *e)
{
    struct golden g;
    struct train_options o;
    struct train_result got;
    char path[PATH_BYTES], base[PATH_BYTES];
    golden_init(&g, cases[i].model, K_F32, 0);
    struct golden_rows *r = golden_rows_new(&g);
    train_options_default(&o);
    o.lora = cases[i].lora;
    o.lr = 1e-2;
    o.eps = 1e-6;
    o.warmup = 2;
    o.n_step = STEPS;
    o.seed = cases[i].seed;
    struct trainer *t = trainer_new(g.model, &o, g.stream, e);
    int rc = t ? 0 : -1;
    for (int s = 0; s < STEPS && !rc; s++) {
        struct train_row two[2] = {r->row[s % r->n], r->row[(s + 1) % r->n]};
        rc = trainer_step(t, two, 2, &got, e);
    }
    snprintf(path, sizeof path, "%s/%s", dir, cases[i].name);
    snprintf(base, sizeof base, "tests/golden/models/%s", cases[i].model);
    rc = rc || adapter_dir_write(path, trainer_subject(t), base, e) ? -1 : 0;
    trainer_free(t);
    free(r);
    golden_release(&g);
    return rc;
}

static void same_config(const char *fresh, const char *golden)
{
    struct err e = ERR_INIT;
    struct buf a, b;
    buf_init(&a, CONFIG_BYTES);
    buf_init(&b, CONFIG_BYTES);
    assert_good(fs_read(fresh, &a, &e), &e);
    assert_good(fs_read(golden, &b, &e), &e);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    buf_release(&a);
    buf_release(&b);
}

static float *read_all(const struct weight *w)
{
    struct err e = ERR_INIT;
    float *x = try_alloc((size_t)(weight_rows(w) * weight_row_len(w)), sizeof *x, "tensor", &e);
    assert_non_null(x);
    assert_good(weight_read_f32(w, 0, weight_rows(w), x, &e), &e);
    return x;
}

static void near_tensors(const char *fresh, const char *golden)
{
    struct err e = ERR_INIT;
    struct weights *a = weights_open_file(fresh, &e), *b = weights_open_file(golden, &e);
    assert_good(a && b ? 0 : -1, &e);
    assert_int_equal(weights_count(a), weights_count(b));
    for (size_t i = 0; i < weights_count(b); i++) {
        const struct weight *want = weights_at(b, i), *got = weights_get(a, want->t->name);
        if (!got)
            fail_msg("%s has no %s", fresh, want->t->name);
        assert_int_equal(weight_rows(got), weight_rows(want));
        assert_int_equal(weight_row_len(got), weight_row_len(want));
        float *x = read_all(got), *y = read_all(want);
        golden_near(want->t->name, x, y, weight_rows(want) * weight_row_len(want), 1e-3);
        mem_free(x);
        mem_free(y);
    }
    weights_close(a);
    weights_close(b);
}

/* Faults: first values, draws, a schedule or an update that change what a seed gives; a name, a
 * shape or an option in the files that is no longer the one that PEFT was seen to read. */
static void a_seed_gives_what_peft_has_read(void **state)
{
    char *dir = test_dir_new();
    (void)state;
    for (size_t i = 0; i < N_CASE; i++) {
        struct err e = ERR_INIT;
        char fresh[PATH_BYTES], golden[PATH_BYTES];
        assert_good(train_and_write(i, dir, &e), &e);
        snprintf(fresh, sizeof fresh, "%s/%s/adapter_config.json", dir, cases[i].name);
        snprintf(golden, sizeof golden, "%s/%s/adapter_config.json", golden_dir, cases[i].name);
        same_config(fresh, golden);
        snprintf(fresh, sizeof fresh, "%s/%s/adapter_model.safetensors", dir, cases[i].name);
        snprintf(golden, sizeof golden, "%s/%s/adapter_model.safetensors", golden_dir,
                 cases[i].name);
        near_tensors(fresh, golden);
    }
    test_dir_free(dir);
}

/* Faults: a model with more names of products than a list holds, of which some are left out, so
 * that nobody reads the adapter again; products that are numbered, told by their number alone. */
static void every_product_is_named(void **state)
{
    enum { NAMES = 21 };
    char *dir = test_dir_new(), path[PATH_BYTES];
    struct golden g;
    struct train_options o;
    struct train_ancestor from;
    struct train_lora l;
    struct arena a;
    struct err e = ERR_INIT;
    (void)state;
    golden_init(&g, "gemma3n", K_F32, 0);
    train_options_default(&o);
    o.lora = (struct train_lora){.rank = 1, .alpha = 1};
    struct trainer *t = trainer_new(g.model, &o, g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    snprintf(path, sizeof path, "%s/all", dir);
    assert_good(adapter_dir_write(path, trainer_subject(t), NULL, &e), &e);
    trainer_free(t);
    adapter_unref(adapted_load(g.model, path));
    arena_init(&a, CONFIG_BYTES);
    assert_good(train_ancestor_read(path, &from, &l, &a, &e), &e);
    assert_int_equal(l.n_target, NAMES);
    assert_good(train_lora_check(&l, g.model, &e), &e);
    for (int32_t i = 0; i < l.n_target; i++)
        assert_true(l.target[i][0] >= 'a');
    arena_release(&a);
    golden_release(&g);
    test_dir_free(dir);
}

static int write_all(const char *dir)
{
    for (size_t i = 0; i < N_CASE; i++) {
        struct err e = ERR_INIT;
        if (train_and_write(i, dir, &e)) {
            fprintf(stderr, "%s: %s\n", cases[i].name, e.msg);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_what_peft_has_read),
        cmocka_unit_test(every_product_is_named),
    };
    return argc > 1 ? write_all(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
