/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools that a request offers, and which of them it wants called. The template gets the tools as
 * they came, those of other shapes as a chat has them; what calls are held to is read here.
 */
#include <string.h>

#include "api/messages.h"
#include "api/value.h"

/* ---- tools --------------------------------------------------------------------------------- */

enum { STRICT_DEPTH = 32 };

/* Where a tool has what a chat's has below `function`, and what its type is. */
struct form {
    const char *name, *about, *parameters, *strict; /* as errors name them */
    const char *type;
    bool may_lack_type;
    bool is_strict_by_form; /* where nothing is said, a schema in the strict form is kept to */
};
static const struct form chat_form = {"function.name",
                                      "function.description",
                                      "function.parameters",
                                      "function.strict",
                                      "function",
                                      false,
                                      false};
static const struct form turns_form = {"name",   "description", "input_schema", "strict",
                                       "custom", true,          false};
static const struct form items_form = {"name",     "description", "parameters", "strict",
                                       "function", false,         true};

static const struct form *form_of(unsigned route)
{
    return route & API_TURNS ? &turns_form : route & API_RESPONSES ? &items_form : &chat_form;
}

struct tools {
    struct api_reader *r;
    const char *name; /* the field */
    const struct form *form;
    size_t i;
};

/* A 400 that names the place: tools[3].function.name. */
static int bad(const struct tools *t, const char *at, const char *why)
{
    char *where = arena_printf(t->r->arena, "%s[%zu]%s%s", t->name, t->i, *at ? "." : "", at);
    return api_fail(t->r->e, 400, "invalid_value", where, "'%s' %s.", where, why);
}

static void no_memory(const struct tools *t)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_NO_MEMORY, "there is no memory for the tools now: try again later");
    api_fail_err(t->r->e, &e, t->name);
}

static int read_name(const struct tools *t, const json_t *v, struct tool_spec *out)
{
    const char *s = json_string_value(v);
    size_t n = json_string_length(v);
    bool is_good = s && n && n <= TOOL_NAME_MAX;
    for (size_t i = 0; is_good && i < n; i++)
        is_good = tool_name_may_have(s[i]);
    if (!is_good)
        return bad(t, t->form->name, "must have 1 to 64 of a-z, A-Z, 0-9, _, - and .");
    for (size_t i = 0; i < t->i; i++)
        if (strcmp(t->r->out->tool[i].name, s) == 0)
            return bad(t, t->form->name, "is another tool's name too");
    out->name = s;
    return 0;
}

/* Arguments are an object whether the schema says so or not. */
static int read_parameters(const struct tools *t, const json_t *v, struct tool_spec *out)
{
    struct err e = ERR_INIT;
    const json_t *type = json_object_get(v, "type");
    if (!v || (json_is_object(v) && !json_object_size(v)))
        return 0;
    if (!json_is_object(v) || (type && !value_is_word(type, "object")))
        return bad(t, t->form->parameters, "must be a JSON schema of the type object");
    struct jvalue *schema = param_alloc(t->r, t->name, 1, sizeof *schema), word;
    if (!schema)
        return -1;
    if (api_jvalue(t->r->arena, v, schema, &e) ||
        (!type && (jv_str_view(t->r->arena, "object", strlen("object"), &word, &e) ||
                   jv_dict_put(t->r->arena, schema, "type", strlen("type"), word, &e))))
        return api_fail_err(t->r->e, &e, t->name);
    out->parameters = schema;
    return 0;
}

/* ---- OpenAI's strict form: every object is closed, and requires all that it has ------------ */

static bool is_closed(const json_t *v)
{
    const json_t *props = json_object_get(v, "properties"), *need = json_object_get(v, "required");
    size_t n = json_object_size(props);
    if (!props && !value_is_word(json_object_get(v, "type"), "object"))
        return true;
    if (!json_is_false(json_object_get(v, "additionalProperties")) || json_array_size(need) != n)
        return false;
    json_t *named = json_object(); /* each once */
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(need, i));
        if (name && json_object_get(props, name))
            json_object_set_new(named, name, json_null());
    }
    bool is = json_object_size(named) == n;
    json_decref(named);
    return is;
}

static bool is_strict_form(const json_t *v, int depth)
{
    static const char *const lists[] = {"anyOf", "allOf", "oneOf"};
    static const char *const dicts[] = {"properties", "$defs", "definitions"};
    const char *key;
    json_t *value;
    if (depth > STRICT_DEPTH || !is_closed(v))
        return false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = json_object_get(v, lists[i]);
        for (size_t k = 0; k < json_array_size(list); k++)
            if (!is_strict_form(json_array_get(list, k), depth + 1))
                return false;
    }
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++) {
        json_object_foreach(json_object_get(v, dicts[i]), key, value)
        {
            if (!is_strict_form(value, depth + 1))
                return false;
        }
    }
    const json_t *items = json_object_get(v, "items");
    return !items || is_strict_form(items, depth + 1);
}

