/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters that are cut, lie, or belong to another model: each is an error that says what is wrong,
 * and leaves nothing behind.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/path.h"
#include "engine/load/st_writer.h"
#include "engine/model/adapter.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/golden.h"

#define GOOD    "tests/golden/models/llama_plain/lora"
#define TENSORS "adapter_model.safetensors"
#define CONFIG  "adapter_config.json"

enum { HALVES_MAX = 64, NAME_BYTES = 200 };

/* A tensor as it will be written. */
struct half {
    char name[NAME_BYTES];
    int64_t dim[2];
    int rank;
    enum st_dtype type;
    float first; /* its first number; the others are 0.5 */
};

struct bad {
    struct golden g;
    struct half good[HALVES_MAX], half[HALVES_MAX];
    int n_good, n;
    char *dir, *config;
    size_t config_len;
    int n_case;
};

static void init(struct bad *b)
{
    struct err e = ERR_INIT;
    struct weights *w = weights_open_file(GOOD "/" TENSORS, &e);
    golden_init_short(&b->g, "llama_plain", K_F32);
    b->dir = test_dir_new();
    b->config = path_read(GOOD "/" CONFIG, CONFIG, 1 << 16, &b->config_len, &e);
    assert_non_null(b->config);
    b->n_good = (int)weights_count(w);
    for (int i = 0; i < b->n_good; i++) {
        const struct st_tensor *t = weights_at(w, (size_t)i)->t;
        struct half *h = &b->good[i];
        *h = (struct half){.dim = {t->dim[0], t->dim[1]}, .rank = 2, .type = ST_F32, .first = 0.5f};
        snprintf(h->name, sizeof h->name, "%s", t->name);
    }
    weights_close(w);
}

static void release(struct bad *b)
{
    mem_free(b->config);
    test_dir_free(b->dir);
    golden_release(&b->g);
}

/* Begins a case: all that is written is good. */
static void begin(struct bad *b)
{
    memcpy(b->half, b->good, sizeof b->half);
    b->n = b->n_good;
    put_file(b->dir, CONFIG, b->config, b->config_len);
}

static void write_tensors(const struct bad *b)
{
    char path[NAME_BYTES];
    struct err e = ERR_INIT;
    struct st_writer *w = st_writer_new();
    snprintf(path, sizeof path, "%s/%s", b->dir, TENSORS);
    for (int i = 0; i < b->n; i++) {
        const struct half *h = &b->half[i];
        assert_good(st_writer_add(w, h->name, h->type, h->rank, h->dim, &e), &e);
    }
    assert_good(st_writer_open(w, path, &e), &e);
    for (const struct st_tensor *t; (t = st_writer_next(w));) {
        size_t n = (size_t)(t->end - t->begin);
        float *x = calloc(n / sizeof *x + 1, sizeof *x);
        for (size_t i = 0; i < n / sizeof *x && t->dtype == ST_F32; i++)
            x[i] = 0.5f;
        for (int i = 0; i < b->n; i++)
            if (n && strcmp(b->half[i].name, t->name) == 0 && t->dtype == ST_F32)
                x[0] = b->half[i].first;
        if (n)
            assert_good(st_writer_write(w, x, n, &e), &e);
        free(x);
    }
    assert_good(st_writer_commit(w, &e), &e);
    st_writer_free(w);
}

static struct adapter *load(const struct bad *b, struct err *e)
{
    static struct adapter_budget budget = {.bytes_max = 1 << 30};
    struct adapter_options o = {.name = "x", .version = 1, .rank_max = 64, .budget = &budget};
    struct adapter *a = adapter_load(b->g.model, b->dir, &o, e);
    if (!a)
        assert_int_equal(budget.bytes, 0);
    return a;
}

/* The directory is refused with a text that holds the words. */
static void refused(struct bad *b, const char *words)
{
    struct err e = ERR_INIT;
    size_t before = mem_stat().now_bytes;
    struct adapter *a = load(b, &e);
    if (a)
        fail_msg("taken, but should say %s", words);
    if (!strstr(e.msg, words))
        fail_msg("'%s' does not say '%s'", e.msg, words);
    assert_int_equal(mem_stat().now_bytes, before);
    b->n_case++;
}

static void refused_tensors(struct bad *b, const char *words)
{
    write_tensors(b);
    refused(b, words);
}

