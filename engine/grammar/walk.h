/* SPDX-License-Identifier: Apache-2.0
 *
 * A trie of tokens walked with a program: which tokens can be read from a set of places. The sets
 * that are met first are kept with where each byte leads from them, so that most of a walk is one
 * look-up a node.
 *
 * A walk may begin on a stack whose bottom stands for "whatever called": where it is reached the
 * node is an exit, and its branch is to be walked on with what did call.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_WALK_H
#define ENGINE_GRAMMAR_WALK_H

#include "engine/grammar/stack.h"
#include "engine/grammar/token_trie.h"

enum { WALK_KEPT_SETS = 256, WALK_MAX_WORK = 16 << 20 };

struct walk {
    const struct token_trie *t; /* borrowed */
    struct stack stack;
    struct place_set *kept; /* owned, [WALK_KEPT_SETS] */
    uint32_t (*row)[256];   /* owned: 0 not known, WALK_DEAD, or a kept set + WALK_FIRST */
    uint32_t n_kept;
    struct place_set *path;        /* owned, [max_len + 1]: the sets that are not kept, by depth */
    const struct place_set **here; /* owned, [max_len + 1]: the set at a depth */
    uint32_t *kept_at;             /* owned, [max_len + 1]: its number, or WALK_NOT_KEPT */
    uint64_t work;                 /* places that were stepped */
    bool overflowed;               /* a way was left out, or too much work */
};

typedef VEC(uint32_t) walk_nodes;

int walk_init(struct walk *w, const struct grammar *g, const struct token_trie *t, struct err *e);
void walk_release(struct walk *w);

/* Walks the branch below a node with the places that hold there. */
void walk_branch(struct walk *w, uint32_t node, const struct place_set *from, uint32_t *bits,
                 walk_nodes *exits);

#endif
