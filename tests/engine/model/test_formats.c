/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats of a model's matrices. Faults they can catch: f16 that loses a bit on its way through
 * the program; a matrix that takes its format from another; matrices that are read as one weight
 * and are packed in two formats; a number that a format cannot hold and makes infinite; a format
 * that is not trained, and is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/open.h"
#include "engine/graph/passes.h"
#include "engine/load/small_files.h"
#include "engine/load/st_writer.h"
#include "engine/load/weights.h"
#include "engine/run/runner.h"
#include "engine/train/subject.h"
#include "kernels/float16.h"
#include "tests/lib/golden.h"
#include "tests/lib/test.h"

enum { N_TOK = 40, PATH_BYTES = 512 };

/* The type of a tensor in the files that are written; x may be changed. */
typedef enum st_dtype choose_fn(const char *name, float *x);

static void write_tensor(struct st_writer *out, const struct weight *w, choose_fn *choose)
{
    struct err e = ERR_INIT;
    int64_t n = weight_rows(w) * weight_row_len(w);
    float *x = xmalloc((size_t)n * sizeof *x);
    uint16_t *half = xmalloc((size_t)n * sizeof *half);
    assert_good(weight_read_f32(w, 0, weight_rows(w), x, &e), &e);
    enum st_dtype type = choose(w->t->name, x);
    for (int64_t i = 0; i < n; i++)
        half[i] = type == ST_F16 ? f16_from_f32(x[i]) : bf16_from_f32(x[i]);
    const void *from = type == ST_F32 ? (const void *)x : half;
    assert_good(st_writer_write(out, from, (size_t)n * (size_t)(st_dtype_bits(type) / 8), &e), &e);
    free(half);
    free(x);
}

/* A golden's model in other types. */
static void write_model(const char *dir, const char *golden, choose_fn *choose)
{
    struct err e = ERR_INIT;
    char from[PATH_BYTES], path[PATH_BYTES];
    const struct st_tensor *next;
    snprintf(from, sizeof from, "tests/golden/models/%s", golden);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    struct weights *w = weights_open(from, &e);
    assert_good(w ? 0 : -1, &e);
    struct st_writer *out = st_writer_new();
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct st_tensor *t = weights_at(w, i)->t;
        float none[1] = {0};
        assert_good(st_writer_add(out, t->name, choose(t->name, none), t->rank, t->dim, &e), &e);
    }
    assert_good(st_writer_open(out, path, &e), &e);
    while ((next = st_writer_next(out)))
        write_tensor(out, weights_get(w, next->name), choose);
    assert_good(st_writer_commit(out, &e), &e);
    assert_good(small_files_copy(from, dir, &e), &e);
    st_writer_free(out);
    weights_close(w);
}

struct world {
    struct pool *pool;
    struct device *device;
    struct stream *stream;
    struct model_dir dir;
    char *path;
};

static void world_open(struct world *w, const char *model)
{
    struct err e = ERR_INIT;
    w->pool = pool_new(2, false, &e);
    w->device = device_open(
        &(struct device_options){.want = "cpu", .pool = w->pool, .kernels = getenv("TEST_KERNELS")},
        &e);
    assert_good(w->device ? 0 : -1, &e);
    w->stream = stream_new(w->device, &e);
    assert_good(model_dir_init(&w->dir, model, &e), &e);
}

static void world_init(struct world *w, const char *golden, choose_fn *choose)
{
    w->path = test_dir_new();
    write_model(w->path, golden, choose);
    world_open(w, w->path);
}

static void world_release(struct world *w)
{
    model_dir_release(&w->dir);
    stream_free(w->stream);
    device_free(w->device);
    pool_free(w->pool);
    if (w->path)
        test_dir_free(w->path);
}

static struct model *load(struct world *w, struct model_options o)
{
    struct err e = ERR_INIT;
    struct model *m = model_load(&w->dir, &o, w->device, &e);
    assert_good(m ? 0 : -1, &e);
    return m;
}

