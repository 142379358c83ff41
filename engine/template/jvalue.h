/* SPDX-License-Identifier: Apache-2.0
 *
 * The values a chat template works on. A caller fills a tree of the data kinds (none to dict) in an
 * arena and hands it to template_render; whoever holds JSON walks it once and calls these builders,
 * so that no JSON library is needed here.
 *
 * A value is sixteen bytes, passed by value; what it points to is immutable once it is built, which
 * is what lets slices, copies and captured scopes share it. Dicts keep the order of insertion.
 * Strings are UTF-8, checked when they come in, and know their length in code points, because
 * Python counts in those.
 *
 * Every value carries an origin: who wrote it. A string made of several origins has spans. Builders
 * leave the origin at 0; template_render stamps the tree it is given (see jorigin.h).
 *
 * Memory: everything lies in the arena given; jv_list and jv_dict grow there.
 * Thread: building, one at a time; a finished tree may be read by any.
 */
#ifndef ENGINE_TEMPLATE_JVALUE_H
#define ENGINE_TEMPLATE_JVALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

enum jtype {
    JT_UNDEFINED,
    JT_NONE,
    JT_BOOL,
    JT_INT,
    JT_FLOAT,
    JT_STR,
    JT_LIST,
    JT_DICT,
    /* the rest exist only inside a render */
    JT_TUPLE,
    JT_RANGE,
    JT_VIEW,
    JT_ITER,
    JT_NAMESPACE,
    JT_LOOP,
    JT_MACRO,
    JT_METHOD,
    JT_NATIVE,
    JT_CYCLER,
    JT_JOINER,
    JT_MISSING /* no value at all: an argument that was not given */
};

struct jsink;
struct jnative;

struct jspan {
    size_t end; /* where it ends, in the bytes of the text that the string is a view of */
    uint32_t origin;
};

struct jstr {
    const char *p;            /* borrowed from the arena; not terminated */
    size_t len, n_cp;         /* bytes, code points */
    const struct jspan *span; /* NULL: all of the value's own origin */
    size_t n_span, base;      /* base: where p lies in the coordinates of the spans */
    struct jsink *sink;       /* where p lies, when it may grow in place there; else NULL */
};

struct jvalue {
    uint8_t type;
    bool is_marked; /* a string: made by |safe or |escape; a tuple: by |groupby */
    uint32_t origin;
    union {
        bool b;
        int64_t i;
        double f;
        const struct jstr *s;
        struct jlist *l;
        struct jdict *d;
        const struct jnative *native;
        const void *ptr; /* any of these, for identity */
        /* inside a render, see jinja_obj.h */
        struct jundef *undef;
        struct jrange *range;
        struct jview *view;
        struct jgen *gen;
        struct jspace *space;
        struct jloop *loop;
        struct jclosure *closure;
        struct jmethod *method;
        struct jcycler *cycler;
        struct jjoiner *joiner;
    };
};

struct jlist {
    struct jvalue *at;
    size_t n, cap;
};

struct jdict {
    struct jvalue *key, *val; /* in order of insertion */
    size_t n, cap;
    uint32_t *slot; /* hash index, index + 1; NULL while n is small */
    size_t n_slot;  /* a power of two */
};

struct jvalue jv_none(void);
struct jvalue jv_bool(bool b);
struct jvalue jv_int(int64_t i);
struct jvalue jv_float(double f);

/* Copies n bytes; refuses what is not UTF-8. */
int jv_str(struct arena *a, const char *s, size_t n, struct jvalue *out, struct err *e);
int jv_list(struct arena *a, struct jvalue *out, struct err *e);
int jv_list_add(struct arena *a, struct jvalue *list, struct jvalue v, struct err *e);
int jv_dict(struct arena *a, struct jvalue *out, struct err *e);
/* A key that is there already keeps its place and takes the new value. */
int jv_dict_put(struct arena *a, struct jvalue *dict, const char *key, size_t n, struct jvalue v,
                struct err *e);
/* NULL when absent or when dict is not a dict. */
const struct jvalue *jv_dict_get(const struct jvalue *dict, const char *key);

/* With any hashable key; the face that the interpreter uses. */
int jdict_put(struct arena *a, struct jdict *d, struct jvalue key, struct jvalue v, struct err *e);
const struct jvalue *jdict_get(const struct jdict *d, const struct jvalue *key);
uint64_t jvalue_hash(const struct jvalue *v);
bool jvalue_is_hashable(const struct jvalue *v);
bool jvalue_same_key(const struct jvalue *a, const struct jvalue *b);

/* A string value over bytes that outlive it, known to be UTF-8. */
int jv_str_view(struct arena *a, const char *s, size_t n, struct jvalue *out, struct err *e);
bool jutf8_valid(const char *s, size_t n);
size_t jutf8_count(const char *s, size_t n); /* code points of valid UTF-8 */

#endif
