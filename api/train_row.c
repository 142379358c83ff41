/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind a row is follows from its members; then its members are read.
 */
#include "api/train_row.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/messages.h"
#include "api/train_dialect.h"
#include "api/train_teacher.h"

static const double ROW_WEIGHT_MIN = 1e-3, ROW_WEIGHT_MAX = 1e3;

/* Weights stand on messages, and are no business of templates: they are taken off. */
static int read_weights(struct api_reader *r, json_t *messages, struct train_example *out)
{
    size_t n = json_array_size(messages);
    double *weight = param_alloc(r, "messages", n + 1, sizeof *weight);
    if (!weight)
        return -1;
    for (size_t i = 0; i < n; i++) {
        json_t *message = json_array_get(messages, i), *w = json_object_get(message, "weight");
        weight[i] = 1;
        if (!w)
            continue;
        if (!json_is_integer(w) || json_integer_value(w) < 0 || json_integer_value(w) > 1)
            return param_bad(r, "messages", "message %zu: 'weight' must be 0 or 1", i);
        weight[i] = (double)json_integer_value(w);
        json_object_del(message, "weight");
    }
    out->weight = weight;
    out->n_weight = n;
    return 0;
}

static int read_tools(struct api_reader *r, const char *name, const json_t *v,
                      struct train_example *out)
{
    struct err e = ERR_INIT;
    if (!json_is_array(v))
        return param_type(r, name, "an array", v);
    out->has_tools = json_array_size(v) > 0;
    return api_jvalue(r->arena, v, &out->tools, &e) ? api_fail_err(r->e, &e, name) : 0;
}

/* What the tokens of a row count beside those of others. */
static int read_row_weight(struct api_reader *r, const json_t *row, struct train_example *out)
{
    const json_t *v = json_object_get(row, "weight");
    return v && !json_is_null(v)
               ? param_num(r, "weight", v, ROW_WEIGHT_MIN, ROW_WEIGHT_MAX, &out->row_weight)
               : 0;
}

/* What older files call functions are the tools of newer ones. */
static int read_functions(struct api_reader *r, const json_t *v, struct train_example *out)
{
    json_t *tools = json_array();
    for (size_t i = 0; i < json_array_size(v); i++)
        json_array_append_new(
            tools, json_pack("{s:s,s:O}", "type", "function", "function", json_array_get(v, i)));
    arena_defer(r->arena, (void (*)(void *))json_decref, tools);
    return read_tools(r, "functions", json_is_array(v) ? tools : v, out);
}

static bool is_said(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    return v && !json_is_null(v);
}

static bool has_assistant(const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (train_is_assistant(json_array_get(messages, i)))
            return true;
    return false;
}

/* What rows of a loss of verdicts have: true and false, as TRL's, or the words. */
static int read_verdict(struct api_reader *r, const json_t *row, struct train_example *out)
{
    const json_t *v = json_object_get(row, "label"), *w = json_object_get(row, "weight");
    const char *word = json_string_value(v);
    if (!v || json_is_null(v))
        return param_bad(r, "label", "is needed: true, or \"desirable\", or the contrary");
    if (out->n_teacher)
        return param_bad(r, "logprobs", "are for the method 'supervised'");
    bool is_good = json_is_true(v) || (word && strcmp(word, "desirable") == 0);
    out->is_undesirable = json_is_false(v) || (word && strcmp(word, "undesirable") == 0);
    if (!is_good && !out->is_undesirable)
        return param_bad(r, "label", "must be true or false, \"desirable\" or \"undesirable\"");
    return w && !json_is_null(w)
               ? param_bad(r, "weight",
                           "is not for a row with a 'label': all of one label count "
                           "alike")
               : 0;
}

/* Of a conversation that is judged the assistant's last messages are. */
static int judge_end(struct api_reader *r, const json_t *messages, struct train_example *out)
{
    size_t n = json_array_size(messages), from = n;
    double *weight = param_alloc(r, "messages", n + 1, sizeof *weight);
    if (!weight)
        return -1;
    while (from > 0 && train_is_assistant(json_array_get(messages, from - 1)))
        from--;
    if (from == n)
        return param_bad(r, "messages", "must end with the assistant's: it is what is judged");
    for (size_t i = 0; i < n; i++) {
        if (out->weight[i] == 0 && i >= from)
            return param_bad(r, "messages",
                             "message %zu: 'weight' must not be 0: it is what is judged", i);
        weight[i] = i >= from;
    }
    out->weight = weight;
    return 0;
}