static float *logits_of(struct world *w, const struct model *m, int64_t *n)
{
    struct err e = ERR_INIT;
    struct op_view out;
    int32_t id[N_TOK];
    struct runner_options o = {
        .cap = {[DIM_TOK] = N_TOK, [DIM_OUT] = N_TOK, [DIM_SEQ] = 1, [DIM_GROUP] = 1},
        .n_cell = 8,
        .n_feed = N_TOK,
        .passes = PASS_ALL,
        .output = MODEL_LOGITS};
    struct runner *r = runner_new(m, &o, w->stream, &e);
    assert_good(r ? 0 : -1, &e);
    for (int i = 0; i < N_TOK; i++)
        id[i] = i * 7 % (int32_t)m->cfg.n_vocab;
    assert_good(runner_feed(r, id, N_TOK, 0, N_TOK, &out, &e), &e);
    *n = N_TOK * out.ld;
    float *copy = xmalloc((size_t)*n * sizeof *copy);
    memcpy(copy, out.p, (size_t)*n * sizeof *copy);
    runner_free(r);
    return copy;
}

static enum st_dtype all_f16(const char *name, float *x)
{
    (void)name, (void)x;
    return ST_F16;
}

/* Weights of f16 multiply rows of f32 in the order in which those of f32 do: what f32 gives of the
 * same numbers, which the goldens hold to transformers', f16 gives to the bit. */
static void f16_is_exact(void **state)
{
    static const char *const names[] = {"llama_plain", "llama_tied", "qwen2", "gpt2"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world w;
        int64_t n, n_wide;
        world_init(&w, names[i], all_f16);
        struct model *m = load(&w, (struct model_options){.type = -1, .kv_type = -1});
        struct model *wide = load(&w, (struct model_options){.type = K_F32, .kv_type = -1});
        assert_int_equal(model_main_type(m), K_F16);
        assert_int_equal(m->kv_type, K_F32);
        assert_true(m->block_bytes < wide->block_bytes * 2 / 3);
        float *got = logits_of(&w, m, &n), *want = logits_of(&w, wide, &n_wide);
        assert_int_equal(n, n_wide);
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
        free(got);
        free(want);
        model_free(m);
        model_free(wide);
        world_release(&w);
    }
}

static enum st_dtype mixed(const char *name, float *x)
{
    (void)x;
    return strstr(name, "0.self_attn.k_proj.weight") ? ST_F16
           : strstr(name, "1.mlp.down_proj.weight")  ? ST_F32
           : strstr(name, "0.mlp.down_proj.weight")  ? ST_F16
                                                     : ST_BF16;
}

static enum k_type format_of(const struct model *m, const char *name)
{
    const struct param *p = model_find(m, name);
    assert_non_null(p);
    return p->w.type;
}

static void each_has_its_own(void **state)
{
    struct world w;
    int64_t n;
    (void)state;
    world_init(&w, "llama_plain", mixed);
    struct model *m = load(&w, (struct model_options){.type = -1, .kv_type = -1});
    assert_int_equal(format_of(m, "embed_tokens.weight"), K_BF16);
    assert_int_equal(format_of(m, "layers.0.mlp.down_proj.weight"), K_F16);
    assert_int_equal(format_of(m, "layers.1.mlp.down_proj.weight"), K_F32);
    assert_int_equal(format_of(m, "layers.0.self_attn.q_proj.weight"), K_BF16);
    assert_int_equal(format_of(m, "layers.0.self_attn.k_proj.weight"), K_F16);
    assert_int_equal(format_of(m, "layers.1.self_attn.q_proj.weight"), K_BF16);
    assert_int_equal(model_main_type(m), K_BF16);
    assert_int_equal(m->kv_type, K_BF16);
    float *got = logits_of(&w, m, &n);
    for (int64_t i = 0; i < n; i++)
        assert_true(got[i] - got[i] == 0);
    free(got);
    model_free(m);
    world_release(&w);
}

