/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF files that are written, beside the models that they are of and beside files that the Python
 * package gguf made of the same (tests/golden/gguf/make_files.py). Faults: a tensor in another
 * order of rows, of another kind or under another name; a key that is lost; logits with other bits;
 * codes that are rounded again; a tokenizer that cuts text otherwise; a kind of model that comes
 * back as another and is not refused; an adapter that is not in it.
 */
#include "engine/export/gguf.h"
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/export/gguf_vocab.h"
#include "engine/load/gguf_tokenizer.h"
#include "engine/model/export.h"
#include "engine/run/runner.h"
#include "tests/lib/golden.h"

#define MODELS "tests/golden/models/"
#define FILES  "tests/golden/gguf/"

enum { NAME_BYTES = 512, N_TOK = 24 };

static uint64_t export_as(const char *from, const char *to, int type, const char *adapter)
{
    struct err e = ERR_INIT;
    struct model_dir d;
    struct gguf_export_options o = {.type = type, .adapter = adapter};
    uint64_t bytes = 0;
    assert_good(model_dir_init(&d, from, &e), &e);
    struct tokenizer *t = d.tokenizer_path || d.config_text ? tokenizer_load(from, &e) : NULL;
    o.tokenizer = t;
    assert_good(gguf_export(&d, to, &o, &bytes, &e), &e);
    tokenizer_free(t);
    model_dir_release(&d);
    return bytes;
}

/* ---- beside the package's files ------------------------------------------------------------- */

static void same_tensor(const struct gguf_tensor *a, const struct gguf_tensor *b)
{
    struct err e = ERR_INIT;
    assert_non_null(b);
    assert_string_equal(a->type->name, b->type->name);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
    assert_int_equal(a->bytes, b->bytes);
    uint8_t *x = xcalloc(a->bytes, 1), *y = xcalloc(b->bytes, 1);
    assert_good(gguf_read(a, 0, x, a->bytes, &e), &e);
    assert_good(gguf_read(b, 0, y, b->bytes, &e), &e);
    if (memcmp(x, y, a->bytes) != 0)
        fail_msg("%s has other bytes", a->name);
    free(x);
    free(y);
}

static void same_value(const struct gguf_value *a, const struct gguf_value *b)
{
    if (!b)
        fail_msg("%s is not there", a->key);
    if (a->type != b->type)
        fail_msg("%s is of another type", a->key);
    if (a->type == GGUF_STRING)
        assert_string_equal(a->s.p, b->s.p);
    else if (a->type == GGUF_ARRAY && a->of == GGUF_STRING) {
        assert_int_equal(a->n, b->n);
        for (size_t i = 0; i < a->n; i++)
            assert_string_equal(a->strings[i].p, b->strings[i].p);
    } else if (a->type == GGUF_ARRAY) {
        assert_int_equal(a->n, b->n);
        assert_memory_equal(a->bytes, b->bytes, a->n * 4);
    } else if (a->u != b->u) {
        fail_msg("%s is another", a->key);
    }
}

static void as_the_package_writes_them(void **state)
{
    (void)state;
    static const char *const name[] = {"llama_plain",       "llama_tied", "llama_mha_bias",
                                       "llama_rope_linear", "qwen2",      "qwen3_moe",
                                       "mixtral",           "olmoe"};
    char *root = test_dir_new(), file[NAME_BYTES], dir[NAME_BYTES];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        struct err e = ERR_INIT;
        const char *to = test_path(root, name[i]);
        snprintf(dir, sizeof dir, MODELS "%s", name[i]);
        snprintf(file, sizeof file, FILES "%s.gguf", name[i]);
        export_as(dir, to, -1, NULL);
        struct gguf *a = gguf_open(file, &e), *b = gguf_open(to, &e);
        assert_non_null(a);
        assert_good(b ? 0 : -1, &e);
        assert_int_equal(a->n_tensor, b->n_tensor);
        for (size_t k = 0; k < a->n_tensor; k++)
            same_tensor(&a->tensor[k], gguf_tensor(b, a->tensor[k].name));
        for (struct map_entry *it = map_next(&a->by_key, NULL); it; it = map_next(&a->by_key, it)) {
            const struct gguf_value *v = it->value;
            if (strncmp(v->key, "general.", 8) != 0 && strncmp(v->key, "GGUF.", 5) != 0)
                same_value(v, gguf_get(b, v->key));
        }
        gguf_close(a);
        gguf_close(b);
    }
    test_dir_free(root);
}

