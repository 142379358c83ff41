/* SPDX-License-Identifier: Apache-2.0
 *
 * Node 0 is the root and is nobody's child, so a child of 0 means "none". The root's children
 * are looked up in an array: most positions of a text end there.
 */
#include "engine/token/trie.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

void trie_init(struct trie *t)
{
    *t = (struct trie){.mask = 63, .n_node = 1, .cap_node = 64};
    t->key = map_hash("trie", 4) | 1;
    t->edge = xcalloc(t->mask + 1, sizeof *t->edge);
    t->value = xmalloc(t->cap_node * sizeof *t->value);
    t->value[0] = -1;
}

void trie_release(struct trie *t)
{
    free(t->edge);
    free(t->value);
    *t = (struct trie){0};
}

static void put_edge(struct trie *t, uint64_t edge)
{
    uint32_t i = trie_at(t, (uint32_t)(edge >> 40), (uint8_t)(edge >> 32));
    while (t->edge[i])
        i = (i + 1) & t->mask;
    t->edge[i] = edge;
}

static int grow_edges(struct trie *t, struct err *e)
{
    uint32_t n = (t->mask + 1) * 2;
    uint64_t *old = t->edge, *edge = try_resize(NULL, n * sizeof *edge, "trie of tokens", e);
    if (!edge)
        return -1;
    memset(edge, 0, n * sizeof *edge);
    t->edge = edge;
    t->mask = n - 1;
    for (uint32_t i = 0; i < n / 2; i++)
        if (old[i])
            put_edge(t, old[i]);
    free(old);
    return 0;
}

/* A new node, or 0. */
static uint32_t add_node(struct trie *t, struct err *e)
{
    if (t->n_node == TRIE_MAX_NODES) {
        err_set(e, ERR_TOO_LARGE, "the tokens take more than %d nodes of a trie", TRIE_MAX_NODES);
        return 0;
    }
    if (t->n_node == t->cap_node) {
        void *p = try_resize(t->value, 2 * t->cap_node * sizeof *t->value, "trie of tokens", e);
        if (!p)
            return 0;
        t->value = p;
        t->cap_node *= 2;
    }
    t->value[t->n_node] = -1;
    return t->n_node++;
}

static uint32_t add_child(struct trie *t, uint32_t node, uint8_t byte, struct err *e)
{
    if (node != TRIE_ROOT && t->n_edge >= t->mask / 2 && grow_edges(t, e))
        return 0;
    uint32_t child = add_node(t, e);
    if (!child)
        return 0;
    if (node == TRIE_ROOT) {
        t->first[byte] = child;
    } else {
        put_edge(t, ((uint64_t)node << 8 | byte) << 32 | child);
        t->n_edge++;
    }
    return child;
}

int trie_add(struct trie *t, const void *text, size_t len, int32_t value, struct err *e)
{
    const uint8_t *p = text;
    uint32_t node = TRIE_ROOT;
    for (size_t i = 0; i < len; i++) {
        uint32_t next = node == TRIE_ROOT ? t->first[p[i]] : trie_step(t, node, p[i]);
        node = next ? next : add_child(t, node, p[i], e);
        if (!node)
            return -1;
    }
    t->value[node] = value;
    return 0;
}
