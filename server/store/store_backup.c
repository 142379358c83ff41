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

enum { KEEP = 8, PAGES = 64, REST_NS = 100 * 1000, DAY_S = 24 * 60 * 60 };

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

/* Behind the newest that there is, also where the clock that named it was ahead: what is newest is
 * told by names alone. */
static void name_behind(const struct store_backups *all, time_t now, char name[STORE_BACKUP_BYTES])
{
    struct tm t = {0};
    name_of(now, name);
    if (!all->n || strcmp(name, all->name[0]) > 0 ||
        !strptime(all->name[0], "store-%Y%m%dT%H%M%SZ.db", &t))
        return;
    name_of(timegm(&t) + 1, name);
    if (!is_backup(name))
        name_of(now, name);
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

void store_leave(struct store *s)
{
    atomic_store(&s->leaves, true);
}

/* The connection is nobody's but under the lock, and a copy hangs on it from its begin to its end.
 */
static sqlite3_backup *begin(struct store *s, sqlite3 *to)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_backup *b = sqlite3_backup_init(to, "main", s->db, "main");
    pthread_mutex_unlock(&s->lock);
    return b;
}

/* Some pages; of what comes behind them nothing is left where the copy is over, or given up. */
static int step(struct store *s, sqlite3_backup *b)
{
    pthread_mutex_lock(&s->lock);
    int rc = sqlite3_backup_step(b, PAGES);
    bool goes_on = rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED;
    if (goes_on && atomic_load(&s->leaves))
        rc = SQLITE_ABORT;
    if (!goes_on || rc == SQLITE_ABORT)
        sqlite3_backup_finish(b);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* So many pages at a time that nobody waits long for the lock, nor for an end; and a moment between
 * them, since who waits for a lock does not get it from who asks for it again at once. */
static int copy(struct store *s, sqlite3 *to, struct err *e)
{
    sqlite3_backup *b = begin(s, to);
    int rc = b ? SQLITE_OK : sqlite3_errcode(to);
    for (; b && (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED); rc = step(s, b))
        nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    if (rc == SQLITE_DONE)
        return 0;
    return rc == SQLITE_ABORT ? err_set(e, ERR_BUSY, "a backup of the store: the server ends")
                              : err_set(e, rc == SQLITE_FULL ? ERR_NO_SPACE : ERR_IO,
                                        "a backup of the store: %s", sqlite3_errstr(rc));
}

/* It is nothing before its end, so SQLite keeps nothing beside it to go back by. */
static int write_copy(struct store *s, const char *path, struct err *e)
{
    static const char plainly[] = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;";
    sqlite3 *to = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(path, &to, flags, NULL);
    rc = rc ? rc : sqlite3_exec(to, plainly, NULL, NULL, NULL);
    rc = rc ? err_set(e, ERR_IO, "a backup of the store: %s", sqlite3_errstr(rc)) : copy(s, to, e);
    sqlite3_close(to);
    int fd = rc ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!rc && (fd < 0 || fsync(fd)))
        rc = err_sys(e, "syncing a backup of the store");
    if (fd >= 0)
        close(fd);
    return rc;
}

/* What a kill left of one. */
static int sweep(struct store *s, struct err *e)
{
    size_t n = strlen(s->dir.path) + sizeof "/backups";
    char *path = xmalloc(n);
    snprintf(path, n, "%s/backups", s->dir.path);
    int rc = fs_sweep(path, is_backup, e);
    free(path);
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
    struct store_backups all;
    if (sweep(s, e) || store_backups(&s->dir, &all, e))
        return -1;
    size_t n = strlen(s->dir.path) + sizeof "/backups/" + sizeof name;
    char *path = xmalloc(n);
    name_behind(&all, time(NULL), name);
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
    name_of((time_t)(now + DAY_S), latest); /* a clock that was set back waits no year, */
    if (all.n && strcmp(all.name[0], soonest) > 0 && strcmp(all.name[0], latest) < 0)
        return 0;
    if (s->copied_at && now >= s->copied_at && now < s->copied_at + DAY_S) /* but a day */
        return 0;
    if (store_back_up(s, e))
        return -1;
    s->copied_at = now;
    return 0;
}
