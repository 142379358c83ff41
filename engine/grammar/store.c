/* SPDX-License-Identifier: Apache-2.0
 *
 * A map and a list in the order of use. Masks grow while they are used, so what an entry takes is
 * asked anew whenever room is looked for; the entries are few.
 */
#include "engine/grammar/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/grammar/masks.h"

struct entry {
    struct entry *newer, *older;
    struct masks *m; /* counted */
    uint64_t tenant;
    char *key; /* owned: the tenant, then what was given */
    size_t n_key;
};

struct grammar_store {
    pthread_mutex_t lock;
    struct map known;
    struct entry *newest, *oldest;
    size_t max_bytes, tenant_bytes;
};

struct grammar_store *grammar_store_new(size_t max_bytes, size_t tenant_bytes)
{
    struct grammar_store *s = xcalloc(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    map_init(&s->known);
    s->max_bytes = max_bytes;
    s->tenant_bytes = tenant_bytes;
    return s;
}

static void unlink_entry(struct grammar_store *s, struct entry *e)
{
    *(e->newer ? &e->newer->older : &s->newest) = e->older;
    *(e->older ? &e->older->newer : &s->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void link_newest(struct grammar_store *s, struct entry *e)
{
    e->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = e;
    s->newest = e;
}

static void drop(struct grammar_store *s, struct entry *e)
{
    unlink_entry(s, e);
    map_del(&s->known, e->key, e->n_key);
    masks_unref(e->m);
    free(e->key);
    free(e);
}

void grammar_store_free(struct grammar_store *s)
{
    if (!s)
        return;
    while (s->newest)
        drop(s, s->newest);
    map_release(&s->known);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static size_t bytes_of(const struct entry *e)
{
    return sizeof *e + 2 * e->n_key + grammar_bytes(e->m->g) + masks_bytes(e->m);
}

/* From the newest on: what no longer fits goes. The newest itself always stays. */
static void make_room(struct grammar_store *s)
{
    size_t all = 0, own = 0;
    for (struct entry *e = s->newest, *older; e; e = older) {
        size_t bytes = bytes_of(e);
        bool is_own = e->tenant == s->newest->tenant;
        older = e->older;
        all += bytes;
        own += is_own ? bytes : 0;
        if (e != s->newest && (all > s->max_bytes || (is_own && own > s->tenant_bytes))) {
            all -= bytes;
            own -= is_own ? bytes : 0;
            drop(s, e);
        }
    }
}

static char *key_of(uint64_t tenant, const void *key, size_t len)
{
    char *k = xmalloc(sizeof tenant + len);
    memcpy(k, &tenant, sizeof tenant);
    if (len)
        memcpy(k + sizeof tenant, key, len);
    return k;
}

struct masks *grammar_store_get(struct grammar_store *s, uint64_t tenant, const void *key,
                                size_t len)
{
    char *k = key_of(tenant, key, len);
    struct masks *m = NULL;
    pthread_mutex_lock(&s->lock);
    struct entry *e = map_get(&s->known, k, sizeof tenant + len);
    if (e) {
        unlink_entry(s, e);
        link_newest(s, e);
        m = masks_ref(e->m);
    }
    pthread_mutex_unlock(&s->lock);
    free(k);
    return m;
}

void grammar_store_add(struct grammar_store *s, uint64_t tenant, const void *key, size_t len,
                       struct masks *m)
{
    char *k = key_of(tenant, key, len);
    pthread_mutex_lock(&s->lock);
    if (map_get(&s->known, k, sizeof tenant + len)) {
        free(k);
    } else {
        struct entry *e = xcalloc(1, sizeof *e);
        *e = (struct entry){
            .m = masks_ref(m), .tenant = tenant, .key = k, .n_key = sizeof tenant + len};
        map_put(&s->known, e->key, e->n_key, e);
        link_newest(s, e);
        make_room(s);
    }
    pthread_mutex_unlock(&s->lock);
}

size_t grammar_store_bytes(struct grammar_store *s)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (struct entry *e = s->newest; e; e = e->older)
        n += bytes_of(e);
    pthread_mutex_unlock(&s->lock);
    return n;
}
