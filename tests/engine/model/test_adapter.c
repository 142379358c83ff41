/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters over models that transformers made: PEFT's, with PEFT's loss and the logits of weights
 * into which the adapter is merged by its definition; ours, with the logits that PEFT has of them;
 * and rows of several adapters in one step.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/eager/eager.h"
#include "engine/load/st_writer.h"
#include "engine/model/adapter.h"
#include "engine/model/export.h"
#include "engine/run/packed.h"
#include "engine/sample/sampler.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/adapted.h"
#include "tests/lib/formats.h"
#include "tests/lib/golden.h"

enum { TOK_MAX = ADAPTED_TOK, SEQS = ADAPTED_SEQS, RANK = ADAPTED_RANK, PATH_BYTES = 300 };

static const char *const names[] = {
    "llama_plain",    "qwen2",   "gpt2",        "olmo2",          "smollm3",
    "granite",        "gemma2",  "gemma3",      "gemma3_vision",  "phi3_longrope",
    "qwen3_moe",      "mixtral", "gpt_oss",     "deepseek_v2",    "deepseek_v3",
    "mistral4",       "lfm2",    "qwen3_5",     "qwen3_5_moe",    "qwen3_next",
    "granite_hybrid", "gemma4",  "gemma4_wide", "gemma4_experts", "gemma3n"};
enum { N_NAME = sizeof names / sizeof *names };

static struct adapter *load_golden(const struct golden *g, const char *name, const char *sub)
{
    char dir[PATH_BYTES];
    snprintf(dir, sizeof dir, "tests/golden/models/%s/%s", name, sub);
    return adapted_load(g->model, dir);
}

static float *rows_new(const struct golden *g, int64_t n)
{
    return xcalloc((size_t)(n * g->model->cfg.n_vocab), sizeof(float));
}

/* ---- against others ------------------------------------------------------------------------ */

/* Faults: a scale by the wrong rule (rank, its root), halves that are swapped or transposed, a
 * product that takes its neighbour's halves. */
static void the_loss_is_pefts(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        struct json lora, steps;
        golden_init_short(&g, names[i], K_F32);
        struct adapter *a = load_golden(&g, names[i], "lora");
        struct packed_options o = {.cap_tok = 256, .cap_row = 8, .cap_group = 1};
        struct packed *p = packed_new(g.model, &o, g.stream, &e);
        struct eager *eager = eager_new(g.stream, &e);
        golden_add_row(&g, p, 0);
        golden_add_row(&g, p, 1);
        adapter_group(g.model, a, 0, packed_n_tok(p),
                      &(struct batch){.lora = packed_lora(p), .lora_stride = 1}, 0);
        const struct batch *b = packed_batch(p, packed_weight(p), 0);
        eager_begin(eager, b, &(struct eager_options){.has_lora = true, .lora_rank_max = RANK});
        struct val v = model_build(g.model, eager_builder(eager), MODEL_LOSS);
        const struct k_ce_state *s =
            (const struct k_ce_state *)(const void *)eager_view(eager, v).p;
        double loss = 0, want;
        for (int64_t k = 0; k < b->n[DIM_OUT]; k++)
            loss -= (double)b->dloss[k] * ((double)s[k].target_logit - (double)k_ce_lse(&s[k]));
        assert_good(json_get(&g.root, "lora", JSON_OBJECT, &lora, &e), &e);
        assert_good(json_get(&lora, "steps", JSON_ARRAY, &steps, &e), &e);
        struct json first = json_child(&steps);
        want = golden_num(&first, "loss");
        if (fabs(loss - want) > 1e-4 * want)
            fail_msg("%s: loss %.9g, PEFT has %.9g", names[i], loss, want);
        eager_end(eager);
        eager_free(eager);
        packed_free(p);
        adapter_unref(a);
        golden_release(&g);
    }
}

/* Adapters that were trained here, and the logits that PEFT computes once it has loaded them.
 * Faults: as above, and a directory that means one thing to PEFT and another to us. */
