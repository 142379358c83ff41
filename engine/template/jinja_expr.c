/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions: one function per level of precedence, loosest first, each calling the next. The
 * levels of left-associated operators are rows of one table and one loop.
 */
#include <string.h>

#include "engine/template/jinja_native.h"
#include "engine/template/jinja_parse.h"

enum { MAX_POSTFIX = 64 };

static struct jnode *parse_level(struct jparser *p, size_t level);

/* node{list} from its first arm and the arms that parse_next finds behind the word or token. */
static struct jnode *parse_logic(struct jparser *p, enum jnode_kind kind, const char *word,
                                 struct jnode *(*next)(struct jparser *))
{
    struct jnode *first = next(p);
    if (!first || !jparse_is(p, word))
        return first;
    struct jnode *n = jparse_node(p, kind);
    if (!n || jparse_add(p, &n->list, first))
        return NULL;
    while (jparse_skip_name(p, word))
        if (jparse_add(p, &n->list, next(p)))
            return NULL;
    return n;
}

static int add_arm(struct jparser *p, struct jnode *n, enum jop op, struct jnode *arm)
{
    size_t i = n->chain.arm.n;
    if (jparse_add(p, &n->chain.arm, arm))
        return -1;
    if (i == 0)
        return 0;
    uint8_t *ops = n->chain.op;
    if ((i & (i - 1)) == 0) { /* room for twice as many at each power of two */
        ops = arena_try(p->a, i * 2, 1, p->e);
        if (!ops)
            return -1;
        if (i > 1)
            memcpy(ops, n->chain.op, i - 1);
        n->chain.op = ops;
    }
    ops[i - 1] = (uint8_t)op;
    return 0;
}

/* The operators of one level, as token and operation; ends with JTOK_EOF. */
struct level_op {
    enum jtok_kind tok;
    enum jop op;
};

static const struct level_op levels[][8] = {
    {{JTOK_ADD, JOP_ADD}, {JTOK_SUB, JOP_SUB}, {JTOK_EOF, 0}},
    {{JTOK_TILDE, JOP_ADD}, {JTOK_EOF, 0}},
    {{JTOK_MUL, JOP_MUL},
     {JTOK_DIV, JOP_DIV},
     {JTOK_FLOORDIV, JOP_FLOORDIV},
     {JTOK_MOD, JOP_MOD},
     {JTOK_EOF, 0}},
    {{JTOK_POW, JOP_POW}, {JTOK_EOF, 0}},
};

static const struct level_op compares[] = {{JTOK_EQ, JOP_EQ}, {JTOK_NE, JOP_NE}, {JTOK_LT, JOP_LT},
                                           {JTOK_LE, JOP_LE}, {JTOK_GT, JOP_GT}, {JTOK_GE, JOP_GE},
                                           {JTOK_EOF, 0}};

static const struct level_op *match_op(const struct jparser *p, const struct level_op *row)
{
    for (; row->tok != JTOK_EOF; row++)
        if (row->tok == p->tok->kind)
            return row;
    return NULL;
}

/* name=value */
static int parse_keyword(struct jparser *p, struct jargs *args)
{
    if (args->n_kw == JPARSE_MAX_PARAMS)
        return jparse_fail(p, "more than %d keyword arguments", JPARSE_MAX_PARAMS);
    if (args->n_kw == args->cap_kw) {
        size_t cap = args->cap_kw ? args->cap_kw * 2 : 4;
        struct jarg *kw = arena_try(p->a, cap, sizeof *kw, p->e);
        if (!kw)
            return -1;
        if (args->n_kw)
            memcpy(kw, args->kw, args->n_kw * sizeof *kw);
        args->kw = kw;
        args->cap_kw = cap;
    }
    const struct jsym *name = jparse_sym(p, p->tok->p, p->tok->len);
    if (!name)
        return -1;
    for (size_t i = 0; i < args->n_kw; i++)
        if (args->kw[i].name == name)
            return jparse_fail(p, "the keyword argument '%.80s' is given twice", name->name);
    p->tok += 2;
    struct jarg *kw = &args->kw[args->n_kw++];
    kw->name = name;
    kw->value = jparse_expr(p);
    return kw->value ? 0 : -1;
}