/* Fault: a tokenizer that a GGUF file holds, and that is gone where it is written again. */
static void one_is_written_again(void **state)
{
    char *root = test_dir_new(), first[NAME_BYTES], second[NAME_BYTES];
    struct err e = ERR_INIT;
    (void)state;
    snprintf(first, sizeof first, "%s/first.gguf", root);
    snprintf(second, sizeof second, "%s/second.gguf", root);
    export_as(MODELS "llama_tied", first, -1, NULL);
    export_as(first, second, -1, NULL);
    struct gguf *a = gguf_open(first, &e), *b = gguf_open(second, &e);
    assert_good(a && b ? 0 : -1, &e);
    assert_non_null(gguf_get(b, "tokenizer.ggml.tokens"));
    same_value(gguf_get(a, "tokenizer.ggml.tokens"), gguf_get(b, "tokenizer.ggml.tokens"));
    same_value(gguf_get(a, "tokenizer.ggml.merges"), gguf_get(b, "tokenizer.ggml.merges"));
    gguf_close(a);
    gguf_close(b);
    test_dir_free(root);
}

/* ---- bits ---------------------------------------------------------------------------------- */

static float *logits_of(const char *path, int64_t *n)
{
    struct err e = ERR_INIT;
    struct model_dir d;
    struct pool *pool = pool_new(2, false, &e);
    struct device *device = device_cpu_new(pool, NULL, &e);
    struct stream *s = stream_new(device, &e);
    struct model_options mo = {.type = -1, .kv_type = -1, .pool = pool};
    struct op_view out;
    int32_t id[N_TOK];
    assert_good(model_dir_init(&d, path, &e), &e);
    struct model *m = model_load(&d, &mo, device, &e);
    assert_good(m ? 0 : -1, &e);
    struct runner_options ro = {.cap = {[DIM_TOK] = N_TOK, [DIM_OUT] = N_TOK, [DIM_SEQ] = 1},
                                .n_cell = 2,
                                .passes = ~0u,
                                .output = MODEL_LOGITS};
    struct runner *r = runner_new(m, &ro, s, &e);
    assert_good(r ? 0 : -1, &e);
    for (int i = 0; i < N_TOK; i++)
        id[i] = 3 + i * 7 % 80;
    assert_good(runner_feed(r, id, N_TOK, 0, N_TOK, &out, &e), &e);
    *n = N_TOK * out.shape.cols;
    float *x = xcalloc((size_t)*n, sizeof *x);
    for (int64_t i = 0; i < N_TOK; i++)
        memcpy(x + i * out.shape.cols, out.p + i * out.ld, (size_t)out.shape.cols * sizeof *x);
    runner_free(r);
    model_free(m);
    stream_free(s);
    device_free(device);
    pool_free(pool);
    model_dir_release(&d);
    return x;
}

static bool same_logits(const char *a, const char *b)
{
    int64_t n, m;
    float *x = logits_of(a, &n), *y = logits_of(b, &m);
    assert_int_equal(n, m);
    bool is = memcmp(x, y, (size_t)n * sizeof *x) == 0;
    free(x);
    free(y);
    return is;
}

