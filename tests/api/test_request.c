/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole requests. Faults it can catch: a default that differs from what is promised, a field that
 * lands in another's place, fields that contradict each other and are taken, ids out of the
 * vocabulary, a header that a field's name could break.
 */
#include "api/request.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/own_arena.h"
#include "tests/lib/test.h"

static struct api_request q;
static struct api_error error;
static struct api_limits limits;

static int setup(void **state)
{
    limits = (struct api_limits){.n_vocab = 100, .n_vector = 8};
    return own_arena_new(state);
}

static int parse(enum api_route route, const char *body)
{
    error = (struct api_error){.status = 0};
    return api_request_parse(route, body, strlen(body), &limits, &own_arena, &q, &error);
}

static void assert_good_body(enum api_route route, const char *body)
{
    if (parse(route, body))
        fail_msg("%s: %s", body, error.message);
}

static void assert_bad_body(enum api_route route, const char *body, const char *param)
{
    if (!parse(route, body) || error.status != 400 || strcmp(error.param, param) != 0)
        fail_msg("%s: status %d, param '%s': %s", body, error.status, error.param, error.message);
}

#define CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
#define TEXT "\"prompt\":\"x\""

static void test_defaults(void **state)
{
    (void)state;
    assert_good_body(API_CHAT, "{" CHAT "}");
    assert_true(q.gen.sample.temperature == 1 && q.gen.sample.top_p == 1);
    assert_true(q.gen.sample.repetition == 1 && q.gen.sample.min_p == 0);
    assert_int_equal(q.gen.sample.top_k, 0);
    assert_int_equal(q.gen.max_new, -1);
    assert_int_equal(q.n, 1);
    assert_int_equal(q.best_of, 1);
    assert_true(!q.stream && !q.has_seed && !q.gen.wants_logprob && q.adds_turn && !q.adds_special);
    assert_null(q.model);
    assert_null(q.ignored);
    assert_good_body(API_COMPLETIONS, "{" TEXT "}");
    assert_int_equal(q.gen.max_new, 16);
    assert_true(q.adds_special);
}

/* generation_config.json comes before OpenAI's defaults, the request before both; advice to be
 * greedy is none. */
static void test_the_models_advice(void **state)
{
    struct sample_params advised = {
        .temperature = 0.6, .top_p = 0.9, .top_k = 20, .repetition = 1.1, .typical_p = 0.8};
    (void)state;
    limits.sample = &advised;
    assert_good_body(API_CHAT, "{" CHAT ",\"top_p\":0.5}");
    assert_true(q.gen.sample.temperature == 0.6 && q.gen.sample.top_p == 0.5);
    assert_true(q.gen.sample.typical_p == 0.8);
    assert_true(q.gen.sample.top_k == 20 && q.gen.sample.repetition == 1.1);
    advised.temperature = 0;
    assert_good_body(API_CHAT, "{" CHAT "}");
    assert_true(q.gen.sample.temperature == 1);
    assert_good_body(API_CHAT, "{" CHAT ",\"temperature\":0}");
    assert_true(q.gen.sample.temperature == 0);
}

static void test_fields_land_where_they_belong(void **state)
{
    (void)state;
    assert_good_body(
        API_COMPLETIONS,
        "{\"model\":\"m\"," TEXT ",\"temperature\":0.5,\"top_p\":0.25,\"min_p\":0.125,\"top_k\":7,"
        "\"presence_penalty\":-1,\"frequency_penalty\":2,\"repetition_penalty\":1.5,"
        "\"min_tokens\":3,\"max_tokens\":9,\"n\":2,\"best_of\":4,\"seed\":-5,\"stop\":[\"a\",\"bc\"],"
        "\"stop_token_ids\":[0,99],\"ignore_eos\":true,\"include_stop_str_in_output\":true,"
        "\"skip_special_tokens\":false,\"logit_bias\":{\"5\":-100,\"99\":1.5},\"priority\":3,"
        "\"cache_salt\":\"s\",\"request_id\":\"r-1\",\"truncate_prompt_tokens\":11,"
        "\"add_special_tokens\":false,\"echo\":true,\"logprobs\":2,\"user\":\"u\"}");
    const struct gen_params *g = &q.gen;
    assert_string_equal(q.model, "m");
    assert_true(g->sample.temperature == 0.5 && g->sample.top_p == 0.25 &&
                g->sample.min_p == 0.125);
    assert_true(g->sample.presence == -1 && g->sample.frequency == 2 &&
                g->sample.repetition == 1.5);
    assert_true(g->sample.top_k == 7 && g->min_new == 3 && g->max_new == 9);
    assert_true(q.n == 2 && q.best_of == 4 && q.seed == -5 && q.has_seed);
    assert_true(g->n_stop == 2 && g->stop[1].n == 2 && !memcmp(g->stop[1].p, "bc", 2));
    assert_true(g->n_stop_id == 2 && g->stop_id[1] == 99);
    assert_true(g->ignore_eos && g->stop_is_shown && g->special_shown);
    assert_true(g->sample.n_bias == 2 && g->sample.bias[0].id == 5 &&
                g->sample.bias[0].add == -100);
    assert_true(q.priority == 3 && q.truncate == 11 && !q.adds_special && q.echo);
    assert_string_equal(q.cache_salt, "s");
    assert_string_equal(q.request_id, "r-1");
    assert_true(g->wants_logprob && g->n_top == 2 && g->wants_prompt && q.wants_logprobs);
    assert_string_equal(q.ignored, "user");
}

