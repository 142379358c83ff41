/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of /v1/messages in Anthropic's shape that the other routes have otherwise: the
 * conversation, whose messages are blocks, and what stands around it. Here they become what a chat
 * has, and from there on there is one way.
 *
 * A message of the assistant at the end is gone on with. Blocks of `redacted_thinking` say nothing
 * to a model that did not write them, and `is_error` of a result is for no template to show: they
 * are named in x-tandem-ignored.
 */
#include <stdio.h>
#include <string.h>

#include "api/value.h"
#include "api/walk.h"

/* ---- the conversation ---------------------------------------------------------------------- */

static const struct walk_part text_part[] = {{"text", "text"}, {NULL}};

static int ignore(struct walk *w, const char *name)
{
    if (!params_ignore(w->r, name))
        return 0;
    w->is_refused = true;
    return -1;
}

static int read_call(struct walk *w, const json_t *block)
{
    const json_t *input = json_object_get(block, "input");
    struct jvalue arguments;
    const char *id = walk_name(w, block, "id"), *name = id ? walk_name(w, block, "name") : NULL;
    if (!name)
        return -1;
    if (!json_is_object(input))
        return walk_bad(w, "", "has no 'input' that is an object");
    return api_jvalue(w->r->arena, input, &arguments, &w->turns.e) ||
                   turns_add_call(&w->turns, id, name, arguments)
               ? -1
               : 0;
}

/* What stands behind a result is another message of the user. */
static int read_result(struct walk *w, const json_t *block)
{
    const char *id = walk_name(w, block, "tool_use_id");
    const json_t *content = value_member(block, "content"),
                 *fails = value_member(block, "is_error");
    struct turns_texts texts = {.n = 0};
    size_t n = strlen(w->where);
    if (!id)
        return -1;
    if (fails && !json_is_boolean(fails))
        return walk_bad(w, "", "has an 'is_error' that is not a boolean");
    if (json_is_true(fails) && ignore(w, "messages.is_error"))
        return -1;
    snprintf(w->where + n, sizeof w->where - n, ".content");
    if (content && walk_texts(w, content, &texts))
        return -1;
    w->where[n] = 0;
    return turns_add_result(&w->turns, id, &texts);
}

static int read_block(struct walk *w, bool is_assistant, const json_t *block)
{
    const char *type = walk_type(w, block);
    const json_t *v = NULL;
    if (!type)
        return -1;
    if (strcmp(type, "text") == 0) {
        v = walk_string(w, block, "text");
        if (v && !w->turns.role && turns_begin(&w->turns, is_assistant ? "assistant" : "user"))
            return -1;
        return v ? turns_add_text(&w->turns, v) : -1;
    }
    if (is_assistant && strcmp(type, "thinking") == 0) {
        v = walk_string(w, block, "thinking");
        return v ? turns_add_thought(&w->turns, v) : -1;
    }
    if (is_assistant && strcmp(type, "redacted_thinking") == 0)
        return ignore(w, "messages.redacted_thinking");
    if (is_assistant && strcmp(type, "tool_use") == 0)
        return read_call(w, block);
    if (!is_assistant && strcmp(type, "tool_result") == 0)
        return read_result(w, block);
    return walk_no_such(w, type);
}

/* The user's blocks begin messages themselves: one that holds results alone is none besides. */
static int read_blocks(struct walk *w, bool is_assistant, const json_t *v)
{
    size_t n = strlen(w->where);
    bool begins = is_assistant || !json_array_size(v);
    if (begins ? turns_begin(&w->turns, is_assistant ? "assistant" : "user") : turns_end(&w->turns))
        return -1;
    for (size_t i = 0; i < json_array_size(v); i++) {
        snprintf(w->where + n, sizeof w->where - n, ".content[%zu]", i);
        if (read_block(w, is_assistant, json_array_get(v, i)))
            return -1;
    }
    w->where[n] = 0;
    return turns_end(&w->turns);
}

static int read_turn(struct walk *w, const json_t *v)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    const json_t *role = json_object_get(v, "role"), *content = value_member(v, "content");
    size_t i = 0;
    if (!json_is_object(v))
        return walk_bad(w, "", "must be an object");
    while (i < 3 && !value_is_word(role, roles[i]))
        i++;
    if (i == 3)
        return walk_bad(w, ".role", "must be one of user, assistant, system");
    if (json_is_array(content) && i < 2)
        return read_blocks(w, i == 1, content);
    snprintf(w->where + strlen(w->where), sizeof w->where - strlen(w->where), ".content");
    if (!content)
        return walk_bad(w, "", "is missing");
    return turns_begin(&w->turns, roles[i]) || walk_texts(w, content, &w->turns.text) ? -1 : 0;
}

static int read_system(struct walk *w, const json_t *v)
{
    snprintf(w->where, sizeof w->where, "system");
    return turns_begin(&w->turns, "system") || walk_texts(w, v, &w->turns.text) ? -1 : 0;
}

static bool is_space(const json_t *text)
{
    const char *s = json_string_value(text);
    return s && strspn(s, " \t\r\n") == json_string_length(text);
}

/* An assistant's message without a word or a call. */
static bool is_blank(const json_t *v)
{
    const json_t *content = json_object_get(v, "content");
    bool is = is_space(content) || json_is_array(content);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        is &= value_is_word(json_object_get(block, "type"), "text") &&
              is_space(json_object_get(block, "text"));
    }
    return is && value_is_word(json_object_get(v, "role"), "assistant");
}

