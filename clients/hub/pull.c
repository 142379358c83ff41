/* SPDX-License-Identifier: Apache-2.0
 *
 * Two rounds over the files, each by a few threads: what the hub says of each (so that all sizes
 * are known, and a disk that is too small is said before anything comes), then their bytes.
 */
#include "clients/hub/pull.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "clients/hub/blob.h"
#include "clients/hub/pick.h"
#include "clients/remote/bar.h"
#include "clients/remote/interrupt.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"

enum {
    THREADS = 4,
    TICK_NS = 200000000,
    LIST_BYTES_MAX = 64 << 20,
    FILES_MAX = 20000,
    PATH_BYTES_MAX = 16 << 10
};

typedef int blob_fn(struct hub_blob *b, struct hub_http *h, const struct hub_cache *c,
                    struct err *e);

struct pull {
    const struct hub_place *place;
    const struct hub_spec *spec;
    struct hub_cache cache;
    struct hub_http *http; /* owned: of the main thread */
    char *commit;          /* owned */
    struct hub_names all, need;
    struct hub_blob *blob; /* owned, [need.n]: with path and name of their own */
    struct bar bar;
    FILE *out;
    int64_t begin_ns;

    atomic_bool stop;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t moved;
    blob_fn *work;
    size_t n_taken, n_done, n_thread;
    struct err why; /* the first fault */
};

/* ---- what there is ---- */

static int take_list(struct pull *p, const struct buf *text, struct err *e)
{
    json_error_t why;
    json_t *root = json_loadb(text->data ? text->data : "", text->len, 0, &why), *file;
    const char *commit = json_string_value(json_object_get(root, "sha"));
    json_t *files = json_object_get(root, "siblings");
    size_t i;
    int rc = 0;
    if (!commit || !hub_is_commit(commit) || !json_is_array(files))
        rc = err_set(e, ERR_IO, "%s answers, but not as a hub does", p->place->endpoint);
    else if (json_array_size(files) > FILES_MAX)
        rc = err_set(e, ERR_TOO_LARGE, "%s has more than %d files", p->spec->repo, FILES_MAX);
    else
        p->commit = xstrdup(commit);
    json_array_foreach(files, i, file)
    {
        const char *name = json_string_value(json_object_get(file, "rfilename"));
        if (!rc && name && hub_path_is_safe(name))
            hub_names_add(&p->all, name);
    }
    json_decref(root);
    return rc;
}

static int ask_list(struct pull *p, struct err *e)
{
    struct buf path, text;
    buf_init(&path, PATH_BYTES_MAX);
    buf_init(&text, LIST_BYTES_MAX);
    buf_printf(&path, "/api/models/%s/revision/", p->spec->repo);
    hub_http_escape(&path, p->spec->rev, false);
    int rc = hub_http_text(p->http, path.data, &text, e) || take_list(p, &text, e) ? -1 : 0;
    buf_release(&path);
    buf_release(&text);
    return rc ? err_wrap(e, "%s", p->spec->repo) : 0;
}

/* ---- files ---- */

static void blob_init(const struct pull *p, struct hub_blob *b, const char *name)
{
    struct buf path;
    buf_init(&path, PATH_BYTES_MAX);
    buf_printf(&path, "/%s/resolve/%s/", p->spec->repo, p->commit);
    hub_http_escape(&path, name, true);
    *b = (struct hub_blob){.name = name, .path = buf_take(&path)};
}

static void blob_release(struct hub_blob *b)
{
    free((void *)(uintptr_t)b->path);
}

static int place_blob(const struct pull *p, const struct hub_blob *b, struct err *e)
{
    return hub_cache_link(&p->cache, p->commit, b->name, b->hash, e);
}

/* A small file, at once, for what it says of the others. */
static int read_now(void *ctx, const char *name, struct buf *out, struct err *e)
{
    struct pull *p = ctx;
    struct hub_blob b;
    blob_init(p, &b, name);
    char *path = NULL;
    int rc = hub_blob_ask(&b, p->http, &p->cache, e) || hub_blob_get(&b, p->http, &p->cache, e) ||
                     place_blob(p, &b, e)
                 ? -1
                 : 0;
    if (!rc) {
        path = hub_cache_blob(&p->cache, b.hash, "");
        rc = fs_read(path, out, e);
    }
    free(path);
    blob_release(&b);
    return rc;
}

/* ---- threads ---- */

static struct hub_blob *take(struct pull *p)
{
    pthread_mutex_lock(&p->lock);
    struct hub_blob *b =
        p->n_taken < p->need.n && !atomic_load(&p->stop) ? &p->blob[p->n_taken++] : NULL;
    pthread_mutex_unlock(&p->lock);
    return b;
}

