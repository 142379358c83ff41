/* SPDX-License-Identifier: Apache-2.0
 *
 * How many of a text's tokens are its thoughts, their marks among them: all up to the one that
 * ends the thoughts, or none where the text begins with no thoughts.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TOOLS_THINK_COUNT_H
#define ENGINE_TOOLS_THINK_COUNT_H

#include <stddef.h>
#include <stdint.h>

#include "engine/tools/think_reader.h"

struct think_count {
    const struct think_marks *marks; /* borrowed; NULL: nothing is counted */
    enum think_place place;
    size_t n_match; /* bytes of the mark that is looked for */
    int64_t n;      /* tokens so far, while they may be thoughts */
};

/* A token's text; what a token adds may come with the next one. */
void think_count_token(struct think_count *c, const char *text, size_t n);
int64_t think_count_get(const struct think_count *c);

#endif
