/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements, and the few helpers that both halves of the parser share. A list of statements ends
 * at a tag whose name is one of those its opener waits for.
 *
 * {% break %} inside a macro, a call block or a generation block never leaves that body, as these
 * are functions of their own; outside of any loop it is an error here, at compile time.
 */
#include "engine/template/jinja_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int jparse_fail(struct jparser *p, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(p->e, ERR_BAD_INPUT, "template line %d: %s", p->tok->line, text);
}

struct jnode *jparse_node(struct jparser *p, enum jnode_kind kind)
{
    struct jnode *n = arena_try(p->a, 1, sizeof *n, p->e);
    if (n) {
        n->kind = (uint8_t)kind;
        n->line = p->tok->line;
    }
    return n;
}

int jparse_add(struct jparser *p, struct jnodes *list, struct jnode *n)
{
    if (!n)
        return -1;
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        struct jnode **at = arena_try(p->a, cap, sizeof(struct jnode *), p->e);
        if (!at)
            return -1;
        if (list->n)
            memcpy(at, list->at, list->n * sizeof(struct jnode *));
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = n;
    return 0;
}

const struct jsym *jparse_sym(struct jparser *p, const char *s, size_t n)
{
    struct jsym *sym = map_get(&p->sym, s, n);
    if (sym)
        return sym;
    struct jtree *t = p->tree;
    if (t->n_sym == p->cap_sym) {
        size_t cap = p->cap_sym ? p->cap_sym * 2 : 64;
        const struct jsym **at = arena_try(p->a, cap, sizeof(struct jsym *), p->e);
        if (!at)
            return NULL;
        if (t->n_sym)
            memcpy(at, t->sym, t->n_sym * sizeof(struct jsym *));
        t->sym = at;
        p->cap_sym = cap;
    }
    char *name = arena_try(p->a, n + 1, 1, p->e);
    sym = name ? arena_try(p->a, 1, sizeof *sym, p->e) : NULL;
    if (!sym)
        return NULL;
    memcpy(name, s, n);
    *sym = (struct jsym){.name = name, .len = n, .id = (uint32_t)t->n_sym};
    t->sym[t->n_sym++] = sym;
    map_put(&p->sym, s, n, sym);
    return sym;
}

bool jparse_is(const struct jparser *p, const char *name)
{
    return p->tok->kind == JTOK_NAME && strlen(name) == p->tok->len &&
           memcmp(name, p->tok->p, p->tok->len) == 0;
}

bool jparse_skip_name(struct jparser *p, const char *name)
{
    bool is = jparse_is(p, name);
    p->tok += is;
    return is;
}

bool jparse_skip(struct jparser *p, enum jtok_kind kind)
{
    bool is = p->tok->kind == kind;
    p->tok += is;
    return is;
}

int jparse_expect(struct jparser *p, enum jtok_kind kind)
{
    if (jparse_skip(p, kind))
        return 0;
    if (p->tok->kind == JTOK_NAME)
        return jparse_fail(p, "%s was expected, not '%.*s'", jtok_name(kind),
                           (int)(p->tok->len < 40 ? p->tok->len : 40), p->tok->p);
    return jparse_fail(p, "%s was expected, not %s", jtok_name(kind), jtok_name(p->tok->kind));
}

int jparse_enter(struct jparser *p)
{
    if (p->depth == JPARSE_MAX_DEPTH)
        return jparse_fail(p, "nested more than %d deep", JPARSE_MAX_DEPTH);
    p->depth++;
    return 0;
}

static struct jnode *parse_body(struct jparser *p, const char *const *ends);

/* The end of a tag, then statements to one of the tags `ends`, whose name stays current. */
static struct jnode *parse_block(struct jparser *p, const char *const *ends)
{
    jparse_skip(p, JTOK_COLON);
    return jparse_expect(p, JTOK_BLOCK_END) ? NULL : parse_body(p, ends);
}

/* As parse_block with one end tag, whose name is taken. */
static struct jnode *parse_until(struct jparser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    struct jnode *n = parse_block(p, ends);
    p->tok += n != NULL;
    return n;
}

/* As parse_until, for bodies that are functions: break does not reach out of them. */
static struct jnode *parse_function(struct jparser *p, const char *end)
{
    int loops = p->loops;
    p->loops = 0;
    struct jnode *n = parse_until(p, end);
    p->loops = loops;
    return n;
}

