/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over a conversation. Depth is bounded by the reader (API_JSON_DEPTH_MAX), size by the
 * body and by the arena.
 */
#include "api/messages.h"

#include <stdio.h>
#include <string.h>

/* ---- any value ----------------------------------------------------------------------------- */

static int from_array(struct arena *a, const json_t *v, struct jvalue *out, struct err *e)
{
    struct jvalue x;
    if (jv_list(a, out, e))
        return -1;
    for (size_t i = 0; i < json_array_size(v); i++)
        if (api_jvalue(a, json_array_get(v, i), &x, e) || jv_list_add(a, out, x, e))
            return -1;
    return 0;
}

static int from_object(struct arena *a, const json_t *v, struct jvalue *out, struct err *e)
{
    const char *key;
    json_t *value;
    struct jvalue x;
    if (jv_dict(a, out, e))
        return -1;
    json_object_foreach((json_t *)(uintptr_t)v, key,
                        value) if (api_jvalue(a, value, &x, e) ||
                                   jv_dict_put(a, out, key, strlen(key), x, e)) return -1;
    return 0;
}

int api_jvalue(struct arena *a, const json_t *v, struct jvalue *out, struct err *e)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return from_object(a, v, out, e);
    case JSON_ARRAY:
        return from_array(a, v, out, e);
    case JSON_STRING:
        return jv_str_view(a, json_string_value(v), json_string_length(v), out, e);
    case JSON_INTEGER:
        *out = jv_int(json_integer_value(v));
        return 0;
    case JSON_REAL:
        *out = jv_float(json_real_value(v));
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = jv_bool(json_is_true(v));
        return 0;
    case JSON_NULL:
        break;
    }
    *out = jv_none();
    return 0;
}

/* ---- one message --------------------------------------------------------------------------- */

struct message {
    struct api_reader *r;
    const char *list; /* the field that it stands in */
    size_t i;
    struct err e;
    bool is_assistant, has_calls;
};

