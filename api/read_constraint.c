/* SPDX-License-Identifier: Apache-2.0
 *
 * What a text must be, by all the names that clients have for it: OpenAI's response_format, vLLM's
 * structured_outputs and guided_*, llama.cpp's grammar and json_schema, SGLang's regex and ebnf. A
 * request has one of them. What the constraint says is read when it is compiled; here is its form.
 */
#include <string.h>

#include "api/messages.h"
#include "api/value.h"

/* ---- one constraint ------------------------------------------------------------------------ */

static struct constraint *claim(struct api_reader *r, const char *name, enum constraint_kind kind)
{
    struct constraint *c = &r->out->constraint;
    if (c->kind != CONSTRAINT_NONE) {
        param_bad(r, name, "cannot be had with another constraint, which '%s' holds", c->field);
        return NULL;
    }
    if (!(r->out->route & API_TEXTS)) {
        param_bad(r, name, "is for texts that are generated");
        return NULL;
    }
    *c = (struct constraint){.kind = kind, .field = name};
    return c;
}

/* As text, by which it is known again. */
static int spell(struct api_reader *r, const char *name, const json_t *v, struct gen_text *out)
{
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY, n = json_dumpb(v, NULL, 0, flags);
    char *p = param_alloc(r, name, n + 1, 1);
    if (!p)
        return -1;
    *out = (struct gen_text){.p = p, .n = (uint32_t)json_dumpb(v, p, n, flags)};
    return 0;
}

static int read_schema(struct api_reader *r, const char *name, const json_t *v)
{
    struct err why = ERR_INIT;
    if (!json_is_object(v) && !json_is_boolean(v))
        return param_type(r, name, "a JSON schema", v);
    struct constraint *c = claim(r, name, CONSTRAINT_SCHEMA);
    struct jvalue *schema = c ? param_alloc(r, name, 1, sizeof *schema) : NULL;
    if (!schema || spell(r, name, v, &c->text))
        return -1;
    c->schema = schema;
    return api_jvalue(r->arena, v, schema, &why) ? api_fail_err(r->e, &why, name) : 0;
}

/* vLLM's clients send a schema as JSON, or as a text that holds it. */
int param_read_guided_json(struct api_reader *r, const char *name, const json_t *v)
{
    struct err why = ERR_INIT;
    if (!json_is_string(v))
        return read_schema(r, name, v);
    const json_t *inner =
        api_json_inner(r->arena, json_string_value(v), json_string_length(v), &r->values, &why);
    if (why.code)
        return api_fail_err(r->e, &why, name);
    return inner ? read_schema(r, name, inner) : param_bad(r, name, "holds a text that is no JSON");
}

int param_read_guided_json_object(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_boolean(v))
        return param_type(r, name, "a boolean", v);
    return json_is_false(v) || claim(r, name, CONSTRAINT_OBJECT) ? 0 : -1;
}

static int read_text(struct api_reader *r, const char *name, const json_t *v,
                     enum constraint_kind kind)
{
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    struct constraint *c = claim(r, name, kind);
    if (!c)
        return -1;
    c->text = (struct gen_text){.p = json_string_value(v), .n = (uint32_t)json_string_length(v)};
    return 0;
}

int param_read_guided_regex(struct api_reader *r, const char *name, const json_t *v)
{
    return read_text(r, name, v, CONSTRAINT_REGEX);
}

int param_read_guided_grammar(struct api_reader *r, const char *name, const json_t *v)
{
    return read_text(r, name, v, CONSTRAINT_GBNF);
}

int param_read_guided_choice(struct api_reader *r, const char *name, const json_t *v)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return param_type(r, name, "an array of strings", v);
    if (!n)
        return param_bad(r, name, "holds nothing to choose from");
    struct constraint *c = claim(r, name, CONSTRAINT_CHOICE);
    struct gen_text *at = c ? param_alloc(r, name, n, sizeof *at) : NULL;
    if (!at || spell(r, name, v, &c->text))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(v, i);
        if (!json_is_string(s))
            return param_type(r, name, "an array of strings", s);
        at[i] = (struct gen_text){.p = json_string_value(s), .n = (uint32_t)json_string_length(s)};
    }
    c->choice = at;
    c->n_choice = (int32_t)n;
    return 0;
}

/* ---- fields that hold one ------------------------------------------------------------------ */

/* {"name", "description", "schema", "strict"}: a constraint is kept to, strict or not. */
static int read_named_schema(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_object(v))
        return param_bad(r, name, "must hold an object 'json_schema'");
    const json_t *title = value_member(v, "name"), *about = value_member(v, "description");
    const json_t *strict = value_member(v, "strict"), *schema = value_member(v, "schema");
    if (title && !json_is_string(title))
        return param_bad(r, name, "holds a 'json_schema.name' that is not a string");
    if (about && !json_is_string(about))
        return param_bad(r, name, "holds a 'json_schema.description' that is not a string");
    if (strict && !json_is_boolean(strict))
        return param_bad(r, name, "holds a 'json_schema.strict' that is not a boolean");
    if (!schema)
        return param_bad(r, name, "holds no 'json_schema.schema'");
    return read_schema(r, name, schema);
}

/* llama.cpp's clients have the schema beside the type. */
int param_read_response_format(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    const json_t *type = json_object_get(v, "type"), *schema = value_member(v, "schema");
    if (value_is_word(type, "text"))
        return 0;
    if (value_is_word(type, "json_schema"))
        return schema ? read_schema(r, name, schema)
                      : read_named_schema(r, name, json_object_get(v, "json_schema"));
    if (value_is_word(type, "json_object"))
        return schema ? read_schema(r, name, schema) : (claim(r, name, CONSTRAINT_OBJECT) ? 0 : -1);
    return param_bad(r, name, "must have a 'type' of text, json_object or json_schema");
}

static int refuse_member(struct api_reader *r, const char *name, const char *key)
{
    return api_fail(r->e, 400, "unsupported_parameter", name, "'%s.%.64s' is not supported.", name,
                    key);
}

static int read_member(struct api_reader *r, const char *name, const char *key, const json_t *v)
{
    static const struct {
        const char *key;
        int (*read)(struct api_reader *r, const char *name, const json_t *v);
    } known[] = {{"json", param_read_guided_json},
                 {"json_object", param_read_guided_json_object},
                 {"regex", param_read_guided_regex},
                 {"choice", param_read_guided_choice},
                 {"grammar", param_read_guided_grammar}};
    if (json_is_null(v) || strcmp(key, "disable_any_whitespace") == 0)
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i].key) == 0)
            return known[i].read(r, name, v);
    if (strcmp(key, "disable_fallback") == 0 && json_is_boolean(v))
        return 0; /* there is one way to compile */
    if (json_is_false(v))
        return 0;
    return refuse_member(r, name, key);
}

int param_read_structured_outputs(struct api_reader *r, const char *name, const json_t *v)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    const json_t *compact = value_member(v, "disable_any_whitespace");
    if (compact && !json_is_boolean(compact))
        return param_bad(r, name, "holds a 'disable_any_whitespace' that is not a boolean");
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        if (read_member(r, name, key, value))
            return -1;
    }
    if (r->out->constraint.field == name)
        r->out->constraint.is_compact = json_is_true(compact);
    return 0;
}
