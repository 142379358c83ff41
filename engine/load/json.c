/* SPDX-License-Identifier: Apache-2.0
 *
 * See json.h. cJSON nodes are used as they are, with one addition: a string value that holds a NUL
 * keeps its length in `valueint`, which cJSON leaves at 0 for strings.
 */
#include "engine/load/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/load/json_scan.h"
#include "engine/load/path.h"

#define MAX_WHOLE 0x1p53

const struct json_rules json_rules_config = {
    .max_bytes = 16u << 20, .max_nodes = 1u << 20, .max_depth = 64, .unique_keys = true};
const struct json_rules json_rules_tokenizer = {
    .max_bytes = 256u << 20, .max_nodes = 16u << 20, .max_depth = 64, .allow_nul = true};

struct json_doc {
    char *name;  /* owned */
    cJSON *root; /* owned */
};

/* The tree in document order; 0 when `fn` always was. */
static int each_node(cJSON *node, int (*fn)(cJSON *, void *), void *ctx)
{
    if (fn(node, ctx))
        return -1;
    for (cJSON *c = node->child; c; c = c->next)
        if (each_node(c, fn, ctx))
            return -1;
    return 0;
}

struct nul_walk {
    const struct json_nul *at, *end;
    size_t n_node;
};

static int note_nul(cJSON *node, void *ctx)
{
    struct nul_walk *w = ctx;
    if (++w->n_node == w->at->node) {
        node->valueint = (int)w->at->len; /* max_bytes is far below INT_MAX where NUL may be */
        w->at++;
    }
    return w->at == w->end;
}

struct unique_walk {
    const char *name;
    struct err *e;
};

/* What comes out of a file must not steer the terminal that shows it. */
static void clean(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

static int fail_twice(const struct unique_walk *w, const cJSON *c)
{
    clean(c->string);
    return err_set(w->e, ERR_BAD_INPUT, "%s: the key \"%.100s\" stands twice in one object",
                   w->name, c->string);
}

static int check_unique(cJSON *node, void *ctx)
{
    const struct unique_walk *w = ctx;
    size_t n = 0;
    int rc = 0;
    if (!cJSON_IsObject(node))
        return 0;
    for (const cJSON *c = node->child; c; c = c->next, n++)
        for (const cJSON *d = node->child; n < 16 && d != c; d = d->next)
            if (strcmp(c->string, d->string) == 0)
                return fail_twice(w, c);
    if (n <= 16)
        return 0;
    struct map seen;
    map_init(&seen);
    for (cJSON *c = node->child; c && rc == 0; c = c->next)
        if (map_put_str(&seen, c->string, c))
            rc = fail_twice(w, c);
    map_release(&seen);
    return rc;
}

static cJSON *build_tree(const char *text, size_t len, const char **end, const char *name,
                         struct err *e)
{
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, end, 0);
    if (!root) /* the scan passed the text, so only memory can be wanting */
        err_set(e, ERR_NO_MEMORY, "%s: no memory for its tree", name);
    return root;
}

struct json_doc *json_parse(const char *text, size_t len, const char *name,
                            const struct json_rules *r, struct err *e)
{
    struct buf nul;
    struct json_doc *d = NULL;
    buf_init(&nul, r->max_bytes);
    if (json_scan(text, len, name, r, &nul, e))
        goto out;
    cJSON *root = build_tree(text, len, NULL, name, e);
    if (!root)
        goto out;
    d = xcalloc(1, sizeof *d);
    *d = (struct json_doc){xstrdup(name), root};
    if (nul.len) {
        struct nul_walk w = {.at = (const struct json_nul *)(const void *)nul.data};
        w.end = w.at + nul.len / sizeof *w.at;
        each_node(root, note_nul, &w);
    }
    if (r->unique_keys && each_node(root, check_unique, &(struct unique_walk){name, e})) {
        json_free(d);
        d = NULL;
    }
out:
    buf_release(&nul);
    return d;
}

struct json_doc *json_read(const char *path, const char *name, const struct json_rules *r,
                           struct err *e)
{
    size_t len = 0;
    char *text = path_read(path, name, r->max_bytes, &len, e);
    struct json_doc *d = text ? json_parse(text, len, name, r, e) : NULL;
    mem_free(text);
    return d;
}

void json_free(struct json_doc *d)
{
    if (!d)
        return;
    cJSON_Delete(d->root);
    free(d->name);
    free(d);
}

struct json json_root(const struct json_doc *d)
{
    return (struct json){.node = d->root, .file = d->name};
}

