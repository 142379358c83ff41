/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean": the name of a list that a mistyped word most likely stands for. Two words are as
 * far apart as the letters that must be added, dropped, changed or swapped with their neighbour.
 *
 *     struct nearest n;
 *     nearest_init(&n, "sevre");
 *     for each name: nearest_add(&n, name);
 *     if (n.name) ... "did you mean %s?"
 *
 * Thread: any; a struct nearest belongs to one caller.
 */
#ifndef ENGINE_BASE_NEAREST_H
#define ENGINE_BASE_NEAREST_H

struct nearest {
    const char *word; /* borrowed */
    const char *name; /* borrowed: the best so far; NULL when none is near enough to be meant */
    int far;          /* its distance from word */
};

void nearest_init(struct nearest *n, const char *word);
void nearest_add(struct nearest *n, const char *name);

#endif