/* Exactly what lm-evaluation-harness sends. */
static void test_lists_of_ids_with_echo(void **state)
{
    (void)state;
    assert_good_body(API_COMPLETIONS,
                     "{\"model\":\"m\",\"prompt\":[[1,2,3],[4]],\"max_tokens\":1,"
                     "\"logprobs\":1,\"echo\":true,\"temperature\":0,\"seed\":1234}");
    assert_int_equal(q.n_input, 2);
    assert_true(!q.input[0].text && q.input[0].n_id == 3 && q.input[0].id[2] == 3);
    assert_true(q.input[1].n_id == 1 && q.input[1].id[0] == 4);
    assert_true(q.gen.wants_prompt && q.gen.n_top == 1 && q.gen.max_new == 1);
    assert_good_body(API_COMPLETIONS, "{" TEXT ",\"max_tokens\":0,\"logprobs\":0,\"echo\":true}");
    assert_true(q.gen.max_new == 0 && q.gen.wants_prompt && q.gen.n_top == 0);
}

static void test_prompts(void **state)
{
    (void)state;
    assert_good_body(API_COMPLETIONS, "{\"prompt\":[\"a\",\"\"]}");
    assert_true(q.n_input == 2 && q.input[1].text && !q.input[1].n_text);
    assert_good_body(API_COMPLETIONS, "{\"prompt\":[0,99]}");
    assert_true(q.n_input == 1 && q.input[0].n_id == 2);
    static const char *const bad[] = {
        "[]",        "[[]]",         "[[1],[]]", "[100]",   "[-1]",    "[[1],\"a\"]",
        "[\"a\",1]", "[1,\"a\"]",    "[1,[2]]",  "[[[1]]]", "{}",      "1",
        "[1.5]",     "[2147483648]", "[true]",   "[null]",  "[[null]]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"prompt\":%s}", bad[i]);
        assert_bad_body(API_COMPLETIONS, body, "prompt");
        snprintf(body, sizeof body, "{\"input\":%s}", bad[i]);
        assert_bad_body(API_EMBEDDINGS, body, "input");
    }
}

static void test_how_many_prompts(void **state)
{
    struct buf b;
    (void)state;
    for (size_t n = API_PROMPTS_MAX; n <= API_PROMPTS_MAX + 1; n++) {
        buf_init(&b, 1 << 20);
        buf_str(&b, "{\"prompt\":[");
        for (size_t i = 0; i < n; i++)
            buf_str(&b, i ? ",\"a\"" : "\"a\"");
        buf_str(&b, "]}");
        assert_int_equal(parse(API_COMPLETIONS, b.data), n > API_PROMPTS_MAX ? -1 : 0);
        buf_release(&b);
    }
}

static void test_contradictions(void **state)
{
    (void)state;
    assert_bad_body(API_COMPLETIONS, "{}", "prompt");
    assert_bad_body(API_CHAT, "{" TEXT "}", "messages");
    assert_bad_body(API_EMBEDDINGS, "{" TEXT "}", "input");
    assert_bad_body(API_COMPLETIONS, "{" TEXT ",\"n\":3,\"best_of\":2}", "best_of");
    assert_bad_body(API_COMPLETIONS, "{" TEXT ",\"best_of\":2,\"stream\":true}", "best_of");
    assert_good_body(API_COMPLETIONS, "{" TEXT ",\"best_of\":1,\"stream\":true}");
    assert_bad_body(API_COMPLETIONS, "{" TEXT ",\"min_tokens\":5,\"max_tokens\":4}", "min_tokens");
    assert_bad_body(API_COMPLETIONS, "{" TEXT ",\"logprobs\":21}", "logprobs");
    assert_bad_body(API_COMPLETIONS, "{" TEXT ",\"logprobs\":true}", "logprobs");
    assert_bad_body(API_CHAT, "{" CHAT ",\"logprobs\":1}", "logprobs");
    assert_bad_body(API_CHAT, "{" CHAT ",\"top_logprobs\":1}", "top_logprobs");
    assert_bad_body(API_CHAT, "{" CHAT ",\"max_tokens\":0}", "max_tokens");
    assert_bad_body(API_CHAT, "{" CHAT ",\"continue_final_message\":true}",
                    "continue_final_message");
    assert_bad_body(API_CHAT, "{" CHAT ",\"stream_options\":{\"include_usage\":true}}",
                    "stream_options");
    assert_bad_body(API_CHAT, "{" CHAT ",\"stream\":true,\"stream_options\":{\"include_usage\":1}}",
                    "stream_options");
    assert_good_body(API_CHAT, "{" CHAT ",\"stream\":true,\"stream_options\":"
                               "{\"include_usage\":true,\"include_obfuscation\":false}}");
    assert_true(q.sends_usage && !q.sends_usage_always);
    assert_null(q.ignored);
    assert_good_body(API_CHAT,
                     "{" CHAT ",\"stream\":true,\"stream_options\":{\"%s\":1,\"wot\":true}}");
    assert_string_equal(q.ignored, "stream_options.?s, stream_options.wot");
}

