/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of those who have sequences, looked through where one is to be chosen: there are as many
 * as keys in use, which is few. Who is away is remembered as long as somebody is here and it had
 * more than a newcomer begins with.
 */
#include "engine/sched/tenant.h"

#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

enum { TENANT_UNIT = 1 << 16 };

void tenants_init(struct tenants *ts, int64_t cap_tok)
{
    *ts = (struct tenants){.lag = TENANT_LAG_STEPS * cap_tok * TENANT_UNIT};
    map_init(&ts->by_id);
}

static void tenant_free(struct tenant *t)
{
    queue_release(&t->queue);
    free(t);
}

void tenants_release(struct tenants *ts)
{
    for (struct map_entry *it = map_next(&ts->by_id, NULL); it; it = map_next(&ts->by_id, it))
        tenant_free(it->value);
    map_release(&ts->by_id);
    vec_release(&ts->live);
}

/* What a newcomer begins with. */
static int64_t least_served(const struct tenants *ts, bool is_idle)
{
    int64_t most = ts->most[is_idle];
    return most > ts->lag ? most - ts->lag : 0;
}

/* Under which it is known. */
struct tenant_key {
    uint64_t id, is_idle;
};

static void forget_old(struct tenants *ts)
{
    VEC(struct tenant *) old = {0};
    for (struct map_entry *it = map_next(&ts->by_id, NULL); it; it = map_next(&ts->by_id, it)) {
        struct tenant *t = it->value;
        if (!t->n_live && (t->served <= least_served(ts, t->is_idle) || !ts->live.n))
            vec_push(&old, t);
    }
    for (size_t i = 0; i < old.n; i++) {
        struct tenant_key key = {old.at[i]->id, old.at[i]->is_idle};
        map_del(&ts->by_id, &key, sizeof key);
        tenant_free(old.at[i]);
    }
    vec_release(&old);
}

struct tenant *tenant_enter(struct tenants *ts, uint64_t id, bool is_idle, int64_t weight)
{
    struct tenant_key key = {id, is_idle};
    struct tenant *t = map_get(&ts->by_id, &key, sizeof key);
    if (!t) {
        forget_old(ts);
        t = xcalloc(1, sizeof *t);
        t->id = id;
        t->is_idle = is_idle;
        map_put(&ts->by_id, &key, sizeof key, t);
    }
    t->weight = weight < 1 ? 1 : weight > TENANT_WEIGHT_MAX ? TENANT_WEIGHT_MAX : weight;
    if (t->served < least_served(ts, is_idle))
        t->served = least_served(ts, is_idle);
    if (t->n_live++ == 0)
        vec_push(&ts->live, t);
    queue_reserve(&t->queue, (size_t)t->n_live);
    return t;
}

void tenant_leave(struct tenants *ts, struct tenant *t)
{
    size_t i = 0;
    ASSERT(t->n_live > 0);
    if (--t->n_live > 0)
        return;
    while (ts->live.at[i] != t)
        i++;
    ts->live.at[i] = ts->live.at[ts->live.n - 1];
    ts->live.n--;
}

void tenant_charge(struct tenants *ts, struct tenant *t, int64_t n_tok)
{
    t->served += n_tok * TENANT_UNIT / t->weight;
    int64_t *most = &ts->most[t->is_idle];
    *most = t->served > *most ? t->served : *most;
}

void tenants_settle(struct tenants *ts)
{
    for (size_t i = 0; i < ts->live.n; i++) {
        struct tenant *t = ts->live.at[i];
        int64_t least = least_served(ts, t->is_idle);
        t->served = t->served < least ? least : t->served;
    }
}

/* They are nearly in order: a step moves few. */
void tenants_sort(struct tenants *ts)
{
    for (size_t i = 1; i < ts->live.n; i++) {
        struct tenant *t = ts->live.at[i];
        size_t k = i;
        for (; k && tenant_before(t, ts->live.at[k - 1]); k--)
            ts->live.at[k] = ts->live.at[k - 1];
        ts->live.at[k] = t;
    }
}

static struct seq_node *first_of(const struct tenants *ts, bool of_idle)
{
    const struct tenant *best = NULL;
    for (size_t i = 0; i < ts->live.n; i++) {
        const struct tenant *t = ts->live.at[i];
        if (queue_first(&t->queue) && (t->is_idle || !of_idle) && (!best || tenant_before(t, best)))
            best = t;
    }
    return best ? queue_first(&best->queue) : NULL;
}

struct seq_node *tenants_first(const struct tenants *ts)
{
    return first_of(ts, false);
}

struct seq_node *tenants_first_idle(const struct tenants *ts)
{
    return first_of(ts, true);
}
