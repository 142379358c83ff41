/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the last tokens of a text stood in it before: two tables, by hashes of two and of four
 * tokens, of the place that followed them the last time. Tokens are compared before a place is
 * believed. A token costs O(1) to enter and to look for; a text longer than the tables forgets what
 * is oldest, so they are bounded whatever the length.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_DRAFT_NGRAM_H
#define ENGINE_DRAFT_NGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

enum { NGRAM_SHORT = 2, NGRAM_LONG = 4, NGRAM_MATCH_MAX = 16 };

struct ngram;

struct ngram *ngram_new(int64_t n_max, struct err *e); /* for a text of at most n_max tokens */
void ngram_free(struct ngram *g);
size_t ngram_bytes(int64_t n_max);

/* Enters what was added to the text, which is token[0, n) now. */
void ngram_read(struct ngram *g, const int32_t *token, int64_t n);

/* The place that followed when the text's last tokens stood in it before, the longest of what both
 * tables know and of `hint`, a place that may be one, 0: none. Where the tokens are new it is the
 * hint; -1: there is none. *n_match: how many tokens before it are the same, at most
 * NGRAM_MATCH_MAX. The text is read. */
int64_t ngram_find(const struct ngram *g, const int32_t *token, int64_t n, int64_t hint,
                   int64_t *n_match);

#endif