static enum st_dtype large(const char *name, float *x)
{
    if (strstr(name, "down_proj"))
        x[0] = 1e6f;
    return ST_F32;
}

static void what_does_not_fit_is_named(void **state)
{
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, "llama_plain", large);
    struct model_options o = {.type = K_F16, .kv_type = -1};
    assert_null(model_load(&w.dir, &o, w.device, &e));
    assert_non_null(strstr(e.msg, "down_proj"));
    assert_non_null(strstr(e.msg, "65504"));
    world_release(&w);
}

static void a_frozen_format_is_not_trained(void **state)
{
    struct world w;
    struct err e = ERR_INIT;
    struct train_subject s;
    (void)state;
    world_init(&w, "llama_plain", all_f16);
    struct model *m = load(&w, (struct model_options){.type = -1, .kv_type = -1});
    struct train_options o = {.cap_tok = N_TOK};
    assert_int_equal(train_subject_init(&s, m, w.stream, &o, &e), -1);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "f16"));
    train_subject_release(&s);
    struct model_options trained = model_options_trained(m, w.dir.weights);
    struct model *copy = load(&w, trained);
    assert_int_equal(model_main_type(copy), K_BF16);
    assert_int_equal(copy->kv_type, m->kv_type);
    model_free(copy);
    model_free(m);
    world_release(&w);
}

/* A packed matrix against the directory's, which has what the format's own formula makes in f32. */
static void check_values(struct world *w, const struct param *p, const struct weights *want)
{
    struct err e = ERR_INIT;
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "%s%s", strstr(p->name, "lm_head") ? "" : "model.", p->name);
    const struct weight *from = weights_get(want, name);
    assert_non_null(from);
    size_t n = (size_t)(p->n * p->k);
    float *x = xmalloc(n * sizeof *x), *y = xmalloc(n * sizeof *y);
    struct k_weight_unpack a = {.w = p->w, .dst = y, .ld_dst = p->k};
    assert_good(weight_read_f32(from, 0, p->n, x, &e), &e);
    kernel_run(device_kernels(w->device), K_weight_unpack, &a, NULL);
    if (memcmp(x, y, n * sizeof *x) != 0)
        fail_msg("%s has other values", p->name);
    free(x);
    free(y);
}

/* Mean square of the distance to the logits of the same numbers in f32. */
static double distance(struct world *w, const struct model *m, const float *wide)
{
    double sum = 0;
    int64_t n;
    float *x = logits_of(w, m, &n);
    for (int64_t i = 0; i < n; i++)
        sum += (double)(x[i] - wide[i]) * (double)(x[i] - wide[i]) / (double)n;
    free(x);
    return sum;
}

/* A file whose numbers are formats' codes already: they stay what they are, and what is computed
 * with them is no further from f32 than bf16 is, which rounds what is multiplied as they do and
 * the weights besides. */
static void codes_stay_the_files(void **state)
{
    struct world w = {.path = NULL};
    struct err e = ERR_INIT;
    int64_t n;
    (void)state;
    world_open(&w, "tests/golden/gguf/coded.gguf");
    struct weights *want = weights_open("tests/golden/gguf/coded", &e);
    assert_good(want ? 0 : -1, &e);
    struct model *m = load(&w, (struct model_options){.type = -1, .kv_type = K_F32});
    struct model *half = load(&w, (struct model_options){.type = K_BF16, .kv_type = K_F32});
    struct model *wide = load(&w, (struct model_options){.type = K_F32, .kv_type = K_F32});
    assert_int_equal(format_of(m, "layers.0.self_attn.q_proj.weight"), K_INT4);
    assert_int_equal(format_of(m, "layers.0.mlp.down_proj.weight"), K_INT4);
    assert_int_equal(format_of(m, "lm_head.weight"), K_INT4);
    assert_int_equal(format_of(m, "embed_tokens.weight"), K_INT8G);
    assert_int_equal(format_of(m, "layers.1.self_attn.k_proj.weight"), K_INT8G);
    assert_int_equal(format_of(m, "layers.1.mlp.gate_proj.weight"), K_INT8G);
    for (int32_t i = 0; i < m->n_param; i++)
        if (!m->param[i].is_vector)
            check_values(&w, &m->param[i], want);
    float *exact = logits_of(&w, wide, &n);
    assert_true(distance(&w, m, exact) < distance(&w, half, exact));
    free(exact);
    model_free(m);
    model_free(half);
    model_free(wide);
    weights_close(want);
    world_release(&w);
}

