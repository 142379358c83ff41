/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes, and what is kept though nobody here knows it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/tune.h"
#include "server/data/data_dir.h"

enum { TRIES = 10000, NAME_BYTES = 512 };

static char *path_of(const struct data_dir *d, enum data_folder folder, const char *name)
{
    const char *in = data_folder_name(folder);
    size_t n = strlen(d->path) + strlen(in) + strlen(name) + 3;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s/%s", d->path, in, name);
    return path;
}

static int open_lost(const struct data_dir *d, struct err *e)
{
    if (mkdirat(d->fd, "lost+found", 0700) && errno != EEXIST)
        return err_sys(e, "making lost+found/");
    int fd = openat(d->fd, "lost+found", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "opening lost+found/") : fd;
}

/* Under its name, or the first of NAME.2, NAME.3, ... that is free. */
static int move(int from, const char *name, int lost, char to[NAME_BYTES])
{
    int rc = -1;
    for (int i = 1; rc && i < TRIES; i++) {
        snprintf(to, NAME_BYTES, i == 1 ? "%.400s" : "%.400s.%d", name, i);
        rc = renameat2(from, name, lost, to, RENAME_NOREPLACE);
        if (rc && errno == EINVAL) /* not known to this file system: nobody else writes here */
            rc = faccessat(lost, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0
                     ? (errno = EEXIST, -1)
                     : renameat(from, name, lost, to);
        if (rc && errno != EEXIST)
            break;
    }
    return rc;
}

int data_set_aside_at(const struct data_dir *d, int from, const char *name, const char *why,
                      struct err *e)
{
    char to[NAME_BYTES];
    int lost = open_lost(d, e);
    if (lost < 0)
        return -1;
    int rc = move(from, name, lost, to), no = errno;
    bool is_gone = rc && no == ENOENT;
    if (rc)
        rc = is_gone ? 0 : err_sys(e, "moving %s to lost+found/", name);
    else if (fsync(lost) || fsync(from))
        rc = err_sys(e, "syncing lost+found/");
    close(lost);
    if (!rc && !is_gone)
        log_event(LOG_WARN, "set aside in lost+found", LOG_TEXT("name", name), LOG_TEXT("as", to),
                  LOG_TEXT("why", why));
    return rc;
}

int data_set_aside(const struct data_dir *d, enum data_folder folder, const char *name,
                   const char *why, struct err *e)
{
    return data_set_aside_at(d, d->folder[folder], name, why, e)
               ? err_wrap(e, "%s", data_folder_name(folder))
               : 0;
}

int data_remove(const struct data_dir *d, enum data_folder folder, const char *name, struct err *e)
{
    struct stat st;
    if (fstatat(d->folder[folder], name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : err_sys(e, "removing %s", name);
    if (!S_ISREG(st.st_mode))
        return data_set_aside(d, folder, name, "is no regular file", e);
    if (unlinkat(d->folder[folder], name, 0) && errno != ENOENT)
        return err_sys(e, "removing %s", name);
    if (fsync(d->folder[folder])) /* it is gone all the same */
        log_event(LOG_WARN, "a deletion may come back at a power cut", LOG_TEXT("file", name));
    return 0;
}

int data_remove_made(const struct data_dir *d, enum data_folder folder, const char *name,
                     struct err *e)
{
    struct err why = ERR_INIT;
    char *path = path_of(d, folder, name);
    int rc = made_remove(path, &why);
    free(path);
    if (!rc)
        return 0;
    return why.code == ERR_EXISTS ? data_set_aside(d, folder, name, why.msg, e)
                                  : err_set(e, why.code, "%s", why.msg);
}

int data_remove_state(const struct data_dir *d, const char *job, struct err *e)
{
    struct err why = ERR_INIT;
    char *path = path_of(d, DATA_CHECKPOINTS, job);
    int fd =
        openat(d->folder[DATA_CHECKPOINTS], job, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool is_gone = fd < 0 && errno == ENOENT;
    int rc = fd < 0 ? -1 : tune_forget(path, &why);
    if (!rc && ((unlinkat(fd, "rows.csv", 0) && errno != ENOENT) ||
                (unlinkat(fd, "grades", 0) && errno != ENOENT)))
        rc = -1;
    if (!rc)
        rc = unlinkat(d->folder[DATA_CHECKPOINTS], job, AT_REMOVEDIR);
    if (fd >= 0)
        close(fd);
    free(path);
    return !rc || is_gone ? 0
                          : data_set_aside(d, DATA_CHECKPOINTS, job,
                                           "holds what this program did not put there", e);
}
