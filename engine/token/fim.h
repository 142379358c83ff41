/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a gap ("fill in the middle"): models that learnt it have tokens that stand before the
 * text in front of the gap, before the text behind it, and before what fills it. Which model has
 * which is told from its tokenizer; there is no other mark of it in a model's files.
 *
 * Thread: any; pure functions.
 */
#ifndef ENGINE_TOKEN_FIM_H
#define ENGINE_TOKEN_FIM_H

#include "engine/token/tokenizer.h"

enum { FIM_ENDS_MAX = 4, FIM_SEGMENTS = 6 };

struct fim_marks {
    const char *before, *behind;   /* stands before the text in front of the gap; behind it */
    const char *gap;               /* stands before what fills it; NULL: nothing does */
    bool is_behind_first;          /* the text behind the gap comes first */
    const char *end[FIM_ENDS_MAX]; /* tokens that end what fills it, besides the model's own */
};

/* NULL: it has no such tokens. */
const struct fim_marks *fim_marks_find(const struct tokenizer *t);

/* The ids of the ends that the tokenizer has; how many. */
int32_t fim_marks_ends(const struct fim_marks *m, const struct tokenizer *t,
                       int32_t id[FIM_ENDS_MAX]);

/* The text around a gap; and what of the answer is there already. Borrowed, not terminated. */
struct fim_text {
    const char *before, *behind, *begun;
    size_t n_before, n_behind, n_begun;
};

/* A prompt's segments, of which the marks alone may be special tokens; how many. */
size_t fim_marks_segments(const struct fim_marks *m, const struct fim_text *text,
                          struct tok_segment seg[FIM_SEGMENTS]);

#endif