static void still_good(struct bad *b)
{
    struct err e = ERR_INIT;
    begin(b);
    write_tensors(b);
    struct adapter *a = load(b, &e);
    assert_good(a ? 0 : -1, &e);
    adapter_unref(a);
}

/* ---- the tensors --------------------------------------------------------------------------- */

/* Replaces the first `from` in the name. */
static void rename_half(struct half *h, const char *from, const char *to)
{
    char rest[NAME_BYTES];
    char *at = strstr(h->name, from);
    assert_non_null(at);
    snprintf(rest, sizeof rest, "%s", at + strlen(from));
    snprintf(at, (size_t)(h->name + sizeof h->name - at), "%s%s", to, rest);
}

/* Each half in turn: not there, of a wrong shape, of a wrong type, under a wrong name. */
static void each_half(struct bad *b, int i)
{
    const char *name = b->good[i].name;
    begin(b);
    b->half[i] = b->half[--b->n];
    refused_tensors(b, name);
    for (int d = 0; d < 2; d++) {
        begin(b);
        b->half[i].dim[d]++;
        refused_tensors(b, name);
        begin(b);
        b->half[i].dim[d] = 0;
        refused_tensors(b, name);
    }
    begin(b);
    b->half[i].dim[0] = b->good[i].dim[1];
    b->half[i].dim[1] = b->good[i].dim[0];
    refused_tensors(b, "expected [");
    begin(b);
    b->half[i].rank = 1;
    refused_tensors(b, name);
    begin(b);
    b->half[i].type = i % 2 ? ST_I32 : ST_F64;
    refused_tensors(b, "F16 or BF16");
    begin(b);
    b->half[i].first = i % 2 ? NAN : INFINITY;
    refused_tensors(b, "not finite");
    begin(b);
    rename_half(&b->half[i], "layers.", "layers.7");
    refused_tensors(b, "no product");
}

/* Faults: a half that is passed over, taken for another, or read past its end. */
static void halves_that_are_wrong(void **state)
{
    struct bad *b = *state;
    for (int i = 0; i < b->n_good; i++)
        each_half(b, i);
    still_good(b);
    assert_true(b->n_case >= 200);
}

