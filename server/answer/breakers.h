/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts behind which DRY counts repetitions anew, as tokens. Finding them takes a look at the whole
 * vocabulary, since any token may hold one: what was found of a list is kept for the next request
 * with it. Most have the same list.
 *
 * Thread: any.
 */
#ifndef SERVER_ANSWER_BREAKERS_H
#define SERVER_ANSWER_BREAKERS_H

#include "api/request.h"
#include "engine/engine.h"

struct breakers; /* what is kept, of the BREAKERS_KEPT lists that were asked for last */

enum { BREAKERS_KEPT = 32 };

struct breakers *breakers_new(void);
void breakers_free(struct breakers *b);      /* NULL is fine */
uint64_t breakers_looks(struct breakers *b); /* how often a vocabulary was looked through */

struct breakers_found {
    const uint32_t *breaks; /* a bit for each id: it holds a breaker */
    const int32_t *list;    /* [n] a length and so many tokens, ... : a breaker over several */
    int32_t n;
};

/* What its tokens say, so that the first who asks needs not wait for that. */
void breakers_read(struct breakers *b, const struct tokenizer *t);

/* Of the ids below n_vocab; b NULL: nothing is kept. Into the arena. Each token that holds a
 * breaker, and each sequence that begins with a token whose end begins one. ERR_TOO_LARGE: they are
 * too many. */
int breakers_find(struct breakers *b, const struct tokenizer *t, size_t n_vocab,
                  const struct gen_text *breaker, size_t n, struct arena *a,
                  struct breakers_found *out, struct err *e);

/* The request's, into its sampling, where that is dry. */
int breakers_encode(struct breakers *b, const struct engine *g, struct api_request *q,
                    struct arena *a, struct api_error *e);

#endif
