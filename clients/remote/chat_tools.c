/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools of a talk: the person who types is what runs them. The model is told of those in a file;
 * each call of its answer is shown, the next line that is typed is its result, and when all have
 * theirs the model goes on.
 */
#include <string.h>

#include "clients/remote/chat_own.h"
#include "engine/base/fs.h"

enum { TOOLS_BYTES_MAX = 16 << 20, TOOL_INDEX_MAX = 1024 };

/* ---- which there are ------------------------------------------------------------------------- */

static const char *name_of(const json_t *tool)
{
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static int list_tools(const struct chat *c)
{
    const json_t *tool;
    size_t i;
    if (json_array_size(c->tools) == 0)
        puts("no tools; /tools FILE tells the model of those in a file");
    json_array_foreach(c->tools, i, tool)
    {
        const json_t *about = json_object_get(json_object_get(tool, "function"), "description");
        term_put(stdout, name_of(tool));
        if (json_is_string(about)) {
            fputs("  ", stdout);
            term_put(stdout, json_string_value(about));
        }
        putchar('\n');
    }
    return 0;
}

/* A list of tools as the API has them, or a row of training that has one. */
static json_t *tools_in(json_t *file, struct err *e)
{
    json_t *list = json_is_object(file) ? json_object_get(file, "tools") : file;
    const json_t *tool;
    size_t i;
    bool is_good = json_array_size(list) > 0;
    json_array_foreach(list, i, tool) is_good = is_good && name_of(tool);
    if (is_good)
        return json_incref(list);
    err_set(e, ERR_BAD_INPUT,
            "it has no tools: [{\"type\": \"function\", \"function\": {\"name\": ...}}]");
    return NULL;
}

int chat_tools(struct chat *c, const char *path, struct err *e)
{
    struct buf text;
    json_t *list = NULL;
    if (!*path)
        return list_tools(c);
    if (!strcmp(path, "off")) {
        json_array_clear(c->tools);
        return 0;
    }
    buf_init(&text, TOOLS_BYTES_MAX);
    if (!fs_read(path, &text, e)) {
        json_t *file =
            json_loadb(text.len ? text.data : "", text.len, JSON_DISABLE_EOF_CHECK, NULL);
        list = tools_in(file, e);
        json_decref(file);
        if (!list)
            err_wrap(e, "%.200s", path);
    }
    buf_release(&text);
    if (!list)
        return -1;
    json_decref(c->tools);
    c->tools = list;
    return list_tools(c);
}

/* ---- calls of an answer ---------------------------------------------------------------------- */

static void join(json_t *to, const char *key, const json_t *more)
{
    const json_t *is = json_object_get(to, key);
    struct buf b;
    if (!json_is_string(more))
        return;
    buf_init(&b, TOOLS_BYTES_MAX);
    buf_add(&b, is ? json_string_value(is) : "", json_string_length(is));
    buf_add(&b, json_string_value(more), json_string_length(more));
    if (!b.failed)
        json_object_set_new(to, key, json_stringn(b.len ? b.data : "", b.len));
    buf_release(&b);
}

/* A call's id and name come first, its arguments in pieces. */
void chat_calls_add(struct chat *c, const json_t *pieces)
{
    const json_t *piece;
    size_t i;
    json_array_foreach(pieces, i, piece)
    {
        json_int_t at = json_integer_value(json_object_get(piece, "index"));
        const json_t *function = json_object_get(piece, "function");
        if (at < 0 || at > (json_int_t)json_array_size(c->calls) || at >= TOOL_INDEX_MAX)
            continue;
        if (at == (json_int_t)json_array_size(c->calls))
            json_array_append_new(c->calls,
                                  json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", "", "type",
                                            "function", "function", "name", "", "arguments", ""));
        json_t *call = json_array_get(c->calls, (size_t)at);
        join(call, "id", json_object_get(piece, "id"));
        call = json_object_get(call, "function");
        join(call, "name", json_object_get(function, "name"));
        join(call, "arguments", json_object_get(function, "arguments"));
    }
}

const json_t *chat_call(const struct chat *c)
{
    return json_array_get(c->calls, c->n_result);
}

void chat_calls_show(const struct chat *c)
{
    const json_t *call = json_object_get(chat_call(c), "function");
    if (!call)
        return;
    fputs(term_style(&c->term, TERM_CODE), stdout);
    term_put(stdout, json_string_value(json_object_get(call, "name")));
    putchar('(');
    term_put(stdout, json_string_value(json_object_get(call, "arguments")));
    putchar(')');
    fputs(term_style(&c->term, TERM_PLAIN), stdout);
    putchar('\n');
}

void chat_result(struct chat *c, const char *text)
{
    const json_t *id = json_object_get(chat_call(c), "id");
    json_array_append_new(c->messages, json_pack("{s:s, s:O, s:s}", "role", "tool", "tool_call_id",
                                                 id, "content", text));
    c->n_result++;
}
