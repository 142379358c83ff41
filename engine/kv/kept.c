/* SPDX-License-Identifier: Apache-2.0
 *
 * Kept cells stand in two lists, oldest first: of all, and of their tenant. Tenants are records in
 * an array as long as the pool, since each has a cell.
 */
#include "engine/base/map.h"
#include "engine/kv/inner.h"

static int32_t *bucket_of(const struct kv_pool *p, uint64_t salt)
{
    return &p->tenant_bucket[map_hash(&salt, sizeof salt) & p->bucket_mask];
}

int32_t kv_tenant_get(const struct kv_pool *p, uint64_t salt)
{
    int32_t t = *bucket_of(p, salt);
    while (t >= 0 && p->tenant[t].salt != salt)
        t = p->tenant[t].next;
    return t;
}

int32_t kv_tenant_add(struct kv_pool *p, uint64_t salt)
{
    int32_t t = kv_tenant_get(p, salt);
    if (t < 0) {
        int32_t *bucket = bucket_of(p, salt);
        t = p->tenant_unused;
        p->tenant_unused = p->tenant[t].next;
        p->tenant[t] = (struct kv_tenant){.salt = salt, .kept = {-1, -1}, .next = *bucket};
        *bucket = t;
    }
    p->tenant[t].n_cell++;
    return t;
}

void kv_tenant_leave(struct kv_pool *p, int32_t tenant)
{
    struct kv_tenant *t = &p->tenant[tenant];
    if (--t->n_cell)
        return;
    int32_t *at = bucket_of(p, t->salt);
    while (*at != tenant)
        at = &p->tenant[*at].next;
    *at = t->next;
    t->next = p->tenant_unused;
    p->tenant_unused = tenant;
}

static struct kv_list *list_of(struct kv_pool *p, int32_t cell, int which)
{
    return which == KV_OF_ALL ? &p->kept : &p->tenant[p->cell[cell].tenant].kept;
}

void kv_kept_push(struct kv_pool *p, int32_t cell)
{
    for (int i = 0; i < KV_LISTS; i++) {
        struct kv_list *l = list_of(p, cell, i);
        p->cell[cell].link[i] = (struct kv_link){.older = l->newest, .newer = -1};
        if (l->newest >= 0)
            p->cell[l->newest].link[i].newer = cell;
        else
            l->oldest = cell;
        l->newest = cell;
    }
    p->cell[cell].kept_at = p->kept_clock++;
    p->n_kept++;
}

void kv_kept_drop(struct kv_pool *p, int32_t cell)
{
    for (int i = 0; i < KV_LISTS; i++) {
        struct kv_list *l = list_of(p, cell, i);
        struct kv_link at = p->cell[cell].link[i];
        *(at.older >= 0 ? &p->cell[at.older].link[i].newer : &l->oldest) = at.newer;
        *(at.newer >= 0 ? &p->cell[at.newer].link[i].older : &l->newest) = at.older;
    }
    p->n_kept--;
}

/* A flood of one tenant's texts pushes out no more than half of what the others left. */
int32_t kv_kept_victim(const struct kv_pool *p, int32_t tenant)
{
    if (tenant >= 0 && 2 * p->tenant[tenant].n_cell >= p->opt.n_cell &&
        p->tenant[tenant].kept.oldest >= 0)
        return p->tenant[tenant].kept.oldest;
    return p->kept.oldest;
}
