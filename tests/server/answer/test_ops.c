/* SPDX-License-Identifier: Apache-2.0
 *
 * The routes around the generating ones, on a real engine, without a socket. Faults they can catch:
 * counts and ids that are not those that generation uses, an id out of range that reaches the
 * decoder, a model listed that cannot be asked for, a path that leads out of the folder of
 * adapters, an error that tells where files lie, figures that are not what happened.
 */
#include "server/answer/generate.h"
#include "server/answer/ops.h"
#include "server/http/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/background.h"
#include "engine/engine.h"
#include "server/http/route.h"
#include "server/metrics/metrics.h"
#include "server/server.h"
#include "tests/fake/call.h"
#include "tests/lib/json_at.h"
#include "tests/lib/test.h"

static struct engine *engine, *bare; /* with a tokenizer; with adapters */
static char *root;
static struct background *work;

/* POST /v1/chat/completions, of which nothing is kept. */
static void chat(struct call *c)
{
    generate(c, API_CHAT);
}

static json_t *json_out(struct call *c, int status)
{
    if (c->status != status)
        fail_msg("status %d: %s", c->status, c->body.data);
    assert_string_equal(c->type, "application/json");
    json_t *v = json_of(c->body.data, c->body.len);
    fake_free(c);
    return v;
}

static json_t *post(void (*route)(struct call *), const char *body, int status)
{
    return json_out(fake_post(route, body, (struct fake_client){.leaves = false}), status);
}

static json_t *get(void (*route)(struct call *), const char *param, int status)
{
    return json_out(fake_get(route, param), status);
}

static void text_of(void (*route)(struct call *), const char *body, const char *want)
{
    struct call *c = fake_post(route, body, (struct fake_client){.leaves = false});
    assert_int_equal(c->status, 200);
    assert_string_equal(c->type, "text/plain; charset=utf-8");
    assert_int_equal(c->body.len, strlen(want));
    assert_memory_equal(c->body.data, want, c->body.len);
    fake_free(c);
}

/* ---- tokens -------------------------------------------------------------------------------- */

#define CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"hello <|end|> you\"}]"

static void assert_ids(const json_t *a, const json_t *b)
{
    if (!json_equal(a, b)) {
        char *x = json_dumps(a, 0), *y = json_dumps(b, 0);
        fail_msg("%s is not %s", x, y);
    }
}

/* What generation says it went on from. */
static void tokens_are_those_of_generation(void **state)
{
    (void)state;
    json_t *t = post(route_tokenize, "{\"prompt\":\"hello <|end|> you\"}", 200);
    json_t *g = post(route_completions,
                     "{\"prompt\":\"hello <|end|> you\",\"max_tokens\":1,"
                     "\"return_token_ids\":true}",
                     200);
    assert_ids(json_at(t, "tokens"), json_at(g, "choices.0.prompt_token_ids"));
    assert_int_equal(json_int_at(t, "count"), json_int_at(g, "usage.prompt_tokens"));
    assert_int_equal(json_int_at(t, "max_model_len"), engine_info(engine)->ctx);
    assert_true(json_is_null(json_at(t, "token_strs")));
    json_decref(t);
    json_decref(g);

    t = post(route_tokenize, "{" CHAT ",\"return_token_strs\":true}", 200);
    g = post(chat, "{" CHAT ",\"max_tokens\":1,\"return_token_ids\":true}", 200);
    assert_ids(json_at(t, "tokens"), json_at(g, "choices.0.prompt_token_ids"));
    assert_int_equal(json_count_at(t, "token_strs"), json_int_at(t, "count"));
    json_decref(t);
    json_decref(g);
}