static int parse_args(struct jparser *p, struct jargs *args)
{
    bool is_first = true;
    if (jparse_expect(p, JTOK_LPAREN))
        return -1;
    while (p->tok->kind != JTOK_RPAREN) {
        if (!is_first && jparse_expect(p, JTOK_COMMA))
            return -1;
        if (!is_first && p->tok->kind == JTOK_RPAREN)
            break;
        is_first = false;
        if (args->star2)
            return jparse_fail(p, "an argument follows **kwargs");
        if (jparse_skip(p, JTOK_MUL)) {
            if (args->star)
                return jparse_fail(p, "two *args in one call");
            if (!(args->star = jparse_expr(p)))
                return -1;
        } else if (jparse_skip(p, JTOK_POW)) {
            if (!(args->star2 = jparse_expr(p)))
                return -1;
        } else if (p->tok->kind == JTOK_NAME && p->tok[1].kind == JTOK_ASSIGN) {
            if (parse_keyword(p, args))
                return -1;
        } else {
            if (args->star || args->n_kw)
                return jparse_fail(p, "a positional argument follows a keyword argument");
            if (jparse_add(p, &args->pos, jparse_expr(p)))
                return -1;
        }
    }
    return jparse_expect(p, JTOK_RPAREN);
}

static struct jnode *parse_list(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_LIST);
    p->tok++;
    while (n && p->tok->kind != JTOK_RBRACKET) {
        if (n->list.n && jparse_expect(p, JTOK_COMMA))
            return NULL;
        if (p->tok->kind == JTOK_RBRACKET)
            break;
        if (jparse_add(p, &n->list, jparse_expr(p)))
            return NULL;
    }
    return n && jparse_expect(p, JTOK_RBRACKET) == 0 ? n : NULL;
}

static struct jnode *parse_dict(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_DICT);
    p->tok++;
    while (n && p->tok->kind != JTOK_RBRACE) {
        if (n->dict.key.n && jparse_expect(p, JTOK_COMMA))
            return NULL;
        if (p->tok->kind == JTOK_RBRACE)
            break;
        if (jparse_add(p, &n->dict.key, jparse_expr(p)) || jparse_expect(p, JTOK_COLON) ||
            jparse_add(p, &n->dict.val, jparse_expr(p)))
            return NULL;
    }
    return n && jparse_expect(p, JTOK_RBRACE) == 0 ? n : NULL;
}

/* Adjacent string literals are one. */
static struct jnode *parse_string(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_CONST);
    const struct jtok *t = p->tok;
    size_t len = 0;
    while (p->tok->kind == JTOK_STRING)
        len += (p->tok++)->len;
    if (!n)
        return NULL;
    const char *s = t->p;
    if (p->tok - t > 1) {
        char *joined = arena_try(p->a, len + 1, 1, p->e);
        if (!joined)
            return NULL;
        s = joined;
        for (; t < p->tok; t++) {
            memcpy(joined, t->p, t->len);
            joined += t->len;
        }
    }
    return jv_str_view(p->a, s, len, &n->value, p->e) ? NULL : n;
}

static bool is_const_name(const struct jtok *t, struct jvalue *v)
{
    static const struct {
        const char text[6];
        uint8_t type;
        bool b;
    } rows[] = {{"true", JT_BOOL, true},   {"True", JT_BOOL, true},  {"false", JT_BOOL, false},
                {"False", JT_BOOL, false}, {"none", JT_NONE, false}, {"None", JT_NONE, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].text) == t->len && memcmp(rows[i].text, t->p, t->len) == 0) {
            *v = (struct jvalue){.type = rows[i].type, .b = rows[i].b};
            return true;
        }
    return false;
}

static struct jnode *parse_name(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_CONST);
    if (!n)
        return NULL;
    if (!is_const_name(p->tok, &n->value)) {
        n->kind = JN_NAME;
        n->sym = jparse_sym(p, p->tok->p, p->tok->len);
        if (!n->sym)
            return NULL;
        p->saw_loop |= n->sym == p->tree->sym_loop;
        p->saw_caller |= n->sym == p->tree->sym_caller;
        p->saw_varargs |= n->sym == p->tree->sym_varargs;
        p->saw_kwargs |= n->sym == p->tree->sym_kwargs;
    }
    p->tok++;
    return n;
}

