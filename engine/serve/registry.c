/* SPDX-License-Identifier: Apache-2.0
 *
 * A map behind a lock that is held for a look-up, and a second lock that orders loads. The map
 * holds one reference on each current version.
 */
#include "engine/serve/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

struct registry {
    const struct model *model; /* borrowed */
    struct registry_limits limits;
    struct adapter_budget budget;
    pthread_mutex_t load; /* taken before `lock` */
    uint64_t n_version;   /* under load */
    pthread_mutex_t lock;
    struct map by_name; /* of struct adapter, counted; under lock */
    struct map barred;  /* of struct err, owned: why; under lock */
};

struct registry *registry_new(const struct model *m, const struct registry_limits *l)
{
    struct registry *r = xcalloc(1, sizeof *r);
    r->model = m;
    r->limits = *l;
    r->budget.bytes_max = l->bytes_max;
    pthread_mutex_init(&r->load, NULL);
    pthread_mutex_init(&r->lock, NULL);
    map_init(&r->by_name);
    map_init(&r->barred);
    return r;
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    for (struct map_entry *it = map_next(&r->by_name, NULL); it; it = map_next(&r->by_name, it))
        adapter_unref(it->value);
    map_release(&r->by_name);
    for (struct map_entry *it = map_next(&r->barred, NULL); it; it = map_next(&r->barred, it))
        free(it->value);
    map_release(&r->barred);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->load);
    free(r);
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int registry_check_name(const char *name, struct err *e)
{
    size_t n = strlen(name);
    bool is_good = n > 0 && n < ADAPTER_NAME_BYTES && is_plain(*name) && !strstr(name, "..");
    for (size_t i = 0; i < n && is_good; i++)
        is_good = is_plain(name[i]) || strchr("._-:/", name[i]);
    if (is_good)
        return 0;
    return err_set(e, ERR_BAD_INPUT,
                   "an adapter's name has 1 to %d letters, digits and . _ - : /, begins with a "
                   "letter or digit, and holds no '..'",
                   ADAPTER_NAME_BYTES - 1);
}

/* Whether there is place for the name. */
static int check_count(struct registry *r, const char *name, struct err *e)
{
    pthread_mutex_lock(&r->lock);
    bool is_full = !map_get_str(&r->by_name, name) && r->by_name.n_live >= (size_t)r->limits.n_max;
    pthread_mutex_unlock(&r->lock);
    if (!is_full)
        return 0;
    return err_set(e, ERR_TOO_LARGE, "%lld adapters are loaded, which is the most: drop one first",
                   (long long)r->limits.n_max);
}

/* Moves the adapter in; the version it replaces, 0: none. */
static uint64_t put(struct registry *r, struct adapter *a)
{
    pthread_mutex_lock(&r->lock);
    struct adapter *old = map_put_str(&r->by_name, adapter_name(a), a);
    free(map_del_str(&r->barred, adapter_name(a)));
    pthread_mutex_unlock(&r->lock);
    uint64_t version = old ? adapter_version(old) : 0;
    adapter_unref(old);
    return version;
}

int registry_load(struct registry *r, const char *name, const char *dir, uint64_t *gone,
                  struct err *e)
{
    struct adapter *a = NULL;
    uint64_t old = 0;
    if (registry_check_name(name, e))
        return -1;
    pthread_mutex_lock(&r->load); /* none but loads add names, so the count holds till the end */
    if (!check_count(r, name, e)) {
        struct adapter_options o = {.name = name,
                                    .version = ++r->n_version,
                                    .rank_max = r->limits.rank_max,
                                    .budget = &r->budget,
                                    .on_news = r->limits.on_news,
                                    .news_ctx = r->limits.news_ctx};
        a = adapter_load(r->model, dir, &o, e);
    }
    if (a)
        old = put(r, a);
    pthread_mutex_unlock(&r->load);
    if (gone)
        *gone = old;
    return a ? 0 : err_wrap(e, "adapter %s", name);
}

int registry_drop(struct registry *r, const char *name, uint64_t *gone, struct err *e)
{
    pthread_mutex_lock(&r->lock);
    struct adapter *old = map_del_str(&r->by_name, name);
    free(map_del_str(&r->barred, name));
    pthread_mutex_unlock(&r->lock);
    if (!old)
        return err_set(e, ERR_NOT_FOUND, "no adapter has the name %.100s", name);
    if (gone)
        *gone = adapter_version(old);
    adapter_unref(old);
    return 0;
}

void registry_bar(struct registry *r, const char *name, const struct err *why)
{
    struct err *copy = xmalloc(sizeof *copy);
    *copy = *why;
    pthread_mutex_lock(&r->lock);
    free(map_put_str(&r->barred, name, copy));
    pthread_mutex_unlock(&r->lock);
}

bool registry_why(struct registry *r, const char *name, struct err *why)
{
    pthread_mutex_lock(&r->lock);
    const struct err *is = map_get_str(&r->barred, name);
    if (is)
        *why = *is;
    pthread_mutex_unlock(&r->lock);
    return is != NULL;
}

struct adapter *registry_get(struct registry *r, const char *name)
{
    pthread_mutex_lock(&r->lock);
    struct adapter *a = map_get_str(&r->by_name, name);
    if (a)
        adapter_ref(a);
    pthread_mutex_unlock(&r->lock);
    return a;
}

size_t registry_list(struct registry *r, struct adapter **at, size_t cap)
{
    size_t n = 0;
    pthread_mutex_lock(&r->lock);
    for (struct map_entry *it = map_next(&r->by_name, NULL); it; it = map_next(&r->by_name, it))
        if (n++ < cap)
            at[n - 1] = adapter_ref(it->value);
    pthread_mutex_unlock(&r->lock);
    return n;
}

size_t registry_bytes(const struct registry *r)
{
    return atomic_load(&r->budget.bytes);
}