/* Faults: an expert with the codes of its neighbour in the stack, or its rows. */
static void experts_have_their_own_codes(void **state)
{
    struct world w = {.path = NULL};
    struct err e = ERR_INIT;
    (void)state;
    world_open(&w, "tests/golden/gguf/experts.gguf");
    struct weights *want = weights_open("tests/golden/gguf/experts", &e);
    assert_good(want ? 0 : -1, &e);
    struct model *m = load(&w, (struct model_options){.type = -1, .kv_type = K_F32});
    assert_int_equal(format_of(m, "layers.0.mlp.experts.2.gate_proj.weight"), K_INT4);
    assert_int_equal(format_of(m, "layers.0.mlp.experts.1.up_proj.weight"), K_INT8G);
    assert_int_equal(format_of(m, "layers.0.mlp.experts.1.down_proj.weight"), K_F32);
    for (int32_t i = 0; i < m->n_param; i++)
        if (!m->param[i].is_vector)
            check_values(&w, &m->param[i], want);
    model_free(m);
    weights_close(want);
    world_release(&w);
}

/* Codes of the file where the format is asked for by name, too; trained are numbers that hold
 * them. */
static void codes_by_name_and_trained(void **state)
{
    struct world w = {.path = NULL};
    struct err e = ERR_INIT;
    (void)state;
    world_open(&w, "tests/golden/gguf/coded.gguf");
    struct weights *want = weights_open("tests/golden/gguf/coded", &e);
    assert_good(want ? 0 : -1, &e);
    struct model *m = load(&w, (struct model_options){.type = K_INT4, .kv_type = -1});
    check_values(&w, model_find(m, "layers.0.mlp.up_proj.weight"), want);
    check_values(&w, model_find(m, "layers.0.self_attn.k_proj.weight"), want);
    struct model *copy = load(&w, model_options_trained(m, w.dir.weights));
    assert_int_equal(format_of(copy, "layers.0.mlp.up_proj.weight"), K_F32);
    check_values(&w, model_find(copy, "layers.0.mlp.up_proj.weight"), want);
    model_free(copy);
    model_free(m);
    weights_close(want);
    world_release(&w);
}

struct own_format {
    const char *name;
    enum k_type type;
};

/* The values of a matrix, as both models have them, are the same to the bit. */
static void same_values(struct world *w, const struct param *a, const struct param *b)
{
    size_t n = (size_t)(a->n * a->k);
    float *x = xmalloc(n * sizeof *x), *y = xmalloc(n * sizeof *y);
    struct k_weight_unpack of_a = {.w = a->w, .dst = x, .ld_dst = a->k};
    struct k_weight_unpack of_b = {.w = b->w, .dst = y, .ld_dst = b->k};
    kernel_run(device_kernels(w->device), K_weight_unpack, &of_a, NULL);
    kernel_run(device_kernels(w->device), K_weight_unpack, &of_b, NULL);
    if (memcmp(x, y, n * sizeof *x) != 0)
        fail_msg("%s has other values", a->name);
    free(x);
    free(y);
}

/* Packed, of less than a third of the size of f32, each matrix has the file's own values in f32,
 * to the bit; where all read rows of f32 the logits too are those of f32. */
