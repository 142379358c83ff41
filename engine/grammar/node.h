/* SPDX-License-Identifier: Apache-2.0
 *
 * An expression as it was written: what the parsers of regexes and grammars make. A tree in the
 * arena of a budget, at most NODE_MAX_DEPTH deep, so that walks over it may recurse.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_NODE_H
#define ENGINE_GRAMMAR_NODE_H

#include "engine/grammar/charset.h"

enum { NODE_MAX_DEPTH = 128, NODE_MAX_COUNT = 65535 };

enum node_kind {
    NODE_EMPTY,
    NODE_SET, /* one character of a set */
    NODE_CAT,
    NODE_ALT,
    NODE_REPEAT,
    NODE_RULE, /* what another rule makes */
    NODE_CLAIM /* a place where something must hold: ^, $, \b */
};

enum claim {
    CLAIM_TEXT_BEGIN,
    CLAIM_TEXT_END,
    CLAIM_LINE_BEGIN,
    CLAIM_LINE_END,
    CLAIM_WORD_EDGE,
    CLAIM_NO_WORD_EDGE
};

#define NODE_NO_MAX UINT32_MAX

struct node {
    enum node_kind kind;
    enum claim claim;        /* NODE_CLAIM */
    uint32_t min, max;       /* NODE_REPEAT */
    uint32_t rule;           /* NODE_RULE */
    struct charset set;      /* NODE_SET */
    LIST(struct node *) kid; /* NODE_CAT, NODE_ALT; NODE_REPEAT: one */
};

struct node *node_new(struct budget *b, enum node_kind kind);
struct node *node_set(struct budget *b, struct charset set);
struct node *node_char(struct budget *b, uint32_t c);
/* The characters of valid UTF-8, one behind the other. */
struct node *node_text(struct budget *b, const char *text, size_t len);
struct node *node_repeat(struct budget *b, struct node *what, uint32_t min, uint32_t max);
/* What it says of the whole text: `n` without a ^ at its beginning and a $ at its end; NULL when it
 * has not both, or claims anything else. */
struct node *node_unclaimed(struct budget *b, struct node *n);

/* How it runs as it is written: the most counts that can run at once, one in another, the longest
 * count of a single character, and whether it claims anything. */
struct node_counts {
    uint64_t nested;
    uint32_t longest;
    bool claims;
};
struct node_counts node_count(const struct node *n);

struct node *node_pair(struct budget *b, enum node_kind kind, struct node *x, struct node *y);

#endif