static void logits_are_pefts_of_what_we_trained(void **state)
{
    static const struct {
        const char *name, *model;
    } ours[] = {{"llama_lora", "llama_plain"},
                {"qwen2_rslora", "qwen2"},
                {"gpt2_rslora", "gpt2"},
                {"gpt2_lora_dropout", "gpt2"},
                {"qwen2_dora", "qwen2"},
                {"gpt2_dora", "gpt2"},
                {"phi3_lora", "phi3"},
                {"gemma3_vision_lora", "gemma3_vision"},
                {"lfm2_lora", "lfm2"},
                {"qwen3_5_lora", "qwen3_5"},
                {"deepseek_v3_lora", "deepseek_v3"},
                {"granite_hybrid_lora", "granite_hybrid"},
                {"gemma4_lora", "gemma4"},
                {"gemma4_experts_lora", "gemma4_experts"},
                {"gemma3n_lora", "gemma3n"},
                {"qwen3_moe_experts", "qwen3_moe"},
                {"gpt_oss_experts", "gpt_oss"},
                {"mixtral_experts", "mixtral"}};
    (void)state;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        int32_t token[TOK_MAX];
        char dir[PATH_BYTES], path[PATH_BYTES];
        golden_init_short(&g, ours[i].model, K_F32);
        snprintf(dir, sizeof dir, "tests/golden/adapters/%s", ours[i].name);
        snprintf(path, sizeof path, "tests/golden/adapters/%s/logits.safetensors", ours[i].name);
        struct weights *w = weights_open_file(path, &e);
        assert_good(w ? 0 : -1, &e);
        const struct weight *logits = weights_get(w, "logits");
        assert_non_null(logits);
        int64_t n = weight_rows(logits), size = n * g.model->cfg.n_vocab;
        assert_int_equal(weight_row_len(logits), g.model->cfg.n_vocab);
        assert_true(n > 0 && n <= golden_ids(&g.root, "prompt", token, TOK_MAX));
        float *want = rows_new(&g, n), *got = rows_new(&g, n);
        assert_good(weight_read_f32(logits, 0, n, want, &e), &e);
        struct runner *r = adapted_runner(&g, false);
        struct adapter *a = adapted_load(g.model, dir);
        adapted_step(&g, r, &(struct adapted_part){a, token, 0, n, 0}, 1, got);
        golden_near(dir, got, want, size, 1e-4);
        adapter_unref(a);
        runner_free(r);
        weights_close(w);
        free(want);
        free(got);
        golden_release(&g);
    }
}

/* w += scale * b a, by its definition, over the packed f32 weight. */
static void merge_one(struct golden *g, const struct param *p, const float *a, const float *b,
                      int64_t rank, double scale)
{
    float *w = xcalloc((size_t)(p->n * p->k), sizeof *w);
    const struct kernel_table *t = device_kernels(g->device);
    struct k_weight_unpack from = {.w = p->w, .dst = w, .ld_dst = p->k};
    struct k_weight_pack to = {
        .src = w, .src_type = K_F32, .ld_src = p->k, .w = p->w, .n_src = p->n};
    kernel_run(t, K_weight_unpack, &from, NULL);
    for (int64_t o = 0; o < p->n; o++)
        for (int64_t i = 0; i < p->k; i++) {
            double sum = 0;
            for (int64_t r = 0; r < rank; r++)
                sum += (double)b[o * rank + r] * (double)a[r * p->k + i];
            w[o * p->k + i] += (float)(scale * sum);
        }
    kernel_run(t, K_weight_pack, &to, NULL);
    free(w);
}

static float *half_of(const struct weights *w, const struct golden *g, const struct param *p,
                      const char *half, int64_t *rows)
{
    const char *const *prefix = spec_prefix(&g->model->cfg);
    struct err e = ERR_INIT;
    for (; *prefix; prefix++) {
        char name[PATH_BYTES];
        snprintf(name, sizeof name, "base_model.model.%s%.*s.%s.weight", *prefix,
                 (int)(strlen(p->name) - strlen(".weight")), p->name, half);
        const struct weight *x = weights_get(w, name);
        if (!x)
            continue;
        *rows = weight_rows(x);
        float *to = xcalloc((size_t)(weight_rows(x) * weight_row_len(x)), sizeof *to);
        assert_good(weight_read_f32(x, 0, *rows, to, &e), &e);
        return to;
    }
    return NULL;
}

