/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose turn it is among tenants. Each has counted what was run for it, in tokens over its weight;
 * who has had least goes first, so that over time each gets its weight's part of what all ask for,
 * however many sequences it has. Counting what ran, not what is asked for, needs no guess of how
 * long a text gets, which deficit round robin would have to make beforehand.
 *
 * Nobody saves up: a tenant is never further behind the one who had most than TENANT_LAG_STEPS full
 * steps. So who was away, or asked for little, goes first for that long and no longer.
 *
 * What takes idle time alone is a tenant apart, also of a key that asks for other things too: it
 * stands behind all others whatever it has had, and its service counts among its like alone.
 *
 * Within a tenant the order is that of its queue (queue.h). The order of tenants is fixed while a
 * step is made, and changes when one ran.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_SCHED_TENANT_H
#define ENGINE_SCHED_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/map.h"
#include "engine/base/vec.h"
#include "engine/sched/queue.h"

enum { TENANT_LAG_STEPS = 8, TENANT_WEIGHT_MAX = 1000 };

struct tenant {
    uint64_t id;
    bool is_idle;
    int64_t weight; /* 1 to TENANT_WEIGHT_MAX */
    int64_t served; /* units: tokens * TENANT_UNIT / weight */
    int64_t n_live; /* sequences in the scheduler */
    int64_t n_held; /* seats, or cells, while it is seen who is turned out; a place among the
                     * running, while these are put in order */
    struct queue queue;
};

struct tenants {
    struct map by_id;          /* owned: also those that are away and not forgotten yet */
    VEC(struct tenant *) live; /* borrowed: those with sequences */
    int64_t most[2];           /* served to anybody; and of those that take idle time */
    int64_t lag;
};

void tenants_init(struct tenants *ts, int64_t cap_tok); /* of a step */
void tenants_release(struct tenants *ts);

/* One more sequence of this tenant is in the scheduler, or one less. */
struct tenant *tenant_enter(struct tenants *ts, uint64_t id, bool is_idle, int64_t weight);
void tenant_leave(struct tenants *ts, struct tenant *t);

/* What ran in a step: each of its parts, then once the end. */
void tenant_charge(struct tenants *ts, struct tenant *t, int64_t n_tok);
void tenants_settle(struct tenants *ts);

void tenants_sort(struct tenants *ts); /* those with sequences, who goes first in front */
struct seq_node *tenants_first(const struct tenants *ts);      /* who is next; NULL: nobody waits */
struct seq_node *tenants_first_idle(const struct tenants *ts); /* of those that take idle time */

static inline bool tenant_before(const struct tenant *a, const struct tenant *b)
{
    if (a->is_idle != b->is_idle)
        return b->is_idle;
    return a->served != b->served ? a->served < b->served : a->id < b->id;
}

#endif
