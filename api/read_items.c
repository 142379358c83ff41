/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of /v1/responses: the conversation as items, and what stands around it. Here they become
 * what a chat has. Items of an assistant that follow each other are one message: its thoughts, what
 * it said, its calls.
 *
 * What the answer repeats of the request is kept as JSON (api_echo_rows).
 */
#include <stdio.h>
#include <string.h>

#include "api/value.h"
#include "api/walk.h"

/* ---- items --------------------------------------------------------------------------------- */

static const struct walk_part text_part[] = {{"input_text", "text"},
                                             {"output_text", "text"},
                                             {"text", "text"},
                                             {"refusal", "refusal"},
                                             {NULL}};

static bool is_assistant(const struct walk *w)
{
    return w->turns.role && strcmp(w->turns.role, "assistant") == 0;
}

static bool has_spoken(const struct walk *w)
{
    return w->turns.text.n || w->turns.calls.type == JT_LIST;
}

static int read_message(struct walk *w, const json_t *item)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const json_t *content = value_member(item, "content"), *role = json_object_get(item, "role");
    size_t i = 0, n = strlen(w->where);
    while (i < 4 && !value_is_word(role, roles[i]))
        i++;
    if (i == 4)
        return walk_bad(w, "", "must have a 'role' of user, assistant, system or developer");
    bool goes_on = i == 1 && is_assistant(w) && !has_spoken(w); /* thoughts stand before */
    const char *as = i == 3 && !w->r->limits->knows_developer ? "system" : roles[i];
    if (!goes_on && turns_begin(&w->turns, as))
        return -1;
    snprintf(w->where + n, sizeof w->where - n, ".content");
    if (!content)
        return walk_bad(w, "", "is missing");
    return walk_texts(w, content, &w->turns.text);
}

static int read_thoughts(struct walk *w, const json_t *item)
{
    const json_t *content = value_member(item, "content");
    if (content && !json_is_array(content))
        return walk_bad(w, "", "must have a 'content' that is an array");
    if ((!is_assistant(w) || has_spoken(w)) && turns_begin(&w->turns, "assistant"))
        return -1;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
        if (!value_is_word(json_object_get(part, "type"), "reasoning_text") ||
            !json_is_string(text))
            return walk_bad(w, "", "must have a 'content' of parts of type reasoning_text");
        if (turns_add_thought(&w->turns, text))
            return -1;
    }
    return 0;
}

static int read_call(struct walk *w, const json_t *item)
{
    const json_t *text = json_object_get(item, "arguments");
    struct jvalue arguments;
    const char *id = walk_name(w, item, "call_id"), *name = id ? walk_name(w, item, "name") : NULL;
    if (!name)
        return -1;
    if (!json_is_string(text))
        return walk_bad(w, "", "has no 'arguments' that are a string");
    if (!is_assistant(w) && turns_begin(&w->turns, "assistant"))
        return -1;
    return api_arguments(w->r, text, &arguments, &w->turns.e) ||
                   turns_add_call(&w->turns, id, name, arguments)
               ? -1
               : 0;
}

static int read_result(struct walk *w, const json_t *item)
{
    struct turns_texts texts = {.n = 0};
    const json_t *output = value_member(item, "output");
    size_t n = strlen(w->where);
    const char *id = walk_name(w, item, "call_id");
    if (!id)
        return -1;
    snprintf(w->where + n, sizeof w->where - n, ".output");
    if (!output)
        return walk_bad(w, "", "is missing");
    return walk_texts(w, output, &texts) || turns_add_result(&w->turns, id, &texts) ? -1 : 0;
}

static int read_item(struct walk *w, const json_t *item)
{
    const json_t *type = value_member(item, "type");
    if (!json_is_object(item))
        return walk_bad(w, "", "must be an object");
    if (type && !json_is_string(type))
        return walk_bad(w, "", "has a 'type' that is not a string");
    if (!type || value_is_word(type, "message"))
        return read_message(w, item);
    if (value_is_word(type, "reasoning"))
        return read_thoughts(w, item);
    if (value_is_word(type, "function_call"))
        return read_call(w, item);
    if (value_is_word(type, "function_call_output"))
        return read_result(w, item);
    if (value_is_word(type, "item_reference"))
        return walk_bad(w, "", "is a reference: send the item itself, or 'previous_response_id'");
    return walk_no_such(w, json_string_value(type));
}

static int read_list(struct walk *w, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        snprintf(w->where, sizeof w->where, "input[%zu]", i);
        if (read_item(w, json_array_get(v, i)))
            return -1;
    }
    return 0;
}

