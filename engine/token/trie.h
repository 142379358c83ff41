/* SPDX-License-Identifier: Apache-2.0
 *
 * A trie over bytes, its edges in one hash table of (node, byte) -> node: for longest matches
 * among added tokens and word pieces. A walk takes one probe per byte and stops at the first byte
 * that no entry has there.
 *
 * Thread: any, once filled.
 */
#ifndef ENGINE_TOKEN_TRIE_H
#define ENGINE_TOKEN_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct trie {
    uint64_t *edge; /* owned: node << 8 | byte in the upper half, child below; 0 is empty */
    int32_t *value; /* owned, by node; -1: no entry ends here */
    uint64_t key;
    uint32_t mask, n_edge, n_node, cap_node;
    uint32_t first[256]; /* the children of the root, 0 for none */
};

enum { TRIE_ROOT = 0, TRIE_MAX_NODES = 1 << 24 };

void trie_init(struct trie *t);
void trie_release(struct trie *t);
int trie_add(struct trie *t, const void *text, size_t len, int32_t value, struct err *e);

static inline uint32_t trie_at(const struct trie *t, uint32_t node, uint8_t byte)
{
    uint64_t k = ((uint64_t)node << 8 | byte) * t->key;
    return (uint32_t)(k >> 32) & t->mask;
}

/* The node below `node` (not the root) by this byte, or 0. */
static inline uint32_t trie_step(const struct trie *t, uint32_t node, uint8_t byte)
{
    uint64_t want = (uint64_t)node << 8 | byte;
    for (uint32_t i = trie_at(t, node, byte); t->edge[i]; i = (i + 1) & t->mask)
        if (t->edge[i] >> 32 == want)
            return (uint32_t)t->edge[i];
    return 0;
}

#endif
