/* SPDX-License-Identifier: Apache-2.0
 *
 * Unigram (SentencePiece): of all ways to write a piece of text as tokens, the one whose scores
 * have the greatest sum. A character that is no token is the unknown token, at the least score less
 * ten; unknown characters that follow each other are one. With byte_fallback their bytes' tokens
 * (<0x41>) stand for them, where the vocabulary has all of those.
 *
 * The sum is f64, from the left; places are left in their order, tokens that begin at one by their
 * length, and a way must be better to replace the one that was there: ties, and what rounding makes
 * of near ties, are the reference's.
 *
 * One walk through a trie from each character. A place that no token stands over is on every way,
 * so there the tokens so far are given out, and memory does not grow with the text unless tokens
 * overlap all along it.
 *
 * Thread: any, once finished; an unigram_run belongs to one thread.
 */
#ifndef ENGINE_TOKEN_UNIGRAM_H
#define ENGINE_TOKEN_UNIGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/token/piece.h"
#include "engine/token/trie.h"

enum { UNIGRAM_MAX_PIECE_BYTES = 1024 };

struct unigram {
    struct trie trie;
    double *score; /* owned, by id */
    double unk_score;
    uint32_t max_len;      /* bytes of the longest token */
    int32_t unk;           /* or -1 */
    int32_t fallback[256]; /* the token <0xNN>, or -1 */
    bool byte_fallback;
};

/* One end of a token on the best way to it. */
struct unigram_end {
    double score;
    int32_t id;
    uint32_t start;
};

/* The scratch of one call. */
struct unigram_run {
    struct unigram_end *end; /* owned, by place behind `base` */
    size_t cap;
    uint32_t base, reach; /* where the open part begins; the furthest end of a token, from there */
    struct tok_span unknown; /* unknown characters that are not given out yet; empty: none */
};

void unigram_init(struct unigram *u);
void unigram_release(struct unigram *u);

/* Room for the scores of so many ids. */
int unigram_reserve(struct unigram *u, size_t n_id, struct err *e);

/* Tokens that are never found (is_found false) have a score only. */
int unigram_add(struct unigram *u, const char *text, size_t len, int32_t id, double score,
                bool is_found, struct err *e);

/* When all are added. unk: or -1. */
void unigram_finish(struct unigram *u, int32_t unk);

void unigram_run_release(struct unigram_run *r);
int unigram_encode(const struct unigram *u, struct unigram_run *r, const struct piece *p,
                   struct tok_list *out, struct err *e);

#endif
