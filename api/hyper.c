/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over hyper.def. What the store keeps is what clients are shown, but for numbers that are
 * ours to choose, which the store leaves out.
 */
#include "api/hyper.h"

#include <stdio.h>
#include <string.h>

#include "api/params.h"
#include "api/schema.h"
#include "engine/base/near.h"

enum kind { INT_AUTO, INT_PLAIN, NUM_AUTO, NUM_PLAIN, WORD, BOOL, NAMES };

/* Whose hyperparameter it is. */
enum of { OF_ANY, OF_EXAMPLES, OF_DPO, OF_REWARDS, OF_ANCHORS };

static const struct row {
    const char *name;
    size_t at; /* in struct job_hyper */
    enum kind kind;
    double min, max;
    const char *words, *about;
    enum of of;
} rows[] = {
#define HYPER(name, member, kind, min, max, words, about, of, ...)                                 \
    {#name, offsetof(struct job_hyper, member), kind, min, max, words, about, OF_##of},
#include "api/hyper.def"
#undef HYPER
};

enum { N_ROW = sizeof rows / sizeof *rows, NAME_BYTES = 128 };

static int64_t *int_of(const struct row *row, struct job_hyper *h)
{
    return (int64_t *)(void *)((char *)h + row->at);
}

static double *num_of(const struct row *row, struct job_hyper *h)
{
    return (double *)(void *)((char *)h + row->at);
}

static bool *bool_of(const struct row *row, struct job_hyper *h)
{
    return (bool *)((char *)h + row->at);
}

const char *hyper_method_name(enum hyper_method m)
{
    static const char *const name[] = {"supervised", "dpo", "reinforcement", "x_embedding",
                                       "x_classification"};
    return name[m];
}

int hyper_method_read(struct api_reader *r, const char *name, const json_t *v,
                      enum hyper_method *out)
{
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    const char *type = json_string_value(json_object_get(v, "type"));
    for (enum hyper_method m = HYPER_SUPERVISED; type && m < HYPER_METHOD_COUNT; m++)
        if (strcmp(type, hyper_method_name(m)) == 0) {
            *out = m;
            return 0;
        }
    return param_bad(r, "method.type",
                     "must be \"supervised\", \"dpo\", \"reinforcement\", \"x_embedding\" or "
                     "\"x_classification\"");
}

/* ---- words --------------------------------------------------------------------------------- */

/* The word at a place from 1 on, and its length; NULL: there are fewer. */
static const char *word_at(const char *words, int64_t place, size_t *n)
{
    for (const char *p = words; *p; p += *n + (p[*n] == '|')) {
        *n = strcspn(p, "|");
        if (--place == 0)
            return p;
    }
    return NULL;
}

static int64_t place_of(const char *words, const char *word)
{
    size_t n;
    const char *p;
    for (int64_t place = 1; (p = word_at(words, place, &n)); place++)
        if (strlen(word) == n && memcmp(p, word, n) == 0)
            return place;
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool is_name(const char *s)
{
    static const char plain[] = "0123456789._-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return *s && strspn(s, plain) == strlen(s);
}

static int add_name(struct api_reader *r, const char *name, const char *word, char *to)
{
    size_t at = strlen(to);
    if (!is_name(word))
        return param_bad(r, name, "has names of letters, digits and ._-");
    if (at + strlen(word) + 2 > HYPER_NAMES_BYTES)
        return param_bad(r, name, "is too long: %d bytes in all", HYPER_NAMES_BYTES);
    snprintf(to + at, HYPER_NAMES_BYTES - at, "%s%s", at ? "," : "", word);
    return 0;
}

/* none: the word for no name. */
static int read_names(struct api_reader *r, const char *name, const char *none, const json_t *v,
                      char *to)
{
    size_t i;
    json_t *item;
    *to = 0;
    if (json_is_string(v))
        return strcmp(json_string_value(v), none) == 0
                   ? 0
                   : add_name(r, name, json_string_value(v), to);
    if (!json_is_array(v))
        return param_type(r, name, "an array of strings", v);
    if (json_array_size(v) < 1 || json_array_size(v) > HYPER_NAMES_MAX)
        return param_bad(r, name, "must name 1 to %d layers", HYPER_NAMES_MAX);
    json_array_foreach(v, i, item)
    {
        if (!json_is_string(item))
            return param_type(r, name, "an array of strings", item);
        if (add_name(r, name, json_string_value(item), to))
            return -1;
    }
    return 0;
}

static int read_row(struct api_reader *r, const struct row *row, const char *name, const json_t *v,
                    struct job_hyper *h)
{
    switch (row->kind) {
    case INT_AUTO:
    case INT_PLAIN:
        return param_int(r, name, v, (int64_t)row->min, (int64_t)row->max, int_of(row, h));
    case NUM_AUTO:
    case NUM_PLAIN:
        return param_num(r, name, v, row->min, row->max, num_of(row, h));
    case WORD:
        if (!json_is_string(v))
            return param_type(r, name, "a string", v);
        *int_of(row, h) = place_of(row->words, json_string_value(v));
        return *int_of(row, h) ? 0 : param_bad(r, name, "must be one of %s", row->words);
    case BOOL:
        *bool_of(row, h) = json_is_true(v);
        return json_is_boolean(v) ? 0 : param_type(r, name, "a boolean", v);
    case NAMES:
        return read_names(r, name, row->words, v, (char *)h + row->at);
    }
    return 0;
}

static const struct row *find(const char *name)
{
    for (size_t i = 0; i < N_ROW; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static bool is_auto(const json_t *v)
{
    return json_is_null(v) || (json_is_string(v) && strcmp(json_string_value(v), "auto") == 0);
}

static int refuse_unknown(struct api_reader *r, const char *name, const char *key)
{
    struct near meant = {.word = key};
    for (size_t i = 0; i < N_ROW; i++)
        near_try(&meant, rows[i].name);
    return param_bad(r, name, "is no hyperparameter%s%s%s", meant.best ? "; did you mean '" : "",
                     meant.best ? meant.best : "", meant.best ? "'?" : "");
}

static bool is_of(const struct row *row, enum hyper_method method)
{
    return row->of == OF_ANY || (row->of == OF_EXAMPLES && method == HYPER_SUPERVISED) ||
           (row->of == OF_DPO && method == HYPER_DPO) ||
           (row->of == OF_ANCHORS && method == HYPER_EMBEDDING) ||
           (row->of == OF_REWARDS && method == HYPER_REINFORCEMENT);
}

/* OpenAI's that is not here; what it would choose itself is harmless. */
static int refuse_absent(struct api_reader *r, const char *name, const char *key,
                         enum hyper_method method, const json_t *v, bool *is_absent)
{
    *is_absent = method == HYPER_REINFORCEMENT && strcmp(key, "reasoning_effort") == 0;
    bool is_idle =
        is_auto(v) || (json_is_string(v) && strcmp(json_string_value(v), "default") == 0);
    return *is_absent && !is_idle ? param_bad(r, name, "is not supported") : 0;
}

int hyper_read(struct api_reader *r, const char *where, const json_t *v, enum hyper_method method,
               struct job_hyper *h)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return param_type(r, where, "an object", v);
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        char name[NAME_BYTES];
        const struct row *row = find(key);
        snprintf(name, sizeof name, "%s.%s", where, key);
        bool is_absent;
        if (refuse_absent(r, name, key, method, value, &is_absent))
            return -1;
        if (is_absent)
            continue;
        if (!row)
            return refuse_unknown(r, name, key);
        if (!is_of(row, method))
            return param_bad(r, name, "is for method.%s.hyperparameters alone",
                             row->of == OF_EXAMPLES  ? "supervised"
                             : row->of == OF_DPO     ? "dpo"
                             : row->of == OF_ANCHORS ? "x_embedding"
                                                     : "reinforcement");
        if (!is_auto(value) && read_row(r, row, name, value, h))
            return -1;
        h->says_rslora |= !is_auto(value) && strcmp(key, "use_rslora") == 0;
        h->says_dora |= !is_auto(value) && strcmp(key, "use_dora") == 0;
        h->says_targets |= !is_auto(value) && strcmp(key, "target_modules") == 0;
        h->says_saves |= !is_auto(value) && strcmp(key, "modules_to_save") == 0;
    }
    return 0;
}

int hyper_of_method(struct api_reader *r, const char *name, const json_t *v, struct job_hyper *out)
{
    char where[NAME_BYTES];
    if (hyper_method_read(r, name, v, &out->method))
        return -1;
    const char *type = hyper_method_name(out->method);
    const json_t *mine = json_object_get(json_object_get(v, type), "hyperparameters");
    snprintf(where, sizeof where, "method.%s.hyperparameters", type);
    return mine && !json_is_null(mine) ? hyper_read(r, where, mine, out->method, out) : 0;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void put_names(struct jout *j, const char *none, const char *names)
{
    if (!*names) {
        jout_str(j, none);
        return;
    }
    jout_open(j, '[');
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, ",");
        jout_bytes(j, p, n);
        p += n + (p[n] == ',');
    }
    jout_close(j, ']');
}

static void put_row(struct jout *j, const struct row *row, struct job_hyper *h)
{
    size_t n;
    const char *word;
    jout_key(j, row->name);
    switch (row->kind) {
    case INT_AUTO:
    case INT_PLAIN:
        if (*int_of(row, h) || row->kind == INT_PLAIN)
            jout_int(j, *int_of(row, h));
        else
            jout_str(j, "auto");
        return;
    case NUM_AUTO:
    case NUM_PLAIN:
        if (*num_of(row, h) != 0 || row->kind == NUM_PLAIN)
            jout_num(j, *num_of(row, h));
        else
            jout_str(j, "auto");
        return;
    case WORD:
        word = word_at(row->words, *int_of(row, h), &n);
        if (word)
            jout_bytes(j, word, n);
        else
            jout_str(j, "auto");
        return;
    case BOOL:
        jout_bool(j, *bool_of(row, h));
        return;
    case NAMES:
        put_names(j, row->words, (char *)h + row->at);
        return;
    }
}

void hyper_write(struct jout *j, const struct job_hyper *h)
{
    struct job_hyper copy = *h;
    for (size_t i = 0; i < N_ROW; i++)
        if (is_of(&rows[i], h->method))
            put_row(j, &rows[i], &copy);
}

/* ---- the description ----------------------------------------------------------------------- */

static void describe_words(struct jout *j, const char *words)
{
    size_t n;
    const char *p;
    jout_put_str(j, "type", "string");
    jout_key(j, "enum");
    jout_open(j, '[');
    for (int64_t place = 1; (p = word_at(words, place, &n)); place++)
        jout_bytes(j, p, n);
    if (!place_of(words, "auto"))
        jout_str(j, "auto");
    jout_close(j, ']');
}

static void describe_row(struct jout *j, const struct row *row)
{
    static const char *const type[] = {[INT_AUTO] = "integer|'auto'",
                                       [INT_PLAIN] = "integer",
                                       [NUM_AUTO] = "number|'auto'",
                                       [NUM_PLAIN] = "number",
                                       [BOOL] = "boolean"};
    char names[NAME_BYTES];
    snprintf(names, sizeof names, "[]string|'%.60s'", row->words);
    jout_key(j, row->name);
    jout_open(j, '{');
    if (row->kind == WORD)
        jout_put_str(j, "description", row->about);
    if (row->kind == WORD)
        describe_words(j, row->words);
    else
        schema_type(j, row->kind == NAMES ? names : type[row->kind], row->about);
    if (row->kind <= NUM_PLAIN) {
        jout_put_num(j, "minimum", row->min);
        jout_put_num(j, "maximum", row->max);
    }
    jout_close(j, '}');
}

void hyper_describe(struct jout *j)
{
    jout_key(j, "Hyperparameters");
    jout_open(j, '{');
    schema_type(j, "object", "How a job trains; what is left out, or \"auto\", is chosen");
    jout_key(j, "properties");
    jout_open(j, '{');
    for (size_t i = 0; i < N_ROW; i++)
        describe_row(j, &rows[i]);
    jout_close(j, '}');
    jout_key(j, "required");
    jout_open(j, '[');
    jout_close(j, ']');
    jout_close(j, '}');
}

/* ---- the store ----------------------------------------------------------------------------- */

static void keep_row(struct buf *out, const struct row *row, struct job_hyper *h)
{
    buf_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", row->name);
    switch (row->kind) {
    case INT_AUTO:
    case INT_PLAIN:
    case WORD:
        buf_printf(out, "%lld", (long long)*int_of(row, h));
        return;
    case NUM_AUTO:
    case NUM_PLAIN:
        buf_printf(out, "%.17g", *num_of(row, h));
        return;
    case BOOL:
        buf_str(out, *bool_of(row, h) ? "true" : "false");
        return;
    case NAMES:
        buf_printf(out, "\"%s\"", (const char *)h + row->at); /* plain names: nothing to escape */
        return;
    }
}

void job_hyper_write(const struct job_hyper *h, struct buf *out)
{
    struct job_hyper copy = *h;
    buf_char(out, '{');
    for (size_t i = 0; i < N_ROW; i++)
        keep_row(out, &rows[i], &copy);
    buf_printf(out, ",\"method\":%d}", (int)h->method);
}

static void take_row(const struct row *row, const json_t *v, struct job_hyper *h)
{
    const char *text = json_string_value(v);
    switch (row->kind) {
    case INT_AUTO:
    case INT_PLAIN:
    case WORD:
        *int_of(row, h) = json_integer_value(v);
        return;
    case NUM_AUTO:
    case NUM_PLAIN:
        *num_of(row, h) = json_number_value(v);
        return;
    case BOOL:
        *bool_of(row, h) = json_is_true(v);
        return;
    case NAMES:
        snprintf((char *)h + row->at, HYPER_NAMES_BYTES, "%s", text ? text : "");
        return;
    }
}

int job_hyper_read(const char *text, struct job_hyper *h, struct err *e)
{
    json_t *v = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    *h = (struct job_hyper){0};
    if (!json_is_object(v)) {
        json_decref(v);
        return err_set(e, ERR_CORRUPT, "hyperparameters that are no object");
    }
    for (size_t i = 0; i < N_ROW; i++)
        take_row(&rows[i], json_object_get(v, rows[i].name), h);
    json_int_t method = json_integer_value(json_object_get(v, "method"));
    h->method =
        method > 0 && method < HYPER_METHOD_COUNT ? (enum hyper_method)method : HYPER_SUPERVISED;
    json_decref(v);
    return 0;
}
