/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry behind the engine's face. Prefixes that were computed with a version that no name
 * means any more are forgotten by the engine's thread in its next round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/serve/engine_own.h"

enum { LIST_MORE = 16, WAIT_US = 30 * 1000 * 1000, LOOK_US = 2000 };

static int check_has(const struct engine *g, struct err *e)
{
    if (g->names.registry)
        return 0;
    return err_set(e, ERR_UNSUPPORTED, "this engine was started without room for adapters");
}

void adapters_forget(void *ctx, uint64_t gone)
{
    struct engine *g = ctx;
    if (!gone)
        return;
    pthread_mutex_lock(&g->mail.lock);
    vec_push(&g->mail.gone, gone);
    atomic_store_explicit(&g->mail.has_mail, true, memory_order_release);
    pthread_mutex_unlock(&g->mail.lock);
}

/* ERR_BUSY: there may be a place later. */
static int load_now(struct engine *g, const char *name, const char *dir, struct err *e)
{
    uint64_t gone = 0;
    if (check_has(g, e) || registry_load(g->names.registry, name, dir, &gone, e))
        return -1;
    adapters_forget(g, gone);
    return 0;
}

int engine_adapter_load(struct engine *g, const char *name, const char *dir, struct err *e)
{
    int64_t until = clock_us() + WAIT_US;
    while (load_now(g, name, dir, e)) {
        if (e->code != ERR_BUSY || clock_us() >= until)
            return -1;
        *e = (struct err)ERR_INIT;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_US * 1000}, NULL);
    }
    return 0;
}

int engine_adapter_drop(struct engine *g, const char *name, struct err *e)
{
    uint64_t gone = 0;
    if (check_has(g, e) || registry_drop(g->names.registry, name, &gone, e))
        return -1;
    adapters_forget(g, gone);
    return 0;
}

int engine_adapter_claim(struct engine *g, const char *name, const char *owner, bool is_shared,
                         struct err *e)
{
    return owners_claim(g->names.owners, name, owner, is_shared, e) < 0 ? -1 : 0;
}

static bool is_operators(struct engine *g, const char *name)
{
    struct adapter *a = engine_adapter_get(g, name);
    bool yes = a && owners_may_change(g->names.owners, name, "");
    adapter_unref(a);
    return yes;
}

/* All names, to be freed; some that come meanwhile have room. */
static struct registry_entry *list_all(struct engine *g, size_t *n)
{
    *n = 0;
    if (!g->names.registry)
        return NULL;
    size_t cap = registry_list(g->names.registry, NULL, 0) + LIST_MORE;
    struct registry_entry *list = xcalloc(cap, sizeof *list);
    *n = registry_list(g->names.registry, list, cap);
    *n = *n < cap ? *n : cap;
    return list;
}

static int64_t count_of(struct engine *g, const char *owner)
{
    size_t n;
    struct registry_entry *list = list_all(g, &n);
    int64_t its = 0;
    for (size_t i = 0; i < n; i++)
        its += !list[i].is_known && owners_owns(g->names.owners, list[i].name, owner);
    free(list);
    return its;
}

/* A new version of a name takes the place of the old one. */
static int check_most(struct engine *g, const char *name, const char *owner, int64_t most,
                      struct err *e)
{
    struct adapter *old = engine_adapter_get(g, name);
    int64_t its = !most || old ? 0 : count_of(g, owner);
    adapter_unref(old);
    return most && its >= most ? err_set(e, ERR_NO_SPACE,
                                         "%lld adapters of this key are loaded, and it may have "
                                         "%lld (adapters): drop one first",
                                         (long long)its, (long long)most)
                               : 0;
}

static int load_own(struct engine *g, const char *name, const char *dir, const char *owner,
                    bool is_shared, int64_t most, struct err *e)
{
    if (check_most(g, name, owner, most, e))
        return -1;
    int is_new = owners_claim(g->names.owners, name, owner, is_shared, e);
    int rc = is_new < 0 ? -1 : load_now(g, name, dir, e);
    if (rc && is_new > 0)
        owners_forget(g->names.owners, name);
    /* once more, as its owner may have dropped the name meanwhile, and the claim with it */
    if (!rc && owners_claim(g->names.owners, name, owner, is_shared, e) < 0) {
        engine_adapter_drop(g, name, NULL);
        rc = -1;
    }
    return rc;
}

int engine_adapter_load_for(struct engine *g, const char *name, const char *dir, const char *owner,
                            bool is_shared, int64_t most, struct err *e)
{
    pthread_mutex_lock(&g->names.lock);
    int rc = is_operators(g, name) ? load_now(g, name, dir, e)
                                   : load_own(g, name, dir, owner, is_shared, most, e);
    pthread_mutex_unlock(&g->names.lock);
    return rc;
}

void engine_adapter_forget(struct engine *g, const char *name)
{
    struct err unknown = ERR_INIT;
    pthread_mutex_lock(&g->names.lock);
    engine_adapter_drop(g, name, &unknown);
    engine_adapter_disown(g, name);
    pthread_mutex_unlock(&g->names.lock);
}

int engine_adapter_drop_for(struct engine *g, const char *name, const char *who, struct err *e)
{
    pthread_mutex_lock(&g->names.lock);
    int rc = engine_adapter_may_change(g, name, who)
                 ? engine_adapter_drop(g, name, e)
                 : err_set(e, ERR_NOT_FOUND, "no adapter has the name %.100s", name);
    if (!rc)
        engine_adapter_disown(g, name);
    pthread_mutex_unlock(&g->names.lock);
    return rc;
}

void engine_adapter_disown(struct engine *g, const char *name)
{
    owners_forget(g->names.owners, name);
}

bool engine_adapter_may_use(struct engine *g, const char *name, const char *who)
{
    return owners_may_use(g->names.owners, name, who);
}

bool engine_adapter_may_change(struct engine *g, const char *name, const char *who)
{
    return owners_may_change(g->names.owners, name, who);
}

void engine_adapter_bar(struct engine *g, const char *name, const struct err *why)
{
    if (g->names.registry)
        registry_bar(g->names.registry, name, why);
}

bool engine_adapter_why(struct engine *g, const char *name, struct err *why)
{
    return g->names.registry && registry_why(g->names.registry, name, why);
}

struct adapter *engine_adapter_get(struct engine *g, const char *name)
{
    return g->names.registry ? registry_get(g->names.registry, name) : NULL;
}

int engine_adapter_know(struct engine *g, const char *name, const char *dir, int64_t created,
                        struct err *e)
{
    return check_has(g, e) ? -1 : registry_know(g->names.registry, name, dir, created, e);
}

bool engine_adapter_knows(struct engine *g, const char *name)
{
    return g->names.registry && registry_knows(g->names.registry, name);
}

int engine_adapter_fetch(struct engine *g, const char *name, struct adapter **out, struct err *e)
{
    return check_has(g, e) ? -1 : registry_fetch(g->names.registry, name, out, e);
}

size_t engine_adapters(struct engine *g, struct engine_adapter_info *at, size_t cap)
{
    size_t n;
    struct registry_entry *list = list_all(g, &n);
    for (size_t i = 0; i < cap && i < n; i++) {
        at[i] = (struct engine_adapter_info){
            .created = list[i].created, .rank = list[i].rank, .version = list[i].version};
        snprintf(at[i].name, sizeof at[i].name, "%s", list[i].name);
    }
    free(list);
    return n;
}
