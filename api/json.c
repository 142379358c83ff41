/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking over a text is one pass that knows only what a string is; whether it is JSON at all is
 * jansson's to say.
 *
 * Where memory ends within a string jansson drops the character, asks again for the next, and may
 * go on with a text that has a hole. So what it asks for passes through here: from the first
 * refusal on a parse gets nothing, ends soon, and is told apart from one of bad text.
 */
#include "api/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/mem.h"

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL };

/* Of this thread's parse; outside of one nothing is remembered. */
static _Thread_local enum { PARSES_NOT, PARSES, PARSES_NO_MORE } parser;

static void *take(size_t bytes)
{
    if (parser == PARSES_NO_MORE)
        return NULL;
    struct err e = ERR_INIT;
    void *p = try_resize(NULL, bytes, "JSON", &e);
    if (!p && parser == PARSES)
        parser = PARSES_NO_MORE;
    return p;
}

void api_json_init(void)
{
    json_set_alloc_funcs(take, free);
    size_t seed = 0;
    while (!seed)
        if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
            seed = 0; /* interrupted */
    json_object_seed(seed);
}

/* ---- before the parser --------------------------------------------------------------------- */

/* The index behind the string that begins at i. */
static size_t skip_string(const char *p, size_t n, size_t i)
{
    for (i++; i < n && p[i] != '"'; i++)
        if (p[i] == '\\')
            i++;
    return i < n ? i + 1 : n;
}

static bool is_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static size_t skip_number(const char *p, size_t n, size_t i)
{
    while (i < n && is_number(p[i]))
        i++;
    return i;
}

static int too(struct api_error *e, const char *subject, const char *what, int most)
{
    return api_fail(e, 400, "invalid_json", NULL, "%s %s: the limit is %d.", subject, what, most);
}

/* Takes the values that the text may hold from *values. */
static int look_over(const char *p, size_t n, const char *subject, int *values, struct api_error *e)
{
    int depth = 0;
    for (size_t i = 0; i < n;) {
        char c = p[i];
        if (c == '{' || c == '[') {
            if (++depth > API_JSON_DEPTH_MAX)
                return too(e, subject, "is nested too deep", API_JSON_DEPTH_MAX);
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        }
        if (c == ',' || c == '{' || c == '[')
            --*values;
        else if (c == ':') /* a member of an object costs its key and its place in a table */
            *values -= API_JSON_MEMBER_COSTS;
        if (*values < 0)
            return too(e, subject, "holds too many values", API_JSON_VALUES_MAX);
        if (c == '"') {
            i = skip_string(p, n, i);
        } else if ((c >= '0' && c <= '9') || c == '-') {
            size_t end = skip_number(p, n, i);
            if (end - i > API_JSON_NUMBER_MAX)
                return too(e, subject, "holds a number with too many characters",
                           API_JSON_NUMBER_MAX);
            i = end;
        } else {
            i++;
        }
    }
    return 0;
}

/* ---- the parser ---------------------------------------------------------------------------- */

/* NULL: bad text, or *no_memory. */
static json_t *parse(const char *text, size_t n, json_error_t *error, bool *no_memory)
{
    parser = PARSES;
    json_t *root = json_loadb(text, n, FLAGS, error);
    *no_memory = parser == PARSES_NO_MORE;
    parser = PARSES_NOT;
    if (!*no_memory)
        return root;
    json_decref(root);
    return NULL;
}

static const char *reason(enum json_error_code code)
{
    switch (code) {
    case json_error_premature_end_of_input:
        return "it ends too early";
    case json_error_end_of_input_expected:
        return "something follows behind its end";
    case json_error_invalid_utf8:
        return "its text is not UTF-8";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a key holds a NUL";
    case json_error_duplicate_key:
        return "a key stands twice in one object";
    case json_error_numeric_overflow:
        return "a number is too large";
    case json_error_out_of_memory:
        return "it is too large";
    default:
        return "a syntax error";
    }
}

static void drop(void *root)
{
    json_decref(root);
}

/* The member of the outermost object that stands last before `end`, where its name is a plain word:
 * a number that does not fit is its client's field like any other. */
static const char *member_at(const char *p, size_t end, char *name, size_t cap)
{
    int depth = 0;
    size_t from = 0, n = 0;
    for (size_t i = 0; i < end;) {
        if (p[i] == '"') {
            size_t next = skip_string(p, end, i), at = next;
            while (at < end && strchr(" \t\r\n", p[at]))
                at++;
            bool is_key = depth == 1 && at < end && p[at] == ':';
            from = is_key ? i + 1 : from;
            n = is_key ? next - i - 2 : n;
            i = next;
            continue;
        }
        depth += (p[i] == '{' || p[i] == '[') - (p[i] == '}' || p[i] == ']');
        i++;
    }
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (n == 0 || n >= cap)
        return NULL;
    memcpy(name, p + from, n);
    name[n] = 0;
    return strspn(name, word) == n ? name : NULL;
}

static int refuse(struct api_error *e, const char *text, size_t n_text, const char *subject,
                  bool has_lines, const json_error_t *error)
{
    size_t at = error->position > 0 ? (size_t)error->position : 0;
    char line[32] = "", name[sizeof e->param];
    enum json_error_code code = json_error_code(error);
    if (has_lines)
        snprintf(line, sizeof line, "line %d, ", error->line);
    if (has_lines && code == json_error_numeric_overflow &&
        member_at(text, at < n_text ? at : n_text, name, sizeof name))
        return api_fail(e, 400, "invalid_value", name,
                        "'%s' holds a number that is too large (%scolumn %d).", name, line,
                        error->column);
    return api_fail(e, 400, "invalid_json", NULL, "%s is not valid JSON: %s (%scolumn %d).",
                    subject, reason(code), line, error->column);
}

static json_t *read_object(struct arena *a, const char *text, size_t n, const char *subject,
                           bool has_lines, struct api_error *e)
{
    json_error_t error;
    bool no_memory;
    int values = API_JSON_VALUES_MAX;
    if (look_over(text, n, subject, &values, e))
        return NULL;
    json_t *root = parse(text, n, &error, &no_memory);
    if (no_memory) {
        api_fail(e, 503, NULL, NULL, "the server has no memory for this text now");
        e->retry_after_s = 1;
    } else if (!root) {
        refuse(e, text, n, subject, has_lines, &error);
    }
    if (!root)
        return NULL;
    arena_defer(a, drop, root);
    if (json_is_object(root))
        return root;
    api_fail(e, 400, "invalid_json", NULL, "%s must be a JSON object, and is %s.", subject,
             api_json_type(root));
    return NULL;
}

json_t *api_json_object(struct arena *a, const char *text, size_t n, struct api_error *e)
{
    return read_object(a, text, n, "The body", true, e);
}

json_t *api_json_line(struct arena *a, const char *text, size_t n, struct api_error *e)
{
    return read_object(a, text, n, "The row", false, e);
}

json_t *api_json_inner(struct arena *a, const char *text, size_t n, int *values, struct err *e)
{
    struct api_error error;
    bool no_memory;
    if (look_over(text, n, "", values, &error))
        return NULL;
    json_t *root = parse(text, n, NULL, &no_memory);
    if (no_memory)
        err_set(e, ERR_NO_MEMORY, "no memory for the arguments of a call");
    if (root)
        arena_defer(a, drop, root);
    return root;
}

json_t *api_json_keep(struct arena *a, json_t *v)
{
    if (v)
        arena_defer(a, drop, v);
    return v;
}

const char *api_json_type(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}
