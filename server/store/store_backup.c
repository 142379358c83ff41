/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of the database in backups/, by SQLite's backup: whole and consistent, while others read
 * and write. One is made before each migration and one a day; the newest KEEP stay. Written aside,
 * synced, renamed, as everything is.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "server/store/store_own.h"

enum { KEEP = 8, PAGES = 64, DAY_S = 24 * 60 * 60 };

static const char pattern[] = "store-00000000T000000Z.db";

/* store-20261122T195503Z.db: in the order of their names the oldest is first. */
static bool is_backup(const char *name)
{
    if (strlen(name) != sizeof pattern - 1)
        return false;
    for (size_t i = 0; i < sizeof pattern - 1; i++)
        if (pattern[i] == '0' ? name[i] < '0' || name[i] > '9' : name[i] != pattern[i])
            return false;
    return true;
}

static void name_of(time_t now, char name[STORE_BACKUP_BYTES])
{
    struct tm t;
    gmtime_r(&now, &t);
    strftime(name, STORE_BACKUP_BYTES, "store-%Y%m%dT%H%M%SZ.db", &t);
}

static int newest_first(const void *a, const void *b)
{
    return strcmp(b, a);
}

int store_backups(const struct data_dir *dir, struct store_backups *out, struct err *e)
{
    int fd = openat(dir->folder[DATA_BACKUPS], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    *out = (struct store_backups){.n = 0};
    if (!d) {
        if (fd >= 0)
            close(fd);
        return err_sys(e, "reading backups/");
    }
    for (struct dirent *it; (it = readdir(d));) {
        if (!is_backup(it->d_name))
            continue;
        if (out->n == STORE_BACKUPS_MAX) { /* somebody keeps more than we do: the newest count */
            qsort(out->name, out->n, sizeof *out->name, newest_first);
            out->n--;
        }
        snprintf(out->name[out->n++], STORE_BACKUP_BYTES, "%.*s", STORE_BACKUP_BYTES - 1,
                 it->d_name);
    }
    closedir(d);
    qsort(out->name, out->n, sizeof *out->name, newest_first);
    return 0;
}

int store_has_backup(struct store *s, bool *has, struct err *e)
{
    struct store_backups all;
    if (store_backups(&s->dir, &all, e))
        return -1;
    *has = all.n > 0;
    return 0;
}

/* Some pages at a time, so that nobody waits long for the lock. */
static int copy(struct store *s, sqlite3 *to, struct err *e)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", s->db, "main");
    int rc = b ? SQLITE_OK : sqlite3_errcode(to);
    while (b && (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED)) {
        pthread_mutex_lock(&s->lock);
        rc = sqlite3_backup_step(b, PAGES);
        pthread_mutex_unlock(&s->lock);
    }
    if (b)
        sqlite3_backup_finish(b);
    return rc == SQLITE_DONE ? 0
                             : err_set(e, rc == SQLITE_FULL ? ERR_NO_SPACE : ERR_IO,
                                       "a backup of the store: %s", sqlite3_errstr(rc));
}

static int write_copy(struct store *s, const char *path, struct err *e)
{
    sqlite3 *to = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(path, &to, flags, NULL);
    rc = rc ? err_set(e, ERR_IO, "a backup of the store: %s", sqlite3_errstr(rc)) : copy(s, to, e);
    sqlite3_close(to);
    int fd = rc ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!rc && (fd < 0 || fsync(fd)))
        rc = err_sys(e, "syncing a backup of the store");
    if (fd >= 0)
        close(fd);
    return rc;
}

static int prune(struct store *s, struct err *e)
{
    struct store_backups all;
    int rc = store_backups(&s->dir, &all, e);
    for (size_t i = KEEP; !rc && i < all.n; i++)
        rc = data_remove(&s->dir, DATA_BACKUPS, all.name[i], e);
    return rc;
}

int store_back_up(struct store *s, struct err *e)
{
    char name[STORE_BACKUP_BYTES];
    size_t n = strlen(s->dir.path) + sizeof "/backups/" + sizeof name;
    char *path = xmalloc(n);
    name_of(time(NULL), name);
    snprintf(path, n, "%s/backups/%s", s->dir.path, name);
    char *temp = fs_temp_name(path);
    int rc = write_copy(s, temp, e) || fs_rename(temp, path, e) ? -1 : 0;
    if (rc)
        unlink(temp);
    free(temp);
    free(path);
    return rc || prune(s, e) ? -1 : 0;
}

int store_back_up_daily(struct store *s, int64_t now, struct err *e)
{
    struct store_backups all;
    char soonest[STORE_BACKUP_BYTES], latest[STORE_BACKUP_BYTES];
    if (store_backups(&s->dir, &all, e))
        return -1;
    name_of((time_t)(now - DAY_S), soonest);
    name_of((time_t)(now + DAY_S), latest); /* a clock that was set back waits no year */
    if (all.n && strcmp(all.name[0], soonest) > 0 && strcmp(all.name[0], latest) < 0)
        return 0;
    return store_back_up(s, e);
}
