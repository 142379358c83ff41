/* SPDX-License-Identifier: Apache-2.0
 *
 * The merging itself, on arrays of symbols.
 *
 * Short arrays are merged by looking for the least rank again and again; longer ones with a tree of
 * minima over the ranks.
 * Beyond BPE_WINDOW symbols the array is merged window by window, which is exact for this reason:
 *
 *   A sequence of tokens is the encoding of its text if and only if each pair of neighbours is the
 *   encoding of its own text. (Merges are chosen by rank and place alone, so what happens on
 *   both sides of a border that no merge crosses does not depend on the other side; and the
 *   first merge that crossed a border would cross it in the two tokens' text alone as well.)
 *
 * So with a prefix encoded, the next window is merged together with the last few tokens of that
 * prefix, taken back to their symbols. If the first token comes out as it was, every pair of
 * neighbours has been seen together, and the prefix plus the window's tokens is the encoding. If
 * not, more tokens are taken back: twice as many each time.
 *
 * Thread: any; the scratch belongs to one.
 */
#ifndef ENGINE_TOKEN_BPE_MERGE_H
#define ENGINE_TOKEN_BPE_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

enum {
    BPE_RANK_BITS = 22,
    BPE_MAX_MERGES = (1 << BPE_RANK_BITS) - 1,
    BPE_NO_RANK = 1 << BPE_RANK_BITS, /* above every rank */
    BPE_WINDOW = 2048,                /* symbols that are merged at once */
};

/* Pairs of ids to ranks: one word of (left, right, rank) per pair, in an open table. Most pairs
 * that are asked for have no rank; a bit per half slot says so without a miss of the cache. */
struct bpe_table {
    uint64_t *slot; /* owned; left << 43 | right << 22 | rank, +1 so that 0 is empty */
    int32_t *made;  /* owned, by rank: the token that the merge gives */
    uint64_t *bit;  /* owned: does any pair's hash begin so? */
    uint64_t key;
    uint32_t shift, n_slot, n_merge;
};

struct bpe_sym {
    int32_t id;
    uint32_t hi; /* where it ends, in bytes of the piece; it begins where the one before ends */
};

enum { BPE_FAN = 16, BPE_LEVELS = 8 };

struct bpe_scratch {
    struct bpe_sym *win;        /* owned: a window, hi counted in symbols */
    struct bpe_sym *tok;        /* owned: the encoded prefix, hi counted in symbols */
    uint32_t *prev, *next;      /* owned: the list of live symbols */
    int32_t *tree;              /* owned: the levels, one behind the other */
    int32_t *level[BPE_LEVELS]; /* in tree: ranks, the minima of each BPE_FAN of them, ... */
    size_t cap_win, cap_tok, cap_list, n_level;
};

int bpe_table_init(struct bpe_table *t, size_t n_merge, struct err *e);
void bpe_table_release(struct bpe_table *t);

/* The merge of the next rank. A pair that is there already gets the new rank. */
void bpe_table_add(struct bpe_table *t, int32_t left, int32_t right, int32_t made);

void bpe_scratch_release(struct bpe_scratch *s);

/* Merges sym[0, n) in place; *n becomes the number of tokens. */
int bpe_merge(const struct bpe_table *t, struct bpe_scratch *s, struct bpe_sym *sym, size_t *n,
              struct err *e);

static inline uint32_t bpe_rank(const struct bpe_table *t, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 21 | (uint32_t)right, h = pair * t->key;
    uint64_t half = h >> (t->shift - 1);
    uint32_t mask = t->n_slot - 1;
    if (!(t->bit[half / 64] >> half % 64 & 1))
        return BPE_NO_RANK;
    for (uint32_t i = (uint32_t)(h >> t->shift);; i = (i + 1) & mask) {
        uint64_t s = t->slot[i];
        if (!s)
            return BPE_NO_RANK;
        if ((s - 1) >> BPE_RANK_BITS == pair)
            return (uint32_t)(s - 1) & (BPE_NO_RANK - 1);
    }
}

#endif