/* One member of the streamed object: *p is at its key and is left behind its value. */
static int stream_member(const char **p, const char *end, const struct json *parent, bool unique,
                         json_member_fn *fn, void *ctx, struct err *e)
{
    const char *name = parent->file;
    cJSON *value = NULL, *key = build_tree(*p, (size_t)(end - *p), p, name, e);
    int rc = -1;
    if (!key)
        goto out;
    *p = json_skip_space(*p, end) + 1; /* the colon */
    value = build_tree(*p, (size_t)(end - *p), p, name, e);
    if (!value)
        goto out;
    value->string = key->valuestring;
    key->valuestring = NULL;
    if (unique && each_node(value, check_unique, &(struct unique_walk){name, e}))
        goto out;
    rc = fn(ctx, &(struct json){value, parent, name}, e);
out:
    cJSON_Delete(key);
    cJSON_Delete(value);
    return rc;
}

int json_stream(const char *text, size_t len, const char *name, const struct json_rules *r,
                json_member_fn *fn, void *ctx, struct err *e)
{
    ASSERT(!r->allow_nul);
    if (json_scan(text, len, name, r, NULL, e))
        return -1;
    const char *end = text + len, *p = json_skip_space(text, end);
    if (*p != '{')
        return err_set(e, ERR_BAD_INPUT, "%s: expected an object", name);
    const struct json parent = {.file = name};
    for (p = json_skip_space(p + 1, end); *p != '}'; p = json_skip_space(p, end)) {
        if (*p == ',')
            p = json_skip_space(p + 1, end);
        if (stream_member(&p, end, &parent, r->unique_keys, fn, ctx, e))
            return -1;
    }
    return 0;
}

/* ---- walking ---- */

enum json_kind json_kind(const struct json *v)
{
    switch (v->node ? v->node->type & 0xff : cJSON_NULL) {
    case cJSON_False:
    case cJSON_True:
        return JSON_BOOL;
    case cJSON_Number:
        return JSON_NUMBER;
    case cJSON_String:
        return JSON_STRING;
    case cJSON_Array:
        return JSON_ARRAY;
    case cJSON_Object:
        return JSON_OBJECT;
    default:
        return JSON_NULL;
    }
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const name[] = {"null",     "true or false", "a number",
                                       "a string", "an array",      "an object"};
    return name[kind];
}

bool json_is(const struct json *v, enum json_kind kind)
{
    return v->node && json_kind(v) == kind;
}

bool json_absent(const struct json *v)
{
    return !v->node || json_kind(v) == JSON_NULL;
}

const char *json_key(const struct json *v)
{
    return v->node && v->node->string ? v->node->string : "";
}

struct json json_child(const struct json *v)
{
    return (struct json){v->node ? v->node->child : NULL, v, v->file};
}

struct json json_next(const struct json *v)
{
    return (struct json){v->node->next, v->up, v->file};
}

size_t json_count(const struct json *v)
{
    size_t n = 0;
    for (const cJSON *c = v->node ? v->node->child : NULL; c; c = c->next)
        n++;
    return n;
}

struct json json_member(const struct json *v, const char *key)
{
    struct json m = {NULL, v, v->file};
    if (json_is(v, JSON_OBJECT))
        json_each(m, *v) if (strcmp(m.node->string, key) == 0) break;
    return m;
}

/* ---- errors ---- */

/* Writes the way to v into buf, from the right; returns its beginning. */
static char *path_of(const struct json *v, char *buf, size_t size)
{
    char *p = buf + size - 1;
    *p = 0;
    for (; v && v->node; v = v->up) {
        char part[128];
        if (v->node->string) {
            snprintf(part, sizeof part, "%s", v->node->string);
        } else if (v->up && v->up->node) {
            size_t i = 0;
            for (const cJSON *c = v->up->node->child; c != v->node; c = c->next)
                i++;
            snprintf(part, sizeof part, "[%zu]", i);
        } else {
            continue;
        }
        size_t n = strlen(part), dot = *p && *p != '[';
        if (n + dot > (size_t)(p - buf))
            break;
        if (dot)
            *--p = '.';
        p = memcpy(p - n, part, n);
    }
    return p;
}

static int err_at(const struct json *v, struct err *e, enum err_code code, char *text)
{
    char buf[256], *path = path_of(v, buf, sizeof buf);
    clean(path);
    clean(text);
    return err_set(e, code, "%s: %s%s%s", v->file, path, *path ? ": " : "", text);
}

int json_err(const struct json *v, struct err *e, enum err_code code, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(v, e, code, text);
}