/* The beginning of an answer that has not begun is none: an answer that went on from it would stand
 * behind the end of an empty message. */
static size_t count_turns(const json_t *turns)
{
    size_t n = json_array_size(turns);
    return n > 1 && is_blank(json_array_get(turns, n - 1)) ? n - 1 : n;
}

static int read_all(struct walk *w)
{
    struct api_reader *r = w->r;
    size_t n = count_turns(r->turns);
    if (turns_init(&w->turns, r->arena) || (r->system && read_system(w, r->system)))
        return -1;
    for (size_t i = 0; i < n; i++) {
        snprintf(w->where, sizeof w->where, "messages[%zu]", i);
        if (read_turn(w, json_array_get(r->turns, i)))
            return -1;
    }
    return turns_end(&w->turns);
}

/* The last message is the beginning of the answer. */
static bool goes_on(const json_t *turns)
{
    const json_t *last = json_array_get(turns, count_turns(turns) - 1);
    const json_t *content = json_object_get(last, "content");
    const json_t *block = json_array_get(content, json_array_size(content) - 1);
    bool has_text =
        json_is_string(content) || value_is_word(json_object_get(block, "type"), "text");
    return value_is_word(json_object_get(last, "role"), "assistant") && has_text && !is_blank(last);
}

int api_turns_settle(struct api_reader *r)
{
    struct walk w = {.r = r, .part = text_part};
    if (!r->turns)
        return 0;
    if (read_all(&w))
        return walk_fail(&w, "messages");
    r->out->messages = w.turns.list;
    r->out->goes_on = goes_on(r->turns);
    r->out->adds_turn = !r->out->goes_on;
    return 0;
}

int param_read_turns(struct api_reader *r, const char *name, const json_t *v)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return param_type(r, name, "an array of messages", v);
    if (!n || n > API_MESSAGES_MAX)
        return param_bad(r, name, "holds %zu messages: 1 to %d can be", n, API_MESSAGES_MAX);
    r->turns = v;
    return 0;
}

int param_read_system(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_string(v) && !json_is_array(v))
        return param_type(r, name, "a string or an array of text blocks", v);
    r->system = json_is_array(v) && !json_array_size(v) ? NULL : v;
    return 0;
}

/* ---- around it ----------------------------------------------------------------------------- */

/* {"type": auto|any|tool|none, "name", "disable_parallel_tool_use"} */
int param_read_turns_choice(struct api_reader *r, const char *name, const json_t *v)
{
    static const struct {
        const char *word;
        enum api_choose choose;
    } known[] = {{"auto", API_CHOOSE_AUTO},
                 {"any", API_CHOOSE_ANY},
                 {"none", API_CHOOSE_NONE},
                 {"tool", API_CHOOSE_ANY}};
    size_t i = 0, n = sizeof known / sizeof *known;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    const json_t *one = value_member(v, "disable_parallel_tool_use"),
                 *tool = value_member(v, "name");
    while (i < n && !value_is_word(json_object_get(v, "type"), known[i].word))
        i++;
    if (i == n)
        return param_bad(r, name, "must have a 'type' of auto, any, tool or none");
    if (one && !json_is_boolean(one))
        return param_bad(r, name, "has a 'disable_parallel_tool_use' that is not a boolean");
    if (value_is_word(json_object_get(v, "type"), "tool") && !json_is_string(tool))
        return param_bad(r, name, "of type tool must have the 'name' of one");
    r->choose = known[i].choose;
    r->chosen = value_is_word(json_object_get(v, "type"), "tool") ? tool : NULL;
    r->out->has_one_call = json_is_true(one);
    return 0;
}

/* Whether a model thinks is its template's to say, and one that never does has nothing to leave. A
 * budget is kept to where thoughts can be ended. */
int param_read_thinking(struct api_reader *r, const char *name, const json_t *v)
{
    struct api_request *q = r->out;
    const json_t *type = json_object_get(v, "type"), *budget = value_member(v, "budget_tokens");
    const json_t *display = value_member(v, "display");
    int64_t n;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    bool is_off = value_is_word(type, "disabled");
    if (!is_off && !value_is_word(type, "enabled") && !value_is_word(type, "adaptive") &&
        !value_is_word(type, "between_tools"))
        return param_bad(r, name,
                         "must have a 'type' of enabled, adaptive, between_tools or disabled");
    if (display && !value_is_word(display, "summarized") && !value_is_word(display, "omitted"))
        return param_bad(r, name, "has a 'display' that is neither summarized nor omitted");
    if (budget && param_int(r, name, budget, 1, INT32_MAX, &n))
        return -1;
    if (budget && !r->limits->may_limit && params_ignore(r, "thinking.budget_tokens"))
        return -1;
    if (budget && r->limits->may_limit)
        q->gen.thoughts = (struct gen_thoughts){.is_limited = true, .most = n};
    q->sets_thinking = r->limits->turns_thinking;
    q->wants_thinking = !is_off;
    q->shows_thoughts = !is_off && !value_is_word(display, "omitted");
    return !is_off && !r->limits->may_think ? params_ignore(r, name) : 0;
}

/* {"effort", "format"} */
int param_read_output_config(struct api_reader *r, const char *name, const json_t *v)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        int rc = json_is_null(value)          ? 0
                 : strcmp(key, "effort") == 0 ? param_read_effort(r, name, value)
                 : strcmp(key, "format") == 0
                     ? param_read_response_format(r, name, value)
                     : params_ignore(r, arena_printf(r->arena, "%s.%.64s", name, key));
        if (rc)
            return -1;
    }
    return 0;
}
