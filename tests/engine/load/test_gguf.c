/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/gguf, gguf_config and gguf_weights: what a model's GGUF file gives is what its
 * directory gives, to the bit; parts that are missing or lie; heads that lie.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/load/base_id.h"
#include "engine/load/gguf.h"
#include "engine/load/json.h"
#include "engine/load/model_dir.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/test.h"

#define FILES "tests/golden/gguf/"

static float *read_f32(const struct weight *w)
{
    struct err e = ERR_INIT;
    size_t n = (size_t)(weight_rows(w) * weight_row_len(w));
    float *x = try_alloc(n, sizeof *x, "a tensor", &e);
    assert_non_null(x);
    assert_good(weight_read_f32(w, 0, weight_rows(w), x, &e), &e);
    return x;
}

/* Rows apart from each other, and parts of rows. */
static void check_pieces(const struct weight *w, const float *all)
{
    struct err e = ERR_INIT;
    int64_t len = weight_row_len(w), rows = weight_rows(w);
    float *x = try_alloc((size_t)(2 * len), sizeof *x, "rows", &e);
    for (int64_t row = 0; row < rows; row += rows / 5 + 1) {
        assert_good(weight_read_f32(w, row, 1, x, &e), &e);
        assert_memory_equal(x, all + row * len, (size_t)len * sizeof *x);
        if (weight_k_type(w) != K_F32 || len < 8 || row + 2 > rows)
            continue;
        assert_good(weight_read_at(w, row, 3, len + 2, x, &e), &e);
        assert_memory_equal(x, all + row * len + 3, (size_t)(len + 2) * sizeof *x);
    }
    mem_free(x);
}

static void check_tensors(const struct weights *gguf, const struct weights *dir)
{
    assert_int_equal(weights_count(gguf), weights_count(dir));
    for (size_t i = 0; i < weights_count(dir); i++) {
        const struct weight *want = weights_at(dir, i), *got = weights_get(gguf, want->t->name);
        if (!got)
            fail_msg("%s is not there", want->t->name);
        assert_int_equal(got->t->rank, want->t->rank);
        assert_memory_equal(got->t->dim, want->t->dim, (size_t)want->t->rank * sizeof *got->t->dim);
        float *a = read_f32(got), *b = read_f32(want);
        if (memcmp(a, b, (size_t)st_tensor_count(want->t) * sizeof *a) != 0)
            fail_msg("%s has other numbers", want->t->name);
        check_pieces(got, b);
        mem_free(a);
        mem_free(b);
    }
}

static void check_config(const struct config *a, const struct config *b)
{
    assert_int_equal(a->family, b->family);
    assert_string_equal(a->architecture, b->architecture);
    assert_int_equal(a->n_vocab, b->n_vocab);
    assert_int_equal(a->n_layer, b->n_layer);
    assert_int_equal(a->d_model, b->d_model);
    assert_int_equal(a->d_ff, b->d_ff);
    assert_int_equal(a->max_pos, b->max_pos);
    assert_int_equal(a->n_head, b->n_head);
    assert_int_equal(a->n_kv_head, b->n_kv_head);
    assert_int_equal(a->d_head, b->d_head);
    assert_true((float)a->norm_eps == (float)b->norm_eps);
    assert_true(a->rope.theta == b->rope.theta);
    assert_int_equal(a->is_tied, b->is_tied);
    assert_int_equal(a->has_qkv_bias, b->has_qkv_bias);
    assert_int_equal(a->has_o_bias, b->has_o_bias);
    assert_int_equal(a->has_mlp_bias, b->has_mlp_bias);
    assert_int_equal(a->window, b->window);
    assert_int_equal(a->n_expert, b->n_expert);
    assert_int_equal(a->n_top, b->n_top);
    assert_int_equal(a->d_expert, b->d_expert);
    assert_int_equal(a->normalises_top, b->normalises_top);
    assert_memory_equal(a->has_experts, b->has_experts, sizeof a->has_experts);
    assert_int_equal(a->bos, b->bos);
    assert_int_equal(a->n_eos, b->n_eos);
    assert_memory_equal(a->eos, b->eos, (size_t)a->n_eos * sizeof *a->eos);
}

/* Fault: a name, a shape or the order of rows of another; queries and keys that stay permuted; a
 * hyperparameter that is lost on the way. */