static int read_chat(struct api_reader *r, const json_t *row, struct train_example *out)
{
    json_t *messages = json_object_get(row, "messages");
    const json_t *tools = json_object_get(row, "tools");
    const json_t *functions = json_object_get(row, "functions");
    out->kind = TRAIN_CHAT;
    if (read_weights(r, messages, out) || read_row_weight(r, row, out) ||
        train_teacher(r, row, messages, out) ||
        api_messages(r, "messages", messages, &out->messages))
        return -1;
    if (!has_assistant(messages))
        return param_bad(r, "messages", "have no message of the assistant: nothing to learn");
    if (tools && !json_is_null(tools))
        return read_tools(r, "tools", tools, out);
    return functions && !json_is_null(functions) ? read_functions(r, functions, out) : 0;
}

/* ---- preferences --------------------------------------------------------------------------- */

/* An output behind the input's messages. */
static int read_output(struct api_reader *r, const char *name, const json_t *row,
                       const struct jvalue *input, struct jvalue *out)
{
    const json_t *v = json_object_get(row, name);
    struct err e = ERR_INIT;
    struct jvalue end;
    if (!v)
        return param_bad(r, name, "is needed: a list of messages of the assistant");
    if (!json_is_array(v))
        return param_type(r, name, "an array of messages", v);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!train_is_assistant(json_array_get(v, i)))
            return param_bad(r, name, "message %zu: must be one of the assistant", i);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (is_said(json_array_get(v, i), "logprobs"))
            return param_bad(r, name, "message %zu: 'logprobs' are for the method 'supervised'", i);
    if (api_messages(r, name, v, &end))
        return -1;
    int rc = jv_list(r->arena, out, &e);
    for (size_t i = 0; !rc && i < input->l->n; i++)
        rc = jv_list_add(r->arena, out, input->l->at[i], &e);
    for (size_t i = 0; !rc && i < end.l->n; i++)
        rc = jv_list_add(r->arena, out, end.l->at[i], &e);
    return rc ? api_fail_err(r->e, &e, name) : 0;
}

static int read_preference(struct api_reader *r, const json_t *row, struct train_example *out)
{
    const json_t *input = json_object_get(row, "input"), *tools = json_object_get(input, "tools");
    struct train_example unused;
    struct jvalue messages;
    if (!json_is_object(input))
        return input ? param_type(r, "input", "an object", input)
                     : param_bad(r, "input", "is needed: an object with 'messages'");
    json_t *list = json_object_get(input, "messages");
    if (!list)
        return param_bad(r, "input.messages", "is needed");
    if (read_weights(r, list, &unused) || api_messages(r, "input.messages", list, &messages) ||
        read_output(r, "preferred_output", row, &messages, &out->messages) ||
        read_output(r, "non_preferred_output", row, &messages, &out->other))
        return -1;
    out->n_shared = messages.l->n;
    return tools && !json_is_null(tools) ? read_tools(r, "input.tools", tools, out) : 0;
}

static int read_text(struct api_reader *r, const json_t *row, struct train_example *out)
{
    const json_t *prompt = json_object_get(row, "prompt");
    const json_t *completion = json_object_get(row, "completion");
    out->kind = TRAIN_TEXT;
    if (!json_is_string(prompt))
        return param_type(r, "prompt", "a string", prompt);
    if (!json_is_string(completion))
        return param_type(r, "completion", "a string", completion);
    out->prompt = json_string_value(prompt);
    out->n_prompt = json_string_length(prompt);
    out->completion = json_string_value(completion);
    out->n_completion = json_string_length(completion);
    return read_row_weight(r, row, out);
}

/* ---- members that nothing reads ------------------------------------------------------------ */

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* Files whose rows all have the same columns have empty ones. */
static bool is_empty(const json_t *v)
{
    return json_is_null(v) || (json_is_string(v) && !json_string_length(v)) ||
           ((json_is_array(v) || json_is_object(v)) && !json_array_size(v) && !json_object_size(v));
}