static int check_target(struct jparser *p, const struct jnode *n, bool in_for)
{
    if (!n)
        return -1;
    if (n->kind == JN_TUPLE) {
        for (size_t i = 0; i < n->list.n; i++)
            if (check_target(p, n->list.at[i], in_for))
                return -1;
        return 0;
    }
    if (n->kind != JN_NAME)
        return jparse_fail(p, "cannot assign to this expression");
    if (in_for && n->sym == p->tree->sym_loop)
        return jparse_fail(p, "a for loop cannot assign to its own 'loop'");
    return 0;
}

static struct jnode *parse_target(struct jparser *p, const char *end)
{
    bool saw_loop = p->saw_loop; /* storing a name is not reading it */
    struct jnode *n = jparse_tuple(p, JTUPLE_TARGET, end, false);
    p->saw_loop = saw_loop;
    return check_target(p, n, end != NULL) ? NULL : n;
}

static struct jnode *parse_set(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_SET);
    if (!n)
        return NULL;
    if (p->tok->kind == JTOK_NAME && p->tok[1].kind == JTOK_DOT) {
        struct jnode *ns = jparse_node(p, JN_NSREF);
        if (!ns || !(ns->attr.of = jparse_primary(p)) || jparse_expect(p, JTOK_DOT))
            return NULL;
        const struct jtok *t = p->tok;
        if (jparse_expect(p, JTOK_NAME) || jv_str_view(p->a, t->p, t->len, &ns->attr.key, p->e) ||
            check_target(p, ns->attr.of, 0))
            return NULL;
        n->set.target = ns;
    } else if (!(n->set.target = parse_target(p, NULL))) {
        return NULL;
    }
    if (jparse_skip(p, JTOK_ASSIGN)) {
        n->set.value = jparse_tuple(p, JTUPLE_EXPR, NULL, false);
        return n->set.value ? n : NULL;
    }
    n->kind = JN_SET_BLOCK;
    if (p->tok->kind == JTOK_PIPE && !(n->set.filter = jparse_filters(p, NULL, false)))
        return NULL;
    n->set.body = parse_until(p, "endset");
    return n->set.body ? n : NULL;
}

static struct jnode *parse_for(struct jparser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jnode *n = jparse_node(p, JN_FOR);
    if (!n || !(n->loop.target = parse_target(p, "in")))
        return NULL;
    if (!jparse_skip_name(p, "in")) {
        jparse_fail(p, "'in' was expected in a for loop");
        return NULL;
    }
    if (!(n->loop.iter = jparse_tuple(p, JTUPLE_NO_COND, "recursive", false)))
        return NULL;
    if (jparse_skip_name(p, "if") && !(n->loop.filter = jparse_expr(p)))
        return NULL;
    n->flag = jparse_skip_name(p, "recursive");
    bool saw_loop = p->saw_loop;
    p->saw_loop = false;
    p->loops++;
    n->loop.body = parse_block(p, ends);
    p->loops--;
    n->loop.uses_loop = p->saw_loop || n->flag;
    p->saw_loop = saw_loop;
    if (!n->loop.body)
        return NULL;
    if (jparse_skip_name(p, "endfor"))
        return n;
    p->tok++;
    n->loop.other = parse_until(p, "endfor");
    return n->loop.other ? n : NULL;
}

static struct jnode *parse_if(struct jparser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jnode *first = NULL, **into = &first;
    for (;;) {
        struct jnode *n = jparse_node(p, JN_IF);
        if (!n || !(n->cond.test = jparse_tuple(p, JTUPLE_NO_COND, NULL, false)) ||
            !(n->cond.then = parse_block(p, ends)))
            return NULL;
        *into = n;
        into = &n->cond.other;
        if (!jparse_skip_name(p, "elif"))
            break;
    }
    if (jparse_skip_name(p, "endif"))
        return first;
    p->tok++;
    return (*into = parse_until(p, "endif")) ? first : NULL;
}

static const struct jparam *find_param(const struct jmacro *m, const struct jsym *name)
{
    for (size_t i = 0; i < m->n_param; i++)
        if (m->param[i].name == name)
            return &m->param[i];
    return NULL;
}