static int read_tool(const struct tools *t, const json_t *v, struct tool_spec *out)
{
    const json_t *f = json_object_get(v, "function"), *about = value_member(f, "description");
    const json_t *strict = value_member(f, "strict");
    if (!json_is_object(f))
        return bad(t, "function", "must be an object with a 'name'");
    if (about && !json_is_string(about))
        return bad(t, t->form->about, "must be a string");
    if (strict && !json_is_boolean(strict))
        return bad(t, t->form->strict, "must be a boolean");
    bool is_strict = json_is_true(strict);
    if (!strict && t->form->is_strict_by_form)
        is_strict = is_strict_form(value_member(f, "parameters"), 0);
    *out = (struct tool_spec){.is_strict = is_strict, .is_allowed = true};
    return read_name(t, json_object_get(f, "name"), out) ||
                   read_parameters(t, value_member(f, "parameters"), out)
               ? -1
               : 0;
}

/* A tool that takes nothing says so, since templates show what tools take. */
static int fill_parameters(struct api_reader *r, struct jvalue *tools, struct err *e)
{
    struct arena *a = r->arena;
    struct jvalue schema, type, none;
    if (jv_dict(a, &schema, e) || jv_dict(a, &none, e) ||
        jv_str_view(a, "object", strlen("object"), &type, e) ||
        jv_dict_put(a, &schema, "type", strlen("type"), type, e) ||
        jv_dict_put(a, &schema, "properties", strlen("properties"), none, e))
        return -1;
    for (size_t i = 0; i < tools->l->n; i++) {
        const struct jvalue *f = jv_dict_get(&tools->l->at[i], "function");
        const struct jvalue *p = jv_dict_get(f, "parameters");
        if ((!p || p->type == JT_NONE) &&
            jv_dict_put(a, (struct jvalue *)(uintptr_t)f, "parameters", strlen("parameters"),
                        schema, e))
            return -1;
    }
    return 0;
}

static int check_type(const struct tools *t, const json_t *v)
{
    const json_t *type = value_member(v, "type");
    if (!json_is_object(v))
        return bad(t, "", "must be an object");
    if (value_is_word(type, t->form->type) || (!type && t->form->may_lack_type))
        return 0;
    return bad(t, "type",
               arena_printf(t->r->arena, "must be \"%s\": that is what the models here can call",
                            t->form->type));
}

/* A tool of another shape as a chat has it; NULL with an error. */
static json_t *as_chat(const struct tools *t, const json_t *v)
{
    const char *const key[][2] = {{t->form->name, "name"},
                                  {t->form->about, "description"},
                                  {t->form->parameters, "parameters"},
                                  {t->form->strict, "strict"}};
    json_t *f = json_object(), *out = json_pack("{s:s, s:o}", "type", "function", "function", f);
    for (size_t i = 0; out && i < sizeof key / sizeof *key; i++) {
        json_t *x = json_object_get(v, key[i][0]);
        if (x && !json_is_null(x) && json_object_set(f, key[i][1], x)) {
            json_decref(out);
            out = NULL;
        }
    }
    if (!out)
        no_memory(t);
    return out;
}

/* The list as a chat has it, in the arena's care. */
static const json_t *list_of(struct tools *t, const json_t *v)
{
    json_t *list = api_json_keep(t->r->arena, json_array());
    for (t->i = 0; list && t->i < json_array_size(v); t->i++) {
        json_t *tool = as_chat(t, json_array_get(v, t->i));
        if (!tool)
            return NULL;
        if (json_array_append_new(list, tool))
            list = NULL;
    }
    if (!list)
        no_memory(t);
    return list;
}

int param_read_tools(struct api_reader *r, const char *name, const json_t *v)
{
    struct api_request *q = r->out;
    struct err e = ERR_INIT;
    struct tools t = {.r = r, .name = name, .form = form_of(q->route)};
    size_t n = json_array_size(v), flags = JSON_COMPACT | JSON_ENCODE_ANY;
    if (!json_is_array(v))
        return param_type(r, name, "an array of tools", v);
    if (!n)
        return 0;
    if (n > API_TOOLS_MAX)
        return param_bad(r, name, "holds %zu tools: the limit is %d", n, API_TOOLS_MAX);
    for (t.i = 0; t.i < n; t.i++)
        if (check_type(&t, json_array_get(v, t.i)))
            return -1;
    v = t.form == &chat_form ? v : list_of(&t, v);
    if (!v)
        return -1;
    size_t bytes = json_dumpb(v, NULL, 0, flags);
    if (bytes > API_TOOLS_BYTES_MAX)
        return param_bad(r, name, "has %zu bytes of JSON: the limit is %d", bytes,
                         API_TOOLS_BYTES_MAX);
    struct tool_spec *tool = param_alloc(r, name, n, sizeof *tool);
    char *text = tool ? param_alloc(r, name, bytes + 1, 1) : NULL;
    if (!text)
        return -1;
    q->tool = tool;
    for (t.i = 0; t.i < n; t.i++) {
        if (read_tool(&t, json_array_get(v, t.i), &tool[t.i]))
            return -1;
    }
    q->n_tool = n;
    q->tools_text = (struct gen_text){.p = text, .n = (uint32_t)json_dumpb(v, text, bytes, flags)};
    return api_jvalue(r->arena, v, &q->tools, &e) || fill_parameters(r, &q->tools, &e)
               ? api_fail_err(r->e, &e, name)
               : 0;
}

