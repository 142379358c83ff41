/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints of model directories. Faults: two models of one shape that are taken for the same;
 * one that is taken for another because it was written in other files, or with other words.
 */
#include "engine/load/base_id.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/path.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/test.h"

enum { MODEL_BYTES_MAX = 1 << 20 };

struct copy {
    char *dir;
    char *config, *weights; /* of the model that is copied */
    size_t n_config, n_weights;
};

static char *file_of(const char *name, size_t *n)
{
    struct err e = ERR_INIT;
    char *path = path_join("tests/golden/models/llama_plain", name);
    char *text = path_read(path, name, MODEL_BYTES_MAX, n, &e);
    assert_good(text ? 0 : -1, &e);
    free(path);
    return text;
}

static void copy_init(struct copy *c)
{
    c->dir = test_dir_new();
    c->config = file_of("config.json", &c->n_config);
    c->weights = file_of("model.safetensors", &c->n_weights);
    put_file(c->dir, "config.json", c->config, c->n_config);
    put_file(c->dir, "model.safetensors", c->weights, c->n_weights);
}

static void copy_release(struct copy *c)
{
    mem_free(c->config);
    mem_free(c->weights);
    test_dir_free(c->dir);
}

static struct base_id id_of(const char *dir)
{
    struct model_dir d;
    struct err e = ERR_INIT;
    struct base_id id = {.types = "bf16"};
    assert_good(model_dir_init(&d, dir, &e), &e);
    assert_good(base_id_read(&d, &id, &e), &e);
    model_dir_release(&d);
    assert_int_equal(strlen(id.files), BASE_FILES_BYTES - 1);
    return id;
}

static void assert_match(const struct copy *c, const struct base_id *id, enum base_match want)
{
    struct base_id now = id_of(c->dir);
    assert_int_equal(base_id_match(id, &now), want);
}

static void weights_tell(void **state)
{
    struct copy c;
    (void)state;
    copy_init(&c);
    struct base_id id = id_of(c.dir), golden = id_of("tests/golden/models/llama_plain");
    assert_int_equal(base_id_match(&id, &golden), BASE_SAME);
    c.weights[c.n_weights - 1] ^= 1; /* the end of a tensor */
    put_file(c.dir, "model.safetensors", c.weights, c.n_weights);
    assert_match(&c, &id, BASE_OTHER);
    copy_release(&c);
}

/* What is read of it counts, how it is written does not. */
static void config_tells(void **state)
{
    struct copy c;
    (void)state;
    copy_init(&c);
    struct base_id id = id_of(c.dir);
    size_t room = c.n_config + 256;
    char *text = malloc(room);
    char *brace = strchr(c.config, '{');
    snprintf(text, room, "{\n\t\"_name_or_path\" : \"elsewhere\",\"use_cache\":false,   %s",
             brace + 1);
    put_text(c.dir, "config.json", text);
    char *ours = strstr(c.config, "\"use_cache\"");
    if (!ours)
        assert_match(&c, &id, BASE_SAME);
    snprintf(text, room, "{\"rope_scaling_note\":1,%s", brace + 1);
    put_text(c.dir, "config.json", text);
    assert_match(&c, &id, BASE_OTHER);
    free(text);
    copy_release(&c);
}

/* Two tensors in one file, in the other order, and in two files; and another shape. */
static void files_do_not(void **state)
{
    static const char one[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                              "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}";
    static const char first[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static const char second[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static const char moved[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]}}";
    struct copy c;
    char bytes[256];
    (void)state;
    copy_init(&c);
    size_t n = st_bytes(bytes, strlen(one), one, 8);
    put_file(c.dir, "model.safetensors", bytes, n);
    struct base_id id = id_of(c.dir);
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors", c.dir);
    remove(path);
    put_text(c.dir, "model.safetensors.index.json",
             "{\"weight_map\":{\"b\":\"y.safetensors\",\"a\":\"x.safetensors\"}}");
    n = st_bytes(bytes, strlen(first), first, 4);
    put_file(c.dir, "x.safetensors", bytes, n);
    n = st_bytes(bytes, strlen(second), second, 0);
    memcpy(bytes + n, "\4\5\6\7", 4);
    put_file(c.dir, "y.safetensors", bytes, n + 4);
    assert_match(&c, &id, BASE_SAME);
    n = st_bytes(bytes, strlen(moved), moved, 0);
    memcpy(bytes + n, "\4\5\6\7", 4);
    put_file(c.dir, "y.safetensors", bytes, n + 4);
    assert_match(&c, &id, BASE_OTHER); /* another shape of the same bytes */
    copy_release(&c);
}

static void texts(void **state)
{
    static const char *const no[] = {"", "x", "0123456789abcdef0123456789abcdef",
                                     "0123456789abcdef0123456789abcdeg:bf16",
                                     "0123456789abcdef0123456789abcdef:an endless name of types"};
    struct base_id id, other;
    char text[BASE_ID_TEXT_BYTES];
    (void)state;
    base_id_parse("0123456789abcdef0123456789abcdef:bf16", &id);
    assert_string_equal(base_id_text(&id, text), "0123456789abcdef0123456789abcdef:bf16");
    base_id_parse("0123456789abcdef0123456789abcdef:int8", &other);
    assert_int_equal(base_id_match(&id, &other), BASE_OTHER_TYPES);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        base_id_parse(no[i], &other);
        assert_int_equal(base_id_match(&id, &other), BASE_UNKNOWN);
    }
    base_id_parse(NULL, &other);
    assert_int_equal(base_id_match(&other, &id), BASE_UNKNOWN);
}

/* Beside an adapter: a name that JSON would have to escape; a file that says something else. */
static void beside_an_adapter(void **state)
{
    struct base_id id, got;
    struct err e = ERR_INIT;
    char *dir = test_dir_new(), *path = path_join(dir, BASE_ID_NAME), name[BASE_NAME_BYTES];
    (void)state;
    base_id_parse("0123456789abcdef0123456789abcdef:bf16", &id);
    assert_good(base_id_get(dir, &got, name, &e), &e);
    assert_int_equal(base_id_match(&id, &got), BASE_UNKNOWN);
    assert_good(base_id_put(&id, "a \"b\"\n", path, &e), &e);
    assert_good(base_id_get(dir, &got, name, &e), &e);
    assert_int_equal(base_id_match(&id, &got), BASE_SAME);
    assert_string_equal(name, "a ?b??");
    put_text(dir, BASE_ID_NAME, "{\"format\":1,\"base\":\"x\"}");
    assert_err(base_id_get(dir, &got, name, &e), &e, ERR_BAD_INPUT, "no fingerprint");
    free(path);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_tell),      cmocka_unit_test(config_tells),
        cmocka_unit_test(files_do_not),      cmocka_unit_test(texts),
        cmocka_unit_test(beside_an_adapter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
