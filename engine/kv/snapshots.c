/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of cells stand in a list, the longest unused first; free ones in another.
 */
#include "engine/kv/snapshots.h"

#include "engine/base/mem.h"
#include "engine/kv/inner.h"

int kv_snapshots_init(struct kv_snapshots *s, int64_t n, struct err *e)
{
    *s = (struct kv_snapshots){.n = n, .unused = -1, .kept = {-1, -1}};
    if (n == 0)
        return 0;
    s->at = try_alloc((size_t)n, sizeof *s->at, "the list of snapshots", e);
    if (!s->at)
        return -1;
    for (int64_t i = n; i-- > 0; s->unused = (int32_t)i)
        s->at[i] = (struct kv_snapshot){.cell = -1, .link = {.newer = s->unused}};
    return 0;
}

void kv_snapshots_release(struct kv_snapshots *s)
{
    mem_free(s->at);
    *s = (struct kv_snapshots){0};
}

static void push(struct kv_snapshots *s, int32_t i)
{
    s->at[i].link = (struct kv_link){.older = s->kept.newest, .newer = -1};
    *(s->kept.newest >= 0 ? &s->at[s->kept.newest].link.newer : &s->kept.oldest) = i;
    s->kept.newest = i;
}

static void drop(struct kv_snapshots *s, int32_t i)
{
    struct kv_link at = s->at[i].link;
    *(at.older >= 0 ? &s->at[at.older].link.newer : &s->kept.oldest) = at.newer;
    *(at.newer >= 0 ? &s->at[at.newer].link.older : &s->kept.newest) = at.older;
}

static void release(struct kv_snapshots *s, int32_t i)
{
    s->at[i].link.newer = s->unused;
    s->unused = i;
}

void kv_snapshot_part(struct kv_pool *p, int32_t cell)
{
    struct kv_snapshots *s = &p->snapshots;
    int32_t i = p->cell[cell].snapshot;
    if (i < 0)
        return;
    drop(s, i);
    p->cell[cell].snapshot = s->at[i].cell = -1;
    if (!s->at[i].n_pin)
        release(s, i);
}

static int32_t oldest_unpinned(const struct kv_snapshots *s)
{
    int32_t i = s->kept.oldest;
    while (i >= 0 && s->at[i].n_pin)
        i = s->at[i].link.newer;
    return i;
}

int32_t kv_snapshot_take(struct kv_pool *p)
{
    struct kv_snapshots *s = &p->snapshots;
    int32_t old = s->unused < 0 ? oldest_unpinned(s) : -1;
    if (old >= 0)
        kv_snapshot_part(p, s->at[old].cell);
    int32_t i = s->unused;
    if (i < 0)
        return -1;
    s->unused = s->at[i].link.newer;
    s->at[i].n_pin = 1;
    return i;
}

void kv_snapshot_give(struct kv_pool *p, int32_t snapshot)
{
    struct kv_snapshot *x = &p->snapshots.at[snapshot];
    ASSERT(x->n_pin > 0);
    if (--x->n_pin == 0 && x->cell < 0)
        release(&p->snapshots, snapshot);
}

void kv_snapshot_keep(struct kv_pool *p, int32_t snapshot, const struct kv_table *t, int64_t i)
{
    struct kv_snapshots *s = &p->snapshots;
    struct kv_cell *x = &p->cell[t->cell[i]];
    if (x->state == KV_STANDS && x->snapshot < 0) {
        x->snapshot = snapshot;
        s->at[snapshot].cell = t->cell[i];
        push(s, snapshot);
    }
    kv_snapshot_give(p, snapshot);
}

int32_t kv_snapshot_find(struct kv_pool *p, struct kv_table *t)
{
    struct kv_snapshots *s = &p->snapshots;
    while (t->n && p->cell[t->cell[t->n - 1]].snapshot < 0)
        kv_cell_unref(p, t->cell[--t->n]);
    t->n_stand = t->n_open = t->n;
    if (!t->n)
        return -1;
    int32_t i = p->cell[t->cell[t->n - 1]].snapshot;
    s->at[i].n_pin++;
    drop(s, i);
    push(s, i);
    return i;
}
