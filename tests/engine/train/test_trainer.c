/* SPDX-License-Identifier: Apache-2.0
 *
 * Training against PEFT and PyTorch on tiny models, and against itself: the cut into micro-batches
 * and checkpointing may not be seen.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/train/trainer.h"
#include "tests/lib/formats.h"
#include "tests/lib/golden_halves.h"
#include "tests/lib/golden_rows.h"

enum { NAME_BYTES = 256 };

static struct trainer *trainer_for(struct golden *g, const struct train_options *o)
{
    struct err e = ERR_INIT;
    struct trainer *t = trainer_new(g->model, o, g->stream, &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

/* What the golden's LoRA run was told. */
static void options_of(const struct json *lora, struct train_options *o)
{
    static const char *const names[] = {"q_proj",
                                        "k_proj",
                                        "v_proj",
                                        "o_proj",
                                        "gate_proj",
                                        "up_proj",
                                        "down_proj",
                                        "qkv_proj",
                                        "gate_up_proj",
                                        "c_attn",
                                        "c_proj",
                                        "c_fc",
                                        "in_proj",
                                        "w1",
                                        "w2",
                                        "w3",
                                        "out_proj",
                                        "in_proj_qkv",
                                        "in_proj_z",
                                        "in_proj_b",
                                        "in_proj_a",
                                        "in_proj_qkvz",
                                        "in_proj_ba",
                                        "shared_expert_gate",
                                        "q_a_proj",
                                        "q_b_proj",
                                        "kv_b_proj",
                                        "kv_a_proj_with_mqa",
                                        "input_linear",
                                        "output_linear",
                                        "per_layer_input_gate",
                                        "per_layer_projection",
                                        "per_layer_model_projection",
                                        "linear_left",
                                        "linear_right",
                                        "modality_router",
                                        "prediction_coefs",
                                        "correction_coefs"};
    struct err e = ERR_INIT;
    struct json list, v;
    train_options_default(o);
    *o = (struct train_options){.lora = {.rank = (int64_t)golden_num(lora, "r"),
                                         .alpha = golden_num(lora, "lora_alpha"),
                                         .is_rs = json_member(lora, "use_rslora").node != NULL},
                                .lr = golden_num(lora, "lr"),
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = golden_num(lora, "eps"),
                                .decay = golden_num(lora, "weight_decay"),
                                .max_norm = golden_num(lora, "max_grad_norm"),
                                .cap_tok = 256};
    assert_good(json_get(lora, "target_modules", JSON_ARRAY, &list, &e), &e);
    json_each(v, list)
    {
        const char *said;
        assert_good(json_as_str(&v, &said, &e), &e);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strcmp(said, names[i]) == 0)
                o->lora.target[o->lora.n_target++] = names[i];
    }
}

/* The name of a tensor in PEFT's file. */
static const struct weight *peft_tensor(const struct weights *w, const struct golden *g,
                                        const char *name)
{
    const char *const *prefix = spec_prefix(&g->model->cfg);
    for (; *prefix; prefix++) {
        char full[NAME_BYTES];
        snprintf(full, sizeof full, "base_model.model.%s%s", *prefix, name);
        const struct weight *x = weights_get(w, full);
        if (x)
            return x;
    }
    fail_msg("no %s in the adapter's file", name);
    return NULL;
}

static struct weights *open_adapter(const char *name, const char *sub)
{
    struct err e = ERR_INIT;
    char path[NAME_BYTES];
    snprintf(path, sizeof path, "tests/golden/models/%s/%s/adapter_model.safetensors", name, sub);
    struct weights *w = weights_open_file(path, &e);
    assert_good(w ? 0 : -1, &e);
    return w;
}

static void load_halves(const struct golden *g, struct trainer *t, const char *name)
{
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct weights *w = open_adapter(name, "lora");
    for (size_t i = 0; i < on->list.n; i++) {
        struct train_tensor *x = &on->list.at[i];
        struct err e = ERR_INIT;
        const struct weight *from = peft_tensor(w, g, x->name);
        assert_int_equal(weight_rows(from) * weight_row_len(from), x->rows * x->cols);
        assert_good(weight_read_f32(from, 0, weight_rows(from), x->p, &e), &e);
    }
    weights_close(w);
}

static void check_halves(const struct golden *g, struct trainer *t, const char *name)
{
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct weights *w = open_adapter(name, "lora_final");
    for (size_t i = 0; i < on->list.n; i++) {
        struct train_tensor *x = &on->list.at[i];
        struct err e = ERR_INIT;
        const struct weight *from = peft_tensor(w, g, x->name);
        float *want = try_alloc((size_t)(x->rows * x->cols), sizeof *want, "half", &e);
        assert_good(weight_read_f32(from, 0, weight_rows(from), want, &e), &e);
        golden_near(x->name, x->p, want, x->rows * x->cols, 1e-3);
        mem_free(want);
    }
    weights_close(w);
}

