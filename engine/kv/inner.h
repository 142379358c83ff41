/* SPDX-License-Identifier: Apache-2.0
 *
 * What pool.c, index.c, kept.c and table.c share; for no one else.
 *
 * A cell is in the index (found by its text) while it is pending or stands. Invariants: the parent
 * of a cell in the index is in the index; who holds a cell holds its parent; so a cell that nobody
 * holds has no descendant that somebody holds, and the order in which tables give back (last cell
 * first) puts children before parents in the lists of kept cells.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_KV_INNER_H
#define ENGINE_KV_INNER_H

#include "engine/kv/holes.h"
#include "engine/kv/pool.h"

enum kv_state { KV_FREE, KV_OWN, KV_PENDING, KV_STANDS };

/* The two lists that a kept cell is in. */
enum { KV_OF_ALL, KV_OF_TENANT, KV_LISTS };

struct kv_link {
    int32_t older, newer; /* -1: none */
};

struct kv_list {
    int32_t oldest, newest;
};

struct kv_cell {
    uint64_t hash, adapter;
    uint64_t kept_at; /* place in the order of all that was ever kept */
    enum kv_state state;
    int32_t n_ref;
    int32_t parent, n_child; /* in the index; -1: begins a text */
    int32_t next;            /* of its bucket */
    int32_t tenant;
    int32_t snapshot; /* of the text up to its end; -1: none */
    struct kv_link link[KV_LISTS];
};

struct kv_snapshot {
    int32_t cell;        /* whose it is; -1: nobody's */
    int32_t n_pin;       /* who is about to write or to read it */
    struct kv_link link; /* of a free one `newer` is the next */
};

struct kv_snapshots {
    struct kv_snapshot *at; /* owned: [n] */
    int64_t n;
    int32_t unused;      /* the first free one; -1: none */
    struct kv_list kept; /* of cells, the longest unused first */
};

/* There while it has a cell. */
struct kv_tenant {
    uint64_t salt;
    int64_t n_cell; /* held and kept */
    struct kv_list kept;
    int32_t next; /* of its bucket, or of the unused */
};

struct kv_pool {
    struct kv_options opt;
    struct kv_holes holes;
    struct kv_cell *cell;     /* owned: [n_cell] */
    struct kv_tenant *tenant; /* owned: [n_cell] */
    int32_t *token;           /* owned: [n_cell, cell_tok] of cells in the index */
    int32_t *bucket;          /* owned: [n_bucket] cells; -1: none */
    int32_t *tenant_bucket;   /* owned: [n_bucket] */
    uint64_t bucket_mask;
    int32_t tenant_unused;
    struct kv_list kept;
    struct kv_snapshots snapshots;
    int64_t n_kept;
    uint64_t kept_clock, taken, given_back, evicted;
};

/* ---- index.c: cells by their text ---------------------------------------------------------- */

/* Where a text is or would be. */
struct kv_place {
    uint64_t hash, adapter;
    int32_t parent, tenant;
    const int32_t *token;
};

struct kv_place kv_index_place(const struct kv_pool *p, int32_t parent, int32_t tenant,
                               uint64_t adapter, const int32_t *token);
int32_t kv_index_get(const struct kv_pool *p, const struct kv_place *at); /* -1: none */
void kv_index_put(struct kv_pool *p, int32_t cell, const struct kv_place *at, enum kv_state state);
void kv_index_del(struct kv_pool *p, int32_t cell); /* has no child; becomes KV_OWN */

/* ---- kept.c: tenants, and cells that nobody holds ------------------------------------------- */

int32_t kv_tenant_get(const struct kv_pool *p, uint64_t salt); /* -1: has no cell */
int32_t kv_tenant_add(struct kv_pool *p, uint64_t salt);       /* the one there is, or a new one */
void kv_tenant_leave(struct kv_pool *p, int32_t tenant);       /* one cell less */
void kv_kept_push(struct kv_pool *p, int32_t cell);
void kv_kept_drop(struct kv_pool *p, int32_t cell);
int32_t kv_kept_victim(const struct kv_pool *p, int32_t tenant); /* for a cell of this tenant */

/* ---- snapshots.c ------------------------------------------------------------------------------
 */

int kv_snapshots_init(struct kv_snapshots *s, int64_t n, struct err *e);
void kv_snapshots_release(struct kv_snapshots *s);
void kv_snapshot_part(struct kv_pool *p, int32_t cell); /* from its cell, where it has one */

/* ---- pool.c: one cell ----------------------------------------------------------------------- */

void kv_cell_take(struct kv_pool *p, int32_t cell, uint64_t salt, uint64_t adapter); /* is free */
void kv_cell_ref(struct kv_pool *p, int32_t cell);
void kv_cell_unref(struct kv_pool *p, int32_t cell); /* not pending */

/* For cells of this tenant: evicts the oldest kept cell there is, and old ones around it, to make a
 * run of n. Some cell is kept. */
void kv_pool_evict(struct kv_pool *p, uint64_t salt, int64_t n);

#endif