static void merge(struct golden *g, const char *dir, double alpha, bool is_rs)
{
    char path[PATH_BYTES];
    struct err e = ERR_INIT;
    int merged = 0;
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    struct weights *w = weights_open_file(path, &e);
    assert_good(w ? 0 : -1, &e);
    for (int32_t i = 0; i < g->model->n_param; i++) {
        const struct param *p = &g->model->param[i];
        int64_t rank = 0, n = 0;
        float *a = p->is_vector ? NULL : half_of(w, g, p, "lora_A", &rank);
        float *b = a ? half_of(w, g, p, "lora_B", &n) : NULL;
        if (a)
            merge_one(g, p, a, b, rank, alpha / (is_rs ? sqrt((double)rank) : (double)rank));
        merged += a != NULL;
        free(a);
        free(b);
    }
    assert_int_equal(2 * merged, weights_count(w));
    weights_close(w);
}

/* The adapter's logits of the golden's prompt, then those of the merged weights. */
static void against_merged(struct golden *g, const char *what, const char *dir, double alpha,
                           bool is_rs)
{
    int32_t token[TOK_MAX];
    int64_t n = golden_ids(&g->root, "prompt", token, TOK_MAX), size = n * g->model->cfg.n_vocab;
    float *got = rows_new(g, n), *want = rows_new(g, n);
    struct runner *r = adapted_runner(g, false);
    struct adapter *a = adapted_load(g->model, dir);
    double change = 0, most = 0;
    adapted_step(g, r, &(struct adapted_part){NULL, token, 0, n, 0}, 1, want);
    adapted_step(g, r, &(struct adapted_part){a, token, 0, n, 0}, 1, got);
    for (int64_t i = 0; i < size; i++) {
        change = fmax(change, fabs((double)got[i] - (double)want[i]));
        most = fmax(most, fabs((double)want[i]));
    }
    assert_true(change > 1e-3 * most); /* it does something */
    merge(g, dir, alpha, is_rs);
    adapted_step(g, r, &(struct adapted_part){NULL, token, 0, n, 0}, 1, want);
    golden_near(what, got, want, size, 1e-4);
    adapter_unref(a);
    runner_free(r);
    free(got);
    free(want);
}

/* Faults: any of the above, and any in what is applied to which rows. */
static void logits_are_those_of_merged_weights(void **state)
{
    static const char *const sub[] = {"lora", "lora_final"};
    (void)state;
    for (int i = 0; i < 2 * N_NAME; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        struct json lora;
        char dir[PATH_BYTES];
        const char *name = names[i / 2];
        golden_init_short(&g, name, K_F32);
        assert_good(json_get(&g.root, "lora", JSON_OBJECT, &lora, &e), &e);
        snprintf(dir, sizeof dir, "tests/golden/models/%s/%s", name, sub[i % 2]);
        against_merged(&g, dir, dir, golden_num(&lora, "lora_alpha"),
                       json_member(&lora, "use_rslora").node != NULL);
        golden_release(&g);
    }
}