/* The golden's steps, of two rows each, with their losses and norms. */
static void take_steps(struct trainer *t, const char *name, const struct golden_rows *r,
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
            fail_msg("%s: step %lld: loss %.9g and norm %.9g, the golden has %.9g and %.9g", name,
                     (long long)trainer_n_step(t), got.loss, got.grad_norm, loss, norm);
    }
    assert_int_equal(trainer_n_step(t), 20);
}

/* Faults: the scale (rank or its root), which half is which, names, the mean over a step, clipping,
 * bias correction, the backward of adapters. */
static void peft_goldens(void **state)
{
    static const char *const names[] = {"llama_plain",    "gpt2",        "qwen2",
                                        "olmo2",          "smollm3",     "granite",
                                        "gemma2",         "gemma3",      "gemma3_vision",
                                        "phi3_longrope",  "qwen3_moe",   "mixtral",
                                        "gpt_oss",        "deepseek_v2", "deepseek_v3",
                                        "mistral4",       "lfm2",        "qwen3_5",
                                        "qwen3_5_moe",    "qwen3_next",  "qwen2_moe_balanced",
                                        "granite_hybrid", "gemma4",      "gemma4_wide",
                                        "gemma4_experts", "gemma3n"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct golden g;
        struct train_options o;
        struct err e = ERR_INIT;
        struct json lora;
        golden_init_short(&g, names[i], K_F32);
        struct golden_rows *r = golden_rows_new(&g);
        assert_good(json_get(&g.root, "lora", JSON_OBJECT, &lora, &e), &e);
        options_of(&lora, &o);
        struct trainer *t = trainer_for(&g, &o);
        load_halves(&g, t, names[i]);
        take_steps(t, names[i], r, &lora);
        check_halves(&g, t, names[i]);
        trainer_free(t);
        free(r);
        golden_release(&g);
    }
}

/* Fault: weights that a class would clamp while it trains, and that are trained with as they are.
 */
static void weights_beyond_a_bound(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        struct golden g;
        struct train_options o;
        struct train_result got;
        struct err e = ERR_INIT;
        golden_init_short(&g, "gemma3n", K_F32);
        struct golden_rows *r = golden_rows_new(&g);
        train_options_default(&o);
        o.cap_tok = GOLDEN_ROWS * GOLDEN_ROW_MAX;
        o.lora.rank = whole ? 0 : 4;
        struct trainer *t = trainer_for(&g, &o);
        assert_true(g.model->cfg.coef_bound == 120);
        assert_good(trainer_step(t, r->row, 1, &got, &e), &e);
        g.model->cfg.coef_bound = 1e-3;
        int rc = trainer_step(t, r->row, 1, &got, &e);
        assert_err(rc, &e, ERR_UNSUPPORTED, "is beyond altup_coef_clip, 0.001");
        trainer_free(t);
        free(r);
        golden_release(&g);
    }
}

/* Fault: LoRA+ that is not PEFT's: the other half is faster, its decay is not, or the schedule or
 * the clipping is another. */
static void loraplus_golden(void **state)
{
    (void)state;
    struct golden g;
    struct train_options o;
    struct err e = ERR_INIT;
    struct json root, of;
    struct json_doc *doc =
        json_read("tests/golden/tricks/golden.json", "golden.json", &json_rules_config, &e);
    assert_good(doc ? 0 : -1, &e);
    root = json_root(doc);
    assert_good(json_get(&root, "loraplus", JSON_OBJECT, &of, &e), &e);
    golden_init_short(&g, "llama_plain", K_F32);
    struct golden_rows *r = golden_rows_new(&g);
    options_of(&of, &o);
    o.lora.lr_ratio = golden_num(&of, "loraplus_lr_ratio");
    struct trainer *t = trainer_for(&g, &o);
    load_halves(&g, t, "llama_plain");
    take_steps(t, "loraplus", r, &of);
    golden_halves_check(t, "tests/golden/tricks/loraplus.safetensors");
    trainer_free(t);
    free(r);
    golden_release(&g);
    json_free(doc);
}

static const struct train_options some = {
    .lora = {.rank = 4, .alpha = 8, .dropout = 0.1, .lr_ratio = 4},
    .noise = 5,
    .lr = 1e-2,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .eps = 1e-8,
    .decay = 0.01,
    .max_norm = 1,
    .seed = 5,
    .cap_tok = GOLDEN_ROWS * GOLDEN_ROW_MAX};