static void test_same_as_directory(void **state)
{
    (void)state;
    static const struct {
        const char *file, *dir;
        enum rope_kind rope;
    } row[] = {
        {FILES "llama_plain.gguf", "tests/golden/models/llama_plain", ROPE_DEFAULT},
        {FILES "llama_tied.gguf", "tests/golden/models/llama_tied", ROPE_DEFAULT},
        {FILES "llama_mha_bias.gguf", "tests/golden/models/llama_mha_bias", ROPE_DEFAULT},
        {FILES "llama_rope_linear.gguf", "tests/golden/models/llama_rope_linear", ROPE_LINEAR},
        {FILES "llama_rope_llama3.gguf", "tests/golden/models/llama_rope_llama3", ROPE_LONGROPE},
        {FILES "qwen2.gguf", "tests/golden/models/qwen2", ROPE_DEFAULT},
        {FILES "qwen3-00001-of-00004.gguf", "tests/golden/models/qwen3", ROPE_DEFAULT},
        {FILES "quantised.gguf", FILES "quantised", ROPE_DEFAULT},
        {FILES "coded.gguf", FILES "coded", ROPE_DEFAULT},
        {FILES "qwen3_moe.gguf", "tests/golden/models/qwen3_moe", ROPE_DEFAULT},
        {FILES "mixtral.gguf", "tests/golden/models/mixtral", ROPE_DEFAULT},
        {FILES "olmoe.gguf", "tests/golden/models/olmoe", ROPE_DEFAULT},
        {FILES "experts.gguf", FILES "experts", ROPE_DEFAULT},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        struct model_dir a, b;
        assert_good(model_dir_init(&a, row[i].file, &e), &e);
        assert_good(model_dir_init(&b, row[i].dir, &e), &e);
        assert_int_equal(a.config.rope.kind, row[i].rope);
        check_config(&a.config, &b.config);
        check_tensors(a.weights, b.weights);
        model_dir_release(&a);
        model_dir_release(&b);
    }
}

/* Faults: a shared expert's parts, or what weighs it, under another name or in another shape. Which
 * rows see how far a file of qwen2moe does not say. */
static void test_shared_expert(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct model_dir a, b;
    assert_good(model_dir_init(&a, FILES "qwen2_moe.gguf", &e), &e);
    assert_good(model_dir_init(&b, "tests/golden/models/qwen2_moe", &e), &e);
    check_tensors(a.weights, b.weights);
    assert_true(b.config.window && !a.config.window && a.config.d_shared == b.config.d_shared);
    b.config.window = 0;
    check_config(&a.config, &b.config);
    model_dir_release(&a);
    model_dir_release(&b);
}

/* Fault: a quantised tensor becomes wider than its numbers need, or narrower. */
static void test_narrowest(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct model_dir d;
    assert_good(model_dir_init(&d, FILES "quantised.gguf", &e), &e);
    const struct weight *mx = weights_get(d.weights, "model.layers.0.mlp.gate_proj.weight");
    const struct weight *q8 = weights_get(d.weights, "model.layers.0.self_attn.q_proj.weight");
    const struct weight *half = weights_get(d.weights, "model.embed_tokens.weight");
    assert_int_equal(weight_k_type(mx), K_BF16);
    assert_int_equal(weight_k_type(q8), K_F32);
    assert_int_equal(weight_k_type(half), K_F16);
    assert_int_equal(weight_stored_bytes(mx), 256 * 64 / 32 * 17);
    model_dir_release(&d);
}

/* Fault: two files have one fingerprint, or one has two. */
static void test_base_id(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct base_id id[3] = {{.files = ""}};
    static const char *const file[] = {FILES "llama_plain.gguf", FILES "llama_plain.gguf",
                                       FILES "llama_rope_linear.gguf"};
    for (int i = 0; i < 3; i++) {
        struct model_dir d;
        assert_good(model_dir_init(&d, file[i], &e), &e);
        assert_good(base_id_read(&d, &id[i], &e), &e);
        model_dir_release(&d);
    }
    assert_string_equal(id[0].files, id[1].files);
    assert_string_not_equal(id[0].files, id[2].files);
}