/* Faults: what a merged model's files hold is not what the adapter does. */
static void merged_files_have_the_adapters_logits(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        struct golden g;
        struct model_dir dir;
        struct err e = ERR_INIT;
        int32_t token[TOK_MAX];
        char adapter[PATH_BYTES], to[PATH_BYTES], *root = test_dir_new();
        golden_init_short(&g, names[i], K_F32);
        struct model_options mo = {.type = K_F32, .kv_type = K_F32, .ctx = g.model->ctx};
        int64_t n = golden_ids(&g.root, "prompt", token, TOK_MAX);
        float *want = rows_new(&g, n), *got = rows_new(&g, n);
        snprintf(adapter, sizeof adapter, "tests/golden/models/%s/lora_final", names[i]);
        snprintf(to, sizeof to, "%s/merged", root);
        assert_good(model_export_merged(&g.dir, g.model, adapter, to, &e), &e);
        struct runner *r = adapted_runner(&g, false);
        struct adapter *a = adapted_load(g.model, adapter);
        adapted_step(&g, r, &(struct adapted_part){a, token, 0, n, 0}, 1, want);
        adapter_unref(a);
        runner_free(r);
        assert_good(model_dir_init(&dir, to, &e), &e);
        struct model *base = g.model, *merged = model_load(&dir, &mo, g.device, &e);
        assert_good(merged ? 0 : -1, &e);
        g.model = merged;
        r = adapted_runner(&g, false);
        adapted_step(&g, r, &(struct adapted_part){NULL, token, 0, n, 0}, 1, got);
        golden_near(names[i], got, want, n * g.model->cfg.n_vocab, 1e-4);
        runner_free(r);
        g.model = base;
        model_free(merged);
        model_dir_release(&dir);
        free(want);
        free(got);
        golden_release(&g);
        test_dir_free(root);
    }
}

/* ---- against itself ------------------------------------------------------------------------ */

/* Fault: a pass that moves a product's adapter behind what reads its sum. */
static void static_is_eager(void **state)
{
    static const enum k_type type[] = {K_F32, K_BF16, K_INT8};
    (void)state;
    for (int i = 0; i < 3 * N_NAME; i++) {
        struct golden g;
        int32_t token[TOK_MAX];
        golden_init_short(&g, names[i / 3], type[i % 3]);
        int64_t n = golden_ids(&g.root, "prompt", token, TOK_MAX);
        float *plan = rows_new(&g, n), *eager = rows_new(&g, n);
        struct adapter *a = load_golden(&g, names[i / 3], "lora");
        struct runner *rs = adapted_runner(&g, false), *re = adapted_runner(&g, true);
        adapted_step(&g, rs, &(struct adapted_part){a, token, 0, n, 0}, 1, plan);
        adapted_step(&g, re, &(struct adapted_part){a, token, 0, n, 0}, 1, eager);
        assert_memory_equal(plan, eager, (size_t)(n * g.model->cfg.n_vocab) * sizeof *plan);
        runner_free(rs);
        runner_free(re);
        adapter_unref(a);
        free(plan);
        free(eager);
        golden_release(&g);
    }
}

static void one_token_further(struct golden *g, struct runner *r, struct adapted_part *p,
                              float *all, float *one)
{
    int64_t v = g->model->cfg.n_vocab;
    for (int s = 0; s < SEQS; s++) {
        p[s].pos = p[s].n;
        p[s].n = 1;
    }
    adapted_step(g, r, p, SEQS, all);
    for (int s = 0; s < SEQS; s++) {
        adapted_step(g, r, &p[s], 1, one);
        assert_memory_equal(all + s * v, one, (size_t)v * sizeof *one);
    }
    assert_memory_not_equal(all, all + 2 * v, (size_t)v * sizeof *all);
}

/* Faults: rows that get another group's adapter, a group that leaks into the rows beside it, a sum
 * whose order depends on the batch. */
static void rows_of_many_adapters_are_each_alone(void **state)
{
    static const enum k_type type[] = {K_F32, K_BF16};
    (void)state;
    for (int i = 0; i < 2 * N_NAME; i++) {
        struct golden g;
        int32_t token[TOK_MAX];
        golden_init_short(&g, names[i / 2], type[i % 2]);
        int64_t n = golden_ids(&g.root, "prompt", token, TOK_MAX), v = g.model->cfg.n_vocab;
        struct adapter *a = load_golden(&g, names[i / 2], "lora"),
                       *b = load_golden(&g, names[i / 2], "lora_final");
        struct runner *r = adapted_runner(&g, false);
        struct adapted_part p[SEQS] = {{a, token, 0, n - 1, 0},
                                       {NULL, token, 0, n - 4, 4},
                                       {b, token, 0, n - 1, 8},
                                       {a, token + 2, 0, n - 3, 12}};
        float *all = rows_new(&g, SEQS * n), *one = rows_new(&g, n), *at = all;
        adapted_step(&g, r, p, SEQS, all);
        for (int s = 0; s < SEQS; at += p[s++].n * v) {
            adapted_step(&g, r, &p[s], 1, one);
            assert_memory_equal(at, one, (size_t)(p[s].n * v) * sizeof *one);
        }
        if (!model_state_bytes(g.model)) /* which goes on with each step */
            one_token_further(&g, r, p, all, one);
        runner_free(r);
        adapter_unref(a);
        adapter_unref(b);
        free(all);
        free(one);
        golden_release(&g);
    }
}

