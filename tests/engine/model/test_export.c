/* SPDX-License-Identifier: Apache-2.0
 *
 * Models written anew: each tensor's type and shard, the bytes that nobody changed, the rounding of
 * those that were. Faults: a shard that is left out or named otherwise, a type that is widened, a
 * narrow number that is rounded twice or cut off, a transposed tensor that is changed as if it were
 * not, a folder that is there in part.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/load/path.h"
#include "engine/load/st_writer.h"
#include "engine/load/weights.h"
#include "engine/model/export.h"
#include "kernels/float16.h"
#include "tests/lib/golden.h"

enum { NAME_BYTES = 512, ROW_MAX = 4096 };

/* What stands in which shard, and as what. */
static int shard_of(const char *name)
{
    return strstr(name, "layers.1.") != NULL;
}

static enum st_dtype dtype_of(const char *name)
{
    return strstr(name, "norm") ? ST_F32 : strstr(name, "embed_tokens") ? ST_F16 : ST_BF16;
}

static void narrow(enum st_dtype type, const float *x, int64_t n, void *to)
{
    uint16_t *half = to;
    if (type == ST_F32) {
        memcpy(to, x, (size_t)n * sizeof *x);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        half[i] = type == ST_BF16 ? bf16_from_f32(x[i]) : f16_from_f32(x[i]);
}

static const char *const shard_name[] = {"model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors"};

static void write_shard(const struct weights *w, const char *dir, int shard, struct buf *index)
{
    struct err e = ERR_INIT;
    struct st_writer *out = st_writer_new();
    const struct st_tensor *next;
    char *path = path_join(dir, shard_name[shard]);
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct st_tensor *t = weights_at(w, i)->t;
        if (shard_of(t->name) != shard)
            continue;
        assert_good(st_writer_add(out, t->name, dtype_of(t->name), t->rank, t->dim, &e), &e);
        buf_printf(index, "%s\"%s\":\"%s\"", index->data[index->len - 1] == '{' ? "" : ",", t->name,
                   shard_name[shard]);
    }
    assert_good(st_writer_open(out, path, &e), &e);
    while ((next = st_writer_next(out))) {
        const struct weight *from = weights_get(w, next->name);
        int64_t n = st_tensor_count(from->t);
        float *x = xcalloc((size_t)n, sizeof *x);
        void *to = xcalloc((size_t)n, sizeof *x);
        assert_good(weight_read_f32(from, 0, weight_rows(from), x, &e), &e);
        narrow(next->dtype, x, n, to);
        assert_good(st_writer_write(out, to, next->end - next->begin, &e), &e);
        free(x);
        free(to);
    }
    assert_good(st_writer_commit(out, &e), &e);
    st_writer_free(out);
    free(path);
}

static void put_text(const char *dir, const char *name, const char *text)
{
    struct err e = ERR_INIT;
    char *path = path_join(dir, name);
    assert_good(aside_put(path, text, strlen(text), &e), &e);
    free(path);
}

/* A golden's model in two shards of three types. */
static void make_sharded(const char *name, const char *dir)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct buf index, config;
    golden_init(&g, name, K_F32, 0);
    buf_init(&index, 1 << 20);
    buf_init(&config, 1 << 20);
    char *path = path_join(g.dir.path, "config.json");
    assert_good(fs_read(path, &config, &e), &e);
    put_text(dir, "config.json", config.data);
    put_text(dir, "notes.bin", "not a part of the model");
    buf_str(&index, "{\"metadata\":{},\"weight_map\":{");
    for (int shard = 0; shard < 2; shard++)
        write_shard(g.dir.weights, dir, shard, &index);
    buf_str(&index, "}}");
    put_text(dir, "model.safetensors.index.json", index.data);
    buf_release(&index);
    buf_release(&config);
    free(path);
    golden_release(&g);
}