static void packed_is_exact(const char *file, bool reads_f32, const struct own_format want_of[9])
{
    struct world w = {.path = NULL};
    int64_t n;
    world_open(&w, file);
    struct model *m = load(&w, (struct model_options){.type = -1, .kv_type = -1});
    struct model *wide = load(&w, (struct model_options){.type = K_F32, .kv_type = -1});
    for (int i = 0; i < 9; i++)
        if (format_of(m, want_of[i].name) != want_of[i].type)
            fail_msg("%s: format %d", want_of[i].name, (int)format_of(m, want_of[i].name));
    for (int32_t i = 0; i < m->n_param; i++)
        if (!m->param[i].is_vector)
            same_values(&w, &m->param[i], &wide->param[i]);
    assert_true(m->block_bytes < wide->block_bytes / 3);
    float *got = logits_of(&w, m, &n), *want = logits_of(&w, wide, &n);
    if (reads_f32)
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
    struct model *copy = load(&w, model_options_trained(m, w.dir.weights));
    assert_int_equal(format_of(copy, "layers.0.mlp.down_proj.weight"), K_F32);
    free(got);
    free(want);
    model_free(copy);
    model_free(wide);
    model_free(m);
    world_release(&w);
}

/* Faults: scales that have scales become other numbers; v, of another kind than q and k, is read
 * as theirs. */
static void nested_is_exact(void **state)
{
    static const struct own_format want[] = {{"layers.0.self_attn.q_proj.weight", K_INT4K},
                                             {"layers.0.self_attn.k_proj.weight", K_INT4K},
                                             {"layers.0.self_attn.v_proj.weight", K_INT6K},
                                             {"layers.0.self_attn.o_proj.weight", K_INT5K},
                                             {"layers.0.mlp.gate_proj.weight", K_INT4K},
                                             {"layers.0.mlp.up_proj.weight", K_INT4K},
                                             {"layers.0.mlp.down_proj.weight", K_INT6K},
                                             {"embed_tokens.weight", K_INT6K},
                                             {"lm_head.weight", K_INT4K}};
    (void)state;
    packed_is_exact("tests/golden/gguf/nested.gguf", true, want);
}

/* Fault: kinds that only an int8k holds, or several in one layer, take four bytes a weight. */
static void mixed_is_exact(void **state)
{
    static const struct own_format want[] = {{"layers.0.self_attn.q_proj.weight", K_INT8K},
                                             {"layers.0.self_attn.k_proj.weight", K_INT8G},
                                             {"layers.0.self_attn.v_proj.weight", K_INT5K},
                                             {"layers.0.self_attn.o_proj.weight", K_INT8K},
                                             {"layers.0.mlp.gate_proj.weight", K_INT4K},
                                             {"layers.0.mlp.up_proj.weight", K_INT4},
                                             {"layers.0.mlp.down_proj.weight", K_INT8K},
                                             {"embed_tokens.weight", K_INT8K},
                                             {"lm_head.weight", K_INT8K}};
    (void)state;
    packed_is_exact("tests/golden/gguf/mixed.gguf", false, want);
}

/* Heads of values that stand by turns in the file, of which a block of columns has two. Fault:
 * codes in another order than the numbers, whose order test_golden_logits knows. */
static void codes_are_reordered(void **state)
{
    struct world w = {.path = NULL};
    (void)state;
    world_open(&w, "tests/golden/gguf/hybrid_coded.gguf");
    struct model *m = load(&w, (struct model_options){.type = -1, .kv_type = K_F32});
    assert_int_equal(format_of(m, "layers.0.linear_attn.out_proj.weight"), K_INT4K);
    assert_int_equal(format_of(m, "layers.0.mlp.down_proj.weight"), K_INT8G);
    for (int32_t i = 0; i < m->n_param; i++)
        if (!m->param[i].is_vector)
            check_values(&w, &m->param[i], w.dir.weights);
    model_free(m);
    world_release(&w);
}