/* Members by which other trainers change what is learned of a row. */
static int check_member(struct api_reader *r, enum train_example_kind kind, const char *name,
                        const json_t *v)
{
    static const struct {
        const char *name, *why;
    } not_ours[] = {{"weight", "pairs and texts all count alike"},
                    {"system", "it is a message whose role is 'system'"},
                    {"chat_template_kwargs", "rows are rendered as requests without any"},
                    {"images", "a row is text alone"},
                    {"logprobs", "they are for 'messages', of the method 'supervised'"}};
    if (kind != TRAIN_PREFERENCE && strcmp(name, "label") == 0 && json_is_boolean(v))
        return param_bad(r, name,
                         "is of preferences without pairs: they are for the method "
                         "'dpo' with the loss 'x_kto'");
    for (size_t i = 0; i < sizeof not_ours / sizeof *not_ours; i++)
        if (strcmp(not_ours[i].name, name) == 0 && !is_empty(v))
            return param_bad(r, name, "is not for a row: %s", not_ours[i].why);
    return 0;
}

/* A name as it may stand in a log, a header or an event. */
static void note_unread(struct train_said *said, const char *name)
{
    enum { NAME_MAX_BYTES = 40 };
    char word[NAME_MAX_BYTES + 1], *list = said->unread, *at = list;
    size_t n = 0, had = strlen(list);
    for (; name[n] && n < NAME_MAX_BYTES; n++)
        word[n] = isalnum((unsigned char)name[n]) || strchr("_-.", name[n]) ? name[n] : '?';
    if (n == 0)
        word[n++] = '?'; /* a word of no bytes would be found everywhere, and behind the end */
    word[n] = 0;
    for (; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return;
    bool fits = had + n + sizeof ", , ..." <= sizeof said->unread;
    if (fits || !strstr(list, "..."))
        snprintf(list + had, sizeof said->unread - had, "%s%s", had ? ", " : "",
                 fits ? word : "...");
}

static int check_members(struct api_reader *r, const json_t *row, enum train_example_kind kind,
                         bool has_label, struct train_said *said)
{
    static const char *const chat[] = {"messages", "tools",    "functions", "parallel_tool_calls",
                                       "weight",   "logprobs", NULL};
    static const char *const text[] = {"prompt", "completion", "weight", NULL};
    static const char *const pair[] = {"input", "preferred_output", "non_preferred_output", NULL};
    static const char *const *const known[] = {
        [TRAIN_CHAT] = chat, [TRAIN_TEXT] = text, [TRAIN_PREFERENCE] = pair};
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)row, name, v)
    {
        if (is_among(name, known[kind]) || (has_label && strcmp(name, "label") == 0))
            continue;
        if (check_member(r, kind, name, v))
            return -1;
        note_unread(said, name);
    }
    return 0;
}

/* What the model is to answer; what else the row has is its item. */
static int read_prompt(struct api_reader *r, const json_t *row, struct train_example *out)
{
    json_t *messages = json_object_get(row, "messages");
    const json_t *tools = json_object_get(row, "tools");
    out->kind = TRAIN_PROMPT;
    if (!json_is_array(messages))
        return messages ? param_type(r, "messages", "an array", messages)
                        : param_bad(r, "messages", "are needed: what the model is to answer");
    if (read_weights(r, messages, out) || api_messages(r, "messages", messages, &out->messages))
        return -1;
    if (train_is_assistant(json_array_get(messages, json_array_size(messages) - 1)))
        return param_bad(r, "messages",
                         "must not end with the assistant's: the model is to answer");
    return tools && !json_is_null(tools) ? read_tools(r, "tools", tools, out) : 0;
}

/* ---- texts that become vectors ------------------------------------------------------------- */

static int read_one(struct api_reader *r, const json_t *row, const char *name,
                    struct train_example *out)
{
    const json_t *v = json_object_get(row, name);
    if (!v || json_is_null(v))
        return param_bad(r, name, "is needed: a text");
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    out->text[out->n_text].p = json_string_value(v);
    out->text[out->n_text++].n = json_string_length(v);
    return 0;
}

static int read_anchor(struct api_reader *r, const json_t *row, struct train_example *out)
{
    out->kind = TRAIN_TEXTS;
    if (read_one(r, row, is_said(row, "query") && !is_said(row, "anchor") ? "query" : "anchor",
                 out) ||
        read_one(r, row, "positive", out))
        return -1;
    return is_said(row, "negative") ? read_one(r, row, "negative", out) : 0;
}