/* A 400 that names the place: messages[3].content[0]. */
__attribute__((format(printf, 4, 5))) static int bad(struct message *m, const char *field, int part,
                                                     const char *fmt, ...)
{
    char where[96], why[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    int n =
        snprintf(where, sizeof where, "%.40s[%zu]%s%s", m->list, m->i, *field ? "." : "", field);
    if (part >= 0)
        snprintf(where + n, sizeof where - (size_t)n, "[%d]", part);
    return api_fail(m->r->e, 400, "invalid_value", where, "'%s' %s.", where, why);
}

static int failed(struct message *m)
{
    return api_fail_err(m->r->e, &m->e, m->list);
}

static int read_role(struct message *m, const json_t *v, struct jvalue *out)
{
    static const char *const roles[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    const char *role = json_string_value(v);
    size_t i = 0, n_role = sizeof roles / sizeof *roles;
    if (!v)
        return bad(m, "role", -1, "is missing");
    while (i < n_role && (!role || strcmp(role, roles[i]) != 0))
        i++;
    if (i == n_role)
        return bad(m, "role", -1,
                   "must be one of system, developer, user, assistant, tool, function");
    role = i == 1 && !m->r->limits->knows_developer ? "system" : roles[i];
    m->is_assistant = i == 3;
    return jv_str_view(m->r->arena, role, strlen(role), out, &m->e) ? failed(m) : 0;
}

/* The text of a part of the content; NULL with an error. */
static const json_t *part_text(struct message *m, const json_t *part, int i)
{
    const json_t *type = json_object_get(part, "type");
    const char *name = json_string_value(type);
    if (!name) {
        bad(m, "content", i, "must be an object with a 'type'");
        return NULL;
    }
    bool is_refusal = m->is_assistant && strcmp(name, "refusal") == 0;
    if (strcmp(name, "text") != 0 && !is_refusal) {
        bad(m, "content", i, "is of type \"%.40s\": the models here read text alone", name);
        return NULL;
    }
    const json_t *text = json_object_get(part, is_refusal ? "refusal" : "text");
    if (!json_is_string(text)) {
        bad(m, "content", i, "has no '%s' that is a string", is_refusal ? "refusal" : "text");
        return NULL;
    }
    return text;
}

static int join_parts(struct message *m, const json_t *v, struct jvalue *out)
{
    size_t n = json_array_size(v), bytes = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *t = part_text(m, json_array_get(v, i), (int)i);
        if (!t)
            return -1;
        bytes += json_string_length(t) + (i > 0);
    }
    if (n == 1) {
        const json_t *t = part_text(m, json_array_get(v, 0), 0);
        return api_jvalue(m->r->arena, t, out, &m->e) ? failed(m) : 0;
    }
    char *text = param_alloc(m->r, m->list, bytes + 1, 1);
    for (size_t i = 0; text && i < n; i++) {
        const json_t *t = part_text(m, json_array_get(v, i), (int)i);
        if (i)
            text[at++] = '\n';
        memcpy(text + at, json_string_value(t), json_string_length(t));
        at += json_string_length(t);
    }
    if (!text)
        return -1;
    return jv_str_view(m->r->arena, text, bytes, out, &m->e) ? failed(m) : 0;
}

/* An assistant that called tools may have said nothing. */
static int read_content(struct message *m, const json_t *v, struct jvalue *out)
{
    if (!v || json_is_null(v)) {
        if (!m->has_calls)
            return bad(m, "content", -1, "is missing");
        *out = jv_none();
        return 0;
    }
    if (json_is_array(v))
        return join_parts(m, v, out);
    if (!json_is_string(v))
        return bad(m, "content", -1, "must be a string or an array of text parts");
    return api_jvalue(m->r->arena, v, out, &m->e) ? failed(m) : 0;
}

int api_arguments(struct api_reader *r, const json_t *text, struct jvalue *out, struct err *e)
{
    const json_t *inner =
        api_json_inner(r->arena, json_string_value(text), json_string_length(text), &r->values, e);
    if (e->code)
        return -1;
    return api_jvalue(r->arena, json_is_object(inner) ? inner : text, out, e);
}

/* {"name", "arguments"}: the arguments become an object where they are one in a string. */
static int read_function(struct message *m, const char *field, int i, const json_t *v,
                         struct jvalue *out)
{
    const json_t *name = json_object_get(v, "name"), *args = json_object_get(v, "arguments");
    struct jvalue x;
    if (!json_is_string(name))
        return bad(m, field, i, "has no function with a 'name' that is a string");
    if (api_jvalue(m->r->arena, v, out, &m->e))
        return failed(m);
    if (!json_is_string(args))
        return 0;
    if (api_arguments(m->r, args, &x, &m->e) ||
        jv_dict_put(m->r->arena, out, "arguments", strlen("arguments"), x, &m->e))
        return failed(m);
    return 0;
}

static int read_call(struct message *m, int i, const json_t *v, struct jvalue *out)
{
    struct jvalue fn;
    if (!json_is_object(v))
        return bad(m, "tool_calls", i, "must be an object");
    if (read_function(m, "tool_calls", i, json_object_get(v, "function"), &fn))
        return -1;
    if (api_jvalue(m->r->arena, v, out, &m->e) ||
        jv_dict_put(m->r->arena, out, "function", strlen("function"), fn, &m->e))
        return failed(m);
    return 0;
}

static int read_calls(struct message *m, const json_t *v, struct jvalue *out)
{
    struct jvalue x;
    if (!json_is_array(v))
        return bad(m, "tool_calls", -1, "must be an array");
    if (jv_list(m->r->arena, out, &m->e))
        return failed(m);
    for (size_t i = 0; i < json_array_size(v); i++) {
        if (read_call(m, (int)i, json_array_get(v, i), &x))
            return -1;
        if (jv_list_add(m->r->arena, out, x, &m->e))
            return failed(m);
    }
    return 0;
}

static int read_field(struct message *m, const char *key, const json_t *v, struct jvalue *out)
{
    if (strcmp(key, "role") == 0)
        return read_role(m, v, out);
    if (strcmp(key, "content") == 0)
        return read_content(m, v, out);
    if (strcmp(key, "tool_calls") == 0)
        return read_calls(m, v, out);
    if (strcmp(key, "function_call") == 0)
        return read_function(m, key, -1, v, out);
    if (strcmp(key, "audio") == 0)
        return bad(m, key, -1, "is not supported: the models here read text alone");
    return api_jvalue(m->r->arena, v, out, &m->e) ? failed(m) : 0;
}

static int put(struct message *m, struct jvalue *out, const char *key, const json_t *v)
{
    struct jvalue x;
    if (read_field(m, key, v, &x))
        return -1;
    return jv_dict_put(m->r->arena, out, key, strlen(key), x, &m->e) ? failed(m) : 0;
}

/* Role and content come first, whatever the order was. Members that are null are left out:
 * templates ask whether a name is defined. */
static int read_message(struct message *m, const json_t *v, struct jvalue *out)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return bad(m, "", -1, "must be an object");
    const json_t *calls = json_object_get(v, "tool_calls");
    const json_t *call = json_object_get(v, "function_call");
    m->has_calls = json_array_size(calls) > 0 || json_is_object(call);
    if (jv_dict(m->r->arena, out, &m->e))
        return failed(m);
    if (put(m, out, "role", json_object_get(v, "role")) ||
        put(m, out, "content", json_object_get(v, "content")))
        return -1;
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        bool is_done = strcmp(key, "role") == 0 || strcmp(key, "content") == 0;
        if (!is_done && !json_is_null(value) && put(m, out, key, value))
            return -1;
    }
    return 0;
}

int api_messages(struct api_reader *r, const char *name, const json_t *v, struct jvalue *out)
{
    struct message m = {.r = r, .list = name, .e = ERR_INIT};
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return param_type(r, name, "an array of messages", v);
    if (!n || n > API_MESSAGES_MAX)
        return param_bad(r, name, "holds %zu messages: 1 to %d can be", n, API_MESSAGES_MAX);
    if (jv_list(r->arena, out, &m.e))
        return failed(&m);
    for (m.i = 0; m.i < n; m.i++) {
        struct jvalue x;
        if (read_message(&m, json_array_get(v, m.i), &x))
            return -1;
        if (jv_list_add(r->arena, out, x, &m.e))
            return failed(&m);
    }
    return 0;
}

/* ---- rows of params.def -------------------------------------------------------------------- */

int param_read_messages(struct api_reader *r, const char *name, const json_t *v)
{
    return api_messages(r, name, v, &r->out->messages);
}

/* Scalars alone; whether the template uses the names is for who holds the template. */
int param_read_kwargs(struct api_reader *r, const char *name, const json_t *v)
{
    const char *key;
    json_t *value;
    struct err e = ERR_INIT;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    json_object_foreach((json_t *)(uintptr_t)v, key, value) if (
        json_is_object(value) ||
        json_is_array(
            value)) return param_bad(r, name, "may hold strings, numbers, booleans and null alone");
    return api_jvalue(r->arena, v, &r->out->extra, &e) ? api_fail_err(r->e, &e, name) : 0;
}
