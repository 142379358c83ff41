/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a model whole: what an engine says of it, and what it refuses.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "engine/serve/resident.h"

#define LLAMA "tests/golden/models/llama_plain"

static const char good_tokenizer[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";

static void link_file(const char *dir, const char *name)
{
    char from[600], to[600], here[400];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(from, sizeof from, "%s/%s/%s", here, LLAMA, name);
    snprintf(to, sizeof to, "%s/%s", dir, name);
    assert_int_equal(symlink(from, to), 0);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[600];
    struct err e = ERR_INIT;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_good(aside_put(path, text, strlen(text), &e), &e);
}

static char *model_dir_new(void)
{
    char *dir = test_dir_new();
    link_file(dir, "config.json");
    link_file(dir, "model.safetensors");
    return dir;
}

static struct engine *try_engine(const char *dir, struct err *e)
{
    struct engine_options o = {.model = dir, .load.threads = 2, .load.quantize = "f32"};
    return engine_new(&o, e);
}

/* Faults: a tokenizer's error that is lost with its thread, or hidden by the weights'. */
static void a_broken_tokenizer_is_told(void **state)
{
    (void)state;
    char *dir = model_dir_new();
    struct err e = ERR_INIT;
    put(dir, "tokenizer.json", "{\"model\":{\"type\":\"Telepathy\"}}");
    assert_null(try_engine(dir, &e));
    assert_non_null(strstr(e.msg, "tokenizer.json"));
    assert_int_equal(mem_stat().n_block, 0);
    test_dir_free(dir);
}

/* Faults: weights that fail while the tokenizer's thread still reads the directory. */
static void broken_weights_are_told(void **state)
{
    (void)state;
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    link_file(dir, "config.json");
    put(dir, "tokenizer.json", good_tokenizer);
    put(dir, "model.safetensors", "\10\0\0\0\0\0\0\0{}      ");
    assert_null(try_engine(dir, &e));
    assert_true(e.code != ERR_NONE && e.msg[0]);
    assert_int_equal(mem_stat().n_block, 0);
    test_dir_free(dir);
}

/* Faults: a model that cannot be served because its chat template is not one. */
static void a_broken_template_stops_chat_only(void **state)
{
    (void)state;
    char *dir = model_dir_new();
    struct err e = ERR_INIT;
    put(dir, "tokenizer.json", good_tokenizer);
    put(dir, "chat_template.jinja", "{% for %}");
    struct engine *g = try_engine(dir, &e);
    assert_good(g ? 0 : -1, &e);
    assert_null(engine_template(g));
    assert_non_null(engine_tokenizer(g));
    assert_int_equal(engine_resident(g)->template_err.code, ERR_BAD_INPUT);
    engine_free(g);
    test_dir_free(dir);
}

/* Faults: advice of generation_config.json that is lost, or taken where it does not count. */
static void what_it_says_of_itself(void **state)
{
    (void)state;
    char *dir = model_dir_new();
    struct err e = ERR_INIT;
    put(dir, "generation_config.json",
        "{\"do_sample\":true,\"temperature\":0.6,\"top_k\":20,\"eos_token_id\":[2,7]}");
    struct engine_options o = {
        .model = dir, .name = "mine", .load.threads = 1, .load.quantize = "int8"};
    struct engine *g = engine_new(&o, &e);
    assert_good(g ? 0 : -1, &e);
    const struct engine_info *i = engine_info(g);
    assert_string_equal(i->name, "mine");
    assert_string_equal(i->architecture, "llama");
    assert_string_equal(i->weights, "int8");
    assert_int_equal(i->ctx, 64);
    assert_int_equal(i->n_vocab, 203);
    assert_int_equal(i->n_eos, 2);
    assert_int_equal(i->eos[1], 7);
    assert_int_equal(i->sample.top_k, 20);
    assert_true(i->sample.temperature > 0.59 && i->sample.temperature < 0.61);
    assert_true(i->generates && !i->embeds && i->n_cell > 0 && i->kv_bytes > 0);
    assert_null(engine_tokenizer(g));
    assert_null(engine_template(g));
    engine_free(g);
    test_dir_free(dir);

    g = try_engine(LLAMA "/", &e);
    assert_string_equal(engine_info(g)->name, "llama_plain");
    assert_true(engine_info(g)->sample.temperature > 0.99); /* what the API has by itself */
    engine_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_tokenizer_is_told),
        cmocka_unit_test(broken_weights_are_told),
        cmocka_unit_test(a_broken_template_stops_chat_only),
        cmocka_unit_test(what_it_says_of_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