static void logits_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const from[] = {MODELS "llama_plain",
                                       MODELS "llama_tied",
                                       MODELS "llama_mha_bias",
                                       MODELS "llama_rope_linear",
                                       MODELS "llama_rope_llama3",
                                       MODELS "llama_rope_yarn",
                                       MODELS "mistral_window",
                                       MODELS "qwen2",
                                       MODELS "qwen3",
                                       MODELS "qwen3_moe",
                                       MODELS "mixtral",
                                       MODELS "olmoe",
                                       MODELS "llava",
                                       MODELS "qwen2_5_vl",
                                       MODELS "qwen3_vl",
                                       FILES "coded.gguf",
                                       FILES "experts.gguf"};
    char *root = test_dir_new();
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        char name[32], to[NAME_BYTES];
        snprintf(name, sizeof name, "%zu.gguf", i);
        snprintf(to, sizeof to, "%s", test_path(root, name));
        export_as(from[i], to, -1, NULL);
        if (!same_logits(from[i], to))
            fail_msg("%s: other logits", from[i]);
    }
    test_dir_free(root);
}

static void an_adapter_is_merged(void **state)
{
    char *root = test_dir_new(), plain[NAME_BYTES], tuned[NAME_BYTES], half[NAME_BYTES];
    struct golden g;
    struct err e = ERR_INIT;
    (void)state;
    snprintf(plain, sizeof plain, "%s/merged", root);
    snprintf(tuned, sizeof tuned, "%s/tuned.gguf", root);
    snprintf(half, sizeof half, "%s/half.gguf", root);
    golden_init(&g, "llama_plain", K_F32, 0);
    assert_good(model_export_merged(&g.dir, g.model, MODELS "llama_plain/lora", plain, &e), &e);
    golden_release(&g);
    uint64_t whole = export_as(MODELS "llama_plain", tuned, -1, MODELS "llama_plain/lora");
    assert_true(same_logits(plain, tuned));
    assert_false(same_logits(MODELS "llama_plain", tuned));
    assert_true(export_as(MODELS "llama_plain", half, K_F16, NULL) < whole * 3 / 4);
    test_dir_free(root);
}

/* ---- tokenizers ---------------------------------------------------------------------------- */

static struct tokenizer *tokenizer_at(const char *path, struct buf *text)
{
    struct err e = ERR_INIT;
    buf_init(text, 1 << 22);
    assert_good(fs_read(path, text, &e), &e);
    struct tokenizer *t = tokenizer_parse(text->data, text->len, &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

static void same_tokens(const struct tokenizer *a, const struct tokenizer *b, const char *text)
{
    struct err e = ERR_INIT;
    struct tok_list x, y;
    tok_list_init(&x, 4096, false);
    tok_list_init(&y, 4096, false);
    assert_good(tokenizer_encode(a, text, strlen(text), true, false, &x, &e), &e);
    assert_good(tokenizer_encode(b, text, strlen(text), true, false, &y, &e), &e);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.id, y.id, x.n * sizeof *x.id);
    tok_list_release(&x);
    tok_list_release(&y);
}

/* The texts of a file that holds the tokenizer and one tensor. */
static struct tokenizer *through_gguf(const char *path, struct tokenizer *t, const char *to)
{
    struct err e = ERR_INIT;
    char owned[NAME_BYTES];
    snprintf(owned, sizeof owned, "%s", path);
    struct model_dir d = {.tokenizer_path = owned};
    const int64_t dim[1] = {1};
    const float one = 1;
    struct buf text;
    d.config.n_vocab = (int64_t)tokenizer_size(t) + 3;
    struct gguf_writer *w = gguf_writer_new();
    assert_good(gguf_vocab_put(w, &d, t, &e), &e);
    gguf_writer_add(w, "one", 0, 1, dim);
    assert_good(gguf_writer_open(w, to, &e), &e);
    assert_good(gguf_writer_write(w, &one, sizeof one, &e), &e);
    assert_good(gguf_writer_commit(w, &e), &e);
    gguf_writer_free(w);
    struct gguf *g = gguf_open(to, &e);
    assert_good(g ? 0 : -1, &e);
    buf_init(&text, 1 << 22);
    assert_good(gguf_tokenizer_text(g, &text, &e), &e);
    struct tokenizer *back = tokenizer_parse(text.data, text.len, &e);
    assert_good(back ? 0 : -1, &e);
    buf_release(&text);
    gguf_close(g);
    return back;
}

static void text_is_cut_alike(void **state)
{
    (void)state;
    static const char *const name[] = {"gpt2", "llama2", "llama3", "qwen2"};
    static const char *const text[] = {"The cat sat on the mat, didn't it?", "  two  spaces\n\n",
                                       "12345 caf\xc3\xa9 \xf0\x9f\x98\x80", "</s>a<s> b", ""};
    char *root = test_dir_new(), path[NAME_BYTES];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        struct buf json;
        snprintf(path, sizeof path, "tests/golden/tokenizer/%s.json", name[i]);
        struct tokenizer *t = tokenizer_at(path, &json);
        struct tokenizer *back = through_gguf(path, t, test_path(root, name[i]));
        for (size_t k = 0; k < sizeof text / sizeof *text; k++)
            same_tokens(t, back, text[k]);
        tokenizer_free(t);
        tokenizer_free(back);
        buf_release(&json);
    }
    test_dir_free(root);
}