/* The groups of a training that holds the halves as they are in the file. */
static void bind_halves(const struct golden *g, const char *dir, double scale, struct packed *p,
                        float **half)
{
    char path[PATH_BYTES];
    struct err e = ERR_INIT;
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    struct weights *w = weights_open_file(path, &e);
    assert_good(w ? 0 : -1, &e);
    for (int32_t i = 0; i < g->model->n_param; i++) {
        const struct param *q = &g->model->param[i];
        int64_t rank = 0, n = 0;
        if (q->lora < 0)
            continue;
        float *a = half_of(w, g, q, "lora_A", &rank), *b = half_of(w, g, q, "lora_B", &n);
        packed_lora(p)[q->lora] =
            (struct k_lora_group){.rank = rank, .a = a, .b = b, .scale = (float)scale};
        half[2 * q->lora] = a;
        half[2 * q->lora + 1] = b;
    }
    weights_close(w);
}

static void trained(struct golden *g, const char *dir, double scale, const int32_t *token,
                    int64_t n, float *logprob)
{
    struct err e = ERR_INIT;
    struct packed_options o = {.cap_tok = TOK_MAX, .cap_row = 1, .cap_group = 1};
    struct packed *p = packed_new(g->model, &o, g->stream, &e);
    struct eager *eager = eager_new(g->stream, &e);
    float **half = xcalloc(2 * (size_t)g->model->n_lora, sizeof *half);
    int32_t label[TOK_MAX];
    for (int64_t i = 0; i < n; i++)
        label[i] = token[(i + 1) % n];
    assert_good(packed_add(p, token, label, NULL, n, 1, &e), &e);
    bind_halves(g, dir, scale, p, half);
    eager_begin(
        eager, packed_batch(p, (double)n, 0),
        &(struct eager_options){.wants_grad = true, .has_lora = true, .lora_rank_max = RANK});
    struct val v = model_build(g->model, eager_builder(eager), MODEL_LOSS);
    const struct k_ce_state *s = (const struct k_ce_state *)(const void *)eager_view(eager, v).p;
    for (int64_t i = 0; i < n; i++)
        logprob[i] = s[i].target_logit - k_ce_lse(&s[i]);
    eager_end(eager);
    eager_free(eager);
    packed_free(p);
    for (int32_t i = 0; i < 2 * g->model->n_lora; i++)
        free(half[i]);
    free(half);
}

/* Faults: a load that changes a bit of a half or of the scale, a served product in another order
 * than the trained one. */
static void a_served_logprob_is_the_trained_one(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS_PACKED; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        int32_t token[TOK_MAX];
        float want[TOK_MAX];
        golden_init_short(&g, "llama_plain", formats_packed[i]);
        int64_t n = golden_ids(&g.root, "prompt", token, TOK_MAX), v = g.model->cfg.n_vocab;
        float *row = rows_new(&g, n);
        struct adapter *a = load_golden(&g, "llama_plain", "lora");
        struct runner *r = adapted_runner(&g, false);
        struct sampler *s = sampler_new(v, device_kernels(g.device), &e);
        trained(&g, "tests/golden/models/llama_plain/lora", 2, token, n, want);
        adapted_step(&g, r, &(struct adapted_part){a, token, 0, n, 0}, 1, row);
        for (int64_t k = 0; k < n; k++) {
            struct sample_taken t;
            assert_good(sampler_score(s, row + k * v, token[(k + 1) % n], 0, &t, &e), &e);
            assert_memory_equal(&t.logprob, &want[k], sizeof t.logprob);
        }
        sampler_free(s);
        runner_free(r);
        adapter_unref(a);
        free(row);
        golden_release(&g);
    }
}