/* And back: the text of the rendered conversation, special tokens and all. */
static void texts_come_back(void **state)
{
    (void)state;
    json_t *r = post(route_apply_template, "{" CHAT "}", 200);
    assert_string_equal(json_text_at(r, "prompt"),
                        "<|user|>hello <|end|> you<|end|>\n<|assistant|>");
    json_t *s = post(route_apply_template, "{" CHAT ",\"add_generation_prompt\":false}", 200);
    assert_string_equal(json_text_at(s, "prompt"), "<|user|>hello <|end|> you<|end|>\n");
    json_t *t = post(route_tokenize, "{" CHAT "}", 200);
    char *ids = json_dumps(json_at(t, "tokens"), 0), body[2048];
    snprintf(body, sizeof body, "{\"tokens\":%s}", ids);
    json_t *d = post(route_detokenize, body, 200);
    assert_string_equal(json_text_at(d, "prompt"), json_text_at(r, "prompt"));
    free(ids);
    json_decref(r);
    json_decref(s);
    json_decref(t);
    json_decref(d);
    d = post(route_detokenize, "{\"tokens\":[]}", 200);
    assert_string_equal(json_text_at(d, "prompt"), "");
    json_decref(d);
}

static void bad_ids_are_refused(void **state)
{
    (void)state;
    char body[200];
    const int64_t last = engine_info(engine)->n_vocab;
    const int64_t bad[] = {-1, last, last + 1, INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{\"tokens\":[1,%lld]}", (long long)bad[i]);
        json_t *v = post(route_detokenize, body, 400);
        assert_string_equal(json_text_at(v, "error.param"), "tokens");
        json_decref(v);
    }
    static const char *const sample[][2] = {{"{}", "tokens"},
                                            {"{\"tokens\":\"a\"}", "tokens"},
                                            {"{\"tokens\":[1.5]}", "tokens"},
                                            {"{\"tokens\":[true]}", "tokens"},
                                            {"{\"tokens\":[[1]]}", "tokens"},
                                            {"{\"model\":\"other\",\"tokens\":[1]}", NULL}};
    for (size_t i = 0; i < 5; i++) {
        json_t *v = post(route_detokenize, sample[i][0], 400);
        assert_string_equal(json_text_at(v, "error.param"), sample[i][1]);
        json_decref(v);
    }
    json_decref(post(route_detokenize, sample[5][0], 404));
    json_decref(post(route_tokenize, "{" CHAT ",\"prompt\":\"x\"}", 400));
    json_decref(post(route_tokenize, "{\"prompt\":[1]}", 400));
    json_decref(post(route_apply_template, "{\"messages\":[]}", 400));
}

static void tokenizer_is_told(void **state)
{
    (void)state;
    json_t *v = get(route_tokenizer_info, NULL, 200);
    assert_string_equal(json_text_at(v, "bos_token"), "<|bos|>");
    assert_string_equal(json_text_at(v, "eos_token"), "<|end|>");
    assert_string_equal(json_text_at(v, "unk_token"), "<|unk|>");
    assert_true(json_is_null(json_at(v, "pad_token")));
    assert_string_equal(json_text_at(v, "chat_template"), engine_info(engine)->chat_template);
    json_decref(v);
    fake_engine(bare);
    json_decref(get(route_tokenizer_info, NULL, 400));
    json_decref(post(route_tokenize, "{\"prompt\":\"x\"}", 400));
    fake_engine(engine);
}

/* ---- models and adapters ------------------------------------------------------------------- */

static void models_are_told(void **state)
{
    (void)state;
    json_t *v = get(route_models, NULL, 200);
    assert_int_equal(json_count_at(v, "data"), 1);
    const char *name = json_text_at(v, "data.0.id");
    json_t *one = get(route_model, name, 200);
    assert_true(json_equal(one, json_at(v, "data.0")));
    json_decref(one);
    json_decref(v);
    v = get(route_model, "other", 404);
    assert_string_equal(json_text_at(v, "error.code"), "model_not_found");
    json_decref(v);
}

static json_t *load(const char *name, const char *path, int status)
{
    char body[5000];
    snprintf(body, sizeof body, path ? "{\"name\":\"%s\",\"path\":\"%s\"}" : "{\"name\":\"%s\"}",
             name, path);
    return post(route_adapter_load, body, status);
}