static int read_text(struct walk *w, const char *role, const json_t *text)
{
    return turns_begin(&w->turns, role) || turns_add_text(&w->turns, text) ? -1 : 0;
}

/* JSON that was kept; NULL with an error. */
static const json_t *kept(struct walk *w, const char *text)
{
    const json_t *v = api_json_inner(w->r->arena, text, strlen(text), &w->r->values, &w->turns.e);
    if (!v && !w->turns.e.code) {
        snprintf(w->where, sizeof w->where, "previous_response_id");
        walk_bad(w, "", "goes on from too much");
    }
    return v;
}

static int read_past(struct walk *w)
{
    struct api_reader *r = w->r;
    const struct api_past *past;
    size_t n;
    if (r->limits->recall(r->limits->recall_ctx, r->out->previous, r->arena, &past, &n, r->e)) {
        w->is_refused = true;
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *input = kept(w, past[i].input), *body = kept(w, past[i].body);
        if (!input || !body)
            return -1;
        if (read_list(w, input) || read_list(w, json_object_get(body, "output")))
            return -1;
    }
    return 0;
}

static int read_all(struct walk *w)
{
    struct api_reader *r = w->r;
    if (turns_init(&w->turns, r->arena) || (r->system && read_text(w, "system", r->system)))
        return -1;
    if (r->out->previous && read_past(w))
        return -1;
    if (json_is_string(r->turns) ? read_text(w, "user", r->turns) : read_list(w, r->turns))
        return -1;
    return turns_end(&w->turns);
}

static int no_store(struct api_reader *r, const char *name)
{
    return api_fail(r->e, 400, "unsupported_parameter", name,
                    "'%s' is refused: this server keeps no answers.", name);
}

/* ---- what the answer repeats --------------------------------------------------------------- */

const struct api_echo_row api_echo_rows[API_ECHOES] = {
    {"instructions", "null"},        {"max_output_tokens", "null"},
    {"max_tool_calls", "null"},      {"metadata", "{}"},
    {"parallel_tool_calls", "true"}, {"previous_response_id", "null"},
    {"prompt_cache_key", "null"},    {"reasoning", "{\"effort\":null,\"summary\":null}"},
    {"safety_identifier", "null"},   {"text", "{\"format\":{\"type\":\"text\"}}"},
    {"tool_choice", "\"auto\""},     {"tools", "[]"},
    {"truncation", "\"disabled\""},  {"user", "null"},
};

int param_spell(struct api_reader *r, const char *name, const json_t *v, struct gen_text *out)
{
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY, n = v ? json_dumpb(v, NULL, 0, flags) : 0;
    char *p = v ? param_alloc(r, name, n + 1, 1) : NULL;
    if (!v)
        return 0;
    if (!p)
        return -1;
    *out = (struct gen_text){.p = p, .n = (uint32_t)json_dumpb(v, p, n, flags)};
    p[n] = 0;
    return 0;
}

/* A text as the message that it is; NULL with an error. */
static const json_t *as_items(struct api_reader *r, const json_t *text)
{
    struct err e = ERR_INIT;
    const json_t *list = api_json_keep(
        r->arena, json_pack("[{s:s, s:O}]", "role", "user", "content", (json_t *)(uintptr_t)text));
    if (!list) {
        err_set(&e, ERR_NO_MEMORY, "there is no memory for the input now: try again later");
        api_fail_err(r->e, &e, "input");
    }
    return list;
}

/* A stream has them three times, and is held in memory until it is taken. */
static int keep_echoes(struct api_reader *r, const json_t *body)
{
    size_t bytes = 0;
    for (size_t i = 0; i < API_ECHOES; i++) {
        const char *name = api_echo_rows[i].name;
        struct gen_text *to = &r->out->repeats[i];
        if (param_spell(r, name, value_member(body, name), to))
            return -1;
        if ((bytes += to->n) > API_ECHO_BYTES_MAX)
            return param_bad(r, name,
                             "is too long: an answer repeats at most %d bytes of what was asked",
                             API_ECHO_BYTES_MAX);
    }
    const json_t *input = json_is_string(r->turns) ? as_items(r, r->turns) : r->turns;
    return input ? param_spell(r, "input", input, &r->out->input_json) : -1;
}

int api_items_settle(struct api_reader *r, const json_t *body)
{
    struct walk w = {.r = r, .part = text_part};
    if (!r->turns)
        return 0;
    if (r->out->previous && !r->limits->recall)
        return no_store(r, "previous_response_id");
    if (read_all(&w))
        return walk_fail(&w, "input");
    r->out->messages = w.turns.list;
    if (r->out->store == API_STORE_MAY)
        r->out->store = r->limits->keeps ? API_STORE : API_STORE_NOT;
    return keep_echoes(r, body);
}

