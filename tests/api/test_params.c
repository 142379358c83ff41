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

static const struct api_limits limits = {
    .n_vocab = 100, .n_vector = 8, .ctx = 64, .has_template = true, .fills_gaps = true};

#define AT(route) __builtin_ctz(route)

static const char *const required[] = {
    [AT(API_CHAT)] = "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [AT(API_COMPLETIONS)] = "\"prompt\":\"x\"",
    [AT(API_EMBEDDINGS)] = "\"input\":\"x\"",
    [AT(API_TOKENIZE)] = "\"prompt\":\"x\"",
    [AT(API_DETOKENIZE)] = "\"tokens\":[1]",
    [AT(API_TEMPLATE)] = "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [AT(API_ADAPTER)] = "\"name\":\"x\"",
    [AT(API_MESSAGES)] = "\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [AT(API_COUNT)] = "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [AT(API_RESPONSES)] = "\"input\":\"x\"",
    [AT(API_RERANK)] = "\"query\":\"x\",\"documents\":[\"y\"]",
    [AT(API_SCORE)] = "\"text_1\":\"x\",\"text_2\":\"y\"",
    [AT(API_CLASSIFY)] = "\"input\":\"x\"",
    [AT(API_OLLAMA_CHAT)] = "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
    [AT(API_OLLAMA_GENERATE)] = "\"prompt\":\"x\"",
    [AT(API_OLLAMA_EMBED)] = "\"input\":\"x\"",
    [AT(API_OLLAMA_VECTOR)] = "\"prompt\":\"x\"",
    [AT(API_OLLAMA_SHOW)] = "\"model\":\"x\"",
    [AT(API_LORA_LOAD)] = "\"lora_name\":\"x\",\"lora_path\":\"x\"",
    [AT(API_LORA_UNLOAD)] = "\"lora_name\":\"x\"",
    [AT(API_INFILL)] = "\"input_prefix\":\"x\"",
    [AT(API_OLLAMA_OPTIONS)] = "\"unheard_of\":1",
};
static const char *const required_name[] = {
    [AT(API_CHAT)] = "messages",          [AT(API_COMPLETIONS)] = "prompt",
    [AT(API_EMBEDDINGS)] = "input",       [AT(API_TOKENIZE)] = "prompt",
    [AT(API_DETOKENIZE)] = "tokens",      [AT(API_TEMPLATE)] = "messages",
    [AT(API_ADAPTER)] = "name",           [AT(API_MESSAGES)] = "messages",
    [AT(API_COUNT)] = "messages",         [AT(API_RESPONSES)] = "input",
    [AT(API_RERANK)] = "query",           [AT(API_SCORE)] = "text_1",
    [AT(API_CLASSIFY)] = "input",         [AT(API_OLLAMA_CHAT)] = "messages",
    [AT(API_OLLAMA_GENERATE)] = "prompt", [AT(API_OLLAMA_EMBED)] = "input",
    [AT(API_OLLAMA_VECTOR)] = "prompt",   [AT(API_OLLAMA_SHOW)] = "model",
    [AT(API_LORA_LOAD)] = "lora_name",    [AT(API_LORA_UNLOAD)] = "lora_name",
    [AT(API_INFILL)] = "input_prefix",    [AT(API_OLLAMA_OPTIONS)] = "unheard_of"};

/* Of routes with two fields that must be there: what goes with each. */
static const struct {
    unsigned route;
    const char *name, *besides;
} both[] = {{API_MESSAGES, "max_tokens", "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"},
            {API_RERANK, "query", "\"documents\":[\"y\"]"},
            {API_RERANK, "documents", "\"query\":\"x\""},
            {API_SCORE, "text_1", "\"text_2\":\"y\""},
            {API_SCORE, "text_2", "\"text_1\":\"x\""},
            {API_LORA_LOAD, "lora_name", "\"lora_path\":\"x\""},
            {API_LORA_LOAD, "lora_path", "\"lora_name\":\"x\""}};

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

/* What must stand beside a field; "" beside the only one that must be there. */
static const char *besides(enum api_route route, const char *name)
{
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        if (both[i].route == route && strcmp(name, both[i].name) == 0)
            return both[i].besides;
    return strcmp(name, required_name[AT(route)]) == 0 ? "" : required[AT(route)];
}

static bool is_required(enum api_route route, const char *name)
{
    bool may_lack = (route & API_OLLAMA_CHATS) != 0; /* which then asks for nothing */
    return !may_lack && besides(route, name) != required[AT(route)];
}

