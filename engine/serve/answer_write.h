/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's side of an answer: making room for it, adding to it, ending it.
 *
 * A bell tells the engine that one of its answers was cancelled, so that it looks at their flags
 * only then. It is counted, because a reader may keep an answer, and cancel it, when the engine is
 * gone.
 *
 * Thread: answer_new from any; the rest from the engine's thread.
 */
#ifndef ENGINE_SERVE_ANSWER_WRITE_H
#define ENGINE_SERVE_ANSWER_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/sample/sampler.h"
#include "engine/serve/answer.h"

struct answer_bell;

struct answer_bell *answer_bell_new(void); /* one reference */
void answer_bell_unref(struct answer_bell *b);
bool answer_bell_rang(struct answer_bell *b); /* since the last call */

/* What an answer may come to hold. */
struct answer_room {
    int64_t n_prompt, max_new, n_vector;
    int32_t n_top;
    bool wants_prompt, wants_ranks;
};

size_t answer_bytes(const struct answer_room *room);
struct answer *answer_new(const struct answer_room *room, struct answer_bell *bell, struct err *e);

bool answer_is_cancelled(const struct answer *a);

/* One more token, seen by the reader from here on. `top` as many as there are, at most n_top. */
void answer_put(struct answer *a, const struct answer_token *t, const struct sample_top *top,
                int32_t n_top);

/* Of the prompt's token i >= 1; changes nothing once a token of the answer is there. */
void answer_put_prompt(struct answer *a, int64_t i, const struct sample_taken *t);
float *answer_vector_room(struct answer *a); /* [n_vector] */

/* What the end will say, to be filled before it is published. */
struct answer_end *answer_end_room(struct answer *a);
void answer_close(struct answer *a, enum gen_end why);

#endif
