/* SPDX-License-Identifier: Apache-2.0
 *
 * The lexer proper: it walks between three states (outside, in a tag, in raw) without recursion.
 * Inside a tag an end mark counts only when brackets are balanced, so that {{ {'a': {}} }} closes
 * where a reader thinks it does.
 */
#include "engine/template/jinja_lex.h"

#include <stdlib.h>
#include <string.h>

#include "engine/template/jinja_lit.h"
#include "engine/template/jinja_uni.h"

enum { MAX_BRACKETS = 128, MAX_TOKENS = 1 << 20 };

struct lexer {
    struct arena *a;
    struct jtoks *out;
    struct err *e;
    const char *p, *end, *begin;
    const char *counted; /* lines are counted up to here */
    int line;
    bool is_line_start; /* the last thing matched ended with a newline */
    char open[MAX_BRACKETS];
    size_t n_open;
};

static int line_at(struct lexer *x, const char *p)
{
    for (; x->counted < p; x->counted++)
        x->line += *x->counted == '\n';
    return x->line;
}

static int fail(struct lexer *x, const char *what)
{
    return err_set(x->e, ERR_BAD_INPUT, "template line %d: %s", line_at(x, x->p), what);
}

static struct jtok *push(struct lexer *x, enum jtok_kind kind, const char *p, size_t len)
{
    struct jtoks *t = x->out;
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 256;
        struct jtok *at = cap > MAX_TOKENS ? NULL : arena_try(x->a, cap, sizeof *at, x->e);
        if (!at) {
            if (cap > MAX_TOKENS)
                err_set(x->e, ERR_TOO_LARGE, "template has more than %d tokens", MAX_TOKENS / 2);
            return NULL;
        }
        if (t->n)
            memcpy(at, t->at, t->n * sizeof *at);
        t->at = at;
        t->cap = cap;
    }
    struct jtok *tok = &t->at[t->n++];
    *tok = (struct jtok){.kind = kind, .line = line_at(x, p), .p = p, .len = len};
    return tok;
}

static bool at(const struct lexer *x, const char *p, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(x->end - p) >= n && memcmp(p, what, n) == 0;
}

/* The end of a tag at p ("%}" and the like): after '-' all blanks that follow go too, and with
 * `trim` one newline. Returns NULL when the tag does not end here. */
static const char *tag_end(const struct lexer *x, const char *p, const char *mark, bool trim)
{
    if (*p == '-' && at(x, p + 1, mark))
        return juni_skip_space(p + 3, x->end);
    if (trim && *p == '+' && at(x, p + 1, mark))
        return p + 3;
    if (!at(x, p, mark))
        return NULL;
    p += 2;
    return trim && p < x->end && *p == '\n' ? p + 1 : p;
}

/* Text before a tag whose sign is at `sign`, with what the sign and lstrip_blocks take away. */
static int push_data(struct lexer *x, const char *from, const char *to, char sign, bool is_var)
{
    if (sign == '-') {
        to = juni_rstrip_space(from, to);
    } else if (sign != '+' && !is_var) {
        const char *l = to;
        while (l > from && l[-1] != '\n')
            l--;
        if ((l > from || x->is_line_start) && juni_skip_space(l, to) == to)
            to = l;
    }
    return to > from && !push(x, JTOK_DATA, from, (size_t)(to - from)) ? -1 : 0;
}

static void took(struct lexer *x, const char *to)
{
    x->is_line_start = to > x->begin && to[-1] == '\n';
    x->p = to;
}

static int lex_comment(struct lexer *x, const char *body)
{
    for (const char *p = body; p < x->end; p++) {
        const char *to = tag_end(x, p, "#}", true);
        if (to) {
            took(x, to);
            return 0;
        }
    }
    return fail(x, "missing end of comment tag");
}

