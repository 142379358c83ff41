/* SPDX-License-Identifier: Apache-2.0
 *
 * What a value can point to inside a render besides data: ranges, views of dicts, generators,
 * namespaces, loops, closures and bound methods. They live in the arena of the render; namespaces,
 * generators, loops, cyclers and joiners are the only things that change.
 *
 * Thread: one per render.
 */
#ifndef ENGINE_TEMPLATE_JINJA_OBJ_H
#define ENGINE_TEMPLATE_JINJA_OBJ_H

#include "engine/template/jinja_run.h"

struct jundef {
    const char *hint;  /* the whole text, or NULL: made of the two below */
    struct jvalue obj; /* what it was looked for in; JT_MISSING: a variable */
    struct jvalue name;
};

struct jrange {
    int64_t start, step;
    size_t n;
};

enum jview_kind { JVIEW_KEYS, JVIEW_VALUES, JVIEW_ITEMS };

struct jview {
    enum jview_kind kind;
    struct jdict *d;
};

/* Made at its first use, gone after one pass, as Python's generators are. */
struct jgen {
    int (*fill)(struct jrun *r, struct jgen *g); /* adds to items; NULL once it ran */
    struct jvalue from;
    const struct jcall *call; /* the arguments of the filter that made it */
    bool is_negated, by_attr;
    struct jvalue items; /* a list */
    size_t pos;
};

struct jspace {
    struct jdict d;
};

struct jclosure {
    const struct jmacro *m;
    struct jscope *scope;
};

struct jmethod {
    const struct jnative *native;
    struct jvalue self;
};

struct jcycler {
    const struct jvalue *at;
    size_t n, pos;
};

struct jjoiner {
    struct jvalue sep;
    bool is_used;
};

/* One pass over anything iterable. */
struct jiter {
    struct jvalue of;
    size_t pos, n; /* n: entries; of a string its bytes */
};

struct jloop {
    const struct jnode *node;
    struct jscope *scope; /* that the loop stands in */
    struct jvalue items;
    struct jiter it;
    struct jvalue now, before, after; /* JT_MISSING when not there */
    struct jvalue changed;            /* what loop.changed saw last */
    int64_t index0, length;           /* length: -1 until asked for */
    int depth0;
    bool is_filtered; /* the rest of the items has passed the loop's filter */
};

/* 0 and the length, or -1 when v has none ("object of type 'int' has no len()"). */
int jobj_len(struct jrun *r, const struct jvalue *v, size_t *n);
bool jobj_has_len(const struct jvalue *v);
bool jobj_is_true(const struct jvalue *v);
bool jobj_is_callable(const struct jvalue *v);
bool jobj_is_iterable(const struct jvalue *v);
const char *jobj_type(const struct jvalue *v); /* as Python's type(v).__name__ */

int jiter_begin(struct jrun *r, struct jvalue of, struct jiter *it);
int jiter_next(struct jrun *r, struct jiter *it, struct jvalue *out);   /* 1, 0 at the end, -1 */
int jobj_collect(struct jrun *r, struct jvalue of, struct jlist **out); /* do not change it */

/* A fresh list or tuple of n items copied from at. */
int jobj_list(struct jrun *r, enum jtype type, const struct jvalue *at, size_t n,
              struct jvalue *out);
int jobj_add(struct jrun *r, struct jvalue *list, struct jvalue v);
int jobj_pair(struct jrun *r, struct jvalue a, struct jvalue b, struct jvalue *out);
int jobj_dict_put(struct jrun *r, struct jdict *d, struct jvalue key, struct jvalue v);
int jobj_dict_keywords(struct jrun *r, struct jdict *d, const struct jcall *c); /* of a call */
int jobj_method(struct jrun *r, const struct jnative *native, struct jvalue self,
                struct jvalue *out);
int jobj_gen(struct jrun *r, int (*fill)(struct jrun *, struct jgen *), struct jvalue from,
             const struct jcall *c, struct jgen **out); /* copies the arguments of c */
struct jvalue jobj_gen_value(struct jgen *g);

int jobj_undefined_name(struct jrun *r, const struct jsym *name, struct jvalue *out);
int jobj_undefined_attr(struct jrun *r, struct jvalue obj, struct jvalue name, struct jvalue *out);
int jobj_undefined_hint(struct jrun *r, const char *hint, struct jvalue *out);

/* x.name, x[index], x[from:to:step] with the rules of the sandbox. */
int jget_attr(struct jrun *r, struct jvalue of, struct jvalue name, struct jvalue *out);
int jget_item(struct jrun *r, struct jvalue of, struct jvalue index, struct jvalue *out);
int jget_attr_only(struct jrun *r, struct jvalue of, struct jvalue name, struct jvalue *out);
int jget_slice(struct jrun *r, struct jvalue of, const struct jvalue bound[3], struct jvalue *out);
/* "a.b.0" as map and sort take it: steps of jget_item; no path gives v itself. What a step does
 * not find is replaced by *fallback, when that is not NULL. */
int jget_path(struct jrun *r, struct jvalue v, struct jvalue path, const struct jvalue *fallback,
              struct jvalue *out);
/* An attribute of a loop; 1 when it has it, 0 when not, -1. */
int jloop_attr(struct jrun *r, struct jloop *l, const struct jvalue *name, struct jvalue *out);

#endif