/* What is copied to another directory opens as one. */
static void test_copy_small(void **state)
{
    (void)state;
    char *to = test_dir_new();
    struct err e = ERR_INIT;
    struct model_dir d;
    struct config c;
    struct tokenizer_config t;
    assert_good(model_dir_init(&d, FILES "llama_tied.gguf", &e), &e);
    assert_non_null(tokenizer_config_template(&d.tokenizer, NULL));
    assert_good(model_dir_copy_small(&d, to, &e), &e);
    assert_good(config_load(&c, to, &e), &e);
    check_config(&c, &d.config);
    assert_good(tokenizer_config_init(&t, to, &e), &e);
    assert_string_equal(t.bos, "<|bos|>");
    assert_string_equal(tokenizer_config_template(&t, NULL),
                        tokenizer_config_template(&d.tokenizer, NULL));
    tokenizer_config_release(&t);
    model_dir_release(&d);
    test_dir_free(to);
}

/* ---- parts --------------------------------------------------------------------------------- */

static void copy(const char *from, const char *dir, const char *name)
{
    static char bytes[1 << 19];
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    put_file(dir, name, bytes, n);
}

static void expect(const char *dir, const char *name, enum err_code code, const char *words)
{
    struct err e = ERR_INIT;
    struct model_dir d;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_err(model_dir_init(&d, path, &e), &e, code, words);
}

/* Fault: a split is opened with a part too few, or with one of another's. */
static void test_parts(void **state)
{
    (void)state;
    char *dir = test_dir_new(), name[64];
    for (int i = 1; i <= 3; i++) {
        snprintf(name, sizeof name, "qwen3-%05d-of-00004.gguf", i);
        char from[128];
        snprintf(from, sizeof from, FILES "%s", name);
        copy(from, dir, name);
    }
    expect(dir, "qwen3-00001-of-00004.gguf", ERR_NOT_FOUND, "part 4 of 4");
    copy(FILES "qwen3-00003-of-00004.gguf", dir, "qwen3-00004-of-00004.gguf");
    expect(dir, "qwen3-00001-of-00004.gguf", ERR_BAD_INPUT, "is in qwen3-00003-of-00004.gguf too");
    copy(FILES "llama_plain.gguf", dir, "qwen3-00004-of-00004.gguf");
    expect(dir, "qwen3-00001-of-00004.gguf", ERR_BAD_INPUT, "qwen3-00004-of-00004.gguf: ");
    expect(dir, "qwen3-00002-of-00004.gguf", ERR_BAD_INPUT, "name the first one");
    copy(FILES "qwen3-00001-of-00004.gguf", dir, "other.gguf");
    expect(dir, "other.gguf", ERR_BAD_INPUT, "must end in -00001-of-00004.gguf");
    test_dir_free(dir);
}

/* Faults: a file that ends early is opened; a count that is not there is believed. */
static void test_cut(void **state)
{
    (void)state;
    char *dir = test_dir_new();
    static char bytes[1 << 17];
    FILE *f = fopen("tests/fuzz/corpus/gguf/qwen_q4", "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t cut = 4; cut <= n; cut += cut >= 64 && cut + 97 < n ? 97 : 1) {
        struct err e = ERR_INIT;
        char path[512];
        put_file(dir, "m.gguf", bytes, cut);
        snprintf(path, sizeof path, "%s/m.gguf", dir);
        struct gguf *g = gguf_open(path, &e);
        assert_true(g != NULL || strstr(e.msg, "m.gguf: "));
        assert_true(cut < 8 || cut >= 16 || strstr(e.msg, "m.gguf: tensors at byte 8"));
        assert_true(g == NULL || cut + 32 > n);
        gguf_close(g);
    }
    test_dir_free(dir);
}