/* A file in which a block of a tensor has a byte of our choice. */
static char *spoil(const char *file, const char *tensor, size_t at, uint8_t byte)
{
    static char all[1 << 19];
    char block[64], path[PATH_BYTES], *dir = test_dir_new();
    struct err e = ERR_INIT;
    struct weights *w = weights_open_gguf(file, &e);
    assert_good(w ? 0 : -1, &e);
    assert_good(weight_read_stored(weights_get(w, tensor), 0, block, sizeof block, &e), &e);
    weights_close(w);
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    size_t n = fread(all, 1, sizeof all, f);
    fclose(f);
    char *found = memmem(all, n, block, sizeof block);
    assert_non_null(found);
    found[at] = (char)byte;
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(all, 1, n, f), n);
    fclose(f);
    return dir;
}

static void check_spoilt(const char *file, const char *tensor, size_t at, uint8_t byte,
                         const char *words)
{
    struct world w = {.path = spoil(file, tensor, at, byte)};
    struct err e = ERR_INIT;
    char path[PATH_BYTES];
    struct model_options o = {.type = -1, .kv_type = -1};
    snprintf(path, sizeof path, "%s/m.gguf", w.path);
    world_open(&w, path);
    struct model *m = model_load(&w.dir, &o, w.device, &e);
    assert_null(m);
    assert_non_null(strstr(e.msg, "m.gguf: "));
    assert_non_null(strstr(e.msg, words));
    world_release(&w);
}

/* Faults: a code that becomes zero, since its magnitude has no bit; a scale, or that of mins, that
 * is not finite. */
static void bad_codes_are_named(void **state)
{
    static const char coded[] = "tests/golden/gguf/coded.gguf";
    static const char nested[] = "tests/golden/gguf/nested.gguf";
    (void)state;
    check_spoilt(coded, "model.layers.1.mlp.down_proj.weight", 9, 0x80,
                 "ffn_down.weight: block 0 has");
    check_spoilt(coded, "model.embed_tokens.weight", 2, 0x80, "give --quantize f32");
    check_spoilt(nested, "lm_head.weight", 144 + 1, 0x7c,
                 "output.weight: the scale of block 1 is not finite");
    check_spoilt(nested, "model.layers.0.mlp.up_proj.weight", 144 + 3, 0x7e,
                 "ffn_up.weight: the scale of block 1 is not finite");
}

/* Faults: cells of codes that are larger than their codes and a scale for each token and head; rows
 * of a convolution among them; one that is refused without a word, or served as something else. */
static void cells_of_codes(void **state)
{
    struct world w = {.path = NULL};
    struct err e = ERR_INIT;
    (void)state;
    world_open(&w, "tests/golden/models/llama_plain");
    struct model *m = load(&w, (struct model_options){.type = K_BF16, .kv_type = K_INT8});
    struct model *half = load(&w, (struct model_options){.type = K_BF16, .kv_type = K_BF16});
    const struct config *c = &m->cfg;
    assert_int_equal(model_kv_token_bytes(m), 2 * c->n_layer * c->n_kv_head * (c->d_head + 4));
    assert_int_equal(model_kv_token_bytes(half), 2 * c->n_layer * c->n_kv_head * c->d_head * 2);
    model_free(half);
    struct config odd = *c;
    model_free(m);
    odd.d_head--;
    struct model_options o = {.type = K_BF16, .kv_type = K_INT8};
    assert_null(model_new(&odd, &o, NULL, &e));
    assert_non_null(strstr(e.msg, "which is odd"));
    memset(odd.mixer, MIXER_CONV, sizeof odd.mixer); /* as if: nothing is made of it */
    odd.d_head++;
    assert_null(model_new(&odd, &o, NULL, &e));
    assert_non_null(strstr(e.msg, "no layer of the model keeps any"));
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_of_codes),
        cmocka_unit_test(f16_is_exact),
        cmocka_unit_test(each_has_its_own),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(a_frozen_format_is_not_trained),
        cmocka_unit_test(codes_stay_the_files),
        cmocka_unit_test(experts_have_their_own_codes),
        cmocka_unit_test(codes_by_name_and_trained),
        cmocka_unit_test(nested_is_exact),
        cmocka_unit_test(mixed_is_exact),
        cmocka_unit_test(codes_are_reordered),
        cmocka_unit_test(bad_codes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
