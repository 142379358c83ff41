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
    e = (struct err)ERR_INIT;
    if (store_response_expire(d->store, (int64_t)time(NULL), &e))
        log_event(LOG_ERROR, "expired responses stay", LOG_TEXT("why", e.msg));
    e = (struct err)ERR_INIT;
    if (store_back_up_daily(d->store, (int64_t)time(NULL), &e))
        log_event(LOG_ERROR, "the store has no backup of today", LOG_TEXT("why", e.msg));
    arena_release(&a);
}

/* What no row knows may be somebody else's, or all that is left of a store that was lost. */
static int sweep_one(struct desk *d, const char *name, struct err *e)
{
    bool is_there;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    const char *note = strrchr(name, '.'); /* lies beside its file, with its name */
    size_t n = note && strcmp(note, ".json") == 0 ? (size_t)(note - name) : strlen(name);
    char *id = xstrndup(name, n);
    int rc = store_file_has(d->store, id, &is_there, e);
    free(id);
    if (rc)
        return -1;
    return is_there
               ? 0
               : data_set_aside(store_dir(d->store), DATA_FILES, name, "no row names this file", e);
}

int desk_sweep(struct desk *d, struct err *e)
{
    char *path = desk_file_path(d, "");
    DIR *dir = opendir(path);
    int rc = dir || errno == ENOENT ? 0 : err_sys(e, "files");
    struct dirent *entry;
    while (!rc && dir && (entry = readdir(dir)) != NULL)
        rc = sweep_one(d, entry->d_name, e);
    if (dir)
        closedir(dir);
    free(path);
    return rc;
}
