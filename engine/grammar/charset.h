/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of characters: sorted ranges of code points that neither touch nor overlap. Surrogates are
 * no characters and never in a set.
 *
 * Thread: one at a time; a finished set is only read.
 */
#ifndef ENGINE_GRAMMAR_CHARSET_H
#define ENGINE_GRAMMAR_CHARSET_H

#include "engine/grammar/budget.h"

enum { CHAR_MAX_CODE = 0x10ffff };

struct char_range {
    uint32_t lo, hi; /* both are in */
};

struct charset {
    struct char_range *at; /* in the budget's arena */
    uint32_t n, cap;
};

/* Ranges may be added in any order; charset_tidy makes a set of them. */
void charset_add(struct budget *b, struct charset *s, uint32_t lo, uint32_t hi);
void charset_tidy(struct charset *s);

/* All of these give and take tidy sets. */
struct charset charset_not(struct budget *b, const struct charset *s);
struct charset charset_and(struct budget *b, const struct charset *x, const struct charset *y);
void charset_add_set(struct budget *b, struct charset *s, const struct charset *more);
struct charset charset_any(struct budget *b);
bool charset_has(const struct charset *s, uint32_t c);
bool charset_same(const struct charset *x, const struct charset *y);

/* The other cases of each character join the set. */
int charset_fold(struct budget *b, struct charset *s);

/* A Unicode property as PCRE2 knows it: "L", "Greek", "Script=Greek". */
int charset_property(struct budget *b, const char *name, size_t len, bool negated,
                     struct charset *out);

#endif
