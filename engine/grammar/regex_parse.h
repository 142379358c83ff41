/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions as RE2 reads them, and as ECMA-262 does (`pattern` of JSON Schema): what both
 * share, and the escapes of each. What needs backtracking (references, looking around, atomic
 * groups, possessive quantifiers) is refused with its place. Whether a quantifier is greedy says
 * nothing about which texts match, and is read over.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_REGEX_PARSE_H
#define ENGINE_GRAMMAR_REGEX_PARSE_H

#include "engine/grammar/node.h"

enum regex_dialect { REGEX_RE2, REGEX_ECMA };

enum { REGEX_MAX_BYTES = 64 << 10 };

/* NULL with the budget's error, which tells the byte. */
struct node *regex_parse(struct budget *b, const char *text, size_t len,
                         enum regex_dialect dialect);

/* For the files of the parser. */
struct regex_text {
    struct budget *b;
    const uint8_t *begin, *p, *end;
    enum regex_dialect dialect;
    bool no_case, multi_line, dot_all;
    int depth;
};

int regex_fail(struct regex_text *t, const char *what);
/* Behind a backslash: 1 when it is a class, which joins `set`; 0 when it is the character *c; -1.
 */
int regex_escape(struct regex_text *t, bool in_set, struct charset *set, uint32_t *c);
/* Behind the '[' of a set. */
int regex_set(struct regex_text *t, struct charset *set);
uint32_t regex_next(struct regex_text *t);

#endif