/* Fault: infinity becomes a weight. */
static void test_scale_not_finite(void **state)
{
    (void)state;
    enum { DATA_BYTES = 160 + 2 * 576 + 128 }; /* of the seed's tensors, token_embd first */
    char *dir = test_dir_new(), path[512];
    static char bytes[1 << 17];
    struct err e = ERR_INIT;
    FILE *f = fopen("tests/fuzz/corpus/gguf/qwen_q4", "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    put_file(dir, "m.gguf", bytes, n);
    struct weights *w = weights_open_gguf(path, &e);
    assert_good(w ? 0 : -1, &e);
    weights_close(w);
    bytes[n - DATA_BYTES] = 0, bytes[n - DATA_BYTES + 1] = 0x7c;
    put_file(dir, "m.gguf", bytes, n);
    w = weights_open_gguf(path, &e);
    assert_err(w ? 0 : -1, &e, ERR_BAD_INPUT, "m.gguf: token_embd.weight: number 0 is not finite");
    test_dir_free(dir);
}

/* Fault: layers that a file has beyond its count are dropped without a word, and it runs as another
 * model. Its count of layers is patched to one fewer. */
static void test_layers_beyond(void **state)
{
    static const char key[] = "llama.block_count";
    (void)state;
    static char file[1 << 19];
    char *dir = test_dir_new();
    size_t at = 0;
    FILE *f = fopen(FILES "llama_tied.gguf", "rb");
    assert_non_null(f);
    size_t n = fread(file, 1, sizeof file, f);
    fclose(f);
    while (at + sizeof key + 8 < n && memcmp(file + at, key, sizeof key - 1) != 0)
        at++;
    assert_true(at + sizeof key + 8 < n && file[at + sizeof key - 1 + 4] == 2);
    file[at + sizeof key - 1 + 4] = 1;
    put_file(dir, "m.gguf", file, n);
    expect(dir, "m.gguf", ERR_BAD_INPUT, "is of layer 1, but llama.block_count is 1");
    test_dir_free(dir);
}

/* ---- heads that lie ------------------------------------------------------------------------ */

struct made {
    char at[2048];
    size_t n;
};

static void add(struct made *m, const void *p, size_t n)
{
    memcpy(m->at + m->n, p, n);
    m->n += n;
}

static void add_u32(struct made *m, uint32_t v)
{
    add(m, &v, sizeof v);
}

static void add_u64(struct made *m, uint64_t v)
{
    add(m, &v, sizeof v);
}

static void add_str(struct made *m, const char *s)
{
    add_u64(m, strlen(s));
    add(m, s, strlen(s));
}

static struct made head(uint64_t n_tensor, uint64_t n_key)
{
    struct made m = {.n = 0};
    add(&m, "GGUF", 4);
    add_u32(&m, 3);
    add_u64(&m, n_tensor);
    add_u64(&m, n_key);
    return m;
}

static void add_tensor(struct made *m, const char *name, uint32_t kind, uint64_t dim, uint64_t at)
{
    add_str(m, name);
    add_u32(m, 1);
    add_u64(m, dim);
    add_u32(m, kind);
    add_u64(m, at);
}

static void expect_open(struct made *m, size_t more, enum err_code code, const char *words)
{
    struct err e = ERR_INIT;
    char *dir = test_dir_new(), path[512];
    put_file(dir, "m.gguf", m->at, m->n + more);
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    struct gguf *g = gguf_open(path, &e);
    if (words) {
        assert_err(g ? 0 : -1, &e, code, words);
        assert_non_null(strstr(e.msg, "m.gguf: "));
    } else {
        assert_good(g ? 0 : -1, &e);
    }
    gguf_close(g);
    test_dir_free(dir);
}

/* Fault: a count sizes an allocation, a sum overflows, a type is believed. */
static void test_keys_that_lie(void **state)
{
    (void)state;
    struct made m = head(UINT64_MAX, 0);
    expect_open(&m, 0, ERR_BAD_INPUT, "tensors: 18446744073709551615 do not fit");
    m = head(0, UINT64_C(1) << 61);
    expect_open(&m, 0, ERR_BAD_INPUT, "keys: ");
    m = head(0, 1), add_u64(&m, UINT64_MAX - 8);
    expect_open(&m, 32, ERR_BAD_INPUT, "a key: ");
    m = head(0, 1), add_str(&m, "k"), add_u32(&m, 13);
    expect_open(&m, 16, ERR_BAD_INPUT, "k: a value of an unknown type");
    m = head(0, 1), add_str(&m, "k"), add_u32(&m, 7), add_u32(&m, 2);
    expect_open(&m, 8, ERR_BAD_INPUT, "k: a bool that is neither");
    m = head(0, 1), add_str(&m, "k"), add_u32(&m, 9), add_u32(&m, 9), add_u64(&m, 1);
    expect_open(&m, 32, ERR_UNSUPPORTED, "k: arrays of arrays");
    m = head(0, 1), add_str(&m, "k"), add_u32(&m, 9), add_u32(&m, 12),
    add_u64(&m, UINT64_C(1) << 61);
    expect_open(&m, 32, ERR_BAD_INPUT, "k: 2305843009213693952 do not fit");
    m = head(0, 1), add_str(&m, "k"), add_u32(&m, 9), add_u32(&m, 8), add_u64(&m, 3);
    expect_open(&m, 23, ERR_BAD_INPUT, "k: 3 do not fit");
    m = head(0, 1), add_str(&m, "a\nb"), add_u32(&m, 4), add_u32(&m, 1);
    expect_open(&m, 0, ERR_BAD_INPUT, "control character");
    m = head(0, 2), add_str(&m, "k"), add_u32(&m, 4), add_u32(&m, 1);
    add_str(&m, "k"), add_u32(&m, 4), add_u32(&m, 1);
    expect_open(&m, 0, ERR_BAD_INPUT, "k: the key stands twice");
    m = head(0, 1), add_str(&m, "general.alignment"), add_u32(&m, 4), add_u32(&m, 24);
    expect_open(&m, 0, ERR_BAD_INPUT, "general.alignment: expected a power of two");
    m = head(0, 0), m.at[4] = 1;
    expect_open(&m, 0, ERR_UNSUPPORTED, "version 1 is not supported");
    m = head(0, 0), m.at[4] = 0, m.at[7] = 3;
    expect_open(&m, 0, ERR_UNSUPPORTED, "big-endian");
}

/* Fault: a tensor of another's bytes, or of none. */
static void test_tensors_that_lie(void **state)
{
    (void)state;
    struct made m = head(1, 0);
    add_tensor(&m, "t", 0, 8, 0);
    expect_open(&m, 96, ERR_NONE, NULL);
    expect_open(&m, 31, ERR_BAD_INPUT, "t: ends past the file");
    m = head(1, 0), add_tensor(&m, "t", 0, 8, 4);
    expect_open(&m, 96, ERR_BAD_INPUT, "t: begins at byte 4 of the data, not aligned to 32");
    m = head(1, 0), add_tensor(&m, "t", 0, 8, UINT64_MAX - 31);
    expect_open(&m, 96, ERR_BAD_INPUT, "t: a gap lies before it");
    m = head(1, 0), add_tensor(&m, "t", 0, 0, 0);
    expect_open(&m, 96, ERR_BAD_INPUT, "t: a dimension of 0");
    m = head(1, 0), add_tensor(&m, "t", 0, INT64_MAX, 0);
    expect_open(&m, 96, ERR_BAD_INPUT, "t: more bytes than");
    m = head(1, 0), add_tensor(&m, "t", 2, 48, 0);
    expect_open(&m, 96, ERR_BAD_INPUT, "t: rows of 48 are no whole blocks of Q4_0");
    m = head(1, 0), add_tensor(&m, "t", 99, 32, 0);
    expect_open(&m, 96, ERR_UNSUPPORTED, "t: numbers of kind 99 are not known");
    m = head(2, 0), add_tensor(&m, "t", 0, 8, 0), add_tensor(&m, "u", 0, 8, 0);
    expect_open(&m, 96, ERR_BAD_INPUT, "overlaps another tensor");
    m = head(2, 0), add_tensor(&m, "t", 0, 8, 0), add_tensor(&m, "t", 0, 8, 32);
    expect_open(&m, 128, ERR_BAD_INPUT, "the tensor t is in m.gguf too");
    m = head(1, 0), add_str(&m, "t"), add_u32(&m, 5);
    expect_open(&m, 96, ERR_BAD_INPUT, "t: expected 1 to 4 dimensions");
}

/* ---- metadata that is not understood ------------------------------------------------------- */

static void key_str(struct made *m, const char *key, const char *value)
{
    add_str(m, key), add_u32(m, 8), add_str(m, value);
}

static void key_u32(struct made *m, const char *key, uint32_t value)
{
    add_str(m, key), add_u32(m, 4), add_u32(m, value);
}

static void expect_model(struct made *m, enum err_code code, const char *words)
{
    char *dir = test_dir_new();
    put_file(dir, "m.gguf", m->at, m->n + 256);
    expect(dir, "m.gguf", code, words);
    test_dir_free(dir);
}

/* Fault: a model that is not understood runs as another. */
static void test_metadata(void **state)
{
    (void)state;
    struct made m = head(0, 0);
    expect_model(&m, ERR_BAD_INPUT, "general.architecture is missing");
    m = head(0, 1), key_str(&m, "general.architecture", "gemma2");
    expect_model(&m, ERR_UNSUPPORTED, "'gemma2' is not supported in GGUF; llama");
    m = head(0, 1), key_u32(&m, "general.architecture", 1);
    expect_model(&m, ERR_BAD_INPUT, "general.architecture: expected a string, found a u32");
    m = head(0, 2), key_str(&m, "general.architecture", "qwen2");
    key_str(&m, "qwen2.attention.head_count", "4");
    expect_model(&m, ERR_BAD_INPUT, "head_count: expected a whole number, found a string");
    m = head(0, 4), key_str(&m, "general.architecture", "llama");
    key_u32(&m, "llama.attention.head_count", 4), key_u32(&m, "llama.embedding_length", 64);
    key_u32(&m, "llama.rope.dimension_count", 8);
    expect_model(&m, ERR_UNSUPPORTED, "rope.dimension_count: 8 is not supported");
    m = head(0, 4), key_str(&m, "general.architecture", "llama");
    key_u32(&m, "llama.attention.head_count", 4), key_u32(&m, "llama.embedding_length", 64);
    key_u32(&m, "llama.block_count", 1);
    expect_model(&m, ERR_BAD_INPUT, "token_embd.weight is missing");
    m = head(0, 3), key_str(&m, "general.architecture", "lfm2");
    key_u32(&m, "lfm2.attention.head_count", 4), key_u32(&m, "lfm2.embedding_length", 64);
    expect_model(&m, ERR_BAD_INPUT, "lfm2.block_count is missing");
    m = head(0, 4), key_str(&m, "general.architecture", "lfm2");
    key_u32(&m, "lfm2.attention.head_count", 4), key_u32(&m, "lfm2.embedding_length", 64);
    key_u32(&m, "lfm2.block_count", 0);
    expect_model(&m, ERR_BAD_INPUT, "lfm2.block_count: expected 1 to 2147483647, found 0");
}

/* A model of one layer and, where its architecture has them, four experts; n_more keys follow. */
static struct made shape(const char *arch, uint64_t n_more)
{
    static const char *const name[] = {"attention.head_count", "embedding_length", "block_count",
                                       "expert_count"};
    static const uint32_t value[] = {4, 64, 1, 4};
    struct made m = head(0, 5 + n_more);
    key_str(&m, "general.architecture", arch);
    for (size_t i = 0; i < 4; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", arch, name[i]);
        key_u32(&m, key, value[i]);
    }
    return m;
}

static void key_bool(struct made *m, const char *key, char value)
{
    add_str(m, key), add_u32(m, 7), add(m, &value, 1);
}

static void key_f32(struct made *m, const char *key, float value)
{
    add_str(m, key), add_u32(m, 6), add(m, &value, sizeof value);
}

/* Fault: what changes a model's use or its arithmetic is passed over. */
static void test_metadata_that_counts(void **state)
{
    (void)state;
    struct made m = shape("qwen3", 1);
    key_u32(&m, "qwen3.pooling_type", 3);
    expect_model(&m, ERR_UNSUPPORTED, "qwen3.pooling_type: 3: models of vectors are not supported");
    m = shape("qwen3", 1), key_u32(&m, "qwen3.pooling_type", 0);
    expect_model(&m, ERR_BAD_INPUT, "expert_used_count is missing");
    m = shape("llama", 1), key_bool(&m, "llama.attention.causal", 0);
    expect_model(&m, ERR_UNSUPPORTED, "llama.attention.causal: false is not supported");
    m = shape("qwen3moe", 1), key_bool(&m, "qwen3moe.expert_weights_norm", 0);
    expect_model(&m, ERR_UNSUPPORTED, "expert_weights_norm: false is not supported; true is");
    m = shape("olmoe", 1), key_bool(&m, "olmoe.expert_weights_norm", 1);
    expect_model(&m, ERR_UNSUPPORTED, "expert_weights_norm: true is not supported; false is");
    m = shape("qwen3moe", 1), key_f32(&m, "qwen3moe.expert_weights_scale", 2.5f);
    expect_model(&m, ERR_UNSUPPORTED, "expert_weights_scale: 2.5 is not supported; 1 is");
    m = shape("qwen3moe", 2), key_bool(&m, "qwen3moe.expert_weights_norm", 1);
    key_f32(&m, "qwen3moe.expert_weights_scale", 0);
    expect_model(&m, ERR_BAD_INPUT, "qwen3moe.expert_used_count is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_directory),
        cmocka_unit_test(test_shared_expert),
        cmocka_unit_test(test_narrowest),
        cmocka_unit_test(test_base_id),
        cmocka_unit_test(test_copy_small),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_layers_beyond),
        cmocka_unit_test(test_keys_that_lie),
        cmocka_unit_test(test_tensors_that_lie),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_metadata_that_counts),
        cmocka_unit_test(test_scale_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