/* The newer name counts, in either order. */
static void test_two_names_of_one_limit(void **state)
{
    (void)state;
    assert_good_body(API_CHAT, "{" CHAT ",\"max_tokens\":3,\"max_completion_tokens\":5}");
    assert_int_equal(q.gen.max_new, 5);
    assert_good_body(API_CHAT, "{" CHAT ",\"max_completion_tokens\":5,\"max_tokens\":3}");
    assert_int_equal(q.gen.max_new, 5);
    assert_good_body(API_CHAT, "{" CHAT ",\"max_tokens\":3.0}");
    assert_int_equal(q.gen.max_new, 3);
}

static void test_lists_and_their_ends(void **state)
{
    static const char *const bad[][2] = {
        {"stop", "\"\""},
        {"stop", "[\"\"]"},
        {"stop", "[1]"},
        {"stop", "[\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","
                 "\"a\",\"a\",\"a\",\"a\"]"},
        {"stop_token_ids", "[100]"},
        {"stop_token_ids", "[-1]"},
        {"logit_bias", "{\"100\":1}"},
        {"logit_bias", "{\"-1\":1}"},
        {"logit_bias", "{\"x\":1}"},
        {"logit_bias", "{\"1\":101}"},
        {"logit_bias", "{\"1\":-100.5}"},
        {"logit_bias", "{\"1\":\"1\"}"},
        {"logit_bias", "{\"1\":null}"},
        {"request_id", "\"a b\""},
        {"request_id", "\"a\\nb\""},
        {"cache_salt", "\"\""},
        {"model", "\"a\\u0000b\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char body[256];
        snprintf(body, sizeof body, "{" TEXT ",\"%s\":%s}", bad[i][0], bad[i][1]);
        assert_bad_body(API_COMPLETIONS, body, bad[i][0]);
    }
}

static void test_embeddings(void **state)
{
    (void)state;
    assert_good_body(API_EMBEDDINGS, "{\"input\":[\"a\",\"b\"],\"encoding_format\":\"base64\","
                                     "\"dimensions\":8}");
    assert_true(q.n_input == 2 && q.as_base64);
    assert_bad_body(API_EMBEDDINGS, "{\"input\":\"a\",\"dimensions\":9}", "dimensions");
    assert_bad_body(API_EMBEDDINGS, "{\"input\":\"a\",\"dimensions\":0}", "dimensions");
    assert_good_body(API_EMBEDDINGS, "{\"input\":\"a\",\"dimensions\":3}");
    assert_int_equal(q.dimensions, 3);
    assert_bad_body(API_EMBEDDINGS, "{\"input\":\"a\",\"encoding_format\":\"hex\"}",
                    "encoding_format");
}

static void test_unknown_names_are_told(void **state)
{
    (void)state;
    assert_good_body(API_CHAT, "{" CHAT ",\"foo\":{\"a\":[1]},\"b\\r\\nx: y\":1,\"prompt\":\"x\"}");
    assert_string_equal(q.ignored, "foo, b??x??y, prompt");
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_str(&b, "{" CHAT);
    for (int i = 0; i < 5000; i++)
        buf_printf(&b, ",\"a_rather_long_name_of_a_field_%d\":1", i);
    buf_str(&b, "}");
    assert_int_equal(parse(API_CHAT, b.data), 0);
    assert_true(strlen(q.ignored) < 512);
    buf_release(&b);
}

/* Every string that a client sends, in every place, with what breaks formats. */
static void test_percent_signs(void **state)
{
    (void)state;
    assert_bad_body(API_CHAT, "{" CHAT ",\"service_tier\":\"%n%s\"}", "service_tier");
    assert_good_body(API_CHAT, "{" CHAT ",\"%n%s\":\"%n%s\",\"user\":\"%n%s\"}");
    assert_string_equal(q.ignored, "?n?s, user");
    assert_bad_body(API_CHAT, "{\"messages\":[{\"role\":\"%n%s\",\"content\":\"x\"}]}",
                    "messages[0].role");
}

/* ---- tools ---------------------------------------------------------------------------------
 */

#define TOOL(name, more) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"" more "}}"
#define CHAT_WITH(rest)                                                                            \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[" TOOL(                      \
        "f", ",\"strict\":true,\"parameters\":{\"properties\":{}}") "," TOOL("g", "") "]" rest "}"

