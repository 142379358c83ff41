/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean": the distance of two words in slips of the hand (a letter missing, added, wrong,
 * or two swapped), and the nearest of a list.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_NEAR_H
#define ENGINE_BASE_NEAR_H

#include <stddef.h>

enum { NEAR_LEN_MAX = 64 };
int near_distance(const char *a, const char *b); /* INT_MAX when one is longer than that */

/* Keeps the best of the words shown to it: struct near n = {.word = "prot"}; near_try(&n, "port")
 * for each; n.best is NULL when nothing is near enough to be meant. */
struct near {
    const char *word; /* borrowed */
    const char *best; /* borrowed: of the words tried */
    int distance;
};

void near_try(struct near *n, const char *candidate);

#endif
