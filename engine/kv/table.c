/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing looks for the cell behind the last one; where that is taken a new run is begun and
 * claimed, and if there is none as long as is wanted, one is made among what is kept.
 */
#include "engine/kv/table.h"

#include "engine/base/mem.h"
#include "engine/kv/inner.h"

int kv_table_init(struct kv_table *t, int64_t cap, uint64_t salt, uint64_t adapter, struct err *e)
{
    *t = (struct kv_table){.cap = cap, .salt = salt, .adapter = adapter};
    t->cell = try_alloc((size_t)cap, sizeof *t->cell, "the cells of a sequence", e);
    return t->cell ? 0 : -1;
}

void kv_table_release(struct kv_table *t, struct kv_pool *p)
{
    if (t->cell)
        kv_table_clear(t, p);
    mem_free(t->cell);
    *t = (struct kv_table){0};
}

static void claim(struct kv_table *t, struct kv_pool *p, struct kv_run r)
{
    kv_holes_claim(&p->holes, t->claim, false);
    kv_holes_claim(&p->holes, r, true);
    t->claim = r;
}

void kv_table_clear(struct kv_table *t, struct kv_pool *p)
{
    claim(t, p, (struct kv_run){0});
    while (t->n) {
        int32_t c = t->cell[--t->n];
        if (p->cell[c].state == KV_PENDING)
            kv_index_del(p, c);
        kv_cell_unref(p, c);
    }
    t->n_stand = t->n_open = 0;
}

int32_t kv_table_find(struct kv_table *t, struct kv_pool *p, const int32_t *token, int64_t n_tok)
{
    int64_t n = n_tok / p->opt.cell_tok;
    int32_t tenant = kv_tenant_get(p, t->salt), parent = -1, pending = -1;
    ASSERT(!t->n && n <= t->cap);
    for (int64_t i = 0; tenant >= 0 && i < n; i++) {
        struct kv_place at =
            kv_index_place(p, parent, tenant, t->adapter, token + i * p->opt.cell_tok);
        int32_t c = kv_index_get(p, &at);
        if (c < 0)
            break;
        parent = c;
        if (p->cell[c].state == KV_PENDING) {
            pending = c;
        } else {
            kv_cell_ref(p, c);
            t->cell[t->n++] = c;
        }
    }
    t->n_stand = t->n_open = t->n;
    return pending;
}

/* A new run for the table to grow in, with at least one free cell. */
static int64_t begin_run(struct kv_table *t, struct kv_pool *p, int64_t want)
{
    enum { TRIES = 4 };
    struct kv_run r = kv_holes_find(&p->holes, want);
    for (int i = 0; r.n < want && p->n_kept && i < TRIES; i++) {
        kv_pool_evict(p, t->salt, want);
        r = kv_holes_find(&p->holes, want);
    }
    claim(t, p, r);
    return r.at;
}

bool kv_table_grow(struct kv_table *t, struct kv_pool *p, int64_t n, int64_t want)
{
    ASSERT(n <= t->cap);
    if (n - t->n > kv_pool_room(p))
        return false;
    while (t->n < n) {
        int64_t at = t->n ? t->cell[t->n - 1] + 1 : -1;
        if (!kv_holes_has(&p->holes, at))
            at = begin_run(t, p, (want > n ? want : n) - t->n);
        kv_cell_take(p, (int32_t)at, t->salt, t->adapter);
        t->cell[t->n++] = (int32_t)at;
    }
    return true;
}

void kv_table_cut(struct kv_table *t, struct kv_pool *p, int64_t n)
{
    ASSERT(n >= t->n_open);
    while (t->n > n)
        kv_cell_unref(p, t->cell[--t->n]);
}

static bool can_be_found(const struct kv_pool *p, const struct kv_table *t, int64_t i)
{
    return !i || p->cell[t->cell[i - 1]].state == KV_STANDS;
}

static struct kv_place place_of(const struct kv_pool *p, const struct kv_table *t,
                                const int32_t *token, int64_t i)
{
    return kv_index_place(p, i ? t->cell[i - 1] : -1, p->cell[t->cell[i]].tenant, t->adapter,
                          token + i * p->opt.cell_tok);
}

void kv_table_announce(struct kv_table *t, struct kv_pool *p, const int32_t *token, int64_t n_tok)
{
    int64_t n = n_tok / p->opt.cell_tok;
    if (!p->opt.keeps_prefixes || t->n_open != t->n_stand || !can_be_found(p, t, t->n_stand))
        return;
    for (; t->n_open < n; t->n_open++) {
        struct kv_place at = place_of(p, t, token, t->n_open);
        if (kv_index_get(p, &at) >= 0)
            return;
        kv_index_put(p, t->cell[t->n_open], &at, KV_PENDING);
    }
}

/* Cell i stands and is not in the index: puts it there, or takes the one that is. False: another's,
 * not finished yet, is in its place. */
static bool publish(struct kv_table *t, struct kv_pool *p, const int32_t *token, int64_t i)
{
    struct kv_place at = place_of(p, t, token, i);
    int32_t other = kv_index_get(p, &at);
    if (other < 0) {
        kv_index_put(p, t->cell[i], &at, KV_STANDS);
        return true;
    }
    if (p->cell[other].state == KV_PENDING)
        return false;
    kv_cell_ref(p, other);
    kv_cell_unref(p, t->cell[i]);
    t->cell[i] = other;
    return true;
}

void kv_table_stood(struct kv_table *t, struct kv_pool *p, const int32_t *token, int64_t n_tok)
{
    int64_t n = n_tok / p->opt.cell_tok;
    if (!p->opt.keeps_prefixes)
        return;
    for (; t->n_stand < n && t->n_stand < t->n_open; t->n_stand++)
        if (p->cell[t->cell[t->n_stand]].state == KV_PENDING)
            p->cell[t->cell[t->n_stand]].state = KV_STANDS;
    if (t->n_stand < t->n_open)
        return;
    while (t->n_stand < n && can_be_found(p, t, t->n_stand) && publish(t, p, token, t->n_stand))
        t->n_stand++;
    t->n_open = t->n_stand;
}