/* Doubles and adds a little that a half cannot hold, in two parameters. */
static bool has(void *ctx, const struct param *p)
{
    (void)ctx;
    return strcmp(p->name, "layers.1.self_attn.q_proj.weight") == 0 ||
           strcmp(p->name, "embed_tokens.weight") == 0 || strcmp(p->name, "norm.weight") == 0;
}

static float changed(float x, int64_t place)
{
    return x * 1.75f + 1e-3f * (float)(place % 7);
}

static int fill(void *ctx, const struct param *p, bool is_transposed, int64_t row, int64_t n_row,
                float *x, struct err *e)
{
    (void)ctx, (void)e;
    int64_t n_col = p->is_vector ? 1 : is_transposed ? p->n : p->k;
    for (int64_t i = 0; i < n_row * n_col; i++)
        x[i] = changed(x[i], row * n_col + i);
    return 0;
}

static void check_tensor(const struct weight *from, const struct weight *to, bool is_changed)
{
    struct err e = ERR_INIT;
    int64_t n = st_tensor_count(from->t);
    size_t bytes = from->t->end - from->t->begin;
    void *a = xcalloc((size_t)n, sizeof(float)), *b = xcalloc((size_t)n, sizeof(float));
    float *x = xcalloc((size_t)n, sizeof *x);
    assert_int_equal(from->t->dtype, to->t->dtype);
    assert_string_equal(st_file_name(from->file), st_file_name(to->file));
    assert_good(weight_read(to, 0, weight_rows(to), b, &e), &e);
    if (is_changed) {
        assert_good(weight_read_f32(from, 0, weight_rows(from), x, &e), &e);
        for (int64_t i = 0; i < n; i++)
            x[i] = changed(x[i], i);
        narrow(from->t->dtype, x, n, a);
    } else {
        assert_good(weight_read(from, 0, weight_rows(from), a, &e), &e);
    }
    assert_memory_equal(a, b, bytes);
    free(a);
    free(b);
    free(x);
}

static void shards_and_types_stay(void **state)
{
    char *root = test_dir_new(), from[NAME_BYTES], to[NAME_BYTES];
    struct model_dir a, b;
    struct err e = ERR_INIT;
    struct model_options mo = {.type = K_F32, .kv_type = -1};
    struct export_change c = {.has = has, .fill = fill};
    int n_changed = 0;
    (void)state;
    snprintf(from, sizeof from, "%s/from", root);
    snprintf(to, sizeof to, "%s/to", root);
    assert_good(fs_mkdirs(from, &e), &e);
    make_sharded("llama_plain", from);
    assert_good(model_dir_init(&a, from, &e), &e);
    struct model *m = model_new(&a.config, &mo, NULL, &e);
    assert_good(model_export(&a, m, to, &c, &e), &e);
    assert_good(model_dir_init(&b, to, &e), &e);
    assert_int_equal(weights_count(a.weights), weights_count(b.weights));
    for (size_t i = 0; i < weights_count(a.weights); i++) {
        const struct weight *w = weights_at(a.weights, i);
        bool is_changed = strstr(w->t->name, "layers.1.self_attn.q_proj.weight") ||
                          strstr(w->t->name, "embed_tokens") ||
                          strcmp(w->t->name, "model.norm.weight") == 0;
        const struct weight *other = weights_get(b.weights, w->t->name);
        assert_non_null(other);
        check_tensor(w, other, is_changed);
        n_changed += is_changed;
    }
    assert_int_equal(n_changed, 3);
    assert_false(path_exists(to, "notes.bin"));
    assert_err(model_export(&a, m, to, &c, &e), &e, ERR_EXISTS, "is there already");
    model_free(m);
    model_dir_release(&a);
    model_dir_release(&b);
    test_dir_free(root);
}

