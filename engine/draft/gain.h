/* SPDX-License-Identifier: Apache-2.0
 *
 * How many rows of guesses pay in a step, from what steps of so many rows took of late.
 *
 * Points of rows and time, close together where rows are few; between two a line, beyond the last a
 * cautious guess: rows cost as if the work were more and more that of the rows, the fewer there are
 * the less. A point that no step has touched for long is forgotten, so that what was too dear once
 * is tried again now and then, and a step without guesses comes at least every GAIN_PLAIN, so that
 * what it takes is always known. Both cost a percent where they cost anything.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_DRAFT_GAIN_H
#define ENGINE_DRAFT_GAIN_H

#include <stdint.h>

enum { GAIN_POINTS = 32, GAIN_PLAIN = 64, GAIN_STALE = 1024 };

struct gain {
    struct {
        double rows, us; /* us 0: not known */
        int64_t seen_at;
    } point[GAIN_POINTS];
    int64_t n_step, plain_at; /* plain_at: the last step without guesses */
};

/* A step of n texts and n_draft guesses, and nothing else, took us. */
void gain_saw(struct gain *g, int64_t n, int64_t n_draft, int64_t us);

/* Of n_row rows of guesses, chance[] that each is reached and right, descending: how many to run
 * beside n texts. 0: none pays. */
int64_t gain_rows(const struct gain *g, int64_t n, const float *chance, int64_t n_row);

#endif