/* Three steps over all rows; the losses, and the norm of the first gradients. */
static double three_steps(const char *name, enum k_type type, const struct train_options *o,
                          double loss[3], struct golden_rows **rows)
{
    double norm = 0;
    struct golden g;
    struct err e = ERR_INIT;
    golden_init_short(&g, name, type);
    *rows = golden_rows_new(&g);
    struct trainer *t = trainer_for(&g, o);
    for (int i = 0; i < 3; i++) {
        struct train_result got;
        assert_good(trainer_step(t, (*rows)->row, (*rows)->n, &got, &e), &e);
        loss[i] = got.loss;
        norm = i ? norm : got.grad_norm;
    }
    trainer_free(t);
    golden_release(&g);
    return norm;
}

/* Faults: rows that see each other in a micro-batch, a mean taken over micro-batches, dropout that
 * depends on the place in the batch. The first losses have the same bits, the first gradients are
 * sums in another order. Behind the first update such a last bit moves what is rounded to bf16 or
 * int8 by a step of that. */
static void cut_is_not_seen(void **state)
{
    (void)state;
    for (size_t k = 0; k < FORMATS_PACKED; k++) {
        double whole[3], cut[3], norm[2];
        struct golden_rows *a, *b;
        struct train_options o = some;
        double far = k_format(formats_packed[k])->rows == K_F32 ? 1e-5 : 1e-2;
        norm[0] = three_steps("llama_plain", formats_packed[k], &o, whole, &a);
        o.cap_tok = 64; /* a row or two at a time */
        norm[1] = three_steps("llama_plain", formats_packed[k], &o, cut, &b);
        assert_true(fabs(norm[0] - norm[1]) < 1e-6 * norm[0]);
        assert_memory_equal(&whole[0], &cut[0], sizeof *whole); /* before the first update */
        for (int i = 0; i < 3; i++)
            if (fabs(whole[i] - cut[i]) > far * whole[i])
                fail_msg("type %d, step %d: %.17g in one, %.17g in parts", (int)formats_packed[k],
                         i, whole[i], cut[i]);
        free(a);
        free(b);
    }
}

/* Faults: a block that is run again with other draws or other cells. */
static void checkpointing_is_not_seen(void **state)
{
    static const int64_t ranks[] = {0, 4};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        double plain[3], again[3];
        struct golden_rows *a, *b;
        struct train_options o = some;
        o.lora.rank = ranks[k];
        o.lr = 1e-3;
        three_steps("qwen2", K_BF16, &o, plain, &a);
        o.checkpoints_blocks = true;
        three_steps("qwen2", K_BF16, &o, again, &b);
        assert_memory_equal(plain, again, sizeof plain);
        assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
        assert_true(plain[2] < plain[0]);
        free(a);
        free(b);
    }
}

static double after_fifty(enum k_type type, int64_t rank, bool has_codes)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_result got = {0};
    struct train_options o = some;
    golden_init_short(&g, "llama_plain", type);
    struct golden_rows *r = golden_rows_new(&g);
    o.lora.rank = rank;
    o.lora.dropout = o.lora.lr_ratio = o.noise = 0;
    o.lr = rank ? 1e-2 : 1e-3;
    o.has_codes = has_codes;
    struct trainer *t = trainer_for(&g, &o);
    for (int i = 0; i < 50; i++)
        assert_good(trainer_step(t, r->row + i % 5, 2, &got, &e), &e);
    assert_good(trainer_eval(t, r->row, r->n, &got, &e), &e);
    trainer_free(t);
    free(r);
    golden_release(&g);
    return got.loss;
}

/* Faults: moments that stay where they are because a step moves them by less than codes are apart,
 * or that fall to zero beside large ones, which makes steps of any length. */
static void moments_in_8_bits_learn_as_much(void **state)
{
    static const struct {
        enum k_type type;
        int64_t rank;
    } row[] = {{K_F32, 4}, {K_F32, 0}, {K_BF16, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double whole = after_fifty(row[i].type, row[i].rank, false);
        double coded = after_fifty(row[i].type, row[i].rank, true);
        if (fabs(coded - whole) > 0.02 * (5 - whole)) /* they begin above 5 */
            fail_msg("row %zu: a loss of %.4f, %.4f with moments of f32", i, coded, whole);
    }
}

/* Two steps at a learning rate of zero, over an adapter that says something. */
static void two_still_steps(double dropout, double noise, double loss[2])
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_options o = some;
    golden_init_short(&g, "llama_plain", K_F32);
    struct golden_rows *r = golden_rows_new(&g);
    o.lora.dropout = dropout;
    o.noise = noise;
    o.lr = o.decay = 0;
    struct trainer *t = trainer_for(&g, &o);
    load_halves(&g, t, "llama_plain");
    for (int i = 0; i < 2; i++) {
        struct train_result got;
        assert_good(trainer_step(t, r->row, r->n, &got, &e), &e);
        loss[i] = got.loss;
    }
    trainer_free(t);
    free(r);
    golden_release(&g);
}

