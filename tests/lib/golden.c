/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading goldens.
 */
#include "tests/lib/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/device/open.h"
#include "tests/lib/test.h"

enum { ROW_MAX = 256 };

/* Models whose answers are vectors or numbers of a text. */
#define ENCODERS                                                                                   \
    "bert_cls", "bert_mean", "xlmr_cls", "qwen3_last", "bert_rank", "xlmr_label", "qwen3_rank",    \
        "modernbert_cls", "modernbert_rank", "modernbert_label", "gemma3_mean", "nomic_mean"

const char *const golden_names[] = {"llama_plain",
                                    "llama_tied",
                                    "llama_mha_bias",
                                    "llama_rope_linear",
                                    "llama_rope_dynamic",
                                    "llama_rope_llama3",
                                    "llama_rope_yarn",
                                    "llama_rope_yarn_mscale",
                                    "llama_rope_longrope",
                                    "mistral_window",
                                    "qwen2",
                                    "qwen2_window",
                                    "ministral_alternating",
                                    "qwen3",
                                    "qwen3_alternating",
                                    "olmo2",
                                    "olmo2_bias",
                                    "olmo3",
                                    "ministral3",
                                    "smollm3",
                                    "smollm3_window",
                                    "granite",
                                    "gemma2",
                                    "gemma3",
                                    "gemma3_scaled",
                                    "phi3",
                                    "phi3_longrope",
                                    "gemma3_vision",
                                    "llava",
                                    "qwen2_5_vl",
                                    "qwen3_vl",
                                    "qwen3_moe",
                                    "qwen3_moe_dense",
                                    "mixtral",
                                    "olmoe",
                                    "olmoe_normed",
                                    "gpt_oss",
                                    "deepseek_v2",
                                    "deepseek_v2_groups",
                                    "deepseek_v3",
                                    "deepseek_v3_whole",
                                    "mistral4",
                                    "lfm2",
                                    "lfm2_bias",
                                    "qwen3_5",
                                    "qwen3_5_tied",
                                    "qwen3_5_vision",
                                    "granite_hybrid",
                                    "granite_hybrid_dense",
                                    "granite_hybrid_groups",
                                    "qwen3_5_moe",
                                    "qwen3_5_moe_vision",
                                    "qwen3_next",
                                    "qwen2_moe",
                                    "qwen2_moe_balanced",
                                    "gemma4",
                                    "gemma4_wide",
                                    "gemma4_experts",
                                    "gemma4_vision",
                                    "gemma3n",
                                    "gemma3n_plain",
                                    "gpt2",
                                    "gpt2_untied_scaled",
                                    ENCODERS,
                                    NULL};

const char *const golden_encoders[] = {ENCODERS, NULL};

bool golden_is_encoder(const char *name)
{
    for (const char *const *one = golden_encoders; *one; one++)
        if (strcmp(*one, name) == 0)
            return true;
    return false;
}

static void open_model(struct golden *g, const char *device, const char *path,
                       const struct model_options *opt)
{
    struct err e = ERR_INIT;
    struct model_options o = *opt;
    memset(g, 0, sizeof *g);
    g->pool = pool_new(2, false, &e);
    assert_non_null(g->pool);
    g->device = device_open(&(struct device_options){.want = device,
                                                     .pool = g->pool,
                                                     .kernels = getenv("TEST_KERNELS")},
                            &e);
    assert_good(g->device ? 0 : -1, &e);
    g->stream = stream_new(g->device, &e);
    assert_good(model_dir_init(&g->dir, path, &e), &e);
    o.pool = g->pool;
    g->model = model_load(&g->dir, &o, g->device, &e);
    assert_good(g->model ? 0 : -1, &e);
}

static void open_numbers(struct golden *g, const char *dir, const char *json, const char *tensors)
{
    struct err e = ERR_INIT;
    char path[512];
    if (json) {
        snprintf(path, sizeof path, "%s/%s", dir, json);
        g->doc = json_read(path, json, &json_rules_config, &e);
        assert_good(g->doc ? 0 : -1, &e);
        g->root = json_root(g->doc);
    }
    if (tensors) {
        snprintf(path, sizeof path, "%s/%s", dir, tensors);
        g->tensors = weights_open_file(path, &e);
        assert_good(g->tensors ? 0 : -1, &e);
    }
}

void golden_init(struct golden *g, const char *name, enum k_type type, int64_t ctx)
{
    golden_init_on(g, "cpu", name, type, ctx);
}

static void init_as(struct golden *g, const char *device, const char *name,
                    const struct model_options *o)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/models/%s", name);
    open_model(g, device, path, o);
    open_numbers(g, path, "golden.json", "golden.safetensors");
}

void golden_init_on(struct golden *g, const char *device, const char *name, enum k_type type,
                    int64_t ctx)
{
    init_as(g, device, name, &(struct model_options){.type = (int)type, .kv_type = -1, .ctx = ctx});
}