static void tell(struct pull *p, bool is_end, const struct err *e)
{
    pthread_mutex_lock(&p->lock);
    if (e && p->why.code == ERR_NONE)
        p->why = *e;
    if (e)
        atomic_store(&p->stop, true);
    if (is_end)
        p->n_thread--;
    else
        p->n_done++;
    pthread_cond_signal(&p->moved);
    pthread_mutex_unlock(&p->lock);
}

static void *work(void *ctx)
{
    struct pull *p = ctx;
    struct err e = ERR_INIT;
    struct hub_http *h = hub_http_new(p->place, &p->stop, &e);
    int rc = h ? 0 : -1;
    for (struct hub_blob *b; !rc && (b = take(p)) != NULL;) {
        rc = p->work(b, h, &p->cache, &e);
        if (!rc)
            tell(p, false, NULL);
    }
    hub_http_free(h);
    tell(p, true, rc ? &e : NULL);
    return NULL;
}

/* ---- how far ---- */

static void sums(const struct pull *p, int64_t *got, int64_t *all)
{
    *got = *all = 0;
    for (size_t i = 0; i < p->need.n; i++) {
        *got += atomic_load(&p->blob[i].got);
        *all += p->blob[i].size;
    }
}

static void show(struct pull *p, int64_t first)
{
    char part[3][64];
    const char *const shown[] = {part[0], part[1], part[2]};
    int64_t got, all;
    sums(p, &got, &all);
    double s = (double)(clock_ns() - p->begin_ns) / 1e9,
           rate = s > 0 ? (double)(got - first) / s : 0;
    snprintf(part[0], sizeof part[0], "%.2f of %.2f GB", (double)got / 1e9, (double)all / 1e9);
    snprintf(part[1], sizeof part[1], "%.1f MB/s", rate / 1e6);
    snprintf(part[2], sizeof part[2], "%zu of %zu files", p->n_done, p->need.n);
    bar_show(&p->bar, all ? (double)got / (double)all : 1, shown, 3);
}

/* One round: fn for each file. */
static int run(struct pull *p, blob_fn *fn, bool shows, struct err *e)
{
    pthread_t thread[THREADS];
    size_t n = p->need.n < THREADS ? p->need.n : THREADS;
    int64_t first, all;
    sums(p, &first, &all);
    p->work = fn;
    p->n_taken = p->n_done = p->n_thread = 0;
    p->begin_ns = clock_ns();
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < n; i++) {
        if (pthread_create(&thread[i], NULL, work, p)) {
            n = i;
            atomic_store(&p->stop, true);
            err_set(&p->why, ERR_NO_MEMORY, "no memory for a thread");
        } else {
            p->n_thread++;
        }
    }
    while (p->n_thread > 0) {
        clock_cond_wait(&p->moved, &p->lock, clock_ns() + TICK_NS);
        if (interrupt_seen())
            atomic_store(&p->stop, true);
        if (shows)
            show(p, first);
    }
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    bar_clear(&p->bar);
    if (p->why.code != ERR_NONE && interrupt_seen())
        err_set(&p->why, ERR_IO,
                "given up; what came is kept, and the next pull goes on from there");
    return p->why.code == ERR_NONE ? 0 : (*e = p->why, -1);
}

/* ---- the whole ---- */

/* Twice the same blob comes once. */
static int64_t missing_bytes(const struct pull *p)
{
    int64_t n = 0;
    for (size_t i = 0; i < p->need.n; i++) {
        bool again = p->blob[i].got == p->blob[i].size;
        for (size_t k = 0; k < i; k++)
            again |= !strcmp(p->blob[k].hash, p->blob[i].hash);
        n += again ? 0 : p->blob[i].size;
    }
    return n;
}

static int check_room(const struct pull *p, struct err *e)
{
    struct statvfs s;
    int64_t want = missing_bytes(p);
    if (statvfs(p->cache.repo, &s))
        return 0; /* writing will say it */
    uint64_t room = (uint64_t)s.f_bavail * s.f_frsize;
    if ((uint64_t)want <= room)
        return 0;
    return err_set(e, ERR_NO_SPACE,
                   "%s needs %.2f GB more, and there are %.2f GB left where %s lies: make room, or "
                   "say with HF_HOME where to keep models",
                   p->spec->repo, (double)want / 1e9, (double)room / 1e9, p->place->cache);
}

static void say_files(const struct pull *p)
{
    for (size_t i = 0; !p->bar.term.has_cursor && i < p->need.n; i++) {
        term_put(p->out, p->blob[i].name);
        fprintf(p->out, "  %lld bytes\n", (long long)p->blob[i].size);
    }
}