/* ---- adapters made here -------------------------------------------------------------------- */

/* Halves of q and down in every layer, as `type`; small numbers that all types hold exactly. */
static void write_adapter(const struct model *m, const char *dir, int64_t rank, enum st_dtype type)
{
    struct st_writer *w = st_writer_new();
    struct err e = ERR_INIT;
    char text[PATH_BYTES];
    for (int64_t l = 0; l < m->cfg.n_layer; l++) {
        static const struct {
            const char *name;
            enum slot slot;
        } at[] = {{"self_attn.q_proj", SLOT_Q}, {"mlp.down_proj", SLOT_DOWN}};
        for (int k = 0; k < 4; k++) {
            const struct param *p = model_layer(m, l, at[k / 2].slot);
            int64_t dim[2] = {k % 2 ? p->n : rank, k % 2 ? rank : p->k};
            snprintf(text, sizeof text, "base_model.model.model.layers.%d.%s.lora_%c.weight",
                     (int)l, at[k / 2].name, "AB"[k % 2]);
            assert_good(st_writer_add(w, text, type, 2, dim, &e), &e);
        }
    }
    snprintf(text, sizeof text, "%s/adapter_model.safetensors", dir);
    assert_good(st_writer_open(w, text, &e), &e);
    uint64_t i = 0;
    for (const struct st_tensor *t; (t = st_writer_next(w)); i++) {
        float x = (float)((int)rng_below(4, 0, i, 9) - 4) / 32;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        k_bf16 half = (k_bf16)(bits >> 16);
        if (type == ST_F32)
            assert_good(st_writer_write(w, &x, sizeof x, &e), &e);
        else
            assert_good(st_writer_write(w, &half, sizeof half, &e), &e);
    }
    assert_good(st_writer_commit(w, &e), &e);
    st_writer_free(w);
    snprintf(text, sizeof text,
             "{\"peft_type\":\"LORA\",\"r\":%d,\"lora_alpha\":3,"
             "\"target_modules\":[\"q_proj\",\"down_proj\"]}",
             (int)rank);
    put_text(dir, "adapter_config.json", text);
}

/* Faults: a rank that fills no vector, or more scratch than there is; halves read as another type.
 */
static void every_rank(void **state)
{
    static const int64_t ranks[] = {1, 2, 7, 16, 33, 64, 200, RANK};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof ranks / sizeof *ranks; i++) {
        struct golden g;
        char *dir = test_dir_new();
        golden_init_short(&g, "llama_plain", K_F32);
        write_adapter(g.model, dir, ranks[i / 2], i % 2 ? ST_BF16 : ST_F32);
        against_merged(&g, "made here", dir, 3, false);
        golden_release(&g);
        test_dir_free(dir);
    }
}

/* Faults: numbers kept as bf16 that lead to other bits than the same as f32, in one row or many, or
 * that take as much memory. */
static void bf16_is_f32_in_half_the_memory(void **state)
{
    static const int64_t ranks[] = {3, 16};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof ranks / sizeof *ranks; i++) {
        struct golden g;
        int32_t token[TOK_MAX];
        golden_init_short(&g, "llama_plain", i % 2 ? K_BF16 : K_F32);
        int64_t n = golden_ids(&g.root, "prompt", token, TOK_MAX), rank = ranks[i / 2];
        float *wide = rows_new(&g, n), *narrow = rows_new(&g, n);
        struct runner *r = adapted_runner(&g, false);
        char *dir = test_dir_new();
        write_adapter(g.model, dir, rank, ST_F32);
        struct adapter *a = adapted_load(g.model, dir);
        write_adapter(g.model, dir, rank, ST_BF16);
        struct adapter *b = adapted_load(g.model, dir);
        for (int64_t rows = 1; rows <= n; rows += n - 1) {
            adapted_step(&g, r, &(struct adapted_part){a, token, 0, rows, 0}, 1, wide);
            adapted_step(&g, r, &(struct adapted_part){b, token, 0, rows, 0}, 1, narrow);
            assert_memory_equal(narrow, wide, (size_t)(rows * g.model->cfg.n_vocab) * sizeof *wide);
        }
        assert_true(adapter_bytes(b) < adapter_bytes(a) * 3 / 4);
        adapter_unref(a);
        adapter_unref(b);
        runner_free(r);
        test_dir_free(dir);
        free(wide);
        free(narrow);
        golden_release(&g);
    }
}