int param_read_parallel_calls(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_boolean(v))
        return param_type(r, name, "a boolean", v);
    r->out->has_one_call = json_is_false(v);
    return 0;
}

/* ---- which are wanted ---------------------------------------------------------------------- */

/* Told when the tools are known. */
int param_read_tool_choice(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_string(v) && !json_is_object(v))
        return param_type(r, name, "a string or an object", v);
    r->tool_choice = v;
    return 0;
}

static int allow_named(struct api_reader *r, const json_t *name)
{
    struct api_request *q = r->out;
    for (size_t i = 0; i < q->n_tool; i++)
        if (value_is_word(name, q->tool[i].name)) {
            q->tool[i].is_allowed = true;
            return 0;
        }
    return param_bad(r, "tool_choice", "names '%.64s', which is none of 'tools'",
                     json_string_value(name));
}

/* {"type": "function", "function": {"name": ...}} */
static int allow(struct api_reader *r, const json_t *v)
{
    const json_t *name = json_object_get(json_object_get(v, "function"), "name");
    if (!value_is_word(json_object_get(v, "type"), "function") || !json_is_string(name))
        return param_bad(r, "tool_choice",
                         "must name a tool as {\"type\": \"function\", \"function\": {\"name\": "
                         "...}}");
    return allow_named(r, name);
}

/* {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}} */
static int read_allowed(struct api_reader *r, const json_t *v)
{
    const json_t *list = json_object_get(v, "tools"), *mode = json_object_get(v, "mode");
    if (!json_array_size(list))
        return param_bad(r, "tool_choice", "must list 'allowed_tools.tools'");
    if (!value_is_word(mode, "auto") && !value_is_word(mode, "required"))
        return param_bad(r, "tool_choice", "must have an 'allowed_tools.mode' of auto or required");
    r->out->tool_mode = value_is_word(mode, "auto") ? TOOL_MODE_AUTO : TOOL_MODE_REQUIRED;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (allow(r, json_array_get(list, i)))
            return -1;
    return 0;
}

static void allow_none(struct api_request *q)
{
    for (size_t i = 0; i < q->n_tool; i++)
        q->tool[i].is_allowed = false;
}

static int read_object(struct api_reader *r, const json_t *v)
{
    struct api_request *q = r->out;
    allow_none(q);
    if (value_is_word(json_object_get(v, "type"), "allowed_tools"))
        return read_allowed(r, json_object_get(v, "allowed_tools"));
    q->tool_mode = TOOL_MODE_REQUIRED;
    return allow(r, v);
}

/* As the other shapes have it. */
static int settle_chosen(struct api_reader *r)
{
    struct api_request *q = r->out;
    bool is_any = r->choose == API_CHOOSE_ANY;
    if (!q->n_tool && (is_any || r->chosen))
        return param_bad(r, "tool_choice", "wants a tool to be called, and 'tools' holds none");
    q->tool_mode = is_any                                      ? TOOL_MODE_REQUIRED
                   : q->n_tool && r->choose != API_CHOOSE_NONE ? TOOL_MODE_AUTO
                                                               : TOOL_MODE_NONE;
    if (r->chosen)
        allow_none(q);
    if (json_is_string(r->chosen))
        return allow_named(r, r->chosen);
    for (size_t i = 0; i < json_array_size(r->chosen); i++)
        if (allow_named(r, json_object_get(json_array_get(r->chosen, i), "name")))
            return -1;
    return 0;
}

int api_tools_settle(struct api_reader *r)
{
    struct api_request *q = r->out;
    const json_t *v = r->tool_choice;
    if (q->route & (API_TURNS | API_RESPONSES))
        return settle_chosen(r);
    bool is_none = value_is_word(v, "none"), is_auto = !v || value_is_word(v, "auto");
    q->tool_mode = q->n_tool && !is_none ? TOOL_MODE_AUTO : TOOL_MODE_NONE;
    if (is_none || is_auto)
        return 0;
    if (json_is_string(v) && !value_is_word(v, "required"))
        return param_bad(r, "tool_choice", "must be none, auto, required, or name tools");
    if (!q->n_tool)
        return param_bad(r, "tool_choice", "wants a tool to be called, and 'tools' holds none");
    if (json_is_object(v))
        return read_object(r, v);
    q->tool_mode = TOOL_MODE_REQUIRED;
    return 0;
}