static void not_written(const char *path, const char *words)
{
    struct err e = ERR_INIT;
    struct buf json;
    char owned[NAME_BYTES];
    snprintf(owned, sizeof owned, "%s", path);
    struct model_dir d = {.tokenizer_path = owned};
    struct tokenizer *t = tokenizer_at(path, &json);
    struct gguf_writer *w = gguf_writer_new();
    d.config.n_vocab = (int64_t)tokenizer_size(t);
    assert_err(gguf_vocab_put(w, &d, t, &e), &e, ERR_UNSUPPORTED, words);
    gguf_writer_free(w);
    tokenizer_free(t);
    buf_release(&json);
}

/* Fault: a space that stood before the first word alone, and would stand behind each special
 * token; words that are made small, or cut at every space, and would not be. */
static void other_ways_of_cutting_are_refused(void **state)
{
    static const struct {
        const char *path, *words;
    } row[] = {{"tests/golden/tokenizer/mistral.json", "marks of spaces"},
               {"tests/golden/tokenizer/clip.json", "GGUF has no name"},
               {"tests/golden/tokenizer/deepseek.json", "GGUF has no name"},
               {"tests/golden/tokenizer/bert.json", "only BPE"}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        not_written(row[i].path, row[i].words);
}

/* Fault: a step of the normalizer that is left out, since those about it are known. */
static void a_step_more_is_refused(void **state)
{
    static const char steps[] = "\"normalizers\":[";
    char *root = test_dir_new(), path[NAME_BYTES];
    struct err e = ERR_INIT;
    struct buf json, odd;
    (void)state;
    buf_init(&json, 1 << 22);
    buf_init(&odd, 1 << 22);
    assert_good(fs_read("tests/golden/tokenizer/llama2.json", &json, &e), &e);
    char *at = strstr(json.data, steps);
    assert_non_null(at);
    at += sizeof steps - 1;
    buf_add(&odd, json.data, (size_t)(at - json.data));
    buf_str(&odd, "{\"type\":\"NFC\"},");
    buf_str(&odd, at);
    snprintf(path, sizeof path, "%s", test_path(root, "odd.json"));
    test_put(path, odd.data, odd.len);
    buf_release(&json);
    buf_release(&odd);
    not_written(path, "marks of spaces");
    test_dir_free(root);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(const char *from, const char *words)
{
    char *root = test_dir_new();
    struct err e = ERR_INIT;
    struct model_dir d;
    struct gguf_export_options o = {.type = -1};
    uint64_t bytes;
    assert_good(model_dir_init(&d, from, &e), &e);
    assert_err(gguf_export(&d, test_path(root, "x.gguf"), &o, &bytes, &e), &e, ERR_UNSUPPORTED,
               words);
    model_dir_release(&d);
    test_dir_free(root);
}

static void what_would_be_another_is_named(void **state)
{
    struct err e = ERR_INIT;
    struct model_dir d;
    struct gguf_export_options o = {.type = -1, .adapter = MODELS "llama_plain/lora"};
    uint64_t bytes;
    (void)state;
    refused(MODELS "gpt2", "family gpt2");
    refused(MODELS "gemma2", "family gemma2");
    refused(MODELS "bert_cls", "family bert");
    refused(MODELS "qwen3_last", "models of vectors");
    refused(MODELS "qwen3_rank", "models of vectors and labels");
    refused(MODELS "qwen2_window", "windows");
    refused(MODELS "qwen2_moe", "family qwen2_moe");
    refused(MODELS "olmoe_normed", "norm_topk_prob: true");
    refused(MODELS "llama_rope_dynamic", "scaled as dynamic");
    assert_good(model_dir_init(&d, MODELS "llama_plain", &e), &e);
    assert_err(gguf_export(&d, MODELS "llama_plain/config.json", &o, &bytes, &e), &e, ERR_EXISTS,
               "is there already");
    model_dir_release(&d);
}

/* A model with one thing of its config said otherwise, which its tensors are without. */
static const char *otherwise(const char *root, const char *model, const char *was, const char *is)
{
    struct err e = ERR_INIT;
    struct buf b, other;
    char from[NAME_BYTES], whole[NAME_BYTES];
    const char *dir = test_path(root, model);
    buf_init(&b, 1 << 16);
    buf_init(&other, 1 << 16);
    assert_good(fs_mkdirs(dir, &e), &e);
    snprintf(from, sizeof from, MODELS "%s/config.json", model);
    assert_good(fs_read(from, &b, &e), &e);
    char *at = strstr(b.data, was);
    assert_non_null(at);
    buf_printf(&other, "%.*s%s%s", (int)(at - b.data), b.data, is, at + strlen(was));
    snprintf(from, sizeof from, "%s/config.json", dir);
    assert_good(aside_put(from, other.data, other.len, &e), &e);
    snprintf(from, sizeof from, MODELS "%s/model.safetensors", model);
    char *real = realpath(from, NULL);
    snprintf(whole, sizeof whole, "%s/model.safetensors", dir);
    assert_int_equal(symlink(real, whole), 0);
    free(real);
    buf_release(&b);
    buf_release(&other);
    return dir;
}

/* Faults: a width that llama.cpp takes for another where it is not said; layers that it has no
 * place for. */
static void experts_are_as_others_read_them(void **state)
{
    struct err e = ERR_INIT;
    int64_t width = 0;
    char *root = test_dir_new();
    char to[NAME_BYTES];
    (void)state;
    snprintf(to, sizeof to, "%s", test_path(root, "x.gguf"));
    export_as(
        otherwise(root, "qwen3_moe", "\"intermediate_size\": 75", "\"intermediate_size\": 21"), to,
        -1, NULL);
    struct gguf *g = gguf_open(to, &e);
    assert_good(g ? 0 : -1, &e);
    assert_good(gguf_opt_int(g, "qwen3moe.expert_feed_forward_length", &width, &e), &e);
    assert_int_equal(width, 21);
    gguf_close(g);
    refused(
        otherwise(root, "qwen3_moe_dense", "\"norm_topk_prob\": false", "\"norm_topk_prob\": true"),
        "has no experts");
    test_dir_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_package_writes_them),
        cmocka_unit_test(one_is_written_again),
        cmocka_unit_test(logits_have_the_same_bits),
        cmocka_unit_test(an_adapter_is_merged),
        cmocka_unit_test(text_is_cut_alike),
        cmocka_unit_test(other_ways_of_cutting_are_refused),
        cmocka_unit_test(a_step_more_is_refused),
        cmocka_unit_test(what_would_be_another_is_named),
        cmocka_unit_test(experts_are_as_others_read_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