/* (a, b=1, ...) of a macro or a call block. */
static int parse_params(struct jparser *p, struct jmacro *m)
{
    if (jparse_expect(p, JTOK_LPAREN))
        return -1;
    while (p->tok->kind != JTOK_RPAREN) {
        if (m->n_param && jparse_expect(p, JTOK_COMMA))
            return -1;
        const struct jtok *t = p->tok;
        if (jparse_expect(p, JTOK_NAME))
            return -1;
        if (m->n_param == JPARSE_MAX_PARAMS)
            return jparse_fail(p, "more than %d parameters", JPARSE_MAX_PARAMS);
        if (m->n_param == m->cap_param) {
            size_t cap = m->cap_param ? m->cap_param * 2 : 4;
            struct jparam *at = arena_try(p->a, cap, sizeof *at, p->e);
            if (!at)
                return -1;
            if (m->n_param)
                memcpy(at, m->param, m->n_param * sizeof *at);
            m->param = at;
            m->cap_param = cap;
        }
        struct jparam *param = &m->param[m->n_param];
        if (!(param->name = jparse_sym(p, t->p, t->len)))
            return -1;
        if (find_param(m, param->name))
            return jparse_fail(p, "two parameters of the name '%.80s'", param->name->name);
        m->n_param++;
        if (jparse_skip(p, JTOK_ASSIGN)) {
            if (!(param->value = jparse_expr(p)))
                return -1;
        } else if (m->n_param > 1 && param[-1].value) {
            return jparse_fail(p, "a parameter without default follows one with a default");
        }
    }
    p->tok++;
    return 0;
}

/* The body, and which of the special names it reads without having them as parameters. */
static int parse_macro_body(struct jparser *p, struct jmacro *m, const char *end)
{
    bool caller = p->saw_caller, varargs = p->saw_varargs, kwargs = p->saw_kwargs;
    p->saw_caller = p->saw_varargs = p->saw_kwargs = false;
    m->body = parse_function(p, end);
    const struct jparam *caller_param = find_param(m, p->tree->sym_caller);
    if (m->body && p->saw_caller && caller_param && !caller_param->value)
        return jparse_fail(p, "the parameter 'caller' needs a default");
    m->uses_caller = p->saw_caller && !find_param(m, p->tree->sym_caller);
    m->uses_varargs = p->saw_varargs && !find_param(m, p->tree->sym_varargs);
    m->uses_kwargs = p->saw_kwargs && !find_param(m, p->tree->sym_kwargs);
    p->saw_caller |= caller;
    p->saw_varargs |= varargs;
    p->saw_kwargs |= kwargs;
    return m->body ? 0 : -1;
}

static struct jnode *parse_macro(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_MACRO);
    struct jmacro *m = n ? arena_try(p->a, 1, sizeof *m, p->e) : NULL;
    const struct jtok *t = p->tok;
    if (!m || jparse_expect(p, JTOK_NAME) || !(m->name = jparse_sym(p, t->p, t->len)) ||
        parse_params(p, m) || parse_macro_body(p, m, "endmacro"))
        return NULL;
    n->macro = m;
    return n;
}

static struct jnode *parse_call_block(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_CALL_BLOCK);
    struct jmacro *m = n ? arena_try(p->a, 1, sizeof *m, p->e) : NULL;
    if (!m || (p->tok->kind == JTOK_LPAREN && parse_params(p, m)))
        return NULL;
    n->call_block.macro = m;
    struct jnode *call = jparse_expr(p);
    if (!call)
        return NULL;
    if (call->kind != JN_CALL) {
        jparse_fail(p, "a call block needs a call");
        return NULL;
    }
    m->name = p->tree->sym_caller;
    n->call_block.call = call;
    return parse_macro_body(p, m, "endcall") ? NULL : n;
}

static struct jnode *parse_filter_block(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_FILTER_BLOCK);
    if (!n || !(n->set.filter = jparse_filters(p, NULL, true)))
        return NULL;
    n->set.body = parse_until(p, "endfilter");
    return n->set.body ? n : NULL;
}

static struct jnode *parse_with(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_WITH);
    while (n && p->tok->kind != JTOK_BLOCK_END) {
        if (n->with.target.n && jparse_expect(p, JTOK_COMMA))
            return NULL;
        struct jnode *target = jparse_primary(p);
        if (!target || check_target(p, target, false) || jparse_add(p, &n->with.target, target) ||
            jparse_expect(p, JTOK_ASSIGN) || jparse_add(p, &n->with.value, jparse_expr(p)))
            return NULL;
    }
    return n && (n->with.body = parse_until(p, "endwith")) ? n : NULL;
}

static struct jnode *parse_generation(struct jparser *p)
{
    struct jnode *n = jparse_node(p, JN_GENERATION);
    p->tree->has_generation = true;
    return n && (n->arg = parse_function(p, "endgeneration")) ? n : NULL;
}

static struct jnode *parse_print(struct jparser *p)
{
    struct jnode *block = jparse_node(p, JN_BLOCK);
    while (block && p->tok->kind != JTOK_BLOCK_END) {
        if (block->list.n && jparse_expect(p, JTOK_COMMA))
            return NULL;
        struct jnode *n = jparse_node(p, JN_PRINT);
        if (!n || !(n->arg = jparse_expr(p)) || jparse_add(p, &block->list, n))
            return NULL;
    }
    return block;
}

