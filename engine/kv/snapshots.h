/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers with a recurrent state had made of a text at the end of one of its cells, kept: who
 * comes with the same text goes on from there. The memory is the runner's; here a snapshot is a
 * number. It belongs to a cell that is found by its text and goes with it; where there is none left
 * for a new one, the one that was used the longest ago goes alone.
 *
 * What is about to be written (taken, and no cell's yet) or to be read is pinned: it stays until it
 * is given back, though its cell may go.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_KV_SNAPSHOTS_H
#define ENGINE_KV_SNAPSHOTS_H

#include "engine/kv/table.h"

/* One to be written, pinned; -1: all are pinned, or there are none. */
int32_t kv_snapshot_take(struct kv_pool *p);
void kv_snapshot_give(struct kv_pool *p, int32_t snapshot); /* it was pinned */

/* A taken one holds the text up to the end of the table's cell i. Where that cell cannot be found,
 * or has one already, it is just given back. */
void kv_snapshot_keep(struct kv_pool *p, int32_t snapshot, const struct kv_table *t, int64_t i);

/* Gives back what the table has found behind the last cell with a snapshot. Returns that, pinned,
 * or -1 where there is none and the table is empty. */
int32_t kv_snapshot_find(struct kv_pool *p, struct kv_table *t);

#endif
