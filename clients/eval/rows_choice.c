/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions with choices. Behind a prompt a choice is counted alone, as lm-evaluation-harness does;
 * as the answer of a conversation its end counts with it, as it does in training.
 */
#include <string.h>

#include "api/value.h"
#include "clients/eval/rows_own.h"
#include "engine/template/jvalue.h"

enum { TOK_MAX = 1 << 24 };

static const char spaces[] = " \t\n\v\f\r";

static bool is_space(char c)
{
    return c && strchr(spaces, c);
}

/* Space at the prompt's end belongs to the choice: models have tokens of words with the space
 * before them. */
static int put_behind_prompt(struct eval_line *l, const json_t *prompt, const json_t *choice,
                             struct err *e)
{
    struct tok_segment before = {json_string_value(prompt), json_string_length(prompt), true};
    size_t n_prompt = before.len, n_choice = json_string_length(choice);
    while (before.len > 0 && is_space(before.text[before.len - 1]))
        before.len--;
    size_t n_space = n_prompt - before.len;
    char *text = arena_try(l->arena, n_space + n_choice + 1, 1, e);
    if (!text)
        return -1;
    memcpy(text, before.text + before.len, n_space);
    memcpy(text + n_space, json_string_value(choice), n_choice);
    const struct tok_segment after = {text, n_space + n_choice, true};
    const int32_t first = eval_line_first(l);
    struct row_part part;
    struct tok_list list;
    tok_list_init(&list, TOK_MAX, true);
    int rc = row_text_pair(l->on->tokenizer, &before, &after, &list, &part, e);
    if (!rc && part.lo == 0)
        rc = first < 0 ? err_set(e, ERR_BAD_INPUT,
                                 "'prompt' is empty, and the model has no token "
                                 "that a text begins with")
                       : eval_line_put(l, &first, 1, (struct row_part){.lo = 0}, e);
    if (!rc)
        rc = eval_line_put(l, list.id, list.n, part, e);
    tok_list_release(&list);
    return rc;
}

/* The line as a row of training whose last answer is the choice. */
static int put_as_answer(struct eval_line *l, const json_t *messages, const json_t *choice,
                         struct err *e)
{
    json_t *all = json_array(), *row = json_object();
    const json_t *tools = value_member(l->json, "tools");
    struct row_part last;
    struct dataset d;
    json_array_extend(all, (json_t *)(uintptr_t)messages);
    json_array_append_new(all, json_pack("{s:s,s:O}", "role", "assistant", "content", choice));
    json_object_set_new(row, "messages", all);
    if (tools)
        json_object_set(row, "tools", (json_t *)(uintptr_t)tools);
    char *text = json_dumps(row, JSON_COMPACT);
    json_decref(row);
    if (!text)
        return err_set(e, ERR_NO_MEMORY, "no memory for a row");
    int rc = eval_line_example(l, text, strlen(text), &d, &last, e);
    if (!rc)
        rc = eval_line_put(l, d.id.at, d.id.n, last, e);
    dataset_release(&d);
    free(text);
    return rc;
}

static int add_choice(struct eval_line *l, const json_t *choice, struct err *e)
{
    const json_t *prompt = value_member(l->json, "prompt");
    const json_t *messages = value_member(l->json, "messages");
    if (!json_is_string(choice))
        return err_set(e, ERR_BAD_INPUT, "'choices' must be texts");
    const char *text = json_string_value(choice);
    size_t skip = strspn(text, spaces), n = json_string_length(choice);
    if (skip == n)
        return err_set(e, ERR_BAD_INPUT, "'choices': one of them is empty");
    if (eval_line_piece(l, (int64_t)jutf8_count(text + skip, n - skip), e))
        return -1;
    return prompt ? put_behind_prompt(l, prompt, choice, e) : put_as_answer(l, messages, choice, e);
}

static int read_right(struct eval_line *l, const json_t *choices, struct err *e)
{
    const json_t *v = value_member(l->json, "answer");
    json_int_t n = (json_int_t)json_array_size(choices);
    l->row.right = -1;
    if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < n)
        l->row.right = json_integer_value(v);
    for (json_int_t i = 0; json_is_string(v) && i < n && l->row.right < 0; i++)
        if (json_equal(v, json_array_get(choices, (size_t)i)))
            l->row.right = i;
    return l->row.right >= 0
               ? 0
               : err_set(e, ERR_BAD_INPUT,
                         "'answer' must be one of the choices, or its number from 0 to %lld",
                         (long long)n - 1);
}

int eval_read_choice(struct eval_line *l, struct err *e)
{
    const json_t *choices = value_member(l->json, "choices");
    const json_t *prompt = value_member(l->json, "prompt");
    const json_t *messages = value_member(l->json, "messages");
    size_t n = json_array_size(choices);
    if (n < 2 || n > EVAL_CHOICE_MAX)
        return err_set(e, ERR_BAD_INPUT, "'choices' must be a list of 2 to %d texts",
                       EVAL_CHOICE_MAX);
    if (!prompt == !messages || (prompt ? !json_is_string(prompt) : !json_is_array(messages)))
        return err_set(e, ERR_BAD_INPUT,
                       "'choices' want a 'prompt', a text, or 'messages', a list, before them");
    if (read_right(l, choices, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (add_choice(l, json_array_get(choices, i), e))
            return -1;
    return 0;
}
