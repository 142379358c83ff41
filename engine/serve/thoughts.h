/* SPDX-License-Identifier: Apache-2.0
 *
 * A limit of a text's thoughts: once they have so many tokens, the next one is the mark that ends
 * them. Where a text stands follows from its tokens alone, so neither neighbours nor guesses, nor
 * a text that was put off, change where its thoughts end.
 *
 * Thread: the engine's.
 */
#ifndef ENGINE_SERVE_THOUGHTS_H
#define ENGINE_SERVE_THOUGHTS_H

#include "engine/serve/gen.h"
#include "engine/token/tokenizer.h"

enum thoughts_at { THOUGHTS_OVER, THOUGHTS_MAY, THOUGHTS_INSIDE };

struct thoughts {
    const struct tokenizer *tokenizer; /* borrowed */
    enum thoughts_at at;
    int32_t open, close;
    int64_t left; /* tokens that they may still have */
};

/* Without a limit they are over. */
void thoughts_init(struct thoughts *t, const struct gen_thoughts *ask, const struct tokenizer *tok);
void thoughts_heard(struct thoughts *t, int32_t id); /* it is the text's next token */

static inline bool thoughts_count(const struct thoughts *t)
{
    return t->at != THOUGHTS_OVER;
}

static inline bool thoughts_must_end(const struct thoughts *t)
{
    return t->at == THOUGHTS_INSIDE && t->left <= 0;
}

#endif
