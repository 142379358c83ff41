/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte pair encoding: a piece becomes symbols (bytes or characters), and the pair with the lowest
 * rank, leftmost first, is merged until no pair of neighbours has a rank.
 *
 * Two alphabets. In byte mode the texts in `vocab` are raw bytes (the byte-level alphabet of the
 * file undone), so the text is used as it lies. In character mode the symbols are characters, and
 * one that the vocabulary lacks becomes its bytes' tokens (<0x41>) or the unknown token.
 *
 * Three shortcuts, none of which changes a result:
 *   - a piece that is itself a token, and is known to merge to that token, is looked up whole;
 *     what is known is remembered in `whole`, a byte per token (relaxed atomics: every thread
 *     that computes it finds the same);
 *   - in a long call, pieces seen before are found in a cache of the call;
 *   - where no merge can cross from a character to a following space mark, text without pieces
 *     (SentencePiece) is cut there.
 * Pieces of any length take linear time; bpe_merge.h says how.
 *
 * Thread: a loaded bpe is immutable but for `whole`; a bpe_run belongs to one thread.
 */
#ifndef ENGINE_TOKEN_BPE_H
#define ENGINE_TOKEN_BPE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/token/bpe_merge.h"
#include "engine/token/piece.h"
#include "engine/token/vocab.h"

struct bpe {
    struct vocab vocab;
    struct bpe_table table;
    uint8_t *whole;        /* owned, by id: 0 unknown, 1 merges to itself, 2 does not */
    char *prefix, *suffix; /* owned, or NULL: continuing_subword_prefix, end_of_word_suffix */
    int32_t symbol[256];   /* the token of a byte; in character mode of an ASCII character */
    int32_t fallback[256]; /* the token <0xNN>, or -1 */
    int32_t unk;           /* or -1 */
    uint8_t cut[4];        /* the space mark at which text may be cut */
    uint8_t cut_len;       /* 0: nowhere */
    bool byte_mode, byte_fallback, fuse_unk, ignore_merges;
};

struct bpe_run; /* the scratch of one call */

void bpe_init(struct bpe *b);
void bpe_release(struct bpe *b);

/* When vocab and table are full: derives the rest. */
int bpe_finish(struct bpe *b, struct err *e);

/* text_len: how long the whole call's text is; decides about the cache. */
struct bpe_run *bpe_run_new(const struct bpe *b, size_t text_len, struct err *e);
void bpe_run_free(struct bpe_run *r);

int bpe_encode(const struct bpe *b, struct bpe_run *r, const struct piece *p, struct tok_list *out,
               struct err *e);

#endif