/* Past "{%", a sign, blanks and `word`; NULL when something else stands here. */
static const char *tag_word(const struct lexer *x, const char *p, const char *word)
{
    if (!at(x, p, "{%"))
        return NULL;
    p += 2;
    if (p < x->end && (*p == '-' || *p == '+'))
        p++;
    p = juni_skip_space(p, x->end);
    return at(x, p, word) ? juni_skip_space(p + strlen(word), x->end) : NULL;
}

static const char *raw_begin(const struct lexer *x, const char *p)
{
    p = tag_word(x, p, "raw");
    return p && p < x->end ? tag_end(x, p, "%}", false) : NULL;
}

static int lex_raw(struct lexer *x, const char *body)
{
    took(x, body);
    for (const char *p = body; p < x->end; p++) {
        const char *to = *p == '{' ? tag_word(x, p, "endraw") : NULL;
        if (!to || to == x->end || !(to = tag_end(x, to, "%}", true)))
            continue;
        if (push_data(x, body, p, p[2], false))
            return -1;
        took(x, to);
        return 0;
    }
    return fail(x, "missing end of raw directive");
}

static enum jtok_kind operator_at(const char *p, const char *end, size_t *len)
{
    static const struct {
        const char text[3];
        enum jtok_kind kind;
    } ops[] = {
        {"//", JTOK_FLOORDIV}, {"**", JTOK_POW},   {"==", JTOK_EQ},      {"!=", JTOK_NE},
        {">=", JTOK_GE},       {"<=", JTOK_LE},    {"+", JTOK_ADD},      {"-", JTOK_SUB},
        {"*", JTOK_MUL},       {"/", JTOK_DIV},    {"%", JTOK_MOD},      {"~", JTOK_TILDE},
        {"<", JTOK_LT},        {">", JTOK_GT},     {"=", JTOK_ASSIGN},   {".", JTOK_DOT},
        {":", JTOK_COLON},     {"|", JTOK_PIPE},   {",", JTOK_COMMA},    {";", JTOK_SEMICOLON},
        {"(", JTOK_LPAREN},    {")", JTOK_RPAREN}, {"[", JTOK_LBRACKET}, {"]", JTOK_RBRACKET},
        {"{", JTOK_LBRACE},    {"}", JTOK_RBRACE},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        *len = strlen(ops[i].text);
        if ((size_t)(end - p) >= *len && memcmp(p, ops[i].text, *len) == 0)
            return ops[i].kind;
    }
    return JTOK_EOF;
}

static int lex_operator(struct lexer *x)
{
    size_t len;
    enum jtok_kind kind = operator_at(x->p, x->end, &len);
    if (kind == JTOK_EOF)
        return fail(x, "unexpected character in a tag");
    if (kind == JTOK_LPAREN || kind == JTOK_LBRACKET || kind == JTOK_LBRACE) {
        if (x->n_open == MAX_BRACKETS)
            return fail(x, "brackets nested too deep");
        x->open[x->n_open++] = (char)kind;
    } else if (kind == JTOK_RPAREN || kind == JTOK_RBRACKET || kind == JTOK_RBRACE) {
        if (x->n_open == 0 || x->open[x->n_open - 1] != (char)kind - 1)
            return fail(x, "unbalanced bracket");
        x->n_open--;
    }
    if (!push(x, kind, x->p, len))
        return -1;
    x->p += len;
    return 0;
}

static int lex_string(struct lexer *x)
{
    const char *q = x->p + 1;
    while (q < x->end && *q != *x->p)
        q += *q == '\\' && q + 1 < x->end ? 2 : 1;
    if (q >= x->end)
        return fail(x, "string literal is not closed");
    struct jtok *t = push(x, JTOK_STRING, x->p, 0);
    if (!t)
        return -1;
    if (jlit_unescape(x->a, x->p + 1, (size_t)(q - x->p - 1), &t->p, &t->len, x->e))
        return err_wrap(x->e, "template line %d", t->line);
    x->p = q + 1;
    return 0;
}