/* Faults: the same draws of dropout, or of noise, in every step; draws where none are wanted. */
static void draws_are_a_steps_own(void **state)
{
    double loss[2];
    (void)state;
    two_still_steps(0, 0, loss);
    assert_memory_equal(&loss[0], &loss[1], sizeof *loss);
    two_still_steps(0.3, 0, loss);
    assert_memory_not_equal(&loss[0], &loss[1], sizeof *loss);
    two_still_steps(0, 5, loss);
    assert_memory_not_equal(&loss[0], &loss[1], sizeof *loss);
}

/* Faults: a step that cannot be taken and yet changes something, or is taken. */
static void bad_steps_change_nothing(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_result got, again;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct golden_rows *r = golden_rows_new(&g);
    struct trainer *t = trainer_for(&g, &some);
    assert_good(trainer_eval(t, r->row, r->n, &got, &e), &e);
    struct train_row bad = r->row[0];
    int32_t none[GOLDEN_ROW_MAX];
    for (int i = 0; i < GOLDEN_ROW_MAX; i++)
        none[i] = -1;
    bad.label = none;
    assert_err(trainer_step(t, &bad, 1, &again, &e), &e, ERR_BAD_INPUT, "no token to learn from");
    float huge[GOLDEN_ROW_MAX];
    for (int i = 0; i < GOLDEN_ROW_MAX; i++)
        huge[i] = 1;
    huge[r->row[0].n - 2] = INFINITY;
    bad = r->row[0];
    bad.weight = huge;
    for (int i = 0; i < GOLDEN_ROW_MAX; i++)
        none[i] = 1;
    bad.label = none;
    assert_err(trainer_step(t, &bad, 1, &again, &e), &e, ERR_DIVERGED, "not finite");
    assert_int_equal(trainer_n_step(t), 0);
    assert_good(trainer_eval(t, r->row, r->n, &again, &e), &e);
    assert_memory_equal(&got.loss, &again.loss, sizeof got.loss);
    struct train_options o = some;
    o.lora.dropout = 0;
    o.lora.alpha = 1e-60; /* nothing in single precision */
    struct trainer *still = trainer_for(&g, &o);
    assert_err(trainer_step(still, r->row, r->n, &again, &e), &e, ERR_DIVERGED, "gradient is zero");
    trainer_free(still);
    o = some;
    o.lora.target[0] = "z_proj";
    o.lora.n_target = 1;
    assert_null(trainer_new(g.model, &o, g.stream, &e));
    assert_non_null(strstr(e.msg, "z_proj"));
    trainer_free(t);
    free(r);
    golden_release(&g);
}

/* Pieces that are now as short as can be, now long. */
static int64_t count(void *ctx)
{
    return ++*(int *)ctx % 3 * 10000;
}

/* Faults: work that never lets others go first, or that changes because it does. */
static void others_go_first(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_result plain, yielding;
    int n = 0;
    (void)state;
    golden_init_short(&g, "llama_plain", K_BF16);
    struct golden_rows *r = golden_rows_new(&g);
    stream_between(g.stream, count, &n);
    struct trainer *t = trainer_for(&g, &some);
    assert_true(n > 0); /* each first adapter is drawn on the host */
    stream_between(g.stream, NULL, NULL);
    assert_good(trainer_eval(t, r->row, r->n, &plain, &e), &e);
    n = 0;
    stream_between(g.stream, count, &n);
    assert_good(trainer_eval(t, r->row, r->n, &yielding, &e), &e);
    stream_between(g.stream, NULL, NULL);
    assert_true(n > 20);
    assert_memory_equal(&plain.loss, &yielding.loss, sizeof plain.loss);
    trainer_free(t);
    free(r);
    golden_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peft_goldens),
        cmocka_unit_test(weights_beyond_a_bound),
        cmocka_unit_test(loraplus_golden),
        cmocka_unit_test(cut_is_not_seen),
        cmocka_unit_test(checkpointing_is_not_seen),
        cmocka_unit_test(moments_in_8_bits_learn_as_much),
        cmocka_unit_test(draws_are_a_steps_own),
        cmocka_unit_test(bad_steps_change_nothing),
        cmocka_unit_test(others_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