/* Where a gateway looks for who has an adapter. */
static void lora_is_told(void)
{
    struct metrics *m = metrics_new(NULL, 0);
    fake_metrics(m);
    struct call *c = fake_get(route_metrics, NULL);
    assert_non_null(strstr(c->body.data,
                           "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters="
                           "\"lora\",waiting_lora_adapters=\"\"} "));
    fake_free(c);
    fake_metrics(NULL);
    metrics_free(m);
}

static void adapters_come_and_go(void **state)
{
    (void)state;
    fake_engine(bare);
    fake_adapter_root(NULL);
    json_decref(load("a", "lora", 403)); /* without a root nothing is loaded */
    fake_adapter_root("tests/golden/models/qwen2");
    json_t *v = load("a", "lora", 200);
    assert_string_equal(json_text_at(v, "id"), "a");
    assert_true(json_int_at(v, "rank") > 0);
    int64_t version = json_int_at(v, "version");
    json_decref(v);
    v = load("a", "lora_final", 200);
    assert_true(json_int_at(v, "version") > version);
    json_decref(v);
    json_decref(load("lora", NULL, 200)); /* the path is the name */
    char whole[4200];
    assert_non_null(realpath("tests/golden/models/qwen2/lora", whole));
    json_decref(load("lora", whole, 200)); /* spelled whole */

    v = get(route_models, NULL, 200);
    assert_int_equal(json_count_at(v, "data"), 3);
    assert_string_equal(json_text_at(v, "data.1.parent"), json_text_at(v, "data.0.id"));
    json_decref(v);
    json_decref(get(route_model, "a", 200));
    json_decref(
        post(route_completions, "{\"model\":\"a\",\"prompt\":[1,2],\"max_tokens\":1}", 200));
    json_decref(get(route_adapter_drop, "a", 200));
    json_decref(get(route_adapter_drop, "a", 404));
    json_decref(get(route_model, "a", 404));
    json_decref(
        post(route_completions, "{\"model\":\"a\",\"prompt\":[1,2],\"max_tokens\":1}", 404));
    lora_is_told();
    json_decref(get(route_adapter_drop, "lora", 200));
    json_decref(load(engine_info(bare)->name, "lora", 400));
    fake_engine(engine);
}

/* Fault: a name that vLLM's clients load twice, or over, and get the other; a field dropped. */
static void lora_as_vllm_has_it(void **state)
{
    static const char first[] = "{\"lora_name\":\"a\",\"lora_path\":\"lora\"}";
    static const char over[] =
        "{\"lora_name\":\"a\",\"lora_path\":\"lora_final\",\"load_inplace\":true}";
    static const char *const bad[][2] = {
        {"{}", "lora_name"},
        {"{\"lora_name\":\"a\"}", "lora_path"},
        {"{\"lora_path\":\"lora\"}", "lora_name"},
        {"{\"lora_name\":7,\"lora_path\":\"lora\"}", "lora_name"},
        {"{\"lora_name\":\"a\",\"lora_path\":[]}", "lora_path"},
        {"{\"lora_name\":\"b\",\"lora_path\":\"../models\"}", "lora_path"},
        {"{\"lora_name\":\"b\",\"lora_path\":\"none\"}", "lora_path"}};
    (void)state;
    fake_engine(bare);
    fake_adapter_root(NULL);
    json_decref(post(route_lora_load, first, 403));
    fake_adapter_root("tests/golden/models/qwen2");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *v = post(route_lora_load, bad[i][0], 400);
        assert_string_equal(json_text_at(v, "error.param"), bad[i][1]);
        json_decref(v);
    }
    text_of(route_lora_load, first, "Success: LoRA adapter 'a' added successfully.");
    json_decref(post(route_lora_load, first, 400)); /* it is there */
    text_of(route_lora_load, over, "Success: LoRA adapter 'a' added successfully.");
    json_decref(get(route_model, "a", 200));
    json_decref(post(route_lora_unload, "{}", 400));
    text_of(route_lora_unload, "{\"lora_name\":\"a\",\"lora_int_id\":1}",
            "Success: LoRA adapter 'a' removed successfully.");
    json_decref(post(route_lora_unload, "{\"lora_name\":\"a\"}", 404));
    json_decref(get(route_model, "a", 404));
    fake_engine(engine);
}

