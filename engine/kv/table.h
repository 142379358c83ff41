/* SPDX-License-Identifier: Apache-2.0
 *
 * The cells of one sequence, in the order of its text.
 *
 *     cell      0 .. n_stand         n_open             n
 *               found by others |    being computed |   nobody else's
 *
 * The first n_stand cells stand and can be found by others. Those up to n_open have been announced:
 * their text is known and their keys and values are being computed, so that a second sequence with
 * the same text can wait for them. When an equal cell of another's stands already, this table takes
 * that one and gives its own back: equal texts have equal bits.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_KV_TABLE_H
#define ENGINE_KV_TABLE_H

#include "engine/kv/holes.h"
#include "engine/kv/pool.h"

struct kv_table {
    int32_t *cell; /* owned: [cap] */
    int64_t n, cap, n_stand, n_open;
    uint64_t salt, adapter; /* whose texts these are */
    struct kv_run claim;
};

int kv_table_init(struct kv_table *t, int64_t cap, uint64_t salt, uint64_t adapter, struct err *e);
void kv_table_release(struct kv_table *t, struct kv_pool *p);

/* Gives all its cells back. */
void kv_table_clear(struct kv_table *t, struct kv_pool *p);

/* Holds the cells that stand of the leading whole cells of token[0, n_tok). The table is empty.
 * Returns the last cell of an announced text that leads on from there, or -1. */
int32_t kv_table_find(struct kv_table *t, struct kv_pool *p, const int32_t *token, int64_t n_tok);

/* Makes it n cells long, with `want` in mind; false, and nothing done, where there is no room. */
bool kv_table_grow(struct kv_table *t, struct kv_pool *p, int64_t n, int64_t want);

/* Gives cells back until it has n; those that are left over nobody was told of. */
void kv_table_cut(struct kv_table *t, struct kv_pool *p, int64_t n);

/* The whole cells of token[0, n_tok) will be computed. */
void kv_table_announce(struct kv_table *t, struct kv_pool *p, const int32_t *token, int64_t n_tok);

/* Keys and values of token[0, n_tok) stand. */
void kv_table_stood(struct kv_table *t, struct kv_pool *p, const int32_t *token, int64_t n_tok);

#endif
