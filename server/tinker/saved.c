/* SPDX-License-Identifier: Apache-2.0
 *
 * What was saved: folders, and names under which the engine serves those of samplers. A name is its
 * owner's alone.
 */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/made.h"
#include "engine/base/num.h"
#include "server/data/data_dir.h"
#include "server/tinker/tinker_own.h"

int tinker_know(struct tinker *t, const struct loop_weights *w, struct err *e)
{
    struct engine *g = t->opt.engine;
    struct arena a;
    if (engine_base_match(g, w->fingerprint) != ENGINE_BASE_SAME)
        return err_set(e, ERR_UNSUPPORTED, "'%.200s' was trained over another base, '%.80s'",
                       w->path, w->base);
    if (engine_adapter_claim(g, w->path, w->owner, false, e))
        return -1;
    arena_init(&a, 1 << 16);
    int rc = engine_adapter_know(g, w->path, tinker_path(t, w->dir, &a), w->created, e);
    arena_release(&a);
    return rc;
}

static void remove_folder(struct tinker *t, const char *name)
{
    struct err why = ERR_INIT;
    struct arena a;
    arena_init(&a, 1 << 16);
    const char *path = tinker_path(t, name, &a);
    if (made_remove(path, &why) && tune_loop_forget(path, &why))
        log_event(LOG_WARN, "what a training saved cannot be removed", LOG_TEXT("name", name),
                  LOG_TEXT("why", why.msg));
    arena_release(&a);
}

void tinker_remove(struct tinker *t, const struct loop_weights *w)
{
    if (w->is_sampler)
        engine_adapter_forget(t->opt.engine, w->path);
    remove_folder(t, w->dir);
}

int tinker_drop(struct tinker *t, const char *owner, const char *path, struct err *e)
{
    struct loop_weights w;
    struct arena a;
    arena_init(&a, TINKER_ARENA_BYTES);
    int rc = store_loop_weights(t->opt.store, owner, path, &a, &w, e) ||
                     store_loop_weights_drop(t->opt.store, owner, path, e)
                 ? -1
                 : 0;
    if (!rc)
        tinker_remove(t, &w);
    arena_release(&a);
    return rc;
}

static void drop_one(struct tinker *t, const struct loop_weights *w)
{
    struct err e = ERR_INIT;
    if (!store_loop_weights_drop(t->opt.store, w->owner, w->path, &e))
        tinker_remove(t, w);
}

void tinker_prune(struct tinker *t, const char *model)
{
    struct loop_weights *list;
    struct arena a;
    struct err e = ERR_INIT;
    size_t n = 0, n_unnamed = 0;
    arena_init(&a, TINKER_ARENA_BYTES);
    if (store_loop_weights_list(t->opt.store, NULL, model, &a, &list, &n, &e))
        n = 0;
    for (size_t i = 0; i < n; i++)
        if (!list[i].is_named && ++n_unnamed > TINKER_UNNAMED_KEPT)
            drop_one(t, &list[i]);
    arena_release(&a);
}

void tinker_expire(struct tinker *t, int64_t now)
{
    struct loop_weights *list;
    struct arena a;
    struct err e = ERR_INIT;
    size_t n = 0;
    arena_init(&a, TINKER_ARENA_BYTES);
    if (store_loop_weights_over(t->opt.store, now, &a, &list, &n, &e))
        n = 0;
    for (size_t i = 0; i < n; i++)
        drop_one(t, &list[i]);
    arena_release(&a);
}

int64_t tinker_bytes(const struct tinker *t, const char *dir)
{
    struct arena a;
    arena_init(&a, 1 << 16);
    int64_t bytes = fs_bytes(tinker_path(t, dir, &a));
    arena_release(&a);
    return bytes;
}

/* ---- at the start ---------------------------------------------------------------------------- */

static void know_models(const struct tinker *t, struct map *known, struct arena *a,
                        const struct loop_model *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (m[i].kept >= 0)
            map_put_str(known, tinker_state_name(m[i].id, m[i].kept, a), (void *)(uintptr_t)t);
}

/* Behind a model's name, which begins a folder's; NULL: it does not. */
static const char *behind(const char *name, const char *model)
{
    for (; *model; name++, model++)
        if (*name != (*model == ':' ? '-' : *model))
            return NULL;
    return *name == '-' ? name + 1 : NULL;
}

enum left { LEFT_UNKNOWN, LEFT_OVER, LEFT_WAITED_FOR };

/* What is in a folder without a row: of a request that its model is past, nobody wants it any more;
 * of one that waits, it is written again. */
static enum left look_at(struct tinker *t, const char *name, const struct loop_model *m, size_t n,
                         struct arena *a)
{
    static const char state[] = "state-";
    for (size_t i = 0; i < n; i++) {
        const char *at = behind(name, m[i].id);
        int64_t seq;
        at = at && strncmp(at, state, sizeof state - 1) == 0 ? at + sizeof state - 1 : at;
        if (!at || num_int(at, 0, INT64_MAX, &seq, NULL))
            continue;
        if (seq < m[i].next)
            return LEFT_OVER;
        if (map_get_str(&t->open, arena_printf(a, "%s:%lld", m[i].id, (long long)seq)))
            return LEFT_WAITED_FOR;
    }
    return LEFT_UNKNOWN;
}

/* What a kill left without a row goes; what the store never heard of may be all that is left of one
 * that an older one was put in place of. */
static int sweep(struct tinker *t, const struct map *known, const struct loop_model *m, size_t n,
                 struct arena *a, struct err *e)
{
    DIR *d = opendir(tinker_path(t, ".", a));
    int rc = 0;
    for (const struct dirent *x; d && !rc && (x = readdir(d));) {
        if (x->d_name[0] == '.' || map_get_str(known, x->d_name))
            continue;
        enum left is = look_at(t, x->d_name, m, n, a);
        if (is == LEFT_OVER)
            remove_folder(t, x->d_name);
        else if (is == LEFT_UNKNOWN)
            rc = data_set_aside(store_dir(t->opt.store), DATA_LOOPS, x->d_name,
                                "no row names what is in it", e);
    }
    if (d)
        closedir(d);
    return rc;
}

int tinker_sweep(struct tinker *t, struct err *e)
{
    struct map known;
    struct arena a;
    struct loop_model *m;
    struct loop_weights *w;
    size_t n = 0, n_weights = 0;
    map_init(&known);
    arena_init(&a, TINKER_ARENA_BYTES);
    int rc = store_loop_session_models(t->opt.store, NULL, &a, &m, &n, e) ||
                     store_loop_weights_list(t->opt.store, NULL, NULL, &a, &w, &n_weights, e)
                 ? -1
                 : 0;
    if (!rc) {
        know_models(t, &known, &a, m, n);
        for (size_t i = 0; i < n_weights; i++)
            map_put_str(&known, w[i].dir, t);
        rc = sweep(t, &known, m, n, &a, e);
    }
    map_release(&known);
    arena_release(&a);
    return rc;
}
