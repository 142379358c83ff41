/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that nobody can ask for: those whose time is over, and those that a server wrote and did
 * not come to enter in the store, since it was killed between the two.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/data/data_dir.h"
#include "server/desk/desk_own.h"
#include "server/desk/join.h"
#include "server/store/store_parts.h"
#include "server/store/store_response.h"

int desk_file_drop(struct desk *d, const struct file_row *f, struct err *e)
{
    bool held;
    if (store_file_drop(d->store, f->owner, f->id, &held, e))
        return -1;
    return held ? 0 : data_remove(store_dir(d->store), DATA_FILES, f->id, e);
}

/* Files that were dropped while a job read them, which it does not any more. */
static void let_go(struct desk *d, struct arena *a)
{
    struct file_row f;
    struct err e = ERR_INIT;
    while (!store_file_let_go(d->store, a, &f, &e))
        if (data_remove(store_dir(d->store), DATA_FILES, f.id, &e))
            break;
    if (e.code && e.code != ERR_NOT_FOUND)
        log_event(LOG_ERROR, "a dropped file stays", LOG_TEXT("why", e.msg));
}

int desk_parts_drop(struct desk *d, const char *upload, struct err *e)
{
    struct arena a;
    struct part *part;
    size_t n;
    arena_init(&a, 16 << 20);
    int rc = store_part_list(d->store, upload, &a, &part, &n, e);
    for (size_t i = 0; !rc && i < n; i++)
        rc = data_remove(store_dir(d->store), DATA_PARTS, part[i].id, e);
    arena_release(&a);
    return rc ? -1 : store_part_drop(d->store, upload, e);
}

/* Uploads whose time is over: what is left of them, whatever became of them. */
static void end_uploads(struct desk *d)
{
    struct parts p;
    struct arena a;
    struct err e = ERR_INIT;
    arena_init(&a, 1 << 20);
    while (!store_parts_expired(d->store, (int64_t)time(NULL), &a, &p, &e)) {
        if (p.state == PARTS_PENDING)
            log_event(LOG_INFO, "upload expired", LOG_TEXT("upload", p.id));
        if (desk_parts_drop(d, p.id, &e) || store_parts_drop(d->store, p.id, &e))
            break;
        arena_reset(&a);
    }
    if (e.code && e.code != ERR_NOT_FOUND)
        log_event(LOG_ERROR, "an expired upload stays", LOG_TEXT("why", e.msg));
    arena_release(&a);
}

static void end_files(struct desk *d, struct arena *a)
{
    struct file_row f;
    struct err e = ERR_INIT;
    while (!store_file_expired(d->store, (int64_t)time(NULL), a, &f, &e)) {
        if (!desk_file_drop(d, &f, &e))
            log_event(LOG_INFO, "file expired", LOG_TEXT("file", f.id));
        else if (e.code != ERR_NO_SPACE || !data_reserve_give(store_dir(d->store)))
            break;
        e = (struct err)ERR_INIT;
    }
    if (e.code && e.code != ERR_NOT_FOUND)
        log_event(LOG_ERROR, "an expired file stays", LOG_TEXT("why", e.msg));
}

/* Things whose time is over. */
bool desk_keep_house(struct desk *d)
{
    struct arena a;
    bool more;
    struct err e = ERR_INIT;
    arena_init(&a, 1 << 20);
    end_files(d, &a);
    data_reserve_keep(store_dir(d->store));
    let_go(d, &a);
    end_uploads(d);
    if (store_response_expire(d->store, (int64_t)time(NULL), &more, &e))
        log_event(LOG_ERROR, "expired responses stay", LOG_TEXT("why", e.msg));
    arena_release(&a);
    return more;
}

void desk_copy_store(struct desk *d)
{
    struct err e = ERR_INIT;
    if (store_back_up_daily(d->store, (int64_t)time(NULL), &e) && e.code != ERR_BUSY)
        log_event(LOG_ERROR, "the store has no backup of today", LOG_TEXT("why", e.msg));
}

/* One that is not needed is of an upload whose server was killed behind its end. Without a row it
 * was never acknowledged, or is all that is left of a store that an older one was put in place of.
 */
static int sweep_part(struct desk *d, const char *name, struct err *e)
{
    bool is_there, is_needed;
    if (store_part_has(d->store, name, &is_there, e) ||
        store_part_is_needed(d->store, name, &is_needed, e))
        return -1;
    return is_needed ? 0
           : is_there
               ? data_remove(store_dir(d->store), DATA_PARTS, name, e)
               : data_set_aside(store_dir(d->store), DATA_PARTS, name, "no row names this part", e);
}

/* What no row knows may be somebody else's, or all that is left of a store that was lost. */
static int sweep_file(struct desk *d, const char *name, struct err *e)
{
    bool is_there;
    const char *note = strrchr(name, '.'); /* lies beside its file, with its name */
    size_t n = note && strcmp(note, ".json") == 0 ? (size_t)(note - name) : strlen(name);
    char *id = xstrndup(name, n);
    int rc = store_file_has(d->store, id, &is_there, e);
    free(id);
    if (rc || is_there)
        return rc;
    return data_set_aside(store_dir(d->store), DATA_FILES, name, "no row names this file", e);
}

static int sweep(struct desk *d, char *path,
                 int (*one)(struct desk *d, const char *name, struct err *e), struct err *e)
{
    DIR *dir = opendir(path);
    int rc = dir || errno == ENOENT ? 0 : err_sys(e, "%s", path);
    struct dirent *entry;
    while (!rc && dir && (entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = one(d, entry->d_name, e);
    if (dir)
        closedir(dir);
    free(path);
    return rc;
}

int desk_sweep(struct desk *d, struct err *e)
{
    return sweep(d, desk_file_path(d, ""), sweep_file, e) ||
                   sweep(d, desk_part_path(d, ""), sweep_part, e)
               ? -1
               : 0;
}