static int err_missing(const struct json *v, const char *key, struct err *e)
{
    char text[160];
    snprintf(text, sizeof text, "%s is missing", key);
    return err_at(v, e, ERR_BAD_INPUT, text);
}

/* ---- values as what they must be ---- */

int json_want(const struct json *v, enum json_kind kind, struct err *e)
{
    if (json_is(v, kind))
        return 0;
    return json_err(v, e, ERR_BAD_INPUT, "expected %s, found %s", json_kind_name(kind),
                    v->node ? json_kind_name(json_kind(v)) : "nothing");
}

int json_as_int(const struct json *v, int64_t lo, int64_t hi, int64_t *out, struct err *e)
{
    if (json_want(v, JSON_NUMBER, e))
        return -1;
    double d = v->node->valuedouble;
    if (!(fabs(d) < MAX_WHOLE) || d != floor(d))
        return json_err(v, e, ERR_BAD_INPUT, "expected a whole number below 2^53, found %.17g", d);
    if ((int64_t)d < lo || (int64_t)d > hi)
        return json_err(v, e, ERR_BAD_INPUT, "expected a number from %lld to %lld, found %.17g",
                        (long long)lo, (long long)hi, d);
    *out = (int64_t)d;
    return 0;
}

int json_as_num(const struct json *v, double *out, struct err *e)
{
    if (json_want(v, JSON_NUMBER, e))
        return -1;
    if (!isfinite(v->node->valuedouble))
        return json_err(v, e, ERR_BAD_INPUT, "a number too large for a double");
    *out = v->node->valuedouble;
    return 0;
}

int json_as_bool(const struct json *v, bool *out, struct err *e)
{
    if (json_want(v, JSON_BOOL, e))
        return -1;
    *out = cJSON_IsTrue(v->node);
    return 0;
}

int json_as_bytes(const struct json *v, const char **out, size_t *len, struct err *e)
{
    if (json_want(v, JSON_STRING, e))
        return -1;
    *out = v->node->valuestring;
    *len = v->node->valueint ? (size_t)v->node->valueint : strlen(*out);
    return 0;
}

int json_as_str(const struct json *v, const char **out, struct err *e)
{
    if (json_want(v, JSON_STRING, e))
        return -1;
    if (v->node->valueint)
        return json_err(v, e, ERR_BAD_INPUT, "a string that holds a NUL character");
    *out = v->node->valuestring;
    return 0;
}

int json_get(const struct json *v, const char *key, enum json_kind kind, struct json *out,
             struct err *e)
{
    *out = json_member(v, key);
    return out->node ? json_want(out, kind, e) : err_missing(v, key, e);
}

int json_opt(const struct json *v, const char *key, enum json_kind kind, struct json *out,
             struct err *e)
{
    struct json m = json_member(v, key);
    if (json_absent(&m))
        return 0;
    *out = m;
    return json_want(&m, kind, e);
}

int json_get_int(const struct json *v, const char *key, int64_t lo, int64_t hi, int64_t *out,
                 struct err *e)
{
    struct json m = json_member(v, key);
    return m.node ? json_as_int(&m, lo, hi, out, e) : err_missing(v, key, e);
}

int json_get_num(const struct json *v, const char *key, double *out, struct err *e)
{
    struct json m = json_member(v, key);
    return m.node ? json_as_num(&m, out, e) : err_missing(v, key, e);
}

int json_get_bool(const struct json *v, const char *key, bool *out, struct err *e)
{
    struct json m = json_member(v, key);
    return m.node ? json_as_bool(&m, out, e) : err_missing(v, key, e);
}

int json_get_str(const struct json *v, const char *key, const char **out, struct err *e)
{
    struct json m = json_member(v, key);
    return m.node ? json_as_str(&m, out, e) : err_missing(v, key, e);
}

int json_opt_int(const struct json *v, const char *key, int64_t lo, int64_t hi, int64_t *out,
                 struct err *e)
{
    struct json m = json_member(v, key);
    return json_absent(&m) ? 0 : json_as_int(&m, lo, hi, out, e);
}

int json_opt_num(const struct json *v, const char *key, double *out, struct err *e)
{
    struct json m = json_member(v, key);
    return json_absent(&m) ? 0 : json_as_num(&m, out, e);
}

int json_opt_bool(const struct json *v, const char *key, bool *out, struct err *e)
{
    struct json m = json_member(v, key);
    return json_absent(&m) ? 0 : json_as_bool(&m, out, e);
}

int json_opt_str(const struct json *v, const char *key, const char **out, struct err *e)
{
    struct json m = json_member(v, key);
    return json_absent(&m) ? 0 : json_as_str(&m, out, e);
}