static const struct {
    const char *from, *to, *words;
} renames[] = {
    {"base_model.model.", "", "expected base_model.model."},
    {"base_model.model.", "base_model.x.", "expected base_model.model."},
    {"lora_A", "lora_C", "expected base_model.model."},
    {"lora_B", "lora_embedding_B", "expected base_model.model."},
    {"lora_A.weight", "lora_A.default.weight", "expected base_model.model."},
    {"lora_A.weight", "lora_magnitude_vector", "does not say use_dora"},
    {"lora_B.weight", "lora_B.bias", "expected base_model.model."},
    {".weight", ".weight.", "expected base_model.model."},
    {"self_attn.q_proj", "self_attn.qq_proj", "no product"},
    {"self_attn.q_proj", "input_layernorm", "takes no adapter"},
    {"model.layers.0.self_attn.q_proj", "lm_head", "takes no adapter"},
    {"model.layers.0.self_attn.q_proj", "model.embed_tokens", "takes no adapter"},
    {"model.layers.0.self_attn.q_proj", "layers.0.self_attn.k_proj", "the same product"},
    {"model.layers.0.self_attn.q_proj", "", "expected base_model.model."},
    {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn", "no product"},
};

/* Faults: a name that matches by its beginning; an embedding's or a head's tensor ignored. */
static void names_that_are_wrong(void **state)
{
    struct bad *b = *state;
    for (size_t k = 0; k < sizeof renames / sizeof *renames; k++) {
        begin(b);
        int hit = 0;
        for (int i = 0; i < b->n; i++) {
            if (!strstr(b->half[i].name, renames[k].from) ||
                !strstr(b->half[i].name, "layers.0.self_attn.q_proj"))
                continue;
            rename_half(&b->half[i], renames[k].from, renames[k].to);
            hit++;
        }
        assert_true(hit > 0);
        refused_tensors(b, renames[k].words);
    }
    begin(b);
    b->n = 0;
    refused_tensors(b, "0 tensors");
    begin(b); /* a stranger beside the halves */
    b->half[b->n] = b->half[0];
    snprintf(b->half[b->n++].name, NAME_BYTES, "base_model.model.score.weight");
    refused_tensors(b, "tensors");
    begin(b); /* a product that the file has nothing of */
    b->n = 0;
    for (int i = 0; i < b->n_good; i++)
        if (!strstr(b->good[i].name, "layers.1.mlp.up_proj"))
            b->half[b->n++] = b->good[i];
    refused_tensors(b, "model.layers.1.mlp.up_proj");
}

/* ---- the config ---------------------------------------------------------------------------- */

static const struct {
    const char *from, *to, *words;
} lies[] = {
    {"\"r\": 4", "\"r\": 5", "expected [5,"},
    {"\"r\": 4", "\"r\": 3", "expected [3,"},
    {"\"r\": 4", "\"r\": 0", "r:"},
    {"\"r\": 4", "\"r\": 4096", "r:"},
    {"\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 2}", "expected [2,"},
    {"\"rank_pattern\": {}", "\"rank_pattern\": {\"layers.1.mlp.up_proj\": 8}", "expected [8,"},
    {"\"q_proj\",", "", "does not name this module"},
    {"\"q_proj\"", "\"x_proj\"", "does not name this module"},
    {"\"layers_to_transform\": null", "\"layers_to_transform\": [0]", "does not name"},
    {"\"use_dora\": false", "\"use_dora\": true", "lora_magnitude_vector is not there"},
    {"\"modules_to_save\": null", "\"modules_to_save\": [\"score\"]", "modules_to_save"},
    {"\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]", "no tensor is there"},
    {"\"bias\": \"none\"", "\"bias\": \"all\"", "bias"},
    {"\"LORA\"", "\"LOHA\"", "LOHA"},
    {"\"lora_bias\": false", "\"lora_bias\": true", "lora_bias"},
};

/* Faults: a rank taken from the tensors against the config, a field that is ignored. */
static void configs_that_lie(void **state)
{
    struct bad *b = *state;
    begin(b);
    write_tensors(b);
    for (size_t k = 0; k < sizeof lies / sizeof *lies; k++) {
        char text[2000];
        const char *at = strstr(b->config, lies[k].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - b->config), b->config, lies[k].to,
                 at + strlen(lies[k].from));
        put_text(b->dir, CONFIG, text);
        refused(b, lies[k].words);
    }
    still_good(b);
}

/* ---- files that are cut -------------------------------------------------------------------- */

/* Faults: a short read that is not noticed, memory of what was read before it. */
static void files_that_are_cut(void **state)
{
    struct bad *b = *state;
    struct err e = ERR_INIT;
    size_t len;
    char *all = path_read(GOOD "/" TENSORS, TENSORS, 1 << 20, &len, &e);
    begin(b);
    for (size_t n = 0; n < len; n += n < 16 ? 1 : 331) {
        put_file(b->dir, TENSORS, all, n);
        refused(b, TENSORS);
    }
    put_file(b->dir, TENSORS, all, len);
    for (size_t n = 0; n < b->config_len - 1; n += 23) {
        put_file(b->dir, CONFIG, b->config, n);
        refused(b, CONFIG);
    }
    mem_free(all);
    still_good(b);
}

/* Faults: an error that does not say which file is missing; a pickle that is read. */
static void files_that_are_missing(void **state)
{
    struct bad *b = *state;
    char path[NAME_BYTES];
    begin(b);
    write_tensors(b);
    snprintf(path, sizeof path, "%s/%s", b->dir, TENSORS);
    assert_int_equal(remove(path), 0);
    refused(b, TENSORS);
    put_text(b->dir, "adapter_model.bin", "x");
    refused(b, "can run code");
    snprintf(path, sizeof path, "%s/%s", b->dir, CONFIG);
    assert_int_equal(remove(path), 0);
    refused(b, CONFIG);
    still_good(b);
}

static int setup(void **state)
{
    *state = xcalloc(1, sizeof(struct bad));
    init(*state);
    return 0;
}

static int teardown(void **state)
{
    release(*state);
    free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_that_are_wrong),  cmocka_unit_test(names_that_are_wrong),
        cmocka_unit_test(configs_that_lie),       cmocka_unit_test(files_that_are_cut),
        cmocka_unit_test(files_that_are_missing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