static bool has_expert(void *ctx, const struct param *p)
{
    (void)ctx;
    bool is_first = strncmp(p->name, "layers.0.", 9) == 0;
    return strstr(p->name,
                  is_first ? ".experts.3.down_proj.weight" : ".experts.2.up_proj.weight") ||
           (is_first && strstr(p->name, ".experts.1.gate_proj.bias"));
}

/* A parameter before and behind: matrices are changed as they stand. */
static void check_expert(const struct model_dir *from, const struct model_dir *to,
                         const struct param *p, bool by_inputs)
{
    char name[NAME_BYTES];
    struct err e = ERR_INIT;
    int64_t n = p->n * p->k;
    float *x = xcalloc((size_t)n, sizeof *x), *y = xcalloc((size_t)n, sizeof *y);
    snprintf(name, sizeof name, "model.%s", p->name);
    const struct weight *a = weights_get(from->weights, name), *b = weights_get(to->weights, name);
    if (!a) /* the head */
        a = weights_get(from->weights, p->name), b = weights_get(to->weights, p->name);
    assert_true(a && b);
    assert_good(weight_read_f32(a, 0, weight_rows(a), x, &e), &e);
    assert_good(weight_read_f32(b, 0, weight_rows(b), y, &e), &e);
    for (int64_t i = 0; i < n && has_expert(NULL, p); i++)
        x[i] = changed(x[i], p->is_vector || !by_inputs ? i : i % p->k * p->n + i / p->k);
    if (memcmp(x, y, (size_t)n * sizeof *x) != 0)
        fail_msg("%s", p->name);
    free(x);
    free(y);
}

static void check_stacked(const char *name)
{
    char *root = test_dir_new(), to[NAME_BYTES];
    struct golden g;
    struct model_dir b;
    struct err e = ERR_INIT;
    struct export_change c = {.has = has_expert, .fill = fill};
    golden_init(&g, name, K_F32, 0);
    snprintf(to, sizeof to, "%s/to", root);
    assert_good(model_export(&g.dir, g.model, to, &c, &e), &e);
    assert_good(model_dir_init(&b, to, &e), &e);
    assert_int_equal(weights_count(g.dir.weights), weights_count(b.weights));
    for (int32_t i = 0; i < g.model->n_param; i++)
        check_expert(&g.dir, &b, &g.model->param[i], g.model->cfg.has_expert_bias);
    model_dir_release(&b);
    golden_release(&g);
    test_dir_free(root);
}

/* Faults: what an expert learnt is lost where all of a layer share a tensor, or goes to another. */
static void stacked_experts_are_changed(void **state)
{
    (void)state;
    check_stacked("gpt_oss");
    check_stacked("qwen3_5_moe");
    check_stacked("granite_hybrid");
    check_stacked("gemma4_experts");
}

static int refuse(void *ctx, const struct param *p, bool is_transposed, int64_t row, int64_t n_row,
                  float *x, struct err *e)
{
    (void)ctx, (void)p, (void)is_transposed, (void)row, (void)n_row, (void)x;
    return err_set(e, ERR_IO, "no numbers");
}

static void a_fault_leaves_nothing(void **state)
{
    char *root = test_dir_new(), to[NAME_BYTES];
    struct golden g;
    struct err e = ERR_INIT;
    struct export_change c = {.has = has, .fill = refuse};
    (void)state;
    golden_init(&g, "llama_plain", K_F32, 0);
    snprintf(to, sizeof to, "%s/to", root);
    assert_err(model_export(&g.dir, g.model, to, &c, &e), &e, ERR_IO, "no numbers");
    assert_int_equal(rmdir(root), 0); /* it is empty */
    assert_good(fs_mkdirs(root, &e), &e);
    assert_err(model_export_merged(&g.dir, g.model, "tests/golden/models/gpt2/lora", to, &e), &e,
               ERR_BAD_INPUT, "no product");
    golden_release(&g);
    test_dir_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_and_types_stay),
        cmocka_unit_test(stacked_experts_are_changed),
        cmocka_unit_test(a_fault_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