/* Faults: a tool of a response that is held to a schema of the loose form, or is not held to a
 * strict one, where nothing is said; what is said that does not count. */
static void test_strict_form(void **state)
{
#define CLOSED(props, need)                                                                        \
    "{\"type\":\"object\",\"properties\":{" props "},\"required\":[" need                          \
    "],\"additionalProperties\":false}"
    static const struct {
        const char *tool;
        bool is_strict;
    } at[] = {
        {"\"parameters\":" CLOSED("\"a\":{}", "\"a\""), true},
        {"\"strict\":null,\"parameters\":" CLOSED("", ""), true},
        {"\"strict\":false,\"parameters\":" CLOSED("", ""), false},
        {"\"parameters\":" CLOSED("\"a\":{},\"b\":{}", "\"a\""), false},
        {"\"parameters\":{\"type\":\"object\"}", false},
        {"\"parameters\":" CLOSED("\"a\":{\"anyOf\":[" CLOSED("", "") ",{\"type\":\"null\"}]}",
                                  "\"a\""),
         true},
        {"\"parameters\":" CLOSED("\"a\":{\"items\":{\"properties\":{}}}", "\"a\""), false},
        {"\"strict\":true,\"parameters\":{\"type\":\"object\"}", true},
    };
    char body[1024];
    (void)state;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        snprintf(body, sizeof body,
                 "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",%s}]}",
                 at[i].tool);
        assert_good_body(API_RESPONSES, body);
        assert_int_equal(q.tool[0].is_strict, at[i].is_strict);
    }
    assert_good_body(API_CHAT,
                     "{" CHAT ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                     "\"parameters\":" CLOSED("", "") "}}]}");
    assert_false(q.tool[0].is_strict);
}

static void test_tools(void **state)
{
    (void)state;
    assert_good_body(API_CHAT, CHAT_WITH(""));
    assert_int_equal(q.n_tool, 2);
    assert_int_equal(q.tool_mode, TOOL_MODE_AUTO);
    assert_true(q.tool[0].is_strict && q.tool[0].is_allowed && !q.tool[1].is_strict);
    assert_non_null(jv_dict_get(q.tool[0].parameters, "type")); /* an object, said or not */
    assert_null(q.tool[1].parameters);
    assert_non_null(jv_dict_get(jv_dict_get(&q.tools.l->at[1], "function"), "parameters"));
    assert_false(q.has_one_call);
    assert_good_body(API_CHAT,
                     CHAT_WITH(",\"tool_choice\":\"none\",\"parallel_tool_calls\":false"));
    assert_int_equal(q.tool_mode, TOOL_MODE_NONE);
    assert_true(q.has_one_call);
    assert_good_body(API_CHAT, CHAT_WITH(",\"tool_choice\":" TOOL("g", "")));
    assert_int_equal(q.tool_mode, TOOL_MODE_REQUIRED);
    assert_true(!q.tool[0].is_allowed && q.tool[1].is_allowed);
    assert_good_body(API_CHAT,
                     CHAT_WITH(",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{"
                               "\"mode\":\"auto\",\"tools\":[" TOOL("f", "") "]}}"));
    assert_int_equal(q.tool_mode, TOOL_MODE_AUTO);
    assert_true(q.tool[0].is_allowed && !q.tool[1].is_allowed);
    assert_good_body(API_CHAT, CHAT_WITH(",\"tool_choice\":\"required\""));
    assert_int_equal(q.tool_mode, TOOL_MODE_REQUIRED);
    assert_good_body(API_CHAT,
                     "{\"tools\":[],\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}");
    assert_int_equal(q.tool_mode, TOOL_MODE_NONE);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, own_arena_free)
    const struct CMUnitTest tests[] = {
        T(test_tools),
        T(test_strict_form),
        T(test_defaults),
        T(test_the_models_advice),
        T(test_fields_land_where_they_belong),
        T(test_lists_of_ids_with_echo),
        T(test_prompts),
        T(test_how_many_prompts),
        T(test_contradictions),
        T(test_two_names_of_one_limit),
        T(test_lists_and_their_ends),
        T(test_embeddings),
        T(test_unknown_names_are_told),
        T(test_percent_signs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
