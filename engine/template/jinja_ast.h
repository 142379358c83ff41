/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of a compiled template. Nodes lie in the template's arena and never change, so any
 * number of threads render from one tree. Chains that a grammar would nest to the left (a + b + c,
 * a and b and c) are one node with many arms. How deep the parser descends is bounded, and the
 * walker of the tree counts its own depth.
 *
 * Names are interned: equal names are one symbol number, so scopes compare numbers.
 */
#ifndef ENGINE_TEMPLATE_JINJA_AST_H
#define ENGINE_TEMPLATE_JINJA_AST_H

#include "engine/template/jvalue.h"

enum jnode_kind {
    /* expressions */
    JN_CONST,
    JN_NAME,
    JN_LIST,
    JN_TUPLE,
    JN_DICT,
    JN_COND,
    JN_OR,
    JN_AND,
    JN_NOT,
    JN_NEG,
    JN_POS,
    JN_COMPARE,
    JN_ARITH,
    JN_CONCAT,
    JN_ATTR,
    JN_ITEM,
    JN_SLICE,
    JN_CALL,
    JN_FILTER,
    JN_TEST,
    JN_NSREF, /* only as a target of set */
    /* statements */
    JN_BLOCK,
    JN_TEXT,
    JN_PRINT,
    JN_IF,
    JN_FOR,
    JN_SET,
    JN_SET_BLOCK,
    JN_MACRO,
    JN_CALL_BLOCK,
    JN_FILTER_BLOCK,
    JN_WITH,
    JN_BREAK,
    JN_CONTINUE,
    JN_GENERATION
};

enum jop {
    JOP_ADD,
    JOP_SUB,
    JOP_MUL,
    JOP_DIV,
    JOP_FLOORDIV,
    JOP_MOD,
    JOP_POW,
    JOP_EQ,
    JOP_NE,
    JOP_LT,
    JOP_LE,
    JOP_GT,
    JOP_GE,
    JOP_IN,
    JOP_NOT_IN
};

struct jnode;

struct jnodes {
    struct jnode **at;
    size_t n, cap;
};

struct jsym {
    const char *name; /* terminated */
    size_t len;
    uint32_t id;
};

struct jarg { /* a keyword argument of a call */
    const struct jsym *name;
    struct jnode *value;
};

struct jargs {
    struct jnodes pos;
    struct jarg *kw;
    size_t n_kw, cap_kw;
    struct jnode *star, *star2; /* *args, **kwargs; may be NULL */
};

struct jparam {
    const struct jsym *name;
    struct jnode *value; /* default; NULL: none */
};

struct jmacro { /* a macro, or the body of a call block */
    const struct jsym *name;
    struct jparam *param;
    size_t n_param, cap_param;
    struct jnode *body;
    bool uses_caller, uses_varargs, uses_kwargs;
};

struct jnode {
    uint8_t kind; /* enum jnode_kind */
    bool flag;    /* FOR: recursive; TEST: negated */
    int line;
    union {
        struct jvalue value;    /* CONST, TEXT */
        const struct jsym *sym; /* NAME */
        struct jnodes list;     /* LIST, TUPLE, OR, AND, CONCAT, BLOCK */
        struct jnode *arg;      /* NOT, NEG, POS, PRINT, GENERATION (its body) */
        struct {
            struct jnodes key, val;
        } dict;
        struct {
            struct jnode *test, *then, *other; /* other: NULL when there is no else */
        } cond;                                /* COND, IF (an elif is an IF in other) */
        struct {
            struct jnodes arm; /* n */
            uint8_t *op;       /* enum jop, n - 1 of them */
        } chain;               /* COMPARE, ARITH */
        struct {
            struct jnode *of;
            const struct jsym *name;
            struct jvalue key; /* the name as a string */
        } attr;                /* ATTR, NSREF */
        struct {
            struct jnode *of, *index;
        } item;
        struct {
            struct jnode *of, *from, *to, *step; /* all but of may be NULL */
        } slice;
        struct {
            struct jnode *of; /* NULL: the text of a filter block */
            struct jargs args;
            const struct jsym *name;      /* FILTER, TEST */
            const struct jnative *native; /* FILTER, TEST; NULL: unknown, an error when reached */
        } call;
        struct {
            struct jnode *target, *iter, *filter, *body, *other;
            bool uses_loop;
        } loop; /* FOR */
        struct {
            struct jnode *target, *value; /* value: expression, or NULL */
            struct jnode *body;           /* SET_BLOCK, FILTER_BLOCK */
            struct jnode *filter;         /* SET_BLOCK (may be NULL), FILTER_BLOCK */
        } set;
        struct jmacro *macro; /* MACRO */
        struct {
            struct jmacro *macro;
            struct jnode *call;
        } call_block;
        struct {
            struct jnodes target, value;
            struct jnode *body;
        } with;
    };
};

#endif
