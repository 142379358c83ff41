/* SPDX-License-Identifier: Apache-2.0
 *
 * Every row of params.def at values that have broken servers. The walk comes from the table, so
 * a new field is tested the moment it has a row. Faults it can catch: a bound that is not checked,
 * a type that is taken for another, an error without its field, a field that two routes read
 * differently, a field of the specification without a row.
 */
#include "api/params.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

static const struct api_limits limits = {.n_vocab = 100, .d_model = 8};

static const char *const required[] = {
    [API_CHAT] = "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [API_COMPLETIONS] = "\"prompt\":\"x\"",
    [API_EMBEDDINGS] = "\"input\":\"x\"",
    [API_TOKENIZE] = "\"prompt\":\"x\"",
    [API_DETOKENIZE] = "\"tokens\":[1]",
    [API_TEMPLATE] = "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [API_ADAPTER] = "\"name\":\"x\"",
};
static const char *const required_name[] = {
    [API_CHAT] = "messages",   [API_COMPLETIONS] = "prompt", [API_EMBEDDINGS] = "input",
    [API_TOKENIZE] = "prompt", [API_DETOKENIZE] = "tokens",  [API_TEMPLATE] = "messages",
    [API_ADAPTER] = "name"};

struct outcome {
    int rc;
    struct api_error e;
    struct api_request q; /* what it borrows is gone */
};

static struct outcome parse(enum api_route route, const char *body)
{
    struct outcome o = {.rc = 0};
    struct arena a;
    arena_init(&a, 1 << 20);
    o.rc = api_request_parse(route, body, strlen(body), &limits, &a, &o.q, &o.e);
    arena_release(&a);
    return o;
}

static struct outcome parse_field(enum api_route route, const char *name, const char *value)
{
    char body[1024];
    bool is_it = strcmp(name, required_name[route]) == 0;
    snprintf(body, sizeof body, "{%s%s\"%s\":%s}", is_it ? "" : required[route], is_it ? "" : ",",
             name, value);
    return parse(route, body);
}

static void assert_names(const struct outcome *o, const char *name, const char *value)
{
    if (o->rc == 0 || o->e.status != 400 || strncmp(o->e.param, name, strlen(name)) != 0)
        fail_msg("%s = %s: rc %d, status %d, param '%s': %s", name, value, o->rc, o->e.status,
                 o->e.param, o->e.message);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    double value;
    bool is_int;
} numbers[] = {{"-1", -1, true},
               {"0", 0, true},
               {"-0", 0, true},
               {"1", 1, true},
               {"1.5", 1.5, false},
               {"4e-324", 4e-324, false},
               {"2147483647", 2147483647.0, true},
               {"2147483648", 2147483648.0, true},
               {"9007199254740992", 9007199254740992.0, true},
               {"9223372036854775807", 9223372036854775807.0, true},
               {"1e308", 1e308, false},
               {"-1e308", -1e308, false}};

static void check_number(const struct param_row *row, enum api_route route, const char *text,
                         double value, bool is_int)
{
    struct outcome o = parse_field(route, row->name, text);
    bool fits = value >= row->min && value <= row->max && (row->kind == PARAM_NUM || is_int);
    if (!fits)
        assert_names(&o, row->name, text);
    else if (o.rc) /* a number that fits may still not go with the rest */
        assert_int_equal(o.e.status, 400);
}

static void check_bounds(const struct param_row *row, enum api_route route)
{
    char text[64];
    const double at[] = {row->min - 1, row->min, row->max, row->max + 1};
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%.17g", at[i]);
        check_number(row, route, text, at[i], at[i] == (double)(int64_t)at[i]);
    }
}

static void test_numbers_at_their_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_param_rows; i++) {
        const struct param_row *row = &param_rows[i];
        for (unsigned route = 1; route <= API_ADAPTER; route <<= 1) {
            if (!(row->routes & route) || (row->kind != PARAM_INT && row->kind != PARAM_NUM))
                continue;
            check_bounds(row, route);
            for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
                check_number(row, route, numbers[k].text, numbers[k].value, numbers[k].is_int);
        }
    }
}

/* ---- types --------------------------------------------------------------------------------- */