/* Faults: a limit off by one, memory that a refused adapter keeps, a reference lost. */
static void limits_and_references(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    const char *dir = "tests/golden/models/llama_plain/lora";
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    size_t before = mem_stat().now_bytes;
    struct adapter *a = adapted_load(g.model, dir);
    assert_int_equal(adapter_rank(a), 4);
    assert_int_equal(adapter_version(a), 7);
    assert_string_equal(adapter_name(a), "tuned");
    assert_true(adapter_created(a) > 1700000000);
    struct adapter_budget budget = {.bytes_max = 2 * adapter_bytes(a) - 1};
    struct adapter_options o = {.name = "x", .version = 1, .rank_max = 4, .budget = &budget};
    struct adapter *b = adapter_load(g.model, dir, &o, &e);
    assert_good(b ? 0 : -1, &e);
    assert_int_equal(budget.bytes, adapter_bytes(a));
    assert_err(adapter_load(g.model, dir, &o, &e) == NULL, &e, ERR_TOO_LARGE, "bytes");
    budget.bytes_max++;
    struct adapter *c = adapter_load(g.model, dir, &o, &e);
    assert_good(c ? 0 : -1, &e);
    adapter_unref(c);
    assert_ptr_equal(adapter_ref(b), b);
    adapter_unref(b);
    assert_int_equal(adapter_rank(b), 4);
    adapter_unref(b);
    o.rank_max = 3;
    assert_err(adapter_load(g.model, dir, &o, &e) == NULL, &e, ERR_TOO_LARGE, "rank 4");
    assert_int_equal(budget.bytes, 0);
    adapter_unref(a);
    adapter_unref(NULL);
    assert_int_equal(mem_stat().now_bytes, before);
    golden_release(&g);
}

/* Faults: an adapter that attaches to other weights of the same shape; one that PEFT wrote, or one
 * of the same weights in another type, that does not attach. */
static void of_its_base(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct adapter_budget budget = {.bytes_max = 1 << 20};
    struct adapter_options o = {.name = "x", .version = 1, .rank_max = 4, .budget = &budget};
    char *dir = test_dir_new(), path[512];
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    assert_string_equal(g.model->base.types, "f32");
    write_adapter(g.model, dir, 2, ST_F32);
    adapter_unref(adapted_load(g.model, dir));
    struct base_id id = g.model->base;
    snprintf(path, sizeof path, "%s/" BASE_ID_NAME, dir);
    snprintf(id.types, sizeof id.types, "int8");
    assert_good(base_id_put(&id, "mine", path, &e), &e);
    adapter_unref(adapted_load(g.model, dir));
    id.files[3] = id.files[3] == '0' ? '1' : '0';
    assert_good(base_id_put(&id, "mine", path, &e), &e);
    assert_err(adapter_load(g.model, dir, &o, &e) == NULL, &e, ERR_BAD_INPUT,
               "another base: 'mine'");
    assert_non_null(strstr(e.msg, g.model->base.files));
    assert_non_null(strstr(e.msg, id.files));
    golden_release(&g);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_pefts),
        cmocka_unit_test(logits_are_pefts_of_what_we_trained),
        cmocka_unit_test(logits_are_those_of_merged_weights),
        cmocka_unit_test(merged_files_have_the_adapters_logits),
        cmocka_unit_test(static_is_eager),
        cmocka_unit_test(rows_of_many_adapters_are_each_alone),
        cmocka_unit_test(a_served_logprob_is_the_trained_one),
        cmocka_unit_test(every_rank),
        cmocka_unit_test(bf16_is_f32_in_half_the_memory),
        cmocka_unit_test(limits_and_references),
        cmocka_unit_test(of_its_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