/* ---- fields -------------------------------------------------------------------------------- */

int param_read_items(struct api_reader *r, const char *name, const json_t *v)
{
    size_t n = json_array_size(v);
    if (!json_is_string(v) && !json_is_array(v))
        return param_type(r, name, "a string or an array of items", v);
    if (json_is_array(v) && (!n || n > API_MESSAGES_MAX))
        return param_bad(r, name, "holds %zu items: 1 to %d can be", n, API_MESSAGES_MAX);
    r->turns = v;
    return 0;
}

int param_read_instructions(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    r->system = v;
    return 0;
}

static bool names_function(const json_t *v)
{
    return value_is_word(json_object_get(v, "type"), "function") &&
           json_is_string(json_object_get(v, "name"));
}

/* {"type": "allowed_tools", "mode", "tools"} */
static int read_allowed(struct api_reader *r, const char *name, const json_t *v)
{
    const json_t *mode = json_object_get(v, "mode"), *list = json_object_get(v, "tools");
    if (!value_is_word(mode, "auto") && !value_is_word(mode, "required"))
        return param_bad(r, name, "must have a 'mode' of auto or required");
    bool is_good = json_array_size(list) > 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        is_good &= names_function(json_array_get(list, i));
    if (!is_good)
        return param_bad(r, name, "must list 'tools' as {\"type\": \"function\", \"name\": ...}");
    r->choose = value_is_word(mode, "auto") ? API_CHOOSE_AUTO : API_CHOOSE_ANY;
    r->chosen = list;
    return 0;
}

int param_read_items_choice(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_string(v) && !json_is_object(v))
        return param_type(r, name, "a string or an object", v);
    if (value_is_word(json_object_get(v, "type"), "allowed_tools"))
        return read_allowed(r, name, v);
    if (json_is_object(v) && !names_function(v))
        return param_bad(r, name, "must name a tool as {\"type\": \"function\", \"name\": ...}");
    if (json_is_object(v))
        r->chosen = json_object_get(v, "name");
    r->choose = json_is_object(v)              ? API_CHOOSE_ANY
                : value_is_word(v, "none")     ? API_CHOOSE_NONE
                : value_is_word(v, "required") ? API_CHOOSE_ANY
                                               : API_CHOOSE_AUTO;
    if (json_is_string(v) && r->choose == API_CHOOSE_AUTO && !value_is_word(v, "auto"))
        return param_bad(r, name, "must be none, auto, required, or name tools");
    return 0;
}

static int ignore_member(struct api_reader *r, const char *name, const char *key)
{
    return params_ignore(r, arena_printf(r->arena, "%s.%.64s", name, key));
}

/* {"format", "verbosity"} */
int param_read_text_config(struct api_reader *r, const char *name, const json_t *v)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        bool is_idle = json_is_null(value) ||
                       (strcmp(key, "verbosity") == 0 && value_is_word(value, "medium"));
        if (!is_idle && strcmp(key, "verbosity") == 0)
            return param_bad(r, name, "has a 'verbosity': no model here has such a setting");
        int rc = is_idle                      ? 0
                 : strcmp(key, "format") == 0 ? param_read_response_format(r, name, value)
                                              : ignore_member(r, name, key);
        if (rc)
            return -1;
    }
    return 0;
}

/* {"effort", "summary"}: thoughts are told as they are. */
int param_read_reasoning(struct api_reader *r, const char *name, const json_t *v)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        int rc = json_is_null(value)          ? 0
                 : strcmp(key, "effort") == 0 ? param_read_effort(r, name, value)
                                              : ignore_member(r, name, key);
        if (rc)
            return -1;
    }
    return 0;
}

/* What a list of these asks for besides: thoughts are there in plain text. */
int param_read_include(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_array(v))
        return param_type(r, name, "an array of strings", v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *word = json_array_get(v, i);
        bool wants_logprobs = value_is_word(word, "message.output_text.logprobs");
        if (!wants_logprobs && !value_is_word(word, "reasoning.encrypted_content"))
            return param_bad(r, name,
                             "can only hold \"message.output_text.logprobs\" and "
                             "\"reasoning.encrypted_content\" here");
        r->out->wants_logprobs |= wants_logprobs;
        if (!wants_logprobs && ignore_member(r, name, json_string_value(word)))
            return -1;
    }
    return 0;
}

int param_read_store(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_boolean(v))
        return param_type(r, name, "a boolean", v);
    r->out->store = json_is_true(v) ? API_STORE : API_STORE_NOT;
    return json_is_true(v) && !r->limits->keeps ? no_store(r, name) : 0;
}
