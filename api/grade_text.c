/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of pieces: bytes as they are, or a path of names.
 */
#include "api/grade_text.h"

#include <stdlib.h>
#include <string.h>

#include "api/jout.h"
#include "api/params.h"

enum { PATH_MAX_NAMES = 16, TEXT_BYTES_MAX = 4 << 20 };

enum from { LITERAL, ITEM, OUTPUT_TEXT, OUTPUT_JSON };

struct piece {
    struct piece *next;
    enum from from;
    const char *p; /* LITERAL */
    size_t n;
    const char *path[PATH_MAX_NAMES]; /* of the others: members, from the outside in */
    size_t n_path;
};

struct grade_text {
    struct piece *first;
};

const char *grade_fault_name(enum grade_fault fault)
{
    static const char *const names[GRADE_FAULT_COUNT] = {
        [GRADE_NO_JSON] = "sample_parse_error",
        [GRADE_NO_VARIABLE] = "invalid_variable_error",
        [GRADE_OTHER] = "other_error",
        [GRADE_MODEL_SERVER] = "model_grader_server_error",
        [GRADE_MODEL_REFUSAL] = "model_grader_refusal_error",
        [GRADE_MODEL_PARSE] = "model_grader_parse_error",
        [GRADE_UNRESPONSIVE] = "unresponsive_reward_error",
        [GRADE_PYTHON_SERVER] = "python_grader_server_error",
        [GRADE_PYTHON_RUNTIME] = "python_grader_runtime_error"};
    return names[fault];
}

