/* SPDX-License-Identifier: Apache-2.0
 *
 * The row's own members go on as they are; those that are understood here are replaced.
 */
#include "api/train_dialect.h"

#include <string.h>

#include "api/json.h"

static void add(json_t *messages, const char *role, json_t *content)
{
    json_array_append_new(messages, json_pack("{s:s,s:o}", "role", role, "content", content));
}

/* What a speaker is called there; NULL: it has no name here. */
static const char *role_of(const char *from)
{
    static const char *const names[][2] = {{"system", "system"},       {"human", "user"},
                                           {"user", "user"},           {"gpt", "assistant"},
                                           {"assistant", "assistant"}, {"chatgpt", "assistant"},
                                           {"bot", "assistant"},       {"model", "assistant"}};
    for (size_t i = 0; from && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], from) == 0)
            return names[i][1];
    return NULL;
}

static int put_conversation(struct api_reader *r, json_t *row)
{
    json_t *list = json_object_get(row, "conversations"), *turn, *messages = json_array();
    size_t i;
    int rc = 0;
    json_array_foreach(list, i, turn)
    {
        json_t *value = json_object_get(turn, "value");
        const char *role = role_of(json_string_value(json_object_get(turn, "from")));
        if (!role)
            rc = param_bad(r, "conversations",
                           "message %zu: 'from' must be system, human or gpt; calls and answers of "
                           "tools are for rows with 'messages'",
                           i);
        else if (!json_is_string(value))
            rc = param_bad(r, "conversations", "message %zu: 'value' must be a string", i);
        if (rc)
            break;
        add(messages, role, json_incref(value));
    }
    json_object_del(row, "conversations");
    json_object_set_new(row, "messages", messages);
    return rc;
}

/* A text that may be left out; NULL: it is something else. */
static const char *text_of(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    return !v || json_is_null(v) ? "" : json_string_value(v);
}

static int put_instruction(struct api_reader *r, json_t *row)
{
    static const char *const names[] = {"system", "instruction", "input", "output"};
    const char *text[4];
    json_t *messages;
    for (int i = 0; i < 4; i++) {
        text[i] = text_of(row, names[i]);
        if (!text[i])
            return param_type(r, names[i], "a string", json_object_get(row, names[i]));
    }
    messages = json_array();
    if (*text[0])
        add(messages, "system", json_string(text[0]));
    add(messages, "user",
        *text[2] ? json_sprintf("%s\n\n%s", text[1], text[2]) : json_string(text[1]));
    add(messages, "assistant", json_string(text[3]));
    for (int i = 0; i < 4; i++)
        json_object_del(row, names[i]);
    json_object_set_new(row, "messages", messages);
    return 0;
}

static int put_text(struct api_reader *r, json_t *row)
{
    json_t *text = json_object_get(row, "text");
    if (!json_is_string(text))
        return param_type(r, "text", "a string", text);
    json_object_set(row, "completion", text);
    json_object_set_new(row, "prompt", json_string(""));
    json_object_del(row, "text");
    return 0;
}

static bool has(const json_t *row, const char *name)
{
    return json_object_get(row, name) != NULL;
}

/* A request's messages and what it was answered: the answer is the last message, with what was told
 * of its tokens. */
static int put_choice(struct api_reader *r, json_t *row)
{
    const json_t *choices = json_object_get(row, "choices"), *choice = json_array_get(choices, 0);
    json_t *answer = json_object_get(choice, "message");
    json_t *logprobs = json_object_get(choice, "logprobs");
    if (json_array_size(choices) != 1)
        return param_bad(r, "choices", "must hold one answer: of several each is a row");
    json_t *messages = json_copy(json_object_get(row, "messages")), *last = json_copy(answer);
    if (logprobs)
        json_object_set(last, "logprobs", logprobs);
    json_array_append_new(messages, last);
    json_object_set_new(row, "messages", messages);
    json_object_del(row, "choices");
    return 0;
}

int train_dialect(struct api_reader *r, const json_t **row)
{
    int (*put)(struct api_reader * r, json_t * row) =
        json_is_array(json_object_get(*row, "conversations")) ? put_conversation
        : has(*row, "instruction") && has(*row, "output")     ? put_instruction
        : has(*row, "text")                                   ? put_text
                                                              : NULL;
    bool is_answered = json_is_array(json_object_get(*row, "messages")) &&
                       json_is_object(json_object_get(
                           json_array_get(json_object_get(*row, "choices"), 0), "message"));
    bool is_ours = has(*row, "messages") || has(*row, "preferred_output") ||
                   has(*row, "non_preferred_output") ||
                   (has(*row, "prompt") && has(*row, "completion"));
    if (is_answered)
        put = put_choice;
    if (!put || (is_ours && !is_answered))
        return 0;
    json_t *copy = json_copy((json_t *)(uintptr_t)*row);
    if (!copy)
        return param_bad(r, "row", "is too large");
    arena_defer(r->arena, (void (*)(void *))json_decref, copy);
    *row = copy;
    return put(r, copy);
}
