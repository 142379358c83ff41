/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens to tree, by recursive descent. The state below is shared by the two halves of the parser:
 * expressions (jinja_expr.c) and statements (jinja_parse.c).
 *
 * Thread: any.
 */
#ifndef ENGINE_TEMPLATE_JINJA_PARSE_H
#define ENGINE_TEMPLATE_JINJA_PARSE_H

#include "engine/base/map.h"
#include "engine/template/jinja_ast.h"
#include "engine/template/jinja_lex.h"

enum {
    JPARSE_MAX_DEPTH = 64,
    JPARSE_MAX_PARAMS = 255 /* of a macro; keywords of a call */
};

struct jtree {
    struct jnode *body;
    const struct jsym **sym; /* by id */
    size_t n_sym;
    const struct jsym *sym_loop, *sym_caller, *sym_varargs, *sym_kwargs;
    bool has_generation;
};

struct jparser {
    struct arena *a;
    struct err *e;
    const struct jtok *tok; /* the current one */
    struct map sym;         /* name to struct jsym */
    struct jtree *tree;
    size_t cap_sym;
    int depth; /* of the descent */
    int loops; /* around the current statement, within its macro */
    /* whether loop, caller, varargs, kwargs were read since someone cleared these */
    bool saw_loop, saw_caller, saw_varargs, saw_kwargs;
};

/* Parses a whole template; out lies in a. */
int jinja_parse(struct arena *a, const char *src, size_t len, struct jtree *out, struct err *e);

/* Between the halves. All return NULL or -1 with the error set. */
int jparse_fail(struct jparser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct jnode *jparse_node(struct jparser *p, enum jnode_kind kind);
int jparse_add(struct jparser *p, struct jnodes *list, struct jnode *n); /* NULL n: -1 */
const struct jsym *jparse_sym(struct jparser *p, const char *s, size_t n);
bool jparse_is(const struct jparser *p, const char *name);
bool jparse_skip_name(struct jparser *p, const char *name);
bool jparse_skip(struct jparser *p, enum jtok_kind kind);
int jparse_expect(struct jparser *p, enum jtok_kind kind);
int jparse_enter(struct jparser *p); /* one level deeper; pair with p->depth-- */

struct jnode *jparse_expr(struct jparser *p);
struct jnode *jparse_or(struct jparser *p); /* an expression without a bare "x if y" */
struct jnode *jparse_primary(struct jparser *p);
/* A filter chain over `of`; without_pipe: its first "|" was never written (filter blocks). */
struct jnode *jparse_filters(struct jparser *p, struct jnode *of, bool without_pipe);

enum jtuple_kind { JTUPLE_EXPR, JTUPLE_NO_COND, JTUPLE_TARGET };
/* One expression, or several with commas as a tuple; ends before the name `end` too. */
struct jnode *jparse_tuple(struct jparser *p, enum jtuple_kind kind, const char *end,
                           bool in_parens);

#endif
