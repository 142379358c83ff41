/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of texts as deterministic automata over characters: what a regex matches, what a list of
 * names holds, and by dfa_combine what both have, or the one without the other. This is how a
 * schema's `pattern`, `format`, `maxLength` and the names that are not listed become one thing.
 *
 * Characters fall into classes that no automaton of the expression tells apart; a row of `next` has
 * a state per class. Each state of a finished automaton leads to acceptance: a text that has not
 * failed can still be completed. An automaton of no states accepts nothing.
 *
 * Thread: one at a time; in the arena of a budget.
 */
#ifndef ENGINE_GRAMMAR_DFA_H
#define ENGINE_GRAMMAR_DFA_H

#include "engine/grammar/node.h"

#define DFA_DEAD UINT32_MAX

struct dfa_span {
    uint32_t lo, hi, cls; /* characters lo to hi are of this class */
};

struct dfa {
    uint32_t n_state, n_class, start;
    uint32_t *next; /* [n_state, n_class] */
    bool *accepts;  /* [n_state] */
    struct dfa_span *span;
    uint32_t n_span; /* in order, all characters */
};

enum dfa_op { DFA_AND, DFA_BUT_NOT };

/* NULL when the budget fails. `whole`: the text matches as a whole; else anywhere in it. */
struct dfa *dfa_of(struct budget *b, struct node *n, bool whole);
struct dfa *dfa_combine(struct budget *b, enum dfa_op op, const struct dfa *x, const struct dfa *y);
/* DFA_AND; *is_full: it needs more states than `most`, and there is none. */
struct dfa *dfa_both_within(struct budget *b, const struct dfa *x, const struct dfa *y,
                            uint32_t most, bool *is_full);
/* Of its texts those of min to max characters (UINT32_MAX: any number). */
struct dfa *dfa_lengths(struct budget *b, const struct dfa *x, uint32_t min, uint32_t max);
struct dfa *dfa_any(struct budget *b);
bool dfa_is_empty(const struct dfa *d);
bool dfa_accepts(const struct dfa *d, const char *text, size_t len);

/* For the files that make them: drops states that lead nowhere or are led to by none. */
struct dfa *dfa_trim(struct budget *b, struct dfa *d);
/* The same texts with the fewest states. */
struct dfa *dfa_least(struct budget *b, const struct dfa *d);

#endif
