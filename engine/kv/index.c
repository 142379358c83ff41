/* SPDX-License-Identifier: Apache-2.0
 *
 * A chained hash table whose links are in the cells. A text's hash goes on from its parent's, so
 * equal cells deep in different texts do not share a bucket; equality is of the parent itself.
 */
#include <string.h>

#include "engine/kv/inner.h"

struct kv_place kv_index_place(const struct kv_pool *p, int32_t parent, int32_t tenant,
                               uint64_t adapter, const int32_t *token)
{
    uint64_t text[3 + KV_CELL_TOK_MAX / 2];
    size_t bytes = (size_t)p->opt.cell_tok * sizeof *token;
    text[0] = parent < 0 ? 0 : p->cell[parent].hash;
    text[1] = p->tenant[tenant].salt;
    text[2] = adapter;
    memcpy(text + 3, token, bytes);
    return (struct kv_place){.hash = p->opt.hash(text, 3 * sizeof *text + bytes),
                             .adapter = adapter,
                             .parent = parent,
                             .tenant = tenant,
                             .token = token};
}

static int32_t *token_of(const struct kv_pool *p, int32_t cell)
{
    return p->token + cell * p->opt.cell_tok;
}

int32_t kv_index_get(const struct kv_pool *p, const struct kv_place *at)
{
    size_t bytes = (size_t)p->opt.cell_tok * sizeof *at->token;
    int32_t c = p->bucket[at->hash & p->bucket_mask];
    for (; c >= 0; c = p->cell[c].next) {
        const struct kv_cell *x = &p->cell[c];
        if (x->hash == at->hash && x->parent == at->parent && x->tenant == at->tenant &&
            x->adapter == at->adapter && !memcmp(token_of(p, c), at->token, bytes))
            return c;
    }
    return -1;
}

void kv_index_put(struct kv_pool *p, int32_t cell, const struct kv_place *at, enum kv_state state)
{
    struct kv_cell *x = &p->cell[cell];
    int32_t *bucket = &p->bucket[at->hash & p->bucket_mask];
    ASSERT(x->state == KV_OWN);
    x->state = state;
    x->hash = at->hash;
    x->parent = at->parent;
    x->n_child = 0;
    x->next = *bucket;
    *bucket = cell;
    memcpy(token_of(p, cell), at->token, (size_t)p->opt.cell_tok * sizeof *at->token);
    if (at->parent >= 0)
        p->cell[at->parent].n_child++;
}

void kv_index_del(struct kv_pool *p, int32_t cell)
{
    struct kv_cell *x = &p->cell[cell];
    int32_t *at = &p->bucket[x->hash & p->bucket_mask];
    ASSERT(x->state >= KV_PENDING && !x->n_child);
    kv_snapshot_part(p, cell);
    while (*at != cell)
        at = &p->cell[*at].next;
    *at = x->next;
    x->state = KV_OWN;
    if (x->parent >= 0)
        p->cell[x->parent].n_child--;
    x->parent = -1;
}