static int lex_number(struct lexer *x)
{
    struct jtok *t = push(x, JTOK_INT, x->p, 0);
    if (!t)
        return -1;
    bool is_after_dot = x->p > x->begin && x->p[-1] == '.';
    t->len = jlit_float(x->p, x->end, is_after_dot, &t->f);
    if (t->len) {
        t->kind = JTOK_FLOAT;
    } else {
        t->len = jlit_int(x->p, x->end, &t->i);
        if (t->len == 0)
            return fail(x, "integer does not fit in 64 bits");
    }
    x->p += t->len;
    return 0;
}

/* The inside of a tag, to its end mark. */
static int lex_tag(struct lexer *x, bool is_var)
{
    x->n_open = 0;
    for (;;) {
        x->p = juni_skip_space(x->p, x->end);
        if (x->p == x->end)
            return fail(x, is_var ? "end of {{ tag is missing" : "end of {% tag is missing");
        const char *to = NULL;
        if (x->n_open == 0)
            to = is_var ? tag_end(x, x->p, "}}", false) : tag_end(x, x->p, "%}", true);
        if (to) {
            if (!push(x, is_var ? JTOK_VAR_END : JTOK_BLOCK_END, x->p, 2))
                return -1;
            took(x, to);
            return 0;
        }
        size_t name = juni_name_len(x->p, x->end);
        int bad = 0;
        if (*x->p >= '0' && *x->p <= '9') {
            bad = lex_number(x);
        } else if (name) {
            bad = !push(x, JTOK_NAME, x->p, name);
            x->p += name;
        } else {
            bad = *x->p == '\'' || *x->p == '"' ? lex_string(x) : lex_operator(x);
        }
        if (bad)
            return -1;
    }
}

/* From x->p, outside of tags: text up to the next tag, then that tag. */
static int lex_outside(struct lexer *x)
{
    const char *p = x->p;
    for (; p < x->end; p++)
        if (*p == '{' && p + 1 < x->end && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            break;
    if (p == x->end) {
        int bad = p > x->p && !push(x, JTOK_DATA, x->p, (size_t)(p - x->p));
        x->p = p;
        return bad ? -1 : 0;
    }
    const char *sign = p + 2;
    char s = sign < x->end && (*sign == '-' || *sign == '+') ? *sign : 0;
    bool is_var = p[1] == '{';
    if (push_data(x, x->p, p, s, is_var))
        return -1;
    x->p = p;
    if (p[1] == '#')
        return lex_comment(x, sign + (s != 0));
    const char *body = is_var ? NULL : raw_begin(x, p);
    if (body)
        return lex_raw(x, body);
    if (!push(x, is_var ? JTOK_VAR_BEGIN : JTOK_BLOCK_BEGIN, p, 2))
        return -1;
    x->p = sign + (s != 0);
    return lex_tag(x, is_var);
}

int jinja_lex(struct arena *a, const char *src, size_t len, struct jtoks *out, struct err *e)
{
    if (len && src[len - 1] == '\n')
        len--;
    struct lexer x = {.a = a,
                      .out = out,
                      .e = e,
                      .p = src,
                      .end = src + len,
                      .begin = src,
                      .counted = src,
                      .line = 1,
                      .is_line_start = true};
    *out = (struct jtoks){0};
    while (x.p < x.end)
        if (lex_outside(&x))
            return -1;
    return push(&x, JTOK_EOF, x.end, 0) ? 0 : -1;
}

const char *jtok_name(enum jtok_kind kind)
{
    static const char *const names[] = {"end of template",
                                        "text",
                                        "{{",
                                        "}}",
                                        "{%",
                                        "%}",
                                        "a name",
                                        "a string",
                                        "an integer",
                                        "a float",
                                        "+",
                                        "-",
                                        "*",
                                        "/",
                                        "//",
                                        "%",
                                        "**",
                                        "~",
                                        "==",
                                        "!=",
                                        "<",
                                        "<=",
                                        ">",
                                        ">=",
                                        "=",
                                        ".",
                                        ":",
                                        ",",
                                        ";",
                                        "|",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}"};
    return names[kind];
}
