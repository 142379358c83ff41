/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool's law, checked cell by cell.
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/kv/inner.h"

/* Cells of a list of kept ones: links agree, nobody holds them, children come before parents. */
static int64_t walk(const struct kv_pool *p, struct kv_list l, int which)
{
    int64_t n = 0;
    int32_t older = -1;
    char *seen = xcalloc((size_t)p->opt.n_cell, 1);
    for (int32_t c = l.oldest; c >= 0; c = p->cell[c].link[which].newer, n++) {
        const struct kv_cell *x = &p->cell[c];
        ASSERT(n < p->opt.n_cell && x->link[which].older == older);
        ASSERT(x->state == KV_STANDS && !x->n_ref);
        ASSERT(x->parent < 0 || !seen[x->parent]);
        seen[c] = 1;
        older = c;
    }
    ASSERT(l.newest == older);
    free(seen);
    return n;
}

static void check_cell(const struct kv_pool *p, int32_t c, const int32_t *n_child)
{
    const struct kv_cell *x = &p->cell[c];
    ASSERT((x->state == KV_FREE) == kv_holes_has(&p->holes, c));
    if (x->state == KV_FREE)
        ASSERT(!x->n_ref);
    if (x->state < KV_PENDING)
        return;
    const struct kv_place at = {x->hash, x->adapter, x->parent, x->tenant,
                                p->token + c * p->opt.cell_tok};
    ASSERT(kv_index_get(p, &at) == c); /* found, and once only */
    ASSERT(n_child[c] == x->n_child);
    if (x->parent < 0)
        return;
    const struct kv_cell *up = &p->cell[x->parent];
    ASSERT(up->state >= KV_PENDING && up->tenant == x->tenant && up->adapter == x->adapter);
    ASSERT(x->state == KV_PENDING || up->state == KV_STANDS);
    ASSERT(up->n_ref >= (x->n_ref > 0));
}

static void check_tenants(const struct kv_pool *p)
{
    int64_t *n_of = xcalloc((size_t)p->opt.n_cell, sizeof *n_of), n_kept = 0;
    for (int32_t c = 0; c < p->opt.n_cell; c++)
        if (p->cell[c].state != KV_FREE)
            n_of[p->cell[c].tenant]++;
    for (int32_t t = 0; t < p->opt.n_cell; t++)
        if (n_of[t]) {
            ASSERT(p->tenant[t].n_cell == n_of[t]);
            ASSERT(kv_tenant_get(p, p->tenant[t].salt) == t);
            n_kept += walk(p, p->tenant[t].kept, KV_OF_TENANT);
        }
    ASSERT(n_kept == p->n_kept);
    free(n_of);
}

/* Each is free, a cell's, or pinned by who took it. */
static void check_snapshots(const struct kv_pool *p)
{
    const struct kv_snapshots *s = &p->snapshots;
    int64_t n_free = 0, n_kept = 0, n_taken = 0, n_of_cells = 0;
    int32_t older = -1;
    for (int32_t i = s->unused; i >= 0; i = s->at[i].link.newer, n_free++)
        ASSERT(n_free < s->n && s->at[i].cell < 0 && !s->at[i].n_pin);
    for (int32_t i = s->kept.oldest; i >= 0; i = s->at[i].link.newer, n_kept++) {
        ASSERT(n_kept < s->n && s->at[i].link.older == older);
        ASSERT(s->at[i].cell >= 0 && p->cell[s->at[i].cell].snapshot == i);
        older = i;
    }
    ASSERT(s->kept.newest == older);
    for (int64_t i = 0; i < s->n; i++)
        n_taken += s->at[i].cell < 0 && s->at[i].n_pin > 0;
    for (int32_t c = 0; c < p->opt.n_cell; c++) {
        n_of_cells += p->cell[c].snapshot >= 0;
        ASSERT(p->cell[c].snapshot < 0 || p->cell[c].state == KV_STANDS);
    }
    ASSERT(n_free + n_kept + n_taken == s->n && n_of_cells == n_kept);
}

void kv_pool_verify(const struct kv_pool *p)
{
    int32_t *n_child = xcalloc((size_t)p->opt.n_cell, sizeof *n_child);
    int64_t n_free = 0;
    for (int32_t c = 0; c < p->opt.n_cell; c++) {
        n_free += p->cell[c].state == KV_FREE;
        if (p->cell[c].state >= KV_PENDING && p->cell[c].parent >= 0)
            n_child[p->cell[c].parent]++;
    }
    for (int32_t c = 0; c < p->opt.n_cell; c++)
        check_cell(p, c, n_child);
    free(n_child);
    ASSERT(n_free == p->holes.n_free);
    ASSERT(p->taken - p->given_back == (uint64_t)(p->opt.n_cell - n_free));
    ASSERT(walk(p, p->kept, KV_OF_ALL) == p->n_kept);
    check_tenants(p);
    check_snapshots(p);
}
