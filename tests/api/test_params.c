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
    [API_MESSAGES] = "\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [API_COUNT] = "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [API_RESPONSES] = "\"input\":\"x\"",
};
static const char *const required_name[] = {
    [API_CHAT] = "messages",   [API_COMPLETIONS] = "prompt", [API_EMBEDDINGS] = "input",
    [API_TOKENIZE] = "prompt", [API_DETOKENIZE] = "tokens",  [API_TEMPLATE] = "messages",
    [API_ADAPTER] = "name",    [API_MESSAGES] = "messages",  [API_COUNT] = "messages",
    [API_RESPONSES] = "input"};

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
    bool is_max = route == API_MESSAGES && strcmp(name, "max_tokens") == 0; /* required as well */
    const char *besides = is_it ? "" : is_max ? required[API_COUNT] : required[route];
    snprintf(body, sizeof body, "{%s%s\"%s\":%s}", besides, is_it ? "" : ",", name, value);
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
        for (unsigned route = 1; route <= API_RESPONSES; route <<= 1) {
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
        for (unsigned route = 1; route <= API_RESPONSES; route <<= 1) {
            if (!(row->routes & route))
                continue;
            struct outcome o = parse_field(route, row->name, "null");
            if (strcmp(row->name, required_name[route]) == 0 ||
                (route == API_MESSAGES && strcmp(row->name, "max_tokens") == 0))
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

/* Every field of OpenAI's specification and of other servers, by what becomes of it. */
static void test_every_known_field_has_a_class(void **state)
{
    static const struct {
        unsigned routes;
        enum param_class class;
        const char *names;
    } known[] = {
        {API_CHAT, PARAM_HONOURED,
         "top_logprobs temperature top_p messages model modalities reasoning_effort max_completion_tokens frequency_penalty presence_penalty response_format stream stop logit_bias logprobs max_tokens n seed stream_options tools tool_choice parallel_tool_calls include_reasoning separate_reasoning enable_thinking"},
        {API_CHAT, PARAM_DECORATIVE,
         "metadata user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options"},
        {API_CHAT, PARAM_UNBUILT,
         "service_tier verbosity web_search_options audio store moderation prediction function_call functions"},
        {API_COMPLETIONS, PARAM_HONOURED,
         "model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream stream_options temperature top_p"},
        {API_COMPLETIONS, PARAM_DECORATIVE, "user"},
        {API_COMPLETIONS, PARAM_UNBUILT, "suffix"},
        {API_EMBEDDINGS, PARAM_HONOURED, "input model encoding_format dimensions"},
        {API_EMBEDDINGS, PARAM_DECORATIVE, "user"},
        {API_CHAT | API_COMPLETIONS, PARAM_HONOURED,
         "top_k min_p repetition_penalty min_tokens stop_token_ids ignore_eos include_stop_str_in_output skip_special_tokens prompt_logprobs return_token_ids return_tokens_as_token_ids cache_salt"},
        {API_CHAT | API_COMPLETIONS, PARAM_DECORATIVE,
         "spaces_between_special_tokens return_token_offsets return_mm_kwargs stream_interval"},
        {API_CHAT | API_COMPLETIONS, PARAM_UNBUILT,
         "length_penalty use_beam_search allowed_token_ids bad_words logits_processors logprob_token_ids watermarking repetition_detection thinking_token_budget routed_experts_prompt_start return_prompt_text kv_transfer_params ec_transfer_params vllm_xargs"},
        {API_CHAT | API_COMPLETIONS | API_EMBEDDINGS, PARAM_HONOURED,
         "add_special_tokens truncate_prompt_tokens priority request_id"},
        {API_CHAT | API_COMPLETIONS | API_EMBEDDINGS, PARAM_DECORATIVE, "session_id"},
        {API_CHAT | API_COMPLETIONS | API_EMBEDDINGS, PARAM_UNBUILT,
         "truncation_side mm_processor_kwargs media_io_kwargs"},
        {API_CHAT | API_COMPLETIONS | API_EMBEDDINGS, PARAM_UNBUILT,
         "guided_whitespace_pattern structural_tag"},
        {API_CHAT | API_COMPLETIONS | API_EMBEDDINGS, PARAM_HONOURED,
         "structured_outputs guided_json guided_json_object guided_regex guided_choice guided_grammar json_schema regex ebnf grammar"},
        {API_CHAT | API_COMPLETIONS | API_EMBEDDINGS, PARAM_DECORATIVE, "guided_decoding_backend"},
        {API_CHAT, PARAM_HONOURED,
         "add_generation_prompt continue_final_message chat_template_kwargs"},
        {API_CHAT, PARAM_UNBUILT, "chat_template documents echo"},
        {API_MESSAGES, PARAM_HONOURED,
         "model messages max_tokens system stop_sequences stream temperature top_k top_p tools tool_choice thinking output_config output_format seed structured_outputs"},
        {API_MESSAGES, PARAM_DECORATIVE,
         "metadata cache_control inference_geo diagnostics user_profile_id workspace_id"},
        {API_MESSAGES, PARAM_UNBUILT,
         "service_tier speed container mcp_servers context_management"},
        {API_COUNT, PARAM_HONOURED,
         "model messages system tools tool_choice thinking output_config output_format"},
        {API_RESPONSES, PARAM_HONOURED,
         "input instructions model max_output_tokens stream stream_options temperature top_p tools tool_choice parallel_tool_calls text reasoning include store previous_response_id seed structured_outputs"},
        {API_RESPONSES, PARAM_DECORATIVE,
         "max_tool_calls prompt_cache_key prompt_cache_retention prompt_cache_options safety_identifier user"},
        {API_RESPONSES, PARAM_UNBUILT,
         "background context_management conversation moderation prompt service_tier top_logprobs truncation"},
        {API_COMPLETIONS, PARAM_HONOURED, "response_format"},
        {API_COMPLETIONS, PARAM_UNBUILT, "prompt_embeds"},
        {API_EMBEDDINGS, PARAM_UNBUILT, "normalize use_activation embed_dtype endianness"},
        {API_CHAT | API_COMPLETIONS, PARAM_UNBUILT,
         "stop_regex min_new_tokens no_stop_trim custom_logit_processor custom_params return_hidden_states n_predict repeat_penalty typical_p top_n_sigma mirostat dynatemp_range xtc_probability dry_multiplier samplers n_probs n_indent t_max_predict_ms lora max_new_tokens max_length do_sample num_beams no_repeat_ngram_size top_a"},
        {API_CHAT | API_COMPLETIONS | API_EMBEDDINGS, PARAM_UNBUILT,
         "lora_path guided_structural_tag grammar_lazy grammar_triggers"},
        {API_CHAT, PARAM_UNBUILT, "reasoning thinking system"},
        {API_CHAT | API_COMPLETIONS, PARAM_DECORATIVE,
         "repeat_last_n mirostat_tau mirostat_eta dynatemp_exponent xtc_threshold dry_base dry_allowed_length dry_penalty_last_n n_keep cache_prompt id_slot"},
    };
    char name[64];
    int n;
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (const char *p = known[i].names; sscanf(p, " %63s%n", name, &n) == 1; p += n)
            for (unsigned route = 1; route <= API_EMBEDDINGS; route <<= 1) {
                const struct param_row *row = find(route, name);
                if ((known[i].routes & route) && (!row || param_class(row) != known[i].class))
                    fail_msg("%s on route %u: %s", name, route, row ? "its class" : "no row");
            }
    assert_non_null(find(API_ADAPTER, "path"));
}

/* Fault: a constraint, or a sampler of another server, that is dropped and told in a header. */
static void test_what_changes_an_answer_is_refused(void **state)
{
    static const char *const constraint[][2] = {{"grammar", "\"root ::= \\\"a\\\"\""},
                                                {"regex", "\"a+\""},
                                                {"guided_json", "{\"type\":\"object\"}"},
                                                {"guided_choice", "[\"a\",\"b\"]"},
                                                {"structured_outputs", "{\"regex\":\"a\"}"},
                                                {"response_format", "{\"type\":\"json_object\"}"},
                                                {"json_schema", "{}"}};
    static const char *const sampling[][2] = {{"truncation_side", "\"right\""},
                                              {"structural_tag", "\"x\""},
                                              {"mirostat", "2"},
                                              {"typical_p", "0.5"},
                                              {"repeat_penalty", "1.1"},
                                              {"n_predict", "5"},
                                              {"stop_regex", "\"a\""},
                                              {"thinking_token_budget", "5"},
                                              {"lora_path", "\"a\""},
                                              {"suffix", "\"a\""},
                                              {"bad_words", "[\"a\"]"}};
    (void)state;
    for (size_t i = 0; i < sizeof constraint / sizeof *constraint; i++) {
        struct outcome o = parse_field(API_EMBEDDINGS, constraint[i][0], constraint[i][1]);
        assert_names(&o, constraint[i][0], constraint[i][1]);
        assert_int_equal(parse_field(API_CHAT, constraint[i][0], constraint[i][1]).rc, 0);
    }
    for (unsigned route = 1; route <= API_COMPLETIONS; route <<= 1)
        for (size_t i = 0; i < sizeof sampling / sizeof *sampling; i++) {
            struct outcome o = parse_field(route, sampling[i][0], sampling[i][1]);
            assert_names(&o, sampling[i][0], sampling[i][1]);
        }
    struct outcome o = parse_field(API_COMPLETIONS, "response_format", "{\"type\":\"text\"}");
    assert_int_equal(o.rc, 0);
    assert_int_equal(parse_field(API_CHAT, "do_sample", "true").rc, 0);
    assert_int_equal(parse_field(API_CHAT, "do_sample", "false").rc, -1);
    assert_int_equal(parse_field(API_CHAT, "grammar_lazy", "false").rc, -1);
    assert_int_equal(parse_field(API_COMPLETIONS, "best_of", "0").rc, 0);
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
        for (unsigned route = 1; route <= API_RESPONSES; route <<= 1) {
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
        cmocka_unit_test(test_every_known_field_has_a_class),
        cmocka_unit_test(test_what_changes_an_answer_is_refused),
        cmocka_unit_test(test_names_stand_once_for_a_route),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