static int get_files(struct pull *p, struct err *e)
{
    p->blob = xcalloc(p->need.n, sizeof *p->blob);
    for (size_t i = 0; i < p->need.n; i++)
        blob_init(p, &p->blob[i], p->need.at[i]);
    if (run(p, hub_blob_ask, false, e) || check_room(p, e) || run(p, hub_blob_get, true, e))
        return -1;
    for (size_t i = 0; i < p->need.n; i++)
        if (place_blob(p, &p->blob[i], e))
            return -1;
    say_files(p);
    return hub_cache_set_commit(&p->cache, p->spec->rev, p->commit, e);
}

static void pull_release(struct pull *p)
{
    for (size_t i = 0; p->blob && i < p->need.n; i++)
        blob_release(&p->blob[i]);
    free(p->blob);
    hub_names_release(&p->all);
    hub_names_release(&p->need);
    hub_http_free(p->http);
    hub_cache_release(&p->cache);
    free(p->commit);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->moved);
}

int hub_pull(const struct hub_place *place, const struct hub_spec *s, FILE *out, char **path,
             struct err *e)
{
    struct pull p = {.place = place, .spec = s, .out = out, .why = ERR_INIT};
    const char *file = NULL;
    *path = NULL;
    if (place->is_offline)
        return err_set(e, ERR_NOT_FOUND,
                       "%s is not all in %s, and HF_HUB_OFFLINE says to ask nobody for it", s->repo,
                       place->cache);
    pthread_mutex_init(&p.lock, NULL);
    clock_cond_init(&p.moved);
    bar_init(&p.bar, out);
    hub_cache_init(&p.cache, place, s->repo);
    p.http = hub_http_new(place, &p.stop, e);
    struct sigaction was[2];
    sigaction(SIGINT, NULL, &was[0]);
    sigaction(SIGTERM, NULL, &was[1]);
    interrupt_watch();
    int rc = !p.http || hub_cache_mkdirs(&p.cache, e) || ask_list(&p, e) ? -1 : 0;
    if (!rc && hub_pick(&p.all, s->what, read_now, &p, &p.need, &file, e))
        rc = err_wrap(e, "%s", s->repo);
    if (!rc)
        rc = get_files(&p, e);
    if (!rc)
        *path = hub_cache_snapshot(&p.cache, p.commit, file ? file : "");
    pull_release(&p);
    if (!interrupt_seen()) { /* what comes behind it ends on Ctrl-C as ever */
        sigaction(SIGINT, &was[0], NULL);
        sigaction(SIGTERM, &was[1], NULL);
    }
    return rc;
}

/* ---- what is there already ---- */

struct there {
    const struct hub_cache *cache;
    const char *commit;
};

static int read_there(void *ctx, const char *name, struct buf *out, struct err *e)
{
    const struct there *t = ctx;
    char *path = hub_cache_snapshot(t->cache, t->commit, name);
    int rc = fs_read(path, out, e);
    free(path);
    return rc;
}

/* Other tools fetch file by file: a folder of weights without a tokenizer is a part of a model, and
 * the hub knows whether there is more. */
static bool is_part(const struct hub_names *need, const char *file)
{
    return !file && !hub_names_has(need, "tokenizer.json");
}

int hub_find(const struct hub_place *place, const struct hub_spec *s, char **path, struct err *e)
{
    struct hub_cache cache;
    struct hub_names all = {0}, need = {0};
    const char *file = NULL;
    struct err why = ERR_INIT;
    hub_cache_init(&cache, place, s->repo);
    char *commit = hub_cache_commit(&cache, s->rev);
    struct there t = {&cache, commit};
    *path = NULL;
    if (commit)
        hub_cache_list(&cache, commit, &all);
    if (commit && hub_pick(&all, s->what, read_there, &t, &need, &file, &why) == 0 &&
        !is_part(&need, file))
        *path = hub_cache_snapshot(&cache, commit, file ? file : "");
    hub_names_release(&all);
    hub_names_release(&need);
    hub_cache_release(&cache);
    free(commit);
    return *path ? 0 : err_set(e, ERR_NOT_FOUND, "%s is not in %s", s->repo, place->cache);
}

char *hub_name_of(const char *path)
{
    const char *at = strstr(path, "/models--"), *end = at ? strstr(at, "/snapshots/") : NULL;
    const char *name = at ? strstr(at + 9, "--") : NULL;
    return name && end && name + 2 < end ? xstrndup(name + 2, (size_t)(end - name - 2)) : NULL;
}
