/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over a body: each member finds its row, and the row says what to do. A name without a
 * row, and one that changes nothing, is kept for the header that tells the client so.
 */
#include "api/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHAT        API_CHAT
#define COMPLETIONS API_COMPLETIONS
#define EMBEDDINGS  API_EMBEDDINGS
#define TOKENIZE    API_TOKENIZE
#define DETOKENIZE  API_DETOKENIZE
#define ADAPTER     API_ADAPTER
#define MESSAGES    API_MESSAGES
#define TURNS       (API_MESSAGES | API_COUNT)
#define RESPONSES   API_RESPONSES
#define TEXTS       (API_CHAT | API_COMPLETIONS | API_MESSAGES | API_RESPONSES)
#define GEN         (API_CHAT | API_COMPLETIONS)
#define RENDER      (API_CHAT | API_TOKENIZE | API_TEMPLATE)
#define RERANK      API_RERANK
#define SCORE       API_SCORE
#define CLASSIFY    API_CLASSIFY
#define PAIRS       API_PAIRS
#define NUMBERS     API_NUMBERS
#define SCORES      (API_PAIRS | API_CLASSIFY)
#define ALL         (API_CHAT | API_COMPLETIONS | API_EMBEDDINGS)
#define OLLAMA      (API_OLLAMA_CHAT | API_OLLAMA_GENERATE)
#define OPTIONS     API_OLLAMA_OPTIONS
#define INFILL      API_INFILL
#define LLAMA       (API_OLLAMA_OPTIONS | API_INFILL)
#define NAMED                                                                                      \
    (ALL | SCORES | API_TOKENIZE | API_DETOKENIZE | API_TEMPLATE | TURNS | API_RESPONSES |         \
     OLLAMA | API_OLLAMA_VECTORS | API_OLLAMA_SHOW | API_INFILL)

#define INT(lo, hi, to)                                                                            \
    .kind = PARAM_INT, .min = (lo), .max = (hi), .at = API_REQUEST_AT(int64_t, to)
#define NUM(lo, hi, to)                                                                            \
    .kind = PARAM_NUM, .min = (lo), .max = (hi), .at = API_REQUEST_AT(double, to)
#define NUM_ONLY(v)        .kind = PARAM_NUM, .min = (v), .max = (v), .at = PARAM_NOWHERE
#define BOOL(to)           .kind = PARAM_BOOL, .at = API_REQUEST_AT(bool, to)
#define TEXT(hi, to)       .kind = PARAM_TEXT, .max = (hi), .at = API_REQUEST_AT(const char *, to)
#define READ(fn, shape)    .kind = PARAM_READ, .read = param_read_##fn, .words = (shape)
#define WORD(list, reason) .kind = PARAM_WORD, .words = (list), .why = (reason)
#define HINT(t)            .kind = PARAM_HINT, .type = (t)
#define REFUSED(reason)    .kind = PARAM_REFUSED, .why = (reason)
#define NOT_FALSE(reason)  .kind = PARAM_REFUSED, .idle = 1, .why = (reason)
#define NEVER(reason)      .kind = PARAM_REFUSED, .idle = -1, .why = (reason)

#define PARAM(id, on, ...) {.name = #id, .n_name = sizeof #id - 1, .routes = (on), __VA_ARGS__},
const struct param_row param_rows[] = {
#include "api/params.def"
};
#undef PARAM

const size_t n_param_rows = sizeof param_rows / sizeof *param_rows;

/* ---- what is wrong ------------------------------------------------------------------------- */

int param_bad(struct api_reader *r, const char *name, const char *fmt, ...)
{
    char why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return api_fail(r->e, 400, "invalid_value", name, "'%s' %s.", name, why);
}

int param_type(struct api_reader *r, const char *name, const char *wanted, const json_t *v)
{
    return api_fail(r->e, 400, "invalid_type", name, "'%s' must be %s, and is %s.", name, wanted,
                    api_json_type(v));
}

static int refuse(struct api_reader *r, const struct param_row *row)
{
    return api_fail(r->e, 400, "unsupported_parameter", row->name, "'%s' is refused: %s.",
                    row->name, row->why);
}

void *param_alloc(struct api_reader *r, const char *name, size_t n, size_t size)
{
    struct err e = ERR_INIT;
    void *p = arena_try(r->arena, n ? n : 1, size, &e);
    if (!p)
        api_fail_err(r->e, &e, name);
    return p;
}