struct jnode *jparse_primary(struct jparser *p)
{
    struct jnode *n = NULL;
    switch (p->tok->kind) {
    case JTOK_NAME:
        n = parse_name(p);
        break;
    case JTOK_STRING:
        n = parse_string(p);
        break;
    case JTOK_INT:
    case JTOK_FLOAT:
        n = jparse_node(p, JN_CONST);
        if (n)
            n->value = p->tok->kind == JTOK_INT ? jv_int(p->tok->i) : jv_float(p->tok->f);
        p->tok++;
        break;
    case JTOK_LPAREN:
        p->tok++;
        n = jparse_tuple(p, JTUPLE_EXPR, NULL, true);
        if (n && jparse_expect(p, JTOK_RPAREN))
            n = NULL;
        break;
    case JTOK_LBRACKET:
        n = parse_list(p);
        break;
    case JTOK_LBRACE:
        n = parse_dict(p);
        break;
    default:
        jparse_fail(p, "an expression was expected, not %s", jtok_name(p->tok->kind));
    }
    return n;
}

struct jnode *jparse_tuple(struct jparser *p, enum jtuple_kind kind, const char *end,
                           bool in_parens)
{
    struct jnode *tuple = jparse_node(p, JN_TUPLE);
    bool is_tuple = false;
    while (tuple) {
        enum jtok_kind k = p->tok->kind;
        if (k == JTOK_VAR_END || k == JTOK_BLOCK_END || k == JTOK_RPAREN ||
            (end && jparse_is(p, end)))
            break;
        if (jparse_add(p, &tuple->list,
                       kind == JTUPLE_EXPR      ? jparse_expr(p)
                       : kind == JTUPLE_NO_COND ? jparse_or(p)
                                                : jparse_primary(p)))
            return NULL;
        if (!jparse_skip(p, JTOK_COMMA))
            break;
        is_tuple = true;
    }
    if (!tuple || is_tuple || (tuple->list.n == 0 && in_parens))
        return tuple;
    if (tuple->list.n == 0) {
        jparse_fail(p, "an expression was expected, not %s", jtok_name(p->tok->kind));
        return NULL;
    }
    return tuple->list.at[0];
}

/* One part of a slice: nothing when a colon, a comma or the bracket follows. */
static int parse_bound(struct jparser *p, struct jnode **out)
{
    enum jtok_kind k = p->tok->kind;
    *out = NULL;
    if (k == JTOK_COLON || k == JTOK_RBRACKET || k == JTOK_COMMA)
        return 0;
    return (*out = jparse_expr(p)) ? 0 : -1;
}

static struct jnode *parse_item(struct jparser *p, struct jnode *of)
{
    struct jnode *n = jparse_node(p, JN_ITEM), *first;
    p->tok++;
    if (!n || parse_bound(p, &first))
        return NULL;
    if (jparse_skip(p, JTOK_COLON)) {
        n->kind = JN_SLICE;
        n->slice.of = of;
        n->slice.from = first;
        if (parse_bound(p, &n->slice.to) ||
            (jparse_skip(p, JTOK_COLON) && parse_bound(p, &n->slice.step)))
            return NULL;
    } else {
        n->item.of = of;
        n->item.index = first;
        if (!first) {
            jparse_fail(p, "an index was expected");
            return NULL;
        }
    }
    return jparse_expect(p, JTOK_RBRACKET) ? NULL : n;
}

static struct jnode *parse_attr(struct jparser *p, struct jnode *of)
{
    struct jnode *n = jparse_node(p, JN_ATTR);
    const struct jtok *t = ++p->tok;
    if (!n)
        return NULL;
    if (t->kind == JTOK_INT) {
        n->kind = JN_ITEM;
        n->item.of = of;
        if (!(n->item.index = jparse_node(p, JN_CONST)))
            return NULL;
        n->item.index->value = jv_int(t->i);
        p->tok++;
        return n;
    }
    if (jparse_expect(p, JTOK_NAME))
        return NULL;
    n->attr.of = of;
    n->attr.name = jparse_sym(p, t->p, t->len);
    return n->attr.name && jv_str_view(p->a, t->p, t->len, &n->attr.key, p->e) == 0 ? n : NULL;
}