/* null counts as left out; everything else of the wrong type is a 400 with the name. */
static void test_types(void **state)
{
    static const char *const values[] = {"true", "\"1\"", "[]", "{}", "1", "1.5", "[[[]]]"};
    (void)state;
    for (size_t i = 0; i < n_param_rows; i++) {
        const struct param_row *row = &param_rows[i];
        for (unsigned route = 1; route <= API_ADAPTER; route <<= 1) {
            if (!(row->routes & route))
                continue;
            struct outcome o = parse_field(route, row->name, "null");
            if (strcmp(row->name, required_name[route]) == 0)
                assert_names(&o, row->name, "null");
            else
                assert_int_equal(o.rc, 0);
            size_t n_good = 0;
            for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
                o = parse_field(route, row->name, values[k]);
                n_good += o.rc == 0;
                if (o.rc && strcmp(row->name, "stream_options") != 0)
                    assert_names(&o, row->name, values[k]);
            }
            /* no field takes a boolean, a string, a list, an object and a number alike */
            assert_true(n_good < 4);
        }
    }
}

/* Fault: a name that leaves the root it is looked up under, or breaks a label or a line. */
static void test_names_of_adapters(void **state)
{
    static const char *const good[] = {"a", "A-1_b.c", "ft:base:org:x:1", "org/name", "b/c"};
    static const char *const bad[] = {
        "",     ".",   "..",     "../a",  "a/../b",    "/a",     "a/",     "a//b", ".a",    "a/.b",
        "a..b", "a b", "a\\\\b", "a\\nb", "a\\u0000b", "\u00e9", "%2e%2e", "-a",   "a\\\"b"};
    char value[300];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(value, sizeof value, "\"%s\"", good[i]);
        assert_int_equal(parse_field(API_ADAPTER, "name", value).rc, 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(value, sizeof value, "\"%s\"", bad[i]);
        struct outcome o = parse_field(API_ADAPTER, "name", value);
        assert_names(&o, "name", value);
    }
    memset(value, 'a', 98);
    value[0] = value[97] = '"';
    value[98] = 0;
    assert_int_equal(parse_field(API_ADAPTER, "name", value).rc, 0);
    memcpy(value + 97, "a\"", 3);
    assert_int_equal(parse_field(API_ADAPTER, "name", value).rc, -1);
}

/* Fault: a prompt and a conversation taken together; a text that begins twice. */
static void test_tokenize_takes_one(void **state)
{
    static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]%s}";
    char body[200];
    (void)state;
    snprintf(body, sizeof body, chat, ",\"prompt\":\"y\"");
    struct outcome o = parse(API_TOKENIZE, body);
    assert_names(&o, "messages", body);
    snprintf(body, sizeof body, chat, "");
    o = parse(API_TOKENIZE, body);
    assert_int_equal(o.rc, 0);
    assert_false(o.q.adds_special);
    snprintf(body, sizeof body, chat, ",\"add_special_tokens\":true");
    assert_true(parse(API_TOKENIZE, body).q.adds_special);
    o = parse(API_TOKENIZE, "{\"prompt\":\"x\",\"return_token_strs\":true}");
    assert_true(o.q.adds_special && o.q.wants_strings);
    assert_false(parse(API_TOKENIZE, "{\"prompt\":\"x\"}").q.wants_strings);
    o = parse(API_DETOKENIZE, "{\"tokens\":[]}");
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.q.n_input, 1);
    o = parse(API_DETOKENIZE, "{\"tokens\":[0,99,100]}");
    assert_names(&o, "tokens", "100");
}

/* ---- the specification --------------------------------------------------------------------- */

static const struct param_row *find(enum api_route route, const char *name)
{
    for (size_t i = 0; i < n_param_rows; i++)
        if ((param_rows[i].routes & route) && strcmp(param_rows[i].name, name) == 0)
            return &param_rows[i];
    return NULL;
}