/* ---- single values ------------------------------------------------------------------------- */

/* Whole numbers may come written as 16.0. */
static bool as_int(const json_t *v, int64_t *out)
{
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    double d = json_is_real(v) ? json_real_value(v) : NAN;
    if (!(fabs(d) <= 9007199254740992.0) || d != floor(d))
        return false;
    *out = (int64_t)d;
    return true;
}

int param_int(struct api_reader *r, const char *name, const json_t *v, int64_t min, int64_t max,
              int64_t *out)
{
    if (!json_is_number(v))
        return param_type(r, name, "an integer", v);
    if (!as_int(v, out) || *out < min || *out > max)
        return param_bad(r, name, "must be an integer from %lld to %lld", (long long)min,
                         (long long)max);
    return 0;
}

int param_ids(struct api_reader *r, const char *name, const json_t *list, const int32_t **out)
{
    size_t n = json_array_size(list);
    int32_t *id = param_alloc(r, name, n, sizeof *id);
    for (size_t i = 0; id && i < n; i++) {
        int64_t x;
        if (param_int(r, name, json_array_get(list, i), 0, r->limits->n_vocab - 1, &x))
            return -1;
        id[i] = (int32_t)x;
    }
    *out = id;
    return id ? 0 : -1;
}

int param_num(struct api_reader *r, const char *name, const json_t *v, double min, double max,
              double *out)
{
    if (!json_is_number(v))
        return param_type(r, name, "a number", v);
    *out = json_number_value(v);
    if (*out >= min && *out <= max)
        return 0;
    return min == max ? param_bad(r, name, "must be %g", min)
                      : param_bad(r, name, "must be a number from %g to %g", min, max);
}

static int read_int(struct api_reader *r, const struct param_row *row, const json_t *v, void *to)
{
    int64_t i;
    if (param_int(r, row->name, v, (int64_t)row->min, (int64_t)row->max, &i))
        return -1;
    memcpy(to, &i, sizeof i);
    return 0;
}

static int read_num(struct api_reader *r, const struct param_row *row, const json_t *v, void *to)
{
    double d;
    if (param_num(r, row->name, v, row->min, row->max, &d))
        return -1;
    if (to)
        memcpy(to, &d, sizeof d);
    return 0;
}

static int read_bool(struct api_reader *r, const struct param_row *row, const json_t *v, void *to)
{
    bool b = json_is_true(v);
    if (!json_is_boolean(v))
        return param_type(r, row->name, "a boolean", v);
    memcpy(to, &b, sizeof b);
    return 0;
}

static int read_text(struct api_reader *r, const struct param_row *row, const json_t *v, void *to)
{
    if (!json_is_string(v))
        return param_type(r, row->name, "a string", v);
    const char *s = json_string_value(v);
    size_t n = json_string_length(v);
    if (!n || n > row->max || strlen(s) != n)
        return param_bad(r, row->name, "must have 1 to %d bytes, and no NUL", (int)row->max);
    memcpy(to, &s, sizeof s);
    return 0;
}

static bool has_word(const char *words, const char *word, size_t n)
{
    for (const char *p = words; *p;) {
        size_t len = strcspn(p, "|");
        if (len == n && !memcmp(p, word, n))
            return true;
        p += len + (p[len] == '|');
    }
    return false;
}

static int read_word(struct api_reader *r, const struct param_row *row, const json_t *v)
{
    if (json_is_string(v) && has_word(row->words, json_string_value(v), json_string_length(v)))
        return 0;
    return api_fail(r->e, 400, "unsupported_parameter", row->name,
                    "'%s' can only be one of \"%s\" here: %s.", row->name, row->words, row->why);
}

static bool is_of(const json_t *v, json_type type)
{
    return type == JSON_TRUE      ? json_is_boolean(v)
           : type == JSON_INTEGER ? json_is_integer(v)
                                  : json_typeof(v) == type;
}

static int read_hint(struct api_reader *r, const struct param_row *row, const json_t *v)
{
    static const char *const name[] = {[JSON_TRUE] = "a boolean",
                                       [JSON_STRING] = "a string",
                                       [JSON_INTEGER] = "an integer",
                                       [JSON_ARRAY] = "an array",
                                       [JSON_OBJECT] = "an object"};
    if (!is_of(v, row->type))
        return param_type(r, row->name, name[row->type], v);
    return params_ignore(r, row->name);
}