static struct jnode *parse_jump(struct jparser *p)
{
    bool is_break = p->tok[-1].len == strlen("break");
    struct jnode *n = jparse_node(p, is_break ? JN_BREAK : JN_CONTINUE);
    if (p->loops > 0)
        return n;
    jparse_fail(p, "'%s' outside of a loop", is_break ? "break" : "continue");
    return NULL;
}

static struct jnode *parse_refused(struct jparser *p)
{
    err_set(p->e, ERR_UNSUPPORTED,
            "template line %d: a chat template stands alone: '%.*s' is not supported", p->tok->line,
            (int)p->tok[-1].len, p->tok[-1].p);
    return NULL;
}

static struct jnode *parse_statement(struct jparser *p)
{
    static const struct {
        const char *name;
        struct jnode *(*parse)(struct jparser *);
    } rows[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"generation", parse_generation},
        {"print", parse_print},
        {"break", parse_jump},
        {"continue", parse_jump},
        {"include", parse_refused},
        {"import", parse_refused},
        {"from", parse_refused},
        {"extends", parse_refused},
        {"block", parse_refused},
        {"autoescape", parse_refused},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (jparse_skip_name(p, rows[i].name))
            return rows[i].parse(p);
    if (p->tok->kind == JTOK_NAME)
        jparse_fail(p, "unknown tag '%.*s'", (int)(p->tok->len < 40 ? p->tok->len : 40), p->tok->p);
    else
        jparse_fail(p, "the name of a tag was expected, not %s", jtok_name(p->tok->kind));
    return NULL;
}

static bool is_one_of(const struct jparser *p, const char *const *names)
{
    for (; names && *names; names++)
        if (jparse_is(p, *names))
            return true;
    return false;
}

/* One piece of a body: text, {{ }} or a whole statement; *is_end at one of the end tags. */
static struct jnode *parse_piece(struct jparser *p, const char *const *ends, bool *is_end)
{
    struct jnode *n = NULL;
    if (p->tok->kind == JTOK_DATA) {
        n = jparse_node(p, JN_TEXT);
        if (n && jv_str_view(p->a, p->tok->p, p->tok->len, &n->value, p->e))
            return NULL;
        p->tok++;
    } else if (jparse_skip(p, JTOK_VAR_BEGIN)) {
        n = jparse_node(p, JN_PRINT);
        if (!n || !(n->arg = jparse_tuple(p, JTUPLE_EXPR, NULL, false)) ||
            jparse_expect(p, JTOK_VAR_END))
            return NULL;
    } else if (jparse_skip(p, JTOK_BLOCK_BEGIN)) {
        *is_end = is_one_of(p, ends);
        if (*is_end)
            return NULL;
        n = parse_statement(p);
        if (n && jparse_expect(p, JTOK_BLOCK_END))
            return NULL;
    }
    return n;
}

static struct jnode *parse_body(struct jparser *p, const char *const *ends)
{
    struct jnode *block = jparse_node(p, JN_BLOCK);
    bool is_end = false;
    if (!block || jparse_enter(p))
        return NULL;
    while (p->tok->kind != JTOK_EOF) {
        struct jnode *n = parse_piece(p, ends, &is_end);
        if (is_end)
            break;
        if (jparse_add(p, &block->list, n))
            return NULL;
    }
    if (ends && !is_end) {
        jparse_fail(p, "the template ends where '%s' was expected", ends[0]);
        return NULL;
    }
    p->depth--;
    return block;
}

int jinja_parse(struct arena *a, const char *src, size_t len, struct jtree *out, struct err *e)
{
    struct jtoks toks;
    struct jparser p = {.a = a, .e = e, .tree = out};
    *out = (struct jtree){0};
    if (jinja_lex(a, src, len, &toks, e))
        return -1;
    p.tok = toks.at;
    map_init(&p.sym);
    out->sym_loop = jparse_sym(&p, "loop", 4);
    out->sym_caller = jparse_sym(&p, "caller", 6);
    out->sym_varargs = jparse_sym(&p, "varargs", 7);
    out->sym_kwargs = jparse_sym(&p, "kwargs", 6);
    if (out->sym_loop && out->sym_caller && out->sym_varargs && out->sym_kwargs)
        out->body = parse_body(&p, NULL);
    map_release(&p.sym);
    return out->body ? 0 : -1;
}
