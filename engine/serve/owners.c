/* SPDX-License-Identifier: Apache-2.0
 *
 * A map under a lock, which nobody holds for longer than a look.
 */
#include "engine/serve/owners.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

struct claim {
    bool is_shared;
    char *owner; /* owned */
};

struct owners {
    pthread_mutex_t lock;
    struct map by_name; /* of struct claim, owned */
};

static void claim_free(struct claim *c)
{
    if (c)
        free(c->owner);
    free(c);
}

struct owners *owners_new(void)
{
    struct owners *o = xcalloc(1, sizeof *o);
    pthread_mutex_init(&o->lock, NULL);
    map_init(&o->by_name);
    return o;
}

void owners_free(struct owners *o)
{
    if (!o)
        return;
    for (struct map_entry *it = map_next(&o->by_name, NULL); it; it = map_next(&o->by_name, it))
        claim_free(it->value);
    map_release(&o->by_name);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

int owners_claim(struct owners *o, const char *name, const char *owner, bool is_shared,
                 struct err *e)
{
    pthread_mutex_lock(&o->lock);
    struct claim *c = map_get_str(&o->by_name, name);
    bool is_taken = c && strcmp(c->owner, owner) != 0, is_new = !c;
    if (is_new) {
        c = xcalloc(1, sizeof *c);
        c->owner = xstrdup(owner);
        map_put_str(&o->by_name, name, c);
    }
    if (!is_taken)
        c->is_shared = is_shared;
    pthread_mutex_unlock(&o->lock);
    return is_taken ? err_set(e, ERR_EXISTS, "the name %.100s is taken", name) : is_new;
}

void owners_forget(struct owners *o, const char *name)
{
    pthread_mutex_lock(&o->lock);
    claim_free(map_del_str(&o->by_name, name));
    pthread_mutex_unlock(&o->lock);
}

static bool may(struct owners *o, const char *name, const char *who, bool changes)
{
    pthread_mutex_lock(&o->lock);
    const struct claim *c = map_get_str(&o->by_name, name);
    bool yes = !c || strcmp(c->owner, who) == 0 || (c->is_shared && !changes);
    pthread_mutex_unlock(&o->lock);
    return yes;
}

bool owners_owns(struct owners *o, const char *name, const char *who)
{
    pthread_mutex_lock(&o->lock);
    const struct claim *c = map_get_str(&o->by_name, name);
    bool yes = c && strcmp(c->owner, who) == 0;
    pthread_mutex_unlock(&o->lock);
    return yes;
}

bool owners_may_use(struct owners *o, const char *name, const char *who)
{
    return may(o, name, who, false);
}

bool owners_may_change(struct owners *o, const char *name, const char *who)
{
    return may(o, name, who, true);
}