void golden_init_cells_int8(struct golden *g, const char *name, enum k_type type, int64_t ctx)
{
    init_as(g, "cpu", name,
            &(struct model_options){.type = (int)type, .kv_type = K_INT8, .ctx = ctx});
}

void golden_init_gguf(struct golden *g, const char *file, const char *name, enum k_type type)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/gguf/%s.gguf", file);
    open_model(g, "cpu", path, &(struct model_options){.type = (int)type, .kv_type = -1});
    snprintf(path, sizeof path, "tests/golden/models/%s", name);
    open_numbers(g, path, "golden.json", "golden.safetensors");
}

void golden_init_stored(struct golden *g, const char *name)
{
    init_as(g, "cpu", name, &(struct model_options){.type = -1, .kv_type = -1});
}

bool golden_init_real(struct golden *g, const char *name, const char *json, const char *tensors)
{
    const char *data = getenv("TANDEM_TEST_DATA");
    char path[400];
    snprintf(path, sizeof path, "%s/models/%s", data ? data : "../shared/data", name);
    if (access(path, R_OK)) {
        print_message("no model %s under TANDEM_TEST_DATA: skipped\n", name);
        return false;
    }
    open_model(g, "cpu", path, &(struct model_options){.type = K_F32, .kv_type = -1});
    open_numbers(g, path, json, tensors);
    return true;
}

void golden_init_short(struct golden *g, const char *name, enum k_type type)
{
    golden_init(g, name, type, 0);
    if (g->model->cfg.rope.kind == ROPE_LONGROPE) {
        int64_t ctx = g->model->cfg.rope.original_max_pos;
        golden_release(g);
        golden_init(g, name, type, ctx);
    }
}

void golden_release(struct golden *g)
{
    if (g->tensors)
        weights_close(g->tensors);
    json_free(g->doc);
    model_free(g->model);
    model_dir_release(&g->dir);
    stream_free(g->stream);
    device_free(g->device);
    pool_free(g->pool);
}

int64_t golden_ids(const struct json *v, const char *key, int32_t *id, int64_t max)
{
    struct err e = ERR_INIT;
    struct json list, c;
    int64_t n = 0, value;
    assert_good(json_get(v, key, JSON_ARRAY, &list, &e), &e);
    json_each(c, list)
    {
        assert_true(n < max);
        assert_good(json_as_int(&c, -100, 1 << 30, &value, &e), &e);
        id[n++] = (int32_t)value;
    }
    return n;
}

double golden_num(const struct json *v, const char *key)
{
    struct err e = ERR_INIT;
    double x;
    assert_good(json_get_num(v, key, &x, &e), &e);
    return x;
}

float *golden_tensor(const struct golden *g, const char *name, int64_t *n)
{
    struct err e = ERR_INIT;
    const struct weight *w = weights_get(g->tensors, name);
    if (!w)
        return NULL;
    *n = weight_rows(w) * weight_row_len(w);
    float *p = try_alloc((size_t)*n, sizeof *p, name, &e);
    assert_non_null(p);
    assert_good(weight_read_f32(w, 0, weight_rows(w), p, &e), &e);
    return p;
}

float *golden_of_param(const struct golden *g, const char *kind, const struct param *p, int64_t *n)
{
    const char *const *prefix = spec_prefix(&g->model->cfg);
    char name[256];
    for (; *prefix; prefix++) {
        snprintf(name, sizeof name, "%s.%s%s", kind, *prefix, p->name);
        float *t = golden_tensor(g, name, n);
        if (t)
            return t;
    }
    fail_msg("no golden of %s.%s", kind, p->name);
    return NULL;
}

void golden_near(const char *what, const float *a, const float *b, int64_t n, double rel)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)b[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= rel * most))
            fail_msg("%s: element %lld: %.9g, the golden has %.9g (largest %.3g)", what,
                     (long long)i, (double)a[i], (double)b[i], most);
}

void golden_add_row(const struct golden *g, struct packed *p, int64_t i)
{
    struct err e = ERR_INIT;
    int32_t id[ROW_MAX], label[ROW_MAX];
    struct json rows, row;
    assert_good(json_get(&g->root, "rows", JSON_ARRAY, &rows, &e), &e);
    row = json_child(&rows);
    for (int64_t k = 0; k < i; k++)
        row = json_next(&row);
    int64_t n = golden_ids(&row, "ids", id, ROW_MAX);
    assert_int_equal(golden_ids(&row, "labels", label, ROW_MAX), n);
    for (int64_t k = 0; k < n; k++)
        label[k] = label[k] < 0 ? -1 : label[k];
    assert_good(packed_add(p, id, label, NULL, n, (uint64_t)i, &e), &e);
}
