/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of one render, and its bounds. Everything a template does is paid for here: each node
 * visited, each item passed, each run of bytes copied is an operation; memory comes from one arena
 * with a ceiling; calls and nesting are counted. A template or a conversation that runs into a
 * bound ends with ERR_TOO_LARGE and a text that names the bound.
 *
 * Scopes are chains of small arrays that end in the root, which is an array by symbol number. A
 * closure keeps the chain it was made in; a scope that no closure keeps is used again for the next
 * turn of its loop.
 *
 * Thread: one per render.
 */
#ifndef ENGINE_TEMPLATE_JINJA_RUN_H
#define ENGINE_TEMPLATE_JINJA_RUN_H

#include "engine/template/jinja_ast.h"
#include "engine/template/jinja_native.h"
#include "engine/template/jinja_parse.h"
#include "engine/template/jorigin.h"
#include "engine/template/jvalue.h"

enum {
    JRUN_MAX_CALLS = 64,    /* macros and recursive loops within each other */
    JRUN_MAX_DEPTH = 800,   /* nodes within nodes */
    JRUN_MAX_NESTING = 100, /* lists in lists, as far as anything walks them */
    JRUN_MAX_RANGE = 100000
};

struct jvar {
    uint32_t sym;
    struct jvalue value;
};

struct jscope {
    struct jscope *parent; /* NULL: the root is next */
    struct jvar *var;
    size_t n, cap;
    bool is_kept; /* a closure refers to it */
};

struct jrun {
    struct arena *a; /* borrowed */
    struct err *e;
    const struct jtree *tree;
    struct jvalue *root; /* by symbol number; JT_MISSING where nothing is */
    struct jscope *scope;
    struct jsink *out; /* where print goes */
    uint64_t ops, ops_max;
    size_t text_max; /* bytes that one text may have */
    int depth, calls, line;
    int64_t now; /* seconds since 1970 on the clock that strftime_now shows */
};

/* All three return -1. The line is that of the node being run. */
int jrun_fail(struct jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int jrun_limit(struct jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int jrun_out_of_ops(struct jrun *r);
/* What went wrong when a value that is not there was used. */
int jrun_undefined(struct jrun *r, const struct jvalue *v);

static inline int jrun_pay(struct jrun *r, size_t ops)
{
    r->ops += ops;
    return r->ops > r->ops_max ? jrun_out_of_ops(r) : 0;
}

/* The price of touching n bytes. */
static inline int jrun_pay_bytes(struct jrun *r, size_t n)
{
    return jrun_pay(r, 1 + n / 32);
}

void *jrun_alloc(struct jrun *r, size_t n, size_t size);
char *jrun_printf(struct jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct jscope *jscope_push(struct jrun *r); /* a fresh scope under the current one, made current */
void jscope_keep(struct jscope *s);         /* s and all it stands in outlive their block */
int jscope_set(struct jrun *r, const struct jsym *sym, struct jvalue v);
struct jvalue jscope_get(struct jrun *r, const struct jsym *sym); /* or JT_MISSING */

/* The walk. */
int jeval(struct jrun *r, const struct jnode *n, struct jvalue *out);
enum jflow { JFLOW_ERROR = -1, JFLOW_NEXT, JFLOW_BREAK, JFLOW_CONTINUE };
enum jflow jexec(struct jrun *r, const struct jnode *n);
/* Runs n with its output caught as a string. */
enum jflow jexec_catch(struct jrun *r, const struct jnode *n, struct jvalue *out);
enum jflow jexec_for(struct jrun *r, const struct jnode *n);
/* The body of a recursive loop over items, as loop(items) runs it. */
int jloop_recurse(struct jrun *r, struct jloop *from, struct jvalue items, struct jvalue *out);
int jassign(struct jrun *r, const struct jnode *target, struct jvalue v);

/* Calls. args evaluates a call's arguments into c; caller is added as a keyword when not NULL. */
int jcall_args(struct jrun *r, const struct jargs *args, const struct jvalue *caller,
               struct jcall *c);
int jcall_value(struct jrun *r, struct jvalue fn, struct jcall *c, struct jvalue *out);
int jcall_native(struct jrun *r, const struct jnative *f, struct jvalue self, struct jcall *c,
                 struct jvalue *out);
int jclosure_make(struct jrun *r, const struct jmacro *m, struct jvalue *out);

#endif
