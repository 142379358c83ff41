/* SPDX-License-Identifier: Apache-2.0
 *
 * A constraint beside a sequence of tokens: what has been read, which tokens may come, whether the
 * text may end. Masks are exact: a token is allowed where its bytes can be read and the text can
 * still be ended; special tokens never are (whether the end's token is allowed is matcher_may_end).
 *
 * `struct masks` is a constraint and a model's tokens with the masks that were made so far; all
 * sequences under it share them. A matcher is one sequence's: accept a token, go back over the last
 * ones when they were drafts that did not hold.
 *
 * Thread: masks any; a matcher one at a time.
 */
#ifndef ENGINE_GRAMMAR_MATCHER_H
#define ENGINE_GRAMMAR_MATCHER_H

#include "engine/grammar/grammar.h"
#include "engine/grammar/token_trie.h"

struct masks;
struct matcher;

/* Takes a reference of each. max_bytes: of the masks that are kept. */
struct masks *masks_new(struct grammar *g, struct token_trie *t, size_t max_bytes);
struct masks *masks_ref(struct masks *m);
void masks_unref(struct masks *m);
size_t masks_words(const struct masks *m); /* of 32 bits, in a mask */
size_t masks_bytes(struct masks *m);       /* what is kept now */

/* Makes masks that are likely to be wanted, for at most so much CPU time of the calling thread. */
void masks_warm(struct masks *m, int cpu_ms);

enum { MATCHER_MAX_BACK = 256 };

/* Can go back over max_back tokens. */
struct matcher *matcher_new(struct masks *m, unsigned max_back);
struct matcher *matcher_copy(const struct matcher *m);
void matcher_free(struct matcher *m);

/* On an error (it does not match: ERR_BAD_INPUT) nothing has changed. */
int matcher_accept(struct matcher *m, int32_t token, struct err *e);
int matcher_accept_bytes(struct matcher *m, const char *p, size_t len, struct err *e);

size_t matcher_place(const struct matcher *m); /* what was accepted so far, counted by calls */
/* As it was at that place; an error when it lies too far back. */
int matcher_back(struct matcher *m, size_t place, struct err *e);

bool matcher_may_end(const struct matcher *m);
bool matcher_must_end(const struct matcher *m); /* nothing can follow */

/* Whether a whole text is what is asked; one that there is no memory to read is not. */
bool masks_hold(struct masks *m, const char *text, size_t n);

/* A bit for each id that may come next, in masks_words words. *only: the one id, where there is but
 * one and the text may not end, else -1. ERR_UNSUPPORTED: no token of the model can go on, and the
 * text cannot end. ERR_TOO_LARGE: too many ways to read the text. */
int matcher_mask(struct matcher *m, uint32_t *bits, int32_t *only, struct err *e);

/* The bytes that must come next whatever is chosen, up to cap of them; how many. */
size_t matcher_forced(struct matcher *m, char *out, size_t cap);

#endif