static struct outcome parse_field(enum api_route route, const char *name, const char *value)
{
    char body[1024];
    const char *rest = besides(route, name);
    snprintf(body, sizeof body, "{%s%s\"%s\":%s}", rest, *rest ? "," : "", name, value);
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
        for (unsigned route = 1; route <= API_OLLAMA_OPTIONS; route <<= 1) {
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
        for (unsigned route = 1; route <= API_OLLAMA_OPTIONS; route <<= 1) {
            if (!(row->routes & route))
                continue;
            struct outcome o = parse_field(route, row->name, "null");
            if (is_required(route, row->name))
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

static const struct {
    unsigned routes;
    enum param_class class;
    const char *names;
} known[] = {
    {API_CHAT, PARAM_HONOURED,
     "top_logprobs temperature top_p messages model modalities reasoning_effort max_completion_tokens frequency_penalty presence_penalty response_format stream stop logit_bias logprobs max_tokens n seed stream_options tools tool_choice parallel_tool_calls include_reasoning separate_reasoning enable_thinking thinking_token_budget thinking_budget"},
    {API_CHAT, PARAM_HONOURED, "store metadata"},
    {API_CHAT, PARAM_DECORATIVE,
     "user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options"},
    {API_CHAT, PARAM_UNBUILT,
     "service_tier verbosity web_search_options audio moderation prediction function_call functions"},
    {API_COMPLETIONS, PARAM_HONOURED,
     "model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream stream_options temperature top_p"},
    {API_COMPLETIONS, PARAM_DECORATIVE, "user"},
    {API_COMPLETIONS, PARAM_UNBUILT, "thinking_token_budget"},
    {API_COMPLETIONS, PARAM_HONOURED, "use_beam_search length_penalty early_stopping"},
    {API_CHAT, PARAM_UNBUILT, "use_beam_search length_penalty"},
    {API_COMPLETIONS, PARAM_HONOURED, "suffix"},
    {API_CHAT, PARAM_UNBUILT, "suffix"},
    {API_INFILL, PARAM_HONOURED,
     "model input_prefix input_suffix prompt stream n_predict temperature top_k top_p min_p seed stop grammar json_schema mirostat mirostat_tau mirostat_eta dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers"},
    {API_INFILL, PARAM_UNBUILT, "input_extra n_probs lora"},
    {API_INFILL, PARAM_DECORATIVE,
     "samplers response_fields n_indent n_cache_reuse t_max_prompt_ms t_max_predict_ms cache_prompt id_slot"},
    {API_EMBEDDINGS, PARAM_HONOURED, "input model encoding_format dimensions prompt_name"},
    {API_EMBEDDINGS, PARAM_DECORATIVE, "user"},
    {API_CHAT | API_COMPLETIONS, PARAM_HONOURED,
     "top_k min_p repetition_penalty min_tokens stop_token_ids ignore_eos include_stop_str_in_output skip_special_tokens prompt_logprobs return_token_ids return_tokens_as_token_ids cache_salt allowed_token_ids bad_words typical_p top_n_sigma dynatemp_range dynatemp_exponent xtc_probability xtc_threshold mirostat mirostat_tau mirostat_eta dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers"},
    {API_CHAT | API_COMPLETIONS, PARAM_DECORATIVE,
     "spaces_between_special_tokens return_token_offsets return_mm_kwargs stream_interval"},
    {API_CHAT | API_COMPLETIONS, PARAM_UNBUILT,
     "logits_processors logprob_token_ids watermarking repetition_detection routed_experts_prompt_start return_prompt_text kv_transfer_params ec_transfer_params vllm_xargs"},
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
    {API_CHAT, PARAM_HONOURED, "add_generation_prompt continue_final_message chat_template_kwargs"},
    {API_CHAT, PARAM_UNBUILT, "chat_template documents echo"},
    {API_MESSAGES, PARAM_HONOURED,
     "model messages max_tokens system stop_sequences stream temperature top_k top_p tools tool_choice thinking output_config output_format seed structured_outputs"},
    {API_MESSAGES, PARAM_DECORATIVE,
     "metadata cache_control inference_geo diagnostics user_profile_id workspace_id"},
    {API_MESSAGES, PARAM_UNBUILT, "service_tier speed container mcp_servers context_management"},
    {API_COUNT, PARAM_HONOURED,
     "model messages system tools tool_choice thinking output_config output_format"},
    {API_RESPONSES, PARAM_HONOURED,
     "input instructions model max_output_tokens stream stream_options temperature top_p tools tool_choice parallel_tool_calls text reasoning include top_logprobs metadata store previous_response_id seed structured_outputs"},
    {API_RESPONSES, PARAM_DECORATIVE,
     "max_tool_calls prompt_cache_key prompt_cache_retention prompt_cache_options safety_identifier user"},
    {API_RESPONSES, PARAM_UNBUILT,
     "background context_management conversation moderation prompt service_tier truncation"},
    {API_OLLAMA_CHAT, PARAM_HONOURED,
     "model messages tools format options stream think keep_alive"},
    {API_OLLAMA_CHAT, PARAM_UNBUILT, "logprobs top_logprobs truncate shift"},
    {API_OLLAMA_GENERATE, PARAM_HONOURED,
     "model prompt system raw format options stream think keep_alive"},
    {API_OLLAMA_GENERATE, PARAM_HONOURED, "suffix"},
    {API_OLLAMA_GENERATE, PARAM_UNBUILT, "template context images"},
    {API_OLLAMA_SHOW, PARAM_DECORATIVE, "verbose"},
    {API_OLLAMA_EMBED, PARAM_HONOURED, "model input truncate dimensions options keep_alive"},
    {API_OLLAMA_OPTIONS, PARAM_HONOURED,
     "temperature top_k top_p min_p typical_p seed num_predict num_ctx stop repeat_penalty repeat_last_n presence_penalty frequency_penalty mirostat mirostat_tau mirostat_eta"},
    {API_OLLAMA_OPTIONS, PARAM_UNBUILT, "tfs_z penalize_newline vocab_only"},
    {API_OLLAMA_OPTIONS, PARAM_DECORATIVE,
     "num_keep num_batch num_gpu main_gpu num_thread numa low_vram f16_kv use_mmap use_mlock"},
    {API_LORA_LOAD, PARAM_HONOURED, "lora_name lora_path load_inplace"},
    {API_LORA_LOAD, PARAM_DECORATIVE, "base_model_name"},
    {API_LORA_UNLOAD, PARAM_DECORATIVE, "lora_int_id"},
    {API_COMPLETIONS, PARAM_HONOURED, "response_format"},
    {API_COMPLETIONS, PARAM_UNBUILT, "prompt_embeds"},
    {API_EMBEDDINGS, PARAM_UNBUILT, "normalize use_activation embed_dtype endianness"},
    {API_RERANK, PARAM_HONOURED,
     "model query documents top_n return_documents max_tokens_per_doc truncate_prompt_tokens priority request_id use_activation activation"},
    {API_RERANK, PARAM_UNBUILT,
     "rank_fields max_chunks_per_doc add_special_tokens truncation_side"},
    {API_SCORE, PARAM_HONOURED,
     "model text_1 text_2 queries documents data_1 data_2 truncate_prompt_tokens use_activation"},
    {API_CLASSIFY, PARAM_HONOURED,
     "model input add_special_tokens truncate_prompt_tokens use_activation"},
    {API_RERANK | API_SCORE | API_CLASSIFY, PARAM_DECORATIVE, "user session_id"},
    {API_CHAT | API_COMPLETIONS, PARAM_UNBUILT,
     "stop_regex min_new_tokens no_stop_trim custom_logit_processor custom_params return_hidden_states n_predict repeat_penalty samplers n_probs n_indent t_max_predict_ms lora max_new_tokens max_length do_sample num_beams no_repeat_ngram_size top_a"},
    {API_CHAT | API_COMPLETIONS | API_EMBEDDINGS, PARAM_UNBUILT,
     "lora_path guided_structural_tag grammar_lazy grammar_triggers"},
    {API_CHAT, PARAM_UNBUILT, "reasoning thinking system"},
    {API_CHAT | API_COMPLETIONS, PARAM_DECORATIVE, "repeat_last_n n_keep cache_prompt id_slot"},
};

/* Every field of OpenAI's specification and of other servers, by what becomes of it. */
static void test_every_known_field_has_a_class(void **state)
{
    char name[64];
    int n;
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (const char *p = known[i].names; sscanf(p, " %63s%n", name, &n) == 1; p += n)
            for (unsigned route = 1; route <= API_OLLAMA_OPTIONS; route <<= 1) {
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
                                              {"mirostat", "1"},
                                              {"dry_base", "0.5"},
                                              {"repeat_penalty", "1.1"},
                                              {"n_predict", "5"},
                                              {"stop_regex", "\"a\""},
                                              {"lora_path", "\"a\""}};
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

/* Fault: a setting within an object that is said to be null, as clients' libraries do, and refused.
 */
static void test_null_settings_are_not_said(void **state)
{
    (void)state;
    struct outcome o =
        parse_field(API_RESPONSES, "reasoning", "{\"effort\":null,\"summary\":null}");
    assert_int_equal(o.rc, 0);
    o = parse_field(API_RESPONSES, "text", "{\"format\":null,\"verbosity\":null}");
    assert_int_equal(o.rc, 0);
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
        for (unsigned route = 1; route <= API_OLLAMA_OPTIONS; route <<= 1) {
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
        cmocka_unit_test(test_null_settings_are_not_said),
        cmocka_unit_test(test_names_stand_once_for_a_route),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
