/* SPDX-License-Identifier: Apache-2.0
 *
 * The guesses for one text: what followed the last time that it said what it says now; and how
 * often such guesses were right of late, by how long a piece of the text came back. That is learnt
 * of every guess, run or not, from the token that came in its place.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_DRAFT_DRAFT_H
#define ENGINE_DRAFT_DRAFT_H

#include "engine/draft/ngram.h"

enum { DRAFT_MAX = 15, DRAFT_GRADES = 4 };

struct draft {
    struct ngram *ngram;       /* owned */
    float right[DRAFT_GRADES]; /* of guesses behind a piece of such length */
    int32_t guess[DRAFT_MAX];
    int32_t n_guess, n_right, grade; /* right: leading ones that have come */
    int64_t at;                      /* the place that they are from, which goes on with the text */
};

int draft_init(struct draft *d, int64_t n_max, struct err *e); /* a text of at most n_max tokens */
void draft_release(struct draft *d);
size_t draft_bytes(int64_t n_max); /* beside the struct */

/* Guesses what follows the text, at most `most` tokens, into d->guess; how many. */
int64_t draft_look(struct draft *d, const int32_t *token, int64_t n, int64_t most);

/* The chance that a guess is right, those before it being so. */
float draft_chance(const struct draft *d);

void draft_heard(struct draft *d, int32_t token); /* it came */

#endif