static void test_every_field_of_openai_has_a_row(void **state)
{
    static const char *const chat[] = {"metadata",
                                       "top_logprobs",
                                       "temperature",
                                       "top_p",
                                       "user",
                                       "safety_identifier",
                                       "prompt_cache_key",
                                       "prompt_cache_retention",
                                       "prompt_cache_options",
                                       "messages",
                                       "model",
                                       "service_tier",
                                       "modalities",
                                       "verbosity",
                                       "reasoning_effort",
                                       "max_completion_tokens",
                                       "frequency_penalty",
                                       "presence_penalty",
                                       "web_search_options",
                                       "response_format",
                                       "audio",
                                       "store",
                                       "moderation",
                                       "stream",
                                       "stop",
                                       "logit_bias",
                                       "logprobs",
                                       "max_tokens",
                                       "n",
                                       "prediction",
                                       "seed",
                                       "stream_options",
                                       "tools",
                                       "tool_choice",
                                       "parallel_tool_calls",
                                       "function_call",
                                       "functions"};
    static const char *const completions[] = {"model",
                                              "prompt",
                                              "best_of",
                                              "echo",
                                              "frequency_penalty",
                                              "logit_bias",
                                              "logprobs",
                                              "max_tokens",
                                              "n",
                                              "presence_penalty",
                                              "seed",
                                              "stop",
                                              "stream",
                                              "stream_options",
                                              "suffix",
                                              "temperature",
                                              "top_p",
                                              "user"};
    static const char *const embeddings[] = {"input", "model", "encoding_format", "dimensions",
                                             "user"};
    (void)state;
    for (size_t i = 0; i < sizeof chat / sizeof *chat; i++)
        assert_non_null(find(API_CHAT, chat[i]));
    for (size_t i = 0; i < sizeof completions / sizeof *completions; i++)
        assert_non_null(find(API_COMPLETIONS, completions[i]));
    for (size_t i = 0; i < sizeof embeddings / sizeof *embeddings; i++)
        assert_non_null(find(API_EMBEDDINGS, embeddings[i]));
}

static void test_vllm_names_have_rows(void **state)
{
    static const char *const sampling[] = {"top_k",
                                           "min_p",
                                           "repetition_penalty",
                                           "length_penalty",
                                           "min_tokens",
                                           "stop_token_ids",
                                           "ignore_eos",
                                           "include_stop_str_in_output",
                                           "skip_special_tokens",
                                           "spaces_between_special_tokens",
                                           "use_beam_search",
                                           "allowed_token_ids",
                                           "bad_words",
                                           "logits_processors",
                                           "add_special_tokens",
                                           "truncate_prompt_tokens",
                                           "prompt_logprobs",
                                           "return_token_ids",
                                           "return_tokens_as_token_ids",
                                           "priority",
                                           "request_id",
                                           "cache_salt",
                                           "guided_json",
                                           "guided_regex",
                                           "guided_choice",
                                           "guided_grammar",
                                           "structured_outputs",
                                           "kv_transfer_params",
                                           "vllm_xargs",
                                           "mm_processor_kwargs"};
    static const char *const chat[] = {"add_generation_prompt",
                                       "continue_final_message",
                                       "chat_template_kwargs",
                                       "chat_template",
                                       "documents",
                                       "echo"};
    (void)state;
    for (size_t i = 0; i < sizeof sampling / sizeof *sampling; i++) {
        assert_non_null(find(API_CHAT, sampling[i]));
        assert_non_null(find(API_COMPLETIONS, sampling[i]));
    }
    for (size_t i = 0; i < sizeof chat / sizeof *chat; i++)
        assert_non_null(find(API_CHAT, chat[i]));
    assert_non_null(find(API_ADAPTER, "path"));
}

static void test_names_stand_once_for_a_route(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_param_rows; i++)
        for (size_t k = i + 1; k < n_param_rows; k++)
            assert_false((param_rows[i].routes & param_rows[k].routes) &&
                         strcmp(param_rows[i].name, param_rows[k].name) == 0);
}

/* Refused fields say why, and are silent about what was sent. */
static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_param_rows; i++) {
        const struct param_row *row = &param_rows[i];
        for (unsigned route = 1; route <= API_ADAPTER; route <<= 1) {
            if (!(row->routes & route) || (row->kind != PARAM_REFUSED && row->kind != PARAM_WORD))
                continue;
            struct outcome o = parse_field(route, row->name, "{\"secret\":\"xyzzy\"}");
            assert_names(&o, row->name, "an object");
            assert_string_equal(o.e.code, "unsupported_parameter");
            assert_non_null(strstr(o.e.message, row->why));
            assert_null(strstr(o.e.message, "xyzzy"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_at_their_bounds),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_names_of_adapters),
        cmocka_unit_test(test_tokenize_takes_one),
        cmocka_unit_test(test_every_field_of_openai_has_a_row),
        cmocka_unit_test(test_vllm_names_have_rows),
        cmocka_unit_test(test_names_stand_once_for_a_route),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
