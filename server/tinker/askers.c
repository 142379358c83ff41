/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose samples wait. However many they are, a key leaves others half of the requests that may run,
 * and most of the engine's queue; one that has none running has its first at once.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "server/tinker/tinker_own.h"

enum {
    FLIGHTS_MAX = 256,
    FLIGHTS_EACH = FLIGHTS_MAX / 2,
    TAKE = 32,
    QUEUE_SHARE = 4 /* of the engine's queue, what a key's may fill */
};

static struct tinker_asker *find(struct tinker *t, const char *owner)
{
    struct tinker_asker *k = t->asker;
    while (k && strcmp(k->owner, owner) != 0)
        k = k->next;
    if (k)
        return k;
    k = xcalloc(1, sizeof *k);
    k->owner = xstrdup(owner);
    k->next = t->asker;
    t->asker = k;
    return k;
}

void tinker_asked(struct tinker *t, const char *owner)
{
    pthread_mutex_lock(&t->lock);
    find(t, owner)->has_more = true;
    t->has_sample = true;
    pthread_cond_signal(&t->sample_wake);
    pthread_mutex_unlock(&t->lock);
}

void tinker_askers_free(struct tinker *t)
{
    for (struct tinker_asker *k; (k = t->asker) != NULL; free(k)) {
        t->asker = k->next;
        free(k->owner);
    }
}

struct tinker_asker *tinker_asker_first(struct tinker *t)
{
    pthread_mutex_lock(&t->lock);
    struct tinker_asker *k = t->asker; /* others come before it */
    pthread_mutex_unlock(&t->lock);
    return k;
}

static int64_t room_of(const struct tinker *t, const struct tinker_asker *k)
{
    int64_t own = FLIGHTS_EACH - k->n_flight, all = FLIGHTS_MAX - t->n_flight;
    int64_t n = own < all ? own : all;
    n = n < TAKE ? n : TAKE;
    return n < 1 ? !k->n_flight : n;
}

size_t tinker_asker_turn(struct tinker *t, struct tinker_asker *k)
{
    int64_t room = room_of(t, k);
    if (!room)
        return 0;
    pthread_mutex_lock(&t->lock);
    bool has_more = k->has_more;
    k->has_more = false;
    pthread_mutex_unlock(&t->lock);
    return has_more ? (size_t)room : 0;
}

void tinker_asker_again(struct tinker *t, struct tinker_asker *k)
{
    pthread_mutex_lock(&t->lock);
    k->has_more = true;
    pthread_mutex_unlock(&t->lock);
}

bool tinker_asker_may_give(const struct tinker *t, const struct tinker_asker *k, int64_t n)
{
    const struct engine_info *on = engine_info(t->opt.engine);
    return !k->n_text || k->n_text + n <= on->max_seqs + on->max_waiting / QUEUE_SHARE;
}
