/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps behind a lock that is held for a look-up, and a second lock that orders loads. A seat holds
 * one reference on its current version; who else has one uses it, so one that nobody uses is seen
 * by its count under the lock, where references are given out.
 *
 * Where all are in use the one that was not asked for the longest is marked to leave: it is given
 * to nobody else, and makes place when those who have it are done. So who waits is not passed by
 * for ever.
 */
#include "engine/serve/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/made.h"
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/serve/adapter_folder.h"
#include "engine/serve/adapters.h"

struct seat {
    struct adapter *adapter; /* counted */
    uint64_t used;           /* when it was last asked for, by r->n_asked */
    bool leaves;
};

struct source {
    char *dir; /* owned */
    int64_t created;
};

struct registry {
    const struct model *model; /* borrowed */
    struct registry_limits limits;
    struct adapter_budget budget;
    pthread_mutex_t load; /* taken before `lock` */
    uint64_t n_version;   /* under load */
    pthread_mutex_t lock; /* of what follows */
    uint64_t n_asked;
    struct map by_name; /* of struct seat, owned */
    struct map known;   /* of struct source, owned */
    struct map barred;  /* of struct err, owned: why */
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
    map_init(&r->known);
    map_init(&r->barred);
    return r;
}

/* The reference moves out; NULL: there was none. */
static struct adapter *seat_free(struct seat *s)
{
    struct adapter *a = s ? s->adapter : NULL;
    free(s);
    return a;
}

