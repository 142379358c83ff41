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

int desk_parts_drop(struct desk *d, const struct part *part, size_t n, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        if (data_remove(store_dir(d->store), DATA_PARTS, part[i].id, e))
            rc = -1;
    return rc;
}

/* One that was being put together when its server was killed has named its file already. */
static int end_upload(struct desk *d, const struct parts *p, struct arena *a, struct err *e)
{
    struct part *part;
    size_t n;
    if (store_part_list(d->store, p->id, a, &part, &n, e) || store_parts_drop(d->store, p->id, e))
        return -1;
    if (p->file && p->state == PARTS_PENDING &&
        data_remove(store_dir(d->store), DATA_FILES, p->file, e))
        return -1;
    return desk_parts_drop(d, part, n, e);
}

/* Uploads whose time is over: what is left of them, whatever became of them. */
static void end_uploads(struct desk *d)
{
    struct parts p;
    struct arena a;
    struct err e = ERR_INIT;
    arena_init(&a, 16 << 20);
    while (!store_parts_expired(d->store, (int64_t)time(NULL), &a, &p, &e)) {
        if (p.state == PARTS_PENDING)
            log_event(LOG_INFO, "upload expired", LOG_TEXT("upload", p.id));
        if (end_upload(d, &p, &a, &e))
            break;
        arena_reset(&a);
    }
    if (e.code && e.code != ERR_NOT_FOUND)
        log_event(LOG_ERROR, "an expired upload stays", LOG_TEXT("why", e.msg));
    arena_release(&a);
}

/* Files whose time is over, and a copy of the store. */
void desk_keep_house(struct desk *d)
{
    struct arena a;
    struct file_row f;
    struct err e = (struct err)ERR_INIT;
    arena_init(&a, 1 << 20);
    while (!store_file_expired(d->store, (int64_t)time(NULL), &a, &f, &e)) {
        if (desk_file_drop(d, &f, &e))
            break;
        log_event(LOG_INFO, "file expired", LOG_TEXT("file", f.id));
    }
    if (e.code && e.code != ERR_NOT_FOUND)
        log_event(LOG_ERROR, "an expired file stays", LOG_TEXT("why", e.msg));
    let_go(d, &a);
    end_uploads(d);
    e = (struct err)ERR_INIT;
    if (store_response_expire(d->store, (int64_t)time(NULL), &e))
        log_event(LOG_ERROR, "expired responses stay", LOG_TEXT("why", e.msg));
    e = (struct err)ERR_INIT;
    if (store_back_up_daily(d->store, (int64_t)time(NULL), &e))
        log_event(LOG_ERROR, "the store has no backup of today", LOG_TEXT("why", e.msg));
    arena_release(&a);
}

/* A part without a row was never acknowledged, or its upload has ended. */
static int sweep_part(struct desk *d, const char *name, struct err *e)
{
    bool is_there;
    if (store_part_has(d->store, name, &is_there, e))
        return -1;
    return is_there ? 0
           : data_is_our_name(name)
               ? data_remove(store_dir(d->store), DATA_PARTS, name, e)
               : data_set_aside(store_dir(d->store), DATA_PARTS, name, "no row names this part", e);
}

/* What no row knows may be somebody else's, or all that is left of a store that was lost; but not
 * what an upload in parts was about to become. */
static int sweep_file(struct desk *d, const char *name, struct err *e)
{
    bool is_there, is_half = false;
    const char *note = strrchr(name, '.'); /* lies beside its file, with its name */
    size_t n = note && strcmp(note, ".json") == 0 ? (size_t)(note - name) : strlen(name);
    char *id = xstrndup(name, n);
    int rc = store_file_has(d->store, id, &is_there, e);
    if (!rc && !is_there)
        rc = store_parts_makes(d->store, id, &is_half, e);
    free(id);
    if (rc)
        return -1;
    return is_there ? 0
           : is_half
               ? data_remove(store_dir(d->store), DATA_FILES, name, e)
               : data_set_aside(store_dir(d->store), DATA_FILES, name, "no row names this file", e);
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
