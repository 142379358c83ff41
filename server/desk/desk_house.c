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

#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "server/desk/desk_own.h"

/* Files whose time is over. */
void desk_keep_house(struct desk *d)
{
    struct arena a;
    struct file_row f;
    struct err e = ERR_INIT;
    arena_init(&a, 1 << 20);
    while (!store_file_expired(d->store, (int64_t)time(NULL), &a, &f, &e)) {
        char *path = desk_file_path(d, f.id);
        int rc = store_file_drop(d->store, f.owner, f.id, &e) || fs_remove(path, &e);
        free(path);
        if (rc)
            break;
        log_event(LOG_INFO, "file expired", LOG_TEXT("file", f.id));
    }
    if (e.code && e.code != ERR_NOT_FOUND)
        log_event(LOG_ERROR, "an expired file stays", LOG_TEXT("why", e.msg));
    arena_release(&a);
}

static int sweep_one(struct desk *d, const char *name, struct err *e)
{
    bool is_there;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    if (store_file_has(d->store, name, &is_there, e))
        return -1;
    if (is_there)
        return 0;
    char *path = desk_file_path(d, name);
    int rc = fs_remove(path, e);
    free(path);
    log_event(LOG_INFO, "file without a row removed", LOG_TEXT("file", name));
    return rc;
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