static void link_to(const char *to, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(symlink(to, path), 0);
}

static void nothing_leads_out(void **state)
{
    char path[512], inside[4200], outside[4096]; /* PATH_MAX */
    (void)state;
    fake_engine(bare);
    assert_non_null(realpath("tests/golden/models/qwen2/lora", outside));
    fake_adapter_root(root);
    link_to(outside, "out");
    snprintf(path, sizeof path, "%s/dir", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(inside, sizeof inside, "%s/adapter_config.json", outside);
    link_to(inside, "dir/adapter_config.json");
    static const char *const bad[] = {"../lora",     "out",
                                      "dir",         "/etc",
                                      "dir/../../x", "/proc/self/cwd",
                                      "nothing",     "dir/adapter_config.json",
                                      ".."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *v = load("x", bad[i], 400);
        const char *text = json_text_at(v, "error.message");
        if (strstr(text, root) || strstr(text, "/proc/self/fd") || strstr(text, outside))
            fail_msg("%s tells where files lie: %s", bad[i], text);
        assert_string_equal(json_text_at(v, "error.param"), "path");
        json_decref(v);
    }
    /* spelled whole it is the same: out and dir lead out, above and beside are not below */
    static const char *const whole[] = {"/out", "/dir", "/../x", "x/lora", "/dir/../../x", "/."};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        snprintf(path, sizeof path, "%s%s", root, whole[i]);
        json_decref(load("x", path, 400));
    }
    snprintf(path, sizeof path, "%s/dir/adapter_config.json", root);
    unlink(path);
    FILE *f = fopen(path, "w");
    fputs("{\"peft_type\":\"LORA\"", f);
    fclose(f);
    json_t *v = load("x", "dir", 400);
    assert_null(strstr(json_text_at(v, "error.message"), "/proc"));
    json_decref(v);
    fake_engine(engine);
}

/* ---- the process --------------------------------------------------------------------------- */

static int64_t figure(const char *text, const char *series)
{
    char line[256];
    snprintf(line, sizeof line, "\n%s ", series);
    const char *p = strstr(text, line);
    if (!p)
        fail_msg("no %s", series);
    return strtoll(p + strlen(line), NULL, 10);
}

/* A series of the model that is served. */
static int64_t figure_of(const char *text, const char *name, const char *more)
{
    char series[256];
    snprintf(series, sizeof series, "vllm:%s{model_name=\"%s\"%s}", name, engine_info(engine)->name,
             more);
    return figure(text, series);
}

static void told_while_loading(void)
{
    fake_engine(NULL);
    struct call *c = fake_get(route_metrics, NULL);
    assert_int_equal(c->status, 200);
    assert_int_equal(figure(c->body.data, "tandem_ready"), 0);
    fake_free(c);
    fake_engine(engine);
}

static void metrics_are_true(void **state)
{
    static const char *const route[] = {"/x"};
    struct metrics *m = metrics_new(route, 1);
    (void)state;
    fake_metrics(m);
    told_while_loading();
    struct engine_stat before = engine_stat(engine);
    for (int i = 0; i < 3; i++)
        json_decref(post(route_completions,
                         "{\"prompt\":[1,2,3],\"max_tokens\":4,\"ignore_eos\":true,\"n\":2}", 200));
    struct call *c = fake_get(route_metrics, NULL);
    assert_string_equal(c->type, METRICS_TYPE);
    const char *t = c->body.data;
    assert_int_equal(figure_of(t, "request_success_total", ",finished_reason=\"length\""), 6);
    assert_int_equal(figure_of(t, "time_to_first_token_seconds_count", ""), 6);
    assert_int_equal(figure_of(t, "inter_token_latency_seconds_count", ""), 18);
    assert_int_equal(figure_of(t, "request_prompt_tokens_sum", ""), 18);
    assert_int_equal(figure_of(t, "request_generation_tokens_sum", ""), 24);
    assert_int_equal(figure_of(t, "generation_tokens_total", ""), before.tok_new + 24);
    assert_int_equal(figure_of(t, "prompt_tokens_total", ""), before.tok_prompt + 18);
    assert_int_equal(figure_of(t, "num_requests_running", ""), 0);
    assert_int_equal(figure_of(t, "num_requests_waiting", ""), 0);
    assert_int_equal(figure(t, "tandem_ready"), 1);
    char series[256];
    snprintf(series, sizeof series,
             "vllm:cache_config_info{block_size=\"%lld\",num_gpu_blocks=\"%lld\"}",
             (long long)engine_info(engine)->cell_tokens, (long long)engine_info(engine)->n_cell);
    assert_int_equal(figure(t, series), 1);
    fake_free(c);
    fake_metrics(NULL);
    metrics_free(m);
}