static int read_label(struct api_reader *r, const json_t *v, struct train_label *out)
{
    if (json_is_number(v))
        out->number = json_number_value(v);
    else if (json_is_boolean(v))
        out->number = json_is_true(v);
    else
        out->name = json_string_value(v);
    return out->name || json_is_number(v) || json_is_boolean(v)
               ? 0
               : param_type(r, "label", "a string, a number or a list of them", v);
}

static int read_labels(struct api_reader *r, const json_t *row, struct train_example *out)
{
    const json_t *v = json_object_get(row, "label");
    if (!v)
        return param_bad(r, "label", "is needed: what the model is to say of the text");
    out->has_labels = json_is_array(v);
    out->n_label = out->has_labels ? json_array_size(v) : 1;
    struct train_label *label = param_alloc(r, "label", out->n_label + 1, sizeof *label);
    if (!label)
        return -1;
    out->label = label;
    for (size_t i = 0; i < out->n_label; i++) {
        label[i] = (struct train_label){.name = NULL};
        if (read_label(r, out->has_labels ? json_array_get(v, i) : v, &label[i]))
            return -1;
    }
    return 0;
}

static int read_labelled(struct api_reader *r, const json_t *row, struct train_example *out)
{
    out->kind = TRAIN_TEXTS;
    if (read_one(r, row, "text", out) ||
        (is_said(row, "text_pair") && read_one(r, row, "text_pair", out)))
        return -1;
    return read_labels(r, row, out);
}

static int read_texts(struct api_reader *r, const json_t *row, struct train_wants wants,
                      struct train_example *out, struct train_said *said)
{
    static const char *const anchor[] = {"anchor", "query", "positive", "negative", NULL};
    static const char *const text[] = {"text", "text_pair", "label", NULL};
    const char *name;
    json_t *v;
    if (wants.has_anchors ? read_anchor(r, row, out) : read_labelled(r, row, out))
        return -1;
    json_object_foreach((json_t *)(uintptr_t)row, name, v)
    {
        if (is_among(name, wants.has_anchors ? anchor : text))
            continue;
        if (check_member(r, TRAIN_TEXTS, name, v))
            return -1;
        note_unread(said, name);
    }
    return 0;
}

int api_train_row(struct arena *a, const char *line, size_t n, struct train_wants wants,
                  struct train_example *out, struct train_said *said)
{
    struct api_error *e = &said->error;
    struct api_limits limits = {.knows_developer = wants.knows_developer};
    struct api_request unused = {0};
    struct api_reader r = {
        .arena = a, .limits = &limits, .out = &unused, .e = e, .values = API_JSON_VALUES_MAX};
    const json_t *row = api_json_line(a, line, n, e);
    bool judges = wants.has_verdicts;
    *out = (struct train_example){0};
    if (!row)
        return -1;
    if (wants.has_prompts)
        return read_prompt(&r, row, out);
    if (wants.has_anchors || wants.has_labels)
        return read_texts(&r, row, wants, out, said);
    if (train_dialect(&r, &row))
        return -1;
    if (json_object_get(row, "messages"))
        return read_chat(&r, row, out) ||
                       (judges && (read_verdict(&r, row, out) ||
                                   judge_end(&r, json_object_get(row, "messages"), out))) ||
                       check_members(&r, row, TRAIN_CHAT, judges, said)
                   ? -1
                   : 0;
    if (json_object_get(row, "prompt") && json_object_get(row, "completion"))
        return read_text(&r, row, out) || (judges && read_verdict(&r, row, out)) ||
                       check_members(&r, row, TRAIN_TEXT, judges, said)
                   ? -1
                   : 0;
    if (json_object_get(row, "preferred_output") || json_object_get(row, "non_preferred_output")) {
        out->kind = TRAIN_PREFERENCE;
        if (!wants.has_pairs)
            return 0;
        return read_preference(&r, row, out) ||
                       check_members(&r, row, TRAIN_PREFERENCE, false, said)
                   ? -1
                   : 0;
    }
    return api_fail(
        e, 400, "invalid_training_file", NULL,
        "Unexpected file format, expected either prompt/completion pairs or chat messages.");
}

int api_train_read(void *ctx, struct arena *a, const char *line, size_t n, struct train_wants wants,
                   struct train_example *out, struct err *e)
{
    struct train_said *said = ctx;
    const struct api_error *why = &said->error;
    if (!api_train_row(a, line, n, wants, out, said))
        return 0;
    return err_set(e, why->status >= 500 ? ERR_NO_MEMORY : ERR_BAD_INPUT, "%s", why->message);
}
