/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a cell: free, held, kept, free. Nothing is allocated after kv_pool_new.
 */
#include "engine/kv/pool.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/kv/inner.h"

static int make_arrays(struct kv_pool *p, struct err *e)
{
    size_t n = (size_t)p->opt.n_cell, n_bucket = 1;
    while (n_bucket < n)
        n_bucket *= 2;
    p->bucket_mask = n_bucket - 1;
    p->cell = try_alloc(n, sizeof *p->cell, "the list of K/V cells", e);
    p->tenant = p->cell ? try_alloc(n, sizeof *p->tenant, "the tenants of K/V cells", e) : NULL;
    p->bucket =
        p->tenant ? try_alloc(n_bucket, 2 * sizeof *p->bucket, "the index of prefixes", e) : NULL;
    if (!p->bucket)
        return -1;
    p->token = try_alloc(n * (size_t)p->opt.cell_tok, sizeof *p->token, "the text of prefixes", e);
    if (!p->token)
        return -1;
    p->tenant_bucket = p->bucket + n_bucket;
    memset(p->bucket, 0xff, n_bucket * 2 * sizeof *p->bucket);
    for (size_t i = 0; i < n; i++) {
        p->tenant[i].next = (int32_t)i + 1;
        p->cell[i].parent = p->cell[i].snapshot = -1;
    }
    return 0;
}

struct kv_pool *kv_pool_new(const struct kv_options *o, struct err *e)
{
    if (o->n_cell < 1 || o->n_cell > INT32_MAX || o->cell_tok < 1 ||
        o->cell_tok > KV_CELL_TOK_MAX) {
        err_set(e, ERR_BAD_INPUT, "%lld K/V cells of %lld tokens: 1 to %d of 1 to %d are possible",
                (long long)o->n_cell, (long long)o->cell_tok, INT32_MAX, KV_CELL_TOK_MAX);
        return NULL;
    }
    struct kv_pool *p = xcalloc(1, sizeof *p);
    *p = (struct kv_pool){.opt = *o, .kept = {-1, -1}};
    if (make_arrays(p, e) || kv_holes_init(&p->holes, o->n_cell, e) ||
        kv_snapshots_init(&p->snapshots, o->n_snapshot, e)) {
        kv_pool_free(p);
        return NULL;
    }
    return p;
}

void kv_pool_free(struct kv_pool *p)
{
    if (!p)
        return;
    if (p->holes.free)
        ASSERT(kv_pool_room(p) == p->opt.n_cell);
    kv_holes_release(&p->holes);
    kv_snapshots_release(&p->snapshots);
    mem_free(p->cell);
    mem_free(p->tenant);
    mem_free(p->bucket);
    mem_free(p->token);
    free(p);
}

int64_t kv_pool_room(const struct kv_pool *p)
{
    return p->holes.n_free + p->n_kept;
}

struct kv_stat kv_pool_stat(const struct kv_pool *p)
{
    return (struct kv_stat){.n_free = p->holes.n_free,
                            .n_held = p->opt.n_cell - kv_pool_room(p),
                            .n_kept = p->n_kept,
                            .taken = p->taken,
                            .given_back = p->given_back,
                            .evicted = p->evicted};
}

void kv_cell_take(struct kv_pool *p, int32_t cell, uint64_t salt, uint64_t adapter)
{
    kv_holes_take(&p->holes, cell);
    struct kv_cell *x = &p->cell[cell];
    x->state = KV_OWN;
    x->n_ref = 1;
    x->adapter = adapter;
    x->tenant = kv_tenant_add(p, salt);
    p->taken++;
}

static void give_back(struct kv_pool *p, int32_t cell)
{
    struct kv_cell *x = &p->cell[cell];
    ASSERT(x->state == KV_OWN && !x->n_ref);
    x->state = KV_FREE;
    kv_tenant_leave(p, x->tenant);
    kv_holes_give(&p->holes, cell);
    p->given_back++;
}

void kv_cell_ref(struct kv_pool *p, int32_t cell)
{
    ASSERT(p->cell[cell].state == KV_STANDS);
    if (!p->cell[cell].n_ref++)
        kv_kept_drop(p, cell);
}

void kv_cell_unref(struct kv_pool *p, int32_t cell)
{
    struct kv_cell *x = &p->cell[cell];
    ASSERT(x->n_ref > 0 && x->state != KV_PENDING);
    if (--x->n_ref)
        return;
    if (x->state == KV_STANDS)
        kv_kept_push(p, cell);
    else
        give_back(p, cell);
}

static void evict(struct kv_pool *p, int32_t cell)
{
    kv_kept_drop(p, cell);
    kv_index_del(p, cell);
    give_back(p, cell);
    p->evicted++;
}

/* Cells evicted one by one come free at places all over the pool, one by one; who gets them would
 * never have two in a row. So what lies around the oldest goes with it, if it is of the oldest
 * quarter itself. Going down, a text in a row is met by its last cell first. */
void kv_pool_evict(struct kv_pool *p, uint64_t salt, int64_t n)
{
    int32_t oldest = kv_kept_victim(p, kv_tenant_get(p, salt)), tenant = p->cell[oldest].tenant;
    uint64_t from = p->cell[p->kept.oldest].kept_at, old = from + (p->kept_clock - from) / 4;
    int64_t lo = oldest < n ? 0 : oldest - n + 1;
    int64_t hi = oldest + n < p->opt.n_cell ? oldest + n - 1 : p->opt.n_cell - 1;
    bool is_any = oldest == p->kept.oldest;
    evict(p, oldest);
    for (int64_t c = hi; c >= lo; c--) {
        const struct kv_cell *x = &p->cell[c];
        if (x->state == KV_STANDS && !x->n_ref && !x->n_child && x->kept_at <= old &&
            (is_any || x->tenant == tenant))
            evict(p, (int32_t)c);
    }
}

/* Who holds a cell goes on with it, as with one that was never in the index. A text's cells are all
 * of one adapter, so no child is left behind. */
static void forget(struct kv_pool *p, const uint64_t *adapter)
{
    for (int32_t c = 0; c < p->opt.n_cell; c++)
        if (!adapter || p->cell[c].adapter == *adapter)
            p->cell[c].n_child = 0;
    for (int32_t c = 0; c < p->opt.n_cell; c++) {
        struct kv_cell *x = &p->cell[c];
        if (x->state < KV_PENDING || (adapter && x->adapter != *adapter))
            continue;
        x->parent = -1;
        kv_index_del(p, c);
        if (!x->n_ref) {
            kv_kept_drop(p, c);
            give_back(p, c);
        }
    }
}

void kv_pool_forget(struct kv_pool *p, uint64_t adapter)
{
    forget(p, &adapter);
}

void kv_pool_forget_all(struct kv_pool *p)
{
    forget(p, NULL);
}