static void source_free(struct source *s)
{
    if (s)
        free(s->dir);
    free(s);
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    for (struct map_entry *it = map_next(&r->by_name, NULL); it; it = map_next(&r->by_name, it))
        adapter_unref(seat_free(it->value));
    map_release(&r->by_name);
    for (struct map_entry *it = map_next(&r->known, NULL); it; it = map_next(&r->known, it))
        source_free(it->value);
    map_release(&r->known);
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

static bool may_stand(const char *name, size_t i)
{
    return is_plain(name[i]) ||
           (i > 0 && strchr("._-:/", name[i]) && (name[i] != '.' || name[i - 1] != '.'));
}

int registry_check_name(const char *name, struct err *e)
{
    size_t n = strlen(name);
    bool is_good = n > 0 && n < ADAPTER_NAME_BYTES;
    for (size_t i = 0; i < n && is_good; i++)
        is_good = may_stand(name, i);
    if (is_good)
        return 0;
    return err_set(e, ERR_BAD_INPUT,
                   "an adapter's name has 1 to %d letters, digits and . _ - : /, begins with a "
                   "letter or digit, and holds no '..'",
                   ADAPTER_NAME_BYTES - 1);
}

void engine_adapter_plain_name(char *name)
{
    for (size_t i = 1; *name && name[i]; i++)
        if (!may_stand(name, i))
            name[i] = '-';
}

/* ---- places -------------------------------------------------------------------------------- */

/* Under the lock: of the seats of what is known, the one that was not asked for the longest, of
 * those that nobody uses or of the others; NULL: none. */
static struct seat *oldest(struct registry *r, bool is_idle)
{
    struct seat *found = NULL;
    for (struct map_entry *it = map_next(&r->by_name, NULL); it; it = map_next(&r->by_name, it)) {
        struct seat *s = it->value;
        if (map_get_str(&r->known, adapter_name(s->adapter)) &&
            adapter_is_idle(s->adapter) == is_idle && (!found || s->used < found->used))
            found = s;
    }
    return found;
}

/* Under the lock. */
static bool is_leaving(struct registry *r)
{
    for (struct map_entry *it = map_next(&r->by_name, NULL); it; it = map_next(&r->by_name, it))
        if (((struct seat *)it->value)->leaves)
            return true;
    return false;
}

enum make { MADE, ALL_USED, NONE_KNOWN };

/* One that is known and not used goes. */
static enum make evict(struct registry *r)
{
    struct adapter *gone = NULL;
    pthread_mutex_lock(&r->lock);
    struct seat *s = oldest(r, true), *used = s ? NULL : oldest(r, false);
    if (s)
        gone = seat_free(map_del_str(&r->by_name, adapter_name(s->adapter)));
    else if (used && !is_leaving(r))
        used->leaves = true;
    pthread_mutex_unlock(&r->lock);
    if (!gone)
        return used ? ALL_USED : NONE_KNOWN;
    if (r->limits.on_gone)
        r->limits.on_gone(r->limits.gone_ctx, adapter_version(gone));
    adapter_unref(gone);
    return MADE;
}

static int no_place(struct registry *r, enum make why, struct err *e)
{
    if (why == ALL_USED)
        return err_set(e, ERR_BUSY, "all adapters that may be loaded are in use");
    return err_set(e, ERR_TOO_LARGE, "%lld adapters are loaded, which is the most: drop one first",
                   (long long)r->limits.n_max);
}

/* Those that stay until they are dropped, but for this name. */
static int64_t count_loaded(struct registry *r, const char *but)
{
    int64_t n = 0;
    for (struct map_entry *it = map_next(&r->by_name, NULL); it; it = map_next(&r->by_name, it)) {
        const char *name = adapter_name(((struct seat *)it->value)->adapter);
        n += strcmp(name, but) != 0 && !map_get_str(&r->known, name);
    }
    return n;
}

/* A place for the name, which may have one. */
static int make_place(struct registry *r, const char *name, bool is_known, struct err *e)
{
    pthread_mutex_lock(&r->lock);
    int64_t most = r->limits.n_max - (r->known.n_live > 0 && r->limits.n_max > 1);
    bool is_there = map_get_str(&r->by_name, name) != NULL;
    bool is_full = !is_there && r->by_name.n_live >= (size_t)r->limits.n_max;
    bool is_over = !is_known && !is_there && count_loaded(r, name) >= most;
    pthread_mutex_unlock(&r->lock);
    enum make made = is_over ? NONE_KNOWN : is_full ? evict(r) : MADE;
    return made == MADE ? 0 : no_place(r, made, e);
}

/* ---- loading ------------------------------------------------------------------------------- */

/* Under the lock. Moves the adapter in; the one that it replaces, or NULL, moves out. */
static struct adapter *put(struct registry *r, struct adapter *a)
{
    struct seat *s = xcalloc(1, sizeof *s);
    *s = (struct seat){.adapter = a, .used = ++r->n_asked};
    free(map_del_str(&r->barred, adapter_name(a)));
    return seat_free(map_put_str(&r->by_name, adapter_name(a), s));
}

/* The same of what stays until it is dropped; the version that it replaces, 0: none. */
static uint64_t switch_to(struct registry *r, struct adapter *a)
{
    pthread_mutex_lock(&r->lock);
    struct adapter *old = put(r, a);
    source_free(map_del_str(&r->known, adapter_name(a)));
    pthread_mutex_unlock(&r->lock);
    uint64_t version = old ? adapter_version(old) : 0;
    adapter_unref(old);
    return version;
}

/* Where its bytes have no room others make it. */
static struct adapter *read_in(struct registry *r, const char *name, const char *dir, struct err *e)
{
    bool lacks_room = false;
    struct adapter_options o = {.name = name,
                                .version = ++r->n_version,
                                .rank_max = r->limits.rank_max,
                                .budget = &r->budget,
                                .lacks_room = &lacks_room,
                                .on_news = r->limits.on_news,
                                .news_ctx = r->limits.news_ctx};
    struct adapter *a = adapter_load(r->model, dir, &o, e);
    while (!a && lacks_room) {
        enum make made = evict(r);
        if (made == ALL_USED)
            no_place(r, made, e);
        if (made != MADE)
            break;
        lacks_room = false;
        *e = (struct err)ERR_INIT;
        a = adapter_load(r->model, dir, &o, e);
    }
    return a;
}

int registry_load(struct registry *r, const char *name, const char *dir, uint64_t *gone,
                  struct err *e)
{
    struct adapter *a = NULL;
    uint64_t old = 0;
    if (registry_check_name(name, e))
        return -1;
    pthread_mutex_lock(&r->load); /* none but loads add names, so the place is ours */
    if (!make_place(r, name, false, e))
        a = read_in(r, name, dir, e);
    if (a)
        old = switch_to(r, a);
    pthread_mutex_unlock(&r->load);
    if (gone)
        *gone = old;
    return a ? 0 : err_wrap(e, "adapter %s", name);
}

/* ---- what is known ------------------------------------------------------------------------- */

int registry_know(struct registry *r, const char *name, const char *dir, int64_t created,
                  struct err *e)
{
    if (registry_check_name(name, e))
        return -1;
    struct source *s = xcalloc(1, sizeof *s);
    *s = (struct source){.dir = xstrdup(dir), .created = created};
    pthread_mutex_lock(&r->lock);
    source_free(map_put_str(&r->known, name, s));
    free(map_del_str(&r->barred, name));
    pthread_mutex_unlock(&r->lock);
    return 0;
}

bool registry_knows(struct registry *r, const char *name)
{
    pthread_mutex_lock(&r->lock);
    bool yes = map_get_str(&r->known, name) != NULL;
    pthread_mutex_unlock(&r->lock);
    return yes;
}

/* Under the lock: one that leaves and is used by nobody any more may as well stay. */
static struct adapter *take(struct registry *r, struct seat *s)
{
    if (!s || (s->leaves && !adapter_is_idle(s->adapter)))
        return NULL;
    s->leaves = false;
    s->used = ++r->n_asked;
    return adapter_ref(s->adapter);
}

/* The adapter, where it is there; else the folder to read, to be freed; or why neither. */
static struct adapter *look_up(struct registry *r, const char *name, char **dir, struct err *e)
{
    pthread_mutex_lock(&r->lock);
    struct seat *s = map_get_str(&r->by_name, name);
    struct adapter *a = take(r, s);
    const struct source *from = a || s ? NULL : map_get_str(&r->known, name);
    *dir = from ? xstrdup(from->dir) : NULL;
    pthread_mutex_unlock(&r->lock);
    if (!a && s)
        no_place(r, ALL_USED, e);
    else if (!a && !from)
        err_set(e, ERR_NOT_FOUND, "no adapter has the name %.100s", name);
    return a;
}

/* Whether it would be so again: what the system refused may go another time. */
static bool is_lasting(const struct err *e)
{
    return e->code == ERR_CORRUPT || e->code == ERR_BAD_INPUT || e->code == ERR_NOT_FOUND ||
           e->code == ERR_UNSUPPORTED;
}

/* Read once more it would be the same: who asks is told why. Good files may hold what this server
 * has nothing for, and another one has. */
static void bar_unread(struct registry *r, const char *name, const char *dir, struct err *e)
{
    struct err said = ERR_INIT;
    adapter_folder_hide(dir, e);
    if (!is_lasting(e))
        return;
    pthread_mutex_lock(&r->lock);
    struct source *from = map_del_str(&r->known, name);
    pthread_mutex_unlock(&r->lock);
    if (!from) { /* it was deleted meanwhile, and its files with it */
        *e = (struct err)ERR_INIT;
        err_set(e, ERR_NOT_FOUND, "no adapter has the name %.100s", name);
        return;
    }
    source_free(from);
    bool is_good = e->code == ERR_UNSUPPORTED;
    err_set(&said, is_good ? ERR_UNSUPPORTED : ERR_CORRUPT, "'%.100s' is not served: %s%s.", name,
            is_good ? "" : "its files are not what was published: ", e->msg);
    *e = said;
    registry_bar(r, name, e);
}

static int check_files(const char *dir, struct err *e)
{
    struct err why = ERR_INIT;
    return !made_check(dir, &why) || why.code == ERR_NOT_FOUND /* of a version without lists */
               ? 0
               : err_set(e, why.code, "%s", why.msg);
}

static struct adapter *fetch(struct registry *r, const char *name, const char *dir, struct err *e)
{
    if (make_place(r, name, true, e))
        return NULL;
    struct adapter *a = check_files(dir, e) ? NULL : read_in(r, name, dir, e);
    if (!a) {
        bar_unread(r, name, dir, e);
        return NULL;
    }
    pthread_mutex_lock(&r->lock);
    bool is_wanted = map_get_str(&r->known, name) != NULL; /* else it was dropped meanwhile */
    if (is_wanted)
        put(r, adapter_ref(a));
    pthread_mutex_unlock(&r->lock);
    if (is_wanted)
        return a;
    adapter_unref(a);
    err_set(e, ERR_NOT_FOUND, "no adapter has the name %.100s", name);
    return NULL;
}

int registry_fetch(struct registry *r, const char *name, struct adapter **out, struct err *e)
{
    char *dir;
    pthread_mutex_lock(&r->load);
    *out = look_up(r, name, &dir, e);
    if (dir)
        *out = fetch(r, name, dir, e);
    pthread_mutex_unlock(&r->load);
    free(dir);
    return *out ? 0 : -1;
}

/* ---- the others ---------------------------------------------------------------------------- */

int registry_drop(struct registry *r, const char *name, uint64_t *gone, struct err *e)
{
    pthread_mutex_lock(&r->lock);
    struct adapter *old = seat_free(map_del_str(&r->by_name, name));
    struct source *from = map_del_str(&r->known, name);
    free(map_del_str(&r->barred, name));
    pthread_mutex_unlock(&r->lock);
    bool was = old || from;
    source_free(from);
    if (!was)
        return err_set(e, ERR_NOT_FOUND, "no adapter has the name %.100s", name);
    if (gone)
        *gone = old ? adapter_version(old) : 0;
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
    struct seat *s = map_get_str(&r->by_name, name);
    struct adapter *a = s && s->leaves ? NULL : take(r, s);
    pthread_mutex_unlock(&r->lock);
    return a;
}

static struct registry_entry entry_of(struct registry *r, const struct adapter *a)
{
    struct registry_entry x = {
        .created = adapter_created(a), .rank = adapter_rank(a), .version = adapter_version(a)};
    const struct source *from = map_get_str(&r->known, adapter_name(a));
    x.is_known = from != NULL;
    if (from)
        x.created = from->created;
    snprintf(x.name, sizeof x.name, "%s", adapter_name(a));
    return x;
}

size_t registry_list(struct registry *r, struct registry_entry *at, size_t cap)
{
    size_t n = 0;
    pthread_mutex_lock(&r->lock);
    for (struct map_entry *it = map_next(&r->by_name, NULL); it; it = map_next(&r->by_name, it))
        if (n++ < cap)
            at[n - 1] = entry_of(r, ((struct seat *)it->value)->adapter);
    for (struct map_entry *it = map_next(&r->known, NULL); it; it = map_next(&r->known, it)) {
        const struct source *from = it->value;
        if (map_get_str(&r->by_name, it->key) || n++ >= cap)
            continue;
        at[n - 1] = (struct registry_entry){.created = from->created, .is_known = true};
        snprintf(at[n - 1].name, sizeof at[n - 1].name, "%s", (const char *)it->key);
    }
    pthread_mutex_unlock(&r->lock);
    return n;
}

size_t registry_bytes(const struct registry *r)
{
    return atomic_load(&r->budget.bytes);
}
