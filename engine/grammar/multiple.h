/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole multiples of a number, as texts: an automaton over what is left over when the digits so far
 * are divided by it, with the fewest states that do. 10000 needs five, for the last digits alone
 * say it; 9973 needs 9973.
 *
 * Met with the numbers between bounds, whose automata count digits, it has a state for each pair:
 * where these are too many the schema is refused by the name of its keyword.
 *
 * Thread: one at a time; in the arena of a budget.
 */
#ifndef ENGINE_GRAMMAR_MULTIPLE_H
#define ENGINE_GRAMMAR_MULTIPLE_H

#include "engine/grammar/dfa.h"

struct multiple {
    const char *path; /* borrowed: of the schema, for errors */
    struct dfa *dfa;  /* numbers without a sign; NULL: any */
    int n_part;       /* digits behind the point */
};

/* text: the number in decimal, without an exponent. Both fail with the budget. */
int multiple_init(struct budget *b, struct multiple *m, const char *text);
struct dfa *multiple_met(struct budget *b, const struct multiple *m, const struct dfa *numbers);

#endif
