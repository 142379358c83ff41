/* SPDX-License-Identifier: Apache-2.0
 *
 * A strict face over cJSON for the files of a model: config.json, tokenizer.json, safetensors
 * headers. cJSON builds the tree, but it takes much that is not JSON, keeps numbers as doubles,
 * truncates strings at NUL and recurses a thousand deep; so a scan of our own reads the whole text
 * first and refuses, with line and column, whatever the grammar, UTF-8 or the caller's rules
 * forbid. cJSON never sees a text that the scan did not pass.
 *
 * A `struct json` is a value with its way up: small, by value, on the caller's stack. Errors walk
 * that way and read "config.json: rope_scaling.factor: expected a number, found a string"; a
 * cursor must therefore not outlive its parent's. Strings and nodes are borrowed from the document.
 *
 *     struct json root = json_root(doc), m;
 *     json_each (m, root)                       // children in the order of the file
 *         printf("%s\n", json_key(&m));
 *     if (json_get_int(&root, "hidden_size", 1, 1 << 20, &n, e)) ...
 *
 * Look-up by name is linear: for small objects only. Big ones (a vocabulary) are walked once.
 *
 * Thread: any; a document belongs to one thread while it is made, to any readers after.
 */
#ifndef ENGINE_LOAD_JSON_H
#define ENGINE_LOAD_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct cJSON; /* a node; opaque outside json.c */
struct json_doc;

struct json {
    const struct cJSON *node; /* borrowed; NULL: no such value */
    const struct json *up;    /* borrowed; NULL for the root */
    const char *file;         /* borrowed: the name that errors begin with */
};

struct json_rules {
    size_t max_bytes;
    size_t max_nodes; /* values in the whole text; a node costs about 100 bytes while it lives */
    int max_depth;    /* nested arrays and objects, up to 64 */
    bool allow_nul;   /* \u0000 inside string values (never in keys); json_as_bytes gets lengths */
    bool unique_keys; /* no object may hold a key twice */
    bool naturals_only; /* numbers are digits alone: no sign, point or exponent */
};

extern const struct json_rules json_rules_config;    /* small files: 16 MB, unique keys */
extern const struct json_rules json_rules_tokenizer; /* 256 MB, 16 M values, NUL allowed */

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* Whole texts. `name` is copied; it is what errors call the text. */
struct json_doc *json_parse(const char *text, size_t len, const char *name,
                            const struct json_rules *r, struct err *e);
struct json_doc *json_read(const char *path, const char *name, const struct json_rules *r,
                           struct err *e);
void json_free(struct json_doc *d);
struct json json_root(const struct json_doc *d);

/* One huge object, member by member: the tree of one member lives only during its call, so that
 * memory stays small whatever the text's size. Keys are not checked for duplicates here. A call
 * that returns non-zero ends the walk with its error. */
typedef int json_member_fn(void *ctx, const struct json *member, struct err *e);
int json_stream(const char *text, size_t len, const char *name, const struct json_rules *r,
                json_member_fn *fn, void *ctx, struct err *e);

/* Walking. */
enum json_kind json_kind(const struct json *v);
const char *json_kind_name(enum json_kind kind); /* "a string" */
bool json_is(const struct json *v, enum json_kind kind);
bool json_absent(const struct json *v);       /* not there, or null */
const char *json_key(const struct json *v);   /* "" for elements and the root */
size_t json_count(const struct json *v);      /* children; walks them */
struct json json_child(const struct json *v); /* the first; node NULL when there is none */
struct json json_next(const struct json *v);
struct json json_member(const struct json *v, const char *key); /* node NULL when not there */

#define json_each(c, parent) for ((c) = json_child(&(parent)); (c).node; (c) = json_next(&(c)))

/* A value as what it must be. */
int json_as_int(const struct json *v, int64_t lo, int64_t hi, int64_t *out, struct err *e);
int json_as_num(const struct json *v, double *out, struct err *e);
int json_as_bool(const struct json *v, bool *out, struct err *e);
int json_as_str(const struct json *v, const char **out, struct err *e);
int json_as_bytes(const struct json *v, const char **out, size_t *len, struct err *e);
int json_want(const struct json *v, enum json_kind kind, struct err *e);

/* A member that must be there. */
int json_get(const struct json *v, const char *key, enum json_kind kind, struct json *out,
             struct err *e);
int json_get_int(const struct json *v, const char *key, int64_t lo, int64_t hi, int64_t *out,
                 struct err *e);
int json_get_num(const struct json *v, const char *key, double *out, struct err *e);
int json_get_bool(const struct json *v, const char *key, bool *out, struct err *e);
int json_get_str(const struct json *v, const char *key, const char **out, struct err *e);

/* A member that may be absent or null: *out stays as it was. */
int json_opt(const struct json *v, const char *key, enum json_kind kind, struct json *out,
             struct err *e);
int json_opt_int(const struct json *v, const char *key, int64_t lo, int64_t hi, int64_t *out,
                 struct err *e);
int json_opt_num(const struct json *v, const char *key, double *out, struct err *e);
int json_opt_bool(const struct json *v, const char *key, bool *out, struct err *e);
int json_opt_str(const struct json *v, const char *key, const char **out, struct err *e);

/* err_set with "FILE: path.to.value: " before the text. */
int json_err(const struct json *v, struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