static struct jnode *parse_call(struct jparser *p, struct jnode *of)
{
    struct jnode *n = jparse_node(p, JN_CALL);
    if (!n)
        return NULL;
    n->call.of = of;
    return parse_args(p, &n->call.args) ? NULL : n;
}

/* name, name.name, ...: the name of a filter or test */
static int parse_dotted(struct jparser *p, struct jnode *n)
{
    const struct jtok *t = p->tok;
    if (jparse_expect(p, JTOK_NAME))
        return -1;
    while (p->tok->kind == JTOK_DOT) {
        p->tok++;
        if (jparse_expect(p, JTOK_NAME))
            return -1;
    }
    const struct jtok *last = p->tok - 1;
    n->call.name = jparse_sym(p, t->p, (size_t)(last->p + last->len - t->p));
    return n->call.name ? 0 : -1;
}

struct jnode *jparse_filters(struct jparser *p, struct jnode *of, bool without_pipe)
{
    int n_chain = 0;
    while (without_pipe || jparse_skip(p, JTOK_PIPE)) {
        without_pipe = false;
        struct jnode *n = jparse_node(p, JN_FILTER);
        if (!n || parse_dotted(p, n))
            return NULL;
        if (n_chain++ == MAX_POSTFIX) {
            jparse_fail(p, "more than %d filters in a row", MAX_POSTFIX);
            return NULL;
        }
        n->call.native = jnative_find(jnative_filters, n->call.name->name);
        n->call.of = of;
        if (p->tok->kind == JTOK_LPAREN && parse_args(p, &n->call.args))
            return NULL;
        of = n;
    }
    return of;
}

