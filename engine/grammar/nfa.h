/* SPDX-License-Identifier: Apache-2.0
 *
 * An expression as a program of small steps, on the way to a DFA.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_NFA_H
#define ENGINE_GRAMMAR_NFA_H

#include "engine/grammar/node.h"

enum nfa_kind { NFA_SET, NFA_SPLIT, NFA_CLAIM, NFA_MATCH };

struct nfa_step {
    uint8_t kind, claim;
    uint32_t x, y; /* SPLIT: both; SET, CLAIM: x comes next, y is the set's number */
};

struct nfa {
    LIST(struct nfa_step) step;
    LIST(const struct charset *) set; /* each once */
    uint32_t start;
    bool has_claims;
};

/* -1 when the budget fails. A NODE_RULE is a fault of the caller. */
int nfa_build(struct budget *b, struct node *n, struct nfa *out);

#endif