static int read_refused(struct api_reader *r, const struct param_row *row, const json_t *v)
{
    bool is_idle = json_is_boolean(v) && json_is_true(v) == row->idle;
    bool is_empty =
        json_is_array(v) ? !json_array_size(v) : json_is_string(v) && !json_string_length(v);
    return is_idle || is_empty ? 0 : refuse(r, row);
}

enum param_class param_class(const struct param_row *row)
{
    bool has_one_value = row->kind == PARAM_NUM && row->at == PARAM_NOWHERE;
    if (row->kind == PARAM_HINT)
        return PARAM_DECORATIVE;
    return row->kind == PARAM_REFUSED || row->kind == PARAM_WORD || has_one_value ? PARAM_UNBUILT
                                                                                  : PARAM_HONOURED;
}

/* ---- the walk ------------------------------------------------------------------------------ */

static int read_row(struct api_reader *r, const struct param_row *row, const json_t *v)
{
    void *to = row->at == PARAM_NOWHERE ? NULL : (char *)r->out + row->at;
    switch (row->kind) {
    case PARAM_INT:
        return read_int(r, row, v, to);
    case PARAM_NUM:
        return read_num(r, row, v, to);
    case PARAM_BOOL:
        return read_bool(r, row, v, to);
    case PARAM_TEXT:
        return read_text(r, row, v, to);
    case PARAM_READ:
        return row->read(r, row->name, v);
    case PARAM_WORD:
        return read_word(r, row, v);
    case PARAM_HINT:
        return read_hint(r, row, v);
    case PARAM_REFUSED:
        return read_refused(r, row, v);
    }
    return 0;
}

static const struct param_row *find(enum api_route route, const char *name, size_t n)
{
    for (size_t i = 0; i < n_param_rows; i++) {
        const struct param_row *row = &param_rows[i];
        if (row->n_name == n && (row->routes & route) && !memcmp(row->name, name, n))
            return row;
    }
    return NULL;
}

/* Names go into a header: what could break one is replaced, and a long list is cut. */
enum { IGNORED_BYTES = 512, IGNORED_NAME = 64 };

static bool is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
}

/* Behind what the list holds; false where it is full. */
static bool add_ignored(char *list, const char *name, size_t n)
{
    size_t at = strlen(list), comma = at ? 2 : 0;
    if (at + comma + n >= IGNORED_BYTES)
        return false;
    memcpy(list + at, ", ", comma);
    at += comma;
    for (size_t i = 0; i < n; i++)
        list[at + i] = is_plain((unsigned char)name[i]) ? name[i] : '?';
    list[at + n] = 0;
    return true;
}

int params_ignore(struct api_reader *r, const char *name)
{
    char *list = r->ignored;
    if (!list) {
        list = r->ignored = param_alloc(r, NULL, IGNORED_BYTES, 1);
        if (!list)
            return -1;
        r->out->ignored = list;
    }
    size_t n = strnlen(name, IGNORED_NAME);
    if (!r->has_all_ignored && !add_ignored(list, name, n))
        r->has_all_ignored = true;
    return 0;
}

int params_read_members(struct api_reader *r, enum api_route route, const json_t *v)
{
    const char *name;
    json_t *value;
    /* jansson's macro casts away const; nothing is changed */
    json_object_foreach((json_t *)(uintptr_t)v, name, value)
    {
        if (json_is_null(value))
            continue;
        const struct param_row *row = find(route, name, strlen(name));
        if (row ? read_row(r, row, value) : params_ignore(r, name))
            return -1;
    }
    return 0;
}

int params_read(struct api_reader *r, const json_t *body)
{
    return params_read_members(r, r->out->route, body);
}

int params_each(const char *body, size_t n, struct arena *a, params_fn *fn, void *out,
                const char **ignored, struct api_error *e)
{
    struct api_limits limits = {.n_vocab = 0};
    struct api_request unused = {.route = API_CHAT};
    struct api_reader r = {
        .arena = a, .limits = &limits, .out = &unused, .e = e, .values = API_JSON_VALUES_MAX};
    const char *name;
    json_t *v, *root = api_json_object(a, body, n, e);
    if (!root)
        return -1;
    json_object_foreach(root, name, v)
    {
        if (fn(&r, name, v, out))
            return -1;
    }
    *ignored = unused.ignored;
    return 0;
}