static struct jnode *parse_postfix(struct jparser *p, struct jnode *n)
{
    for (int i = 0; n; i++) {
        if (i > MAX_POSTFIX) {
            jparse_fail(p, "more than %d accesses in a row", MAX_POSTFIX);
            return NULL;
        }
        if (p->tok->kind == JTOK_DOT)
            n = parse_attr(p, n);
        else if (p->tok->kind == JTOK_LBRACKET)
            n = parse_item(p, n);
        else if (p->tok->kind == JTOK_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* Whether the token begins the bare argument of a test, as in "is divisibleby 3". */
static bool is_test_arg(const struct jparser *p)
{
    switch (p->tok->kind) {
    case JTOK_NAME:
        return !jparse_is(p, "else") && !jparse_is(p, "or") && !jparse_is(p, "and");
    case JTOK_STRING:
    case JTOK_INT:
    case JTOK_FLOAT:
    case JTOK_LBRACKET:
    case JTOK_LBRACE:
        return true;
    default:
        return false;
    }
}

static struct jnode *parse_test(struct jparser *p, struct jnode *of)
{
    struct jnode *n = jparse_node(p, JN_TEST);
    p->tok++;
    if (!n)
        return NULL;
    n->flag = jparse_skip_name(p, "not");
    n->call.of = of;
    if (parse_dotted(p, n))
        return NULL;
    n->call.native = jnative_find(jnative_tests, n->call.name->name);
    if (p->tok->kind == JTOK_LPAREN)
        return parse_args(p, &n->call.args) ? NULL : n;
    if (!is_test_arg(p))
        return n;
    if (jparse_is(p, "is")) {
        jparse_fail(p, "tests cannot be chained with is");
        return NULL;
    }
    struct jnode *arg = jparse_primary(p);
    return jparse_add(p, &n->call.args.pos, parse_postfix(p, arg)) ? NULL : n;
}

static struct jnode *parse_unary(struct jparser *p, bool with_filter)
{
    struct jnode *n;
    if (p->tok->kind == JTOK_SUB || p->tok->kind == JTOK_ADD) {
        n = jparse_node(p, p->tok->kind == JTOK_SUB ? JN_NEG : JN_POS);
        p->tok++;
        if (!n || jparse_enter(p) || !(n->arg = parse_unary(p, false)))
            return NULL;
        p->depth--;
    } else {
        n = jparse_primary(p);
    }
    n = parse_postfix(p, n);
    for (int i = 0; n && with_filter; i++) {
        if (i > MAX_POSTFIX) {
            jparse_fail(p, "more than %d tests or calls in a row", MAX_POSTFIX);
            return NULL;
        }
        if (p->tok->kind == JTOK_PIPE)
            n = jparse_filters(p, n, false);
        else if (jparse_is(p, "is"))
            n = parse_test(p, n);
        else if (p->tok->kind == JTOK_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct jnode *parse_level(struct jparser *p, size_t level)
{
    if (level == sizeof levels / sizeof *levels)
        return parse_unary(p, true);
    struct jnode *first = parse_level(p, level + 1);
    const struct level_op *op = match_op(p, levels[level]);
    if (!first || !op)
        return first;
    bool is_concat = op->tok == JTOK_TILDE;
    struct jnode *n = jparse_node(p, is_concat ? JN_CONCAT : JN_ARITH);
    if (!n || (is_concat ? jparse_add(p, &n->list, first) : add_arm(p, n, 0, first)))
        return NULL;
    for (; op; op = match_op(p, levels[level])) {
        p->tok++;
        struct jnode *arm = parse_level(p, level + 1);
        if (is_concat ? jparse_add(p, &n->list, arm) : add_arm(p, n, op->op, arm))
            return NULL;
    }
    return n;
}

/* The comparison at the current token, with its tokens taken; false when there is none. */
static bool take_compare(struct jparser *p, enum jop *op)
{
    const struct level_op *row = match_op(p, compares);
    if (row) {
        *op = row->op;
        p->tok++;
        return true;
    }
    if (jparse_skip_name(p, "in")) {
        *op = JOP_IN;
        return true;
    }
    const struct jtok *next = p->tok + 1;
    if (!jparse_is(p, "not") || next->kind != JTOK_NAME || next->len != 2 ||
        memcmp(next->p, "in", 2) != 0)
        return false;
    *op = JOP_NOT_IN;
    p->tok += 2;
    return true;
}

static struct jnode *parse_compare(struct jparser *p)
{
    struct jnode *first = parse_level(p, 0);
    enum jop op;
    if (!first || !take_compare(p, &op))
        return first;
    struct jnode *n = jparse_node(p, JN_COMPARE);
    if (!n || add_arm(p, n, 0, first))
        return NULL;
    do {
        if (add_arm(p, n, op, parse_level(p, 0)))
            return NULL;
    } while (take_compare(p, &op));
    return n;
}

static struct jnode *parse_not(struct jparser *p)
{
    if (!jparse_is(p, "not"))
        return parse_compare(p);
    struct jnode *n = jparse_node(p, JN_NOT);
    p->tok++;
    if (!n || jparse_enter(p) || !(n->arg = parse_not(p)))
        return NULL;
    p->depth--;
    return n;
}

static struct jnode *parse_and(struct jparser *p)
{
    return parse_logic(p, JN_AND, "and", parse_not);
}

struct jnode *jparse_or(struct jparser *p)
{
    return parse_logic(p, JN_OR, "or", parse_and);
}

struct jnode *jparse_expr(struct jparser *p)
{
    struct jnode *then = jparse_enter(p) ? NULL : jparse_or(p);
    for (int i = 0; then && jparse_skip_name(p, "if"); i++) {
        struct jnode *n = jparse_node(p, JN_COND);
        if (!n || !(n->cond.test = jparse_or(p)))
            return NULL;
        n->cond.then = then;
        if (jparse_skip_name(p, "else") && !(n->cond.other = jparse_expr(p)))
            return NULL;
        then = n;
        if (i > MAX_POSTFIX) {
            jparse_fail(p, "more than %d conditions in a row", MAX_POSTFIX);
            return NULL;
        }
    }
    p->depth--;
    return then;
}
