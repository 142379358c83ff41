/* SPDX-License-Identifier: Apache-2.0
 *
 * The K/V cells of one model, counted: who holds which, and which still hold the keys and values of
 * a text that may come again. The memory itself is the runner's; here a cell is a number.
 *
 * A cell is free, held (by one table or, where it is a common prefix, by several), or kept: held by
 * nobody, but found again by its text. What is kept is evicted when cells are needed, the longest
 * unused first; a text's later cells before its earlier ones, so that what is found is never
 * without what came before it. A tenant that has half of all cells pays with its own.
 *
 * Found again means: same tenant, same adapter version, same cell before it, and the same tokens,
 * compared one by one. The hash only says where to look.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_KV_POOL_H
#define ENGINE_KV_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

enum { KV_CELL_TOK_MAX = 256 };

struct kv_pool;

struct kv_options {
    int64_t n_cell;
    int64_t cell_tok;   /* tokens in a cell, at most KV_CELL_TOK_MAX */
    int64_t n_snapshot; /* recurrent states that may be kept (engine/kv/snapshots.h) */
    bool keeps_prefixes;
    uint64_t (*hash)(const void *p, size_t n);
};

struct kv_stat {
    int64_t n_free, n_held, n_kept;      /* cells now; all of them together */
    uint64_t taken, given_back, evicted; /* since the start: taken - given_back are not free */
};

struct kv_pool *kv_pool_new(const struct kv_options *o, struct err *e);
void kv_pool_free(struct kv_pool *p); /* no table holds a cell */

int64_t kv_pool_room(const struct kv_pool *p); /* cells that a table could have: free or kept */
struct kv_stat kv_pool_stat(const struct kv_pool *p);

/* What an adapter's version has left is found no more; what nobody holds of it is free. */
void kv_pool_forget(struct kv_pool *p, uint64_t adapter);
void kv_pool_forget_all(struct kv_pool *p);

/* Holds every count and link against every other; BUG where they differ. For tests. */
void kv_pool_verify(const struct kv_pool *p);

#endif
