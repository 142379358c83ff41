/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of one generation, between the engine that writes it and the one who reads it. It has
 * room for the whole answer from the start, is only ever added to, and is published by a count; so
 * neither end waits for the other, and a slow reader costs nothing.
 *
 * The reader turns ids into text itself (detok); the engine does so only where it has to look for
 * stop strings, and then says how much of the text is certain.
 *
 * Counted: one reference for the reader, one for the engine. Cancelling is a flag that the engine
 * sees before its next step.
 *
 * Thread: one writer, one reader, atomics only.
 */
#ifndef ENGINE_SERVE_ANSWER_H
#define ENGINE_SERVE_ANSWER_H

#include <stdatomic.h>
#include <stddef.h>

#include "engine/base/err.h"
#include "engine/serve/gen.h"

struct answer_token {
    int64_t at_us; /* clock_us when it was made */
    int32_t id;
    float logprob;      /* where wanted */
    uint64_t text_safe; /* bytes of the answer's text that may be shown now; UINT64_MAX: all */
};

struct answer_top {
    int32_t id;
    float logprob;
};

/* Set before the end is published, constant after. */
struct answer_end {
    struct err err;      /* of GEN_FAILED */
    int32_t stop_id;     /* the token that ended it, not among the tokens; -1 */
    float stop_logprob;  /* its, where wanted */
    int32_t stop_index;  /* the stop string that ended it; -1 */
    uint64_t text_bytes; /* where the shown text ends; UINT64_MAX: with the last token */
    int64_t queued_us, first_us, end_us; /* clock_us: left the queue, first token, end */
    int64_t n_cached;                    /* tokens of the prompt that stood already */
    int64_t n_drafted, n_accepted;       /* tokens guessed and run; of these, what became text */
};

struct answer;

struct answer *answer_ref(struct answer *a);
void answer_unref(struct answer *a);

/* The reader's side. Ask for the state first and for the count then: once it ended, the count is
 * that of the whole answer. */
size_t answer_count(const struct answer *a); /* tokens there now; acquire */
const struct answer_token *answer_token(const struct answer *a, size_t i);
/* [n_top] of token i; behind the last of a small vocabulary the id is -1. */
const struct answer_top *answer_top(const struct answer *a, size_t i);
/* Of the prompt's token i >= 1, once a token of the answer or the end is there; where wanted. */
float answer_prompt_logprob(const struct answer *a, size_t i);
int32_t answer_prompt_rank(const struct answer *a, size_t i);                 /* 0: not wanted */
const struct answer_top *answer_prompt_top(const struct answer *a, size_t i); /* [n_top] */
const float *answer_vector(const struct answer *a, size_t *n); /* of GEN_EMBED, at the end */
enum gen_end answer_state(const struct answer *a);             /* acquire */
const struct answer_end *answer_end(const struct answer *a);   /* once it ended */
void answer_cancel(struct answer *a);                          /* any thread, any time */

#endif