static void version_is_told(void **state)
{
    (void)state;
    json_t *v = get(route_version, NULL, 200);
    assert_true(*json_text_at(v, "version"));
    json_decref(v);
}

/* Fault: a load that is not what runs; props that tell a path of the machine. */
static void load_and_props_are_told(void **state)
{
    (void)state;
    json_t *v = get(route_load, NULL, 200);
    assert_int_equal(json_int_at(v, "server_load"), 0);
    json_decref(v);
    v = get(route_props, NULL, 200);
    assert_int_equal(json_int_at(v, "default_generation_settings.n_ctx"), engine_info(engine)->ctx);
    assert_int_equal(json_int_at(v, "total_slots"), engine_info(engine)->max_seqs);
    assert_string_equal(json_text_at(v, "model_path"), engine_info(engine)->name);
    assert_string_equal(json_text_at(v, "eos_token"), "<|end|>");
    json_decref(v);
}

static void loading_is_said(void **state)
{
    static void (*const route[])(struct call *) = {
        route_models,       route_model, route_tokenizer_info, route_adapter_load,
        route_adapter_drop, route_load,  route_props};
    (void)state;
    fake_engine(NULL);
    for (size_t i = 0; i < sizeof route / sizeof *route; i++)
        json_decref(get(route[i], "x", 503));
    json_decref(post(route_tokenize, "{\"prompt\":\"x\"}", 503));
    fake_engine(engine);
}

/* ---- the frame ----------------------------------------------------------------------------- */

static struct engine *engine_of(const char *dir, int64_t max_adapters)
{
    struct err e = ERR_INIT;
    const struct engine_options o = {.model = dir, .load.threads = 1, .max_adapters = max_adapters};
    struct engine *g = engine_new(&o, &e);
    assert_good(g ? 0 : -1, &e);
    assert_good(engine_start(g, &e), &e);
    return g;
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    engine = engine_of("tests/golden/models/llama_tied", 0);
    bare = engine_of("tests/golden/models/qwen2", 4);
    root = test_dir_new();
    fake_engine(engine);
    const struct background_lane lane[SERVER_LANES] = {[SERVER_DESK] = {"desk", 1, 0, 0},
                                                       [SERVER_LOADS] = {"adapters", 1, 0, 0},
                                                       [SERVER_HANDLERS] = {"handlers", 1, 0, 0}};
    work = background_new(lane, SERVER_LANES, &e);
    assert_non_null(work);
    fake_work(work);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    background_free(work);
    engine_stop(engine);
    engine_free(engine);
    engine_stop(bare);
    engine_free(bare);
    test_dir_free(root);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_generation),
        cmocka_unit_test(texts_come_back),
        cmocka_unit_test(bad_ids_are_refused),
        cmocka_unit_test(tokenizer_is_told),
        cmocka_unit_test(models_are_told),
        cmocka_unit_test(adapters_come_and_go),
        cmocka_unit_test(lora_as_vllm_has_it),
        cmocka_unit_test(nothing_leads_out),
        cmocka_unit_test(metrics_are_true),
        cmocka_unit_test(version_is_told),
        cmocka_unit_test(load_and_props_are_told),
        cmocka_unit_test(loading_is_said),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
