/* SPDX-License-Identifier: Apache-2.0
 *
 * Template text to tokens, all at once, into an array that ends with JTOK_EOF. The rules of
 * whitespace live here and nowhere else: trim_blocks (a newline after a block tag goes),
 * lstrip_blocks (blanks before a block tag at the start of a line go), the signs - and + inside
 * tags, {% raw %}, comments, and the one newline at the very end that is dropped.
 *
 * Tokens point into the source, whose newlines were made \n by the caller; string literals are
 * unescaped into the arena.
 *
 * Thread: any.
 */
#ifndef ENGINE_TEMPLATE_JINJA_LEX_H
#define ENGINE_TEMPLATE_JINJA_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

enum jtok_kind {
    JTOK_EOF,
    JTOK_DATA,
    JTOK_VAR_BEGIN,
    JTOK_VAR_END,
    JTOK_BLOCK_BEGIN,
    JTOK_BLOCK_END,
    JTOK_NAME,
    JTOK_STRING,
    JTOK_INT,
    JTOK_FLOAT,
    JTOK_ADD,
    JTOK_SUB,
    JTOK_MUL,
    JTOK_DIV,
    JTOK_FLOORDIV,
    JTOK_MOD,
    JTOK_POW,
    JTOK_TILDE,
    JTOK_EQ,
    JTOK_NE,
    JTOK_LT,
    JTOK_LE,
    JTOK_GT,
    JTOK_GE,
    JTOK_ASSIGN,
    JTOK_DOT,
    JTOK_COLON,
    JTOK_COMMA,
    JTOK_SEMICOLON,
    JTOK_PIPE,
    JTOK_LPAREN,
    JTOK_RPAREN,
    JTOK_LBRACKET,
    JTOK_RBRACKET,
    JTOK_LBRACE,
    JTOK_RBRACE
};

struct jtok {
    enum jtok_kind kind;
    int line;
    const char *p; /* borrowed: source or arena */
    size_t len;
    union {
        int64_t i;
        double f;
    };
};

struct jtoks {
    struct jtok *at; /* in the arena */
    size_t n, cap;
};

int jinja_lex(struct arena *a, const char *src, size_t len, struct jtoks *out, struct err *e);
const char *jtok_name(enum jtok_kind kind); /* for error texts */

#endif