/* All n bytes: what a model says may have a byte 0 in it. */
static const char *keep(struct arena *a, const char *p, size_t n)
{
    char *to = arena_alloc(a, n + 1);
    memcpy(to, p, n);
    return to;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int read_path(struct api_reader *r, const char *name, const char *p, const char *end,
                     struct piece *out)
{
    while (p < end) {
        const char *dot = memchr(p, '.', (size_t)(end - p));
        size_t n = (size_t)((dot ? dot : end) - p);
        if (n == 0 || (dot && dot + 1 == end))
            return param_bad(r, name, "has a variable with a name of nothing");
        if (out->n_path == PATH_MAX_NAMES)
            return param_bad(r, name, "has a variable of more than %d names", PATH_MAX_NAMES);
        out->path[out->n_path++] = arena_strndup(r->arena, p, n);
        p += n + (dot != NULL);
    }
    return 0;
}

static int settle(struct api_reader *r, const char *name, struct piece *v)
{
    const char *of = v->n_path ? v->path[0] : "", *what = v->n_path > 1 ? v->path[1] : "";
    size_t n_taken = 2;
    if (strcmp(of, "item") == 0 && v->n_path > 1) {
        v->from = ITEM;
        n_taken = 1;
    } else if (strcmp(of, "sample") == 0 && strcmp(what, "output_text") == 0 && v->n_path == 2) {
        v->from = OUTPUT_TEXT;
    } else if (strcmp(of, "sample") == 0 && strcmp(what, "output_json") == 0) {
        v->from = OUTPUT_JSON;
    } else if (strcmp(of, "sample") == 0 &&
               (strcmp(what, "output_tools") == 0 || strcmp(what, "choices") == 0)) {
        return param_bad(r, name,
                         "names sample.%s, which is not supported: sample.output_text and "
                         "sample.output_json are",
                         what);
    } else {
        return param_bad(r, name,
                         "has a variable that is none of item.NAME, sample.output_text and "
                         "sample.output_json");
    }
    v->n_path -= n_taken;
    memmove(v->path, v->path + n_taken, v->n_path * sizeof *v->path);
    return 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The piece between {{ and }}. */
static int read_variable(struct api_reader *r, const char *name, const char *p, const char *end,
                         struct piece *out)
{
    while (p < end && is_space(*p))
        p++;
    while (p < end && is_space(end[-1]))
        end--;
    return read_path(r, name, p, end, out) || settle(r, name, out) ? -1 : 0;
}

static const char *find(const char *p, const char *end, const char *what)
{
    for (; end - p >= 2; p++)
        if (p[0] == what[0] && p[1] == what[1])
            return p;
    return NULL;
}

const struct grade_text *grade_text_read(struct api_reader *r, const char *name, const json_t *v)
{
    struct grade_text *t = ARENA_NEW(r->arena, struct grade_text);
    struct piece **to = &t->first;
    if (!json_is_string(v)) {
        param_type(r, name, "a string", v);
        return NULL;
    }
    const char *p = json_string_value(v), *end = p + json_string_length(v);
    while (p < end) {
        const char *open = find(p, end, "{{"), *close = open ? find(open + 2, end, "}}") : NULL;
        struct piece *piece = *to = ARENA_NEW(r->arena, struct piece);
        to = &piece->next;
        if (open == p) {
            if (!close) {
                param_bad(r, name, "has a '{{' without its '}}'");
                return NULL;
            }
            if (read_variable(r, name, open + 2, close, piece))
                return NULL;
            p = close + 2;
        } else {
            piece->n = (size_t)((open ? open : end) - p);
            piece->p = keep(r->arena, p, piece->n);
            p += piece->n;
        }
    }
    return t;
}

/* ---- filling ------------------------------------------------------------------------------- */

static void put_members(struct jout *j, const json_t *v)
{
    const char *key;
    json_t *member;
    jout_open(j, '{');
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        jout_key(j, key);
        grade_json_put(j, member);
    }
    jout_close(j, '}');
}

/* The depth of what was read is bounded. */
void grade_json_put(struct jout *j, const json_t *v)
{
    if (json_is_object(v)) {
        put_members(j, v);
    } else if (json_is_array(v)) {
        jout_open(j, '[');
        for (size_t i = 0; i < json_array_size(v); i++)
            grade_json_put(j, json_array_get(v, i));
        jout_close(j, ']');
    } else if (json_is_string(v)) {
        jout_bytes(j, json_string_value(v), json_string_length(v));
    } else if (json_is_integer(v)) {
        jout_int(j, json_integer_value(v));
    } else if (json_is_real(v)) {
        jout_num(j, json_real_value(v));
    } else if (json_is_boolean(v)) {
        jout_bool(j, json_is_true(v));
    } else {
        jout_null(j);
    }
}

/* A member of an object, or by its number of a list; NULL: there is none. */
static const json_t *member(const json_t *v, const char *name)
{
    char *end;
    if (json_is_object(v))
        return json_object_get(v, name);
    unsigned long i = strtoul(name, &end, 10);
    return json_is_array(v) && *name >= '0' && *name <= '9' && !*end ? json_array_get(v, i) : NULL;
}

static enum grade_fault fill_variable(const struct piece *p, const struct grade_sample *s,
                                      struct buf *out, struct err *e)
{
    const json_t *v = p->from == ITEM ? s->item : s->json;
    if (p->from == OUTPUT_JSON && !v) {
        err_set(e, ERR_BAD_INPUT, "the sample is no JSON");
        return GRADE_NO_JSON;
    }
    for (size_t i = 0; v && i < p->n_path; i++)
        v = member(v, p->path[i]);
    if (!v) {
        err_set(e, ERR_BAD_INPUT, "%s has no member '%.100s'",
                p->from == ITEM ? "the item" : "the sample",
                p->n_path ? p->path[p->n_path - 1] : "");
        return GRADE_NO_VARIABLE;
    }
    struct jout j = jout_on(out);
    if (json_is_string(v))
        buf_add(out, json_string_value(v), json_string_length(v));
    else
        grade_json_put(&j, v);
    return GRADE_GOOD;
}

enum grade_fault grade_text_fill(const struct grade_text *t, const struct grade_sample *s,
                                 struct arena *a, const char **out, size_t *n, struct err *e)
{
    enum grade_fault fault = GRADE_GOOD;
    struct buf b;
    buf_init(&b, TEXT_BYTES_MAX);
    for (const struct piece *p = t->first; p && !fault; p = p->next) {
        if (p->from == LITERAL)
            buf_add(&b, p->p, p->n);
        else if (p->from == OUTPUT_TEXT)
            buf_add(&b, s->text, s->n);
        else
            fault = fill_variable(p, s, &b, e);
    }
    if (!fault && buf_check(&b, "a grader's text", e))
        fault = GRADE_OTHER;
    if (!fault) {
        *out = keep(a, b.len ? b.data : "", b.len);
        *n = b.len;
    }
    buf_release(&b);
    return fault;
}
