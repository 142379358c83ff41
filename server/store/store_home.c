/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening: the directory's mark and the store belong together, by an id that both have.
 *
 *     mark, store of its id      opened
 *     mark, no store             begun, where nothing of ours lies there: a first start was killed
 *     no mark, a store of ours   adopted, as one of version 0.1 is: migrated, given an id, marked
 *     nothing                    begun
 *
 * All else is refused, and left as it is: what is lost is never begun anew in silence.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/store/store_own.h"

#define MEND "`tandem doctor --data-dir DIR` shows what there is, and --repair mends it"

void store_keys(struct store *s, bool (*has_key)(void *ctx, const char *owner), void *ctx)
{
    s->has_key = has_key;
    s->has_key_ctx = ctx;
}

bool store_has_key(const struct store *s, const char *owner)
{
    return !s->has_key || s->has_key(s->has_key_ctx, owner);
}

static void has_key(sqlite3_context *q, int n, sqlite3_value **of)
{
    (void)n;
    const struct store *s = sqlite3_user_data(q);
    const char *owner = (const char *)sqlite3_value_text(of[0]);
    sqlite3_result_int(q, owner && store_has_key(s, owner));
}

static int open_db(struct store *s, bool makes, struct err *e)
{
    size_t n = strlen(s->dir.path) + sizeof "/" DATA_STORE;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/" DATA_STORE, s->dir.path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (makes ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(path, &s->db, flags, NULL);
    free(path);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_function(s->db, "has_key", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY, s,
                                     has_key, NULL, NULL);
    if (rc != SQLITE_OK)
        return store_fault(s, e, "open");
    /* before anything is read, so that no memory is shared through a file */
    return store_script(s, "PRAGMA locking_mode=EXCLUSIVE", "open", e);
}

/* ---- whose it is --------------------------------------------------------------------------- */

/* Tables of ours, of all tables that there are. */
static int count_tables(struct store *s, int64_t *ours, int64_t *all, struct err *e)
{
    return store_int(s,
                     "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN "
                     "('file', 'job', 'event', 'tuned')",
                     ours, e) ||
                   store_int(s, "SELECT count(*) FROM sqlite_master", all, e)
               ? -1
               : 0;
}

/* "" where it has none. */
static int read_id(struct store *s, char id[DATA_ID_BYTES], struct err *e)
{
    int64_t has;
    *id = 0;
    if (store_int(s, "SELECT count(*) FROM sqlite_master WHERE name = 'home'", &has, e))
        return -1;
    if (!has)
        return 0;
    sqlite3_stmt *q = store_query(s, e, "SELECT id FROM home", "");
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        snprintf(id, DATA_ID_BYTES, "%s", (const char *)sqlite3_column_text(q, 0));
    sqlite3_finalize(q);
    return row < 0 ? -1 : 0;
}

static int write_id(struct store *s, const char *id, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_run(s,
                       store_query(s, e,
                                   "INSERT INTO home (id) SELECT ? WHERE NOT EXISTS "
                                   "(SELECT 1 FROM home)",
                                   "t", id),
                       e);
    return store_end(s, rc, e);
}

/* Nothing was ever entered: a start was killed before it had given the store its id. */
static int is_unused(struct store *s, bool *unused, struct err *e)
{
    int64_t ours, all, n = 0;
    if (count_tables(s, &ours, &all, e) ||
        (ours == 4 && store_int(s,
                                "SELECT count(*) FROM (SELECT 1 FROM file UNION ALL SELECT 1 "
                                "FROM job LIMIT 1)",
                                &n, e)))
        return -1;
    *unused = ours == 4 ? n == 0 : all == 0;
    return 0;
}

/* ---- the ways to open ---------------------------------------------------------------------- */

int store_begin_anew(struct store *s, struct err *e)
{
    return open_db(s, true, e) || store_prepare(s, e) || write_id(s, s->dir.id, e) ? -1 : 0;
}

/* A marked directory without a store: new, or robbed of it. */
static int open_without(struct store *s, struct err *e)
{
    char said[DATA_LOOK_BYTES];
    bool has_backup;
    if (data_dir_count(&s->dir, said, e) || store_has_backup(s, &has_backup, e))
        return -1;
    if (*said || has_backup)
        return err_set(e, ERR_CORRUPT, DATA_STORE " is missing or empty beside %s%s%s; " MEND, said,
                       *said && has_backup ? " and " : "", has_backup ? "backups of it" : "");
    return store_begin_anew(s, e);
}

static int open_marked(struct store *s, struct err *e)
{
    char id[DATA_ID_BYTES];
    bool unused = false;
    if (open_db(s, false, e) || read_id(s, id, e) || (!*id && is_unused(s, &unused, e)))
        return e->code == ERR_CORRUPT
                   ? err_set(e, ERR_CORRUPT, DATA_STORE " is damaged, or no database; " MEND)
                   : -1;
    if (!unused && strcmp(id, s->dir.id) != 0)
        return err_set(e, ERR_CORRUPT,
                       DATA_STORE " is of another directory: its id is '%s', the mark (" DATA_MARK
                                  ") says '%s'; " MEND,
                       id, s->dir.id);
    return store_prepare(s, e) || write_id(s, s->dir.id, e) ? -1 : 0;
}

static int adopt(struct store *s, struct err *e)
{
    char id[DATA_ID_BYTES];
    int64_t ours = 0, all;
    if (open_db(s, false, e) || count_tables(s, &ours, &all, e) || ours != 4) {
        if (e->code != ERR_NONE && e->code != ERR_CORRUPT)
            return -1;
        return err_set(e, ERR_EXISTS,
                       "is not empty, and no data directory of tandem: the database '" DATA_STORE
                       "' in it is another program's, or damaged. Give an empty folder or a new "
                       "one; " MEND);
    }
    if (data_dir_folders(&s->dir, e) || read_id(s, id, e) || store_prepare(s, e))
        return -1;
    if (!*id)
        store_id("dir-", id);
    if (write_id(s, id, e) || store_note_all(s, e) || data_dir_mark(&s->dir, id, e))
        return -1;
    log_event(LOG_WARN, "data directory adopted: it had a store, and no mark",
              LOG_TEXT("path", s->dir.path), LOG_TEXT("id", id));
    return 0;
}

static int begin_new(struct store *s, struct err *e)
{
    char id[STORE_ID_BYTES];
    store_id("dir-", id);
    return data_dir_mark(&s->dir, id, e) || data_dir_folders(&s->dir, e) || store_begin_anew(s, e)
               ? -1
               : 0;
}

int store_open(struct store *s, struct err *e)
{
    switch (s->dir.was) {
    case DATA_MARKED:
        if (data_dir_folders(&s->dir, e))
            return -1;
        return s->dir.has_store ? open_marked(s, e) : open_without(s, e);
    case DATA_UNMARKED:
        return adopt(s, e);
    default:
        return begin_new(s, e);
    }
}

/* ---- where it lies ------------------------------------------------------------------------- */

static int look(const struct store *s, dev_t dev[2], ino_t ino[2])
{
    struct stat at, db;
    if (stat(s->dir.path, &at) || fstatat(s->dir.fd, DATA_STORE, &db, AT_SYMLINK_NOFOLLOW))
        return -1;
    dev[0] = at.st_dev;
    ino[0] = at.st_ino;
    dev[1] = db.st_dev;
    ino[1] = db.st_ino;
    return 0;
}

bool store_look_home(struct store *s)
{
    dev_t dev[2];
    ino_t ino[2];
    bool is_home = !look(s, dev, ino) && dev[0] == s->dev[0] && ino[0] == s->ino[0] &&
                   dev[1] == s->dev[1] && ino[1] == s->ino[1];
    if (atomic_exchange(&s->is_lost, !is_home) == is_home)
        log_event(is_home ? LOG_WARN : LOG_ERROR,
                  is_home ? "the data directory is back"
                          : "the data directory is gone, or its store is: nothing can be kept",
                  LOG_TEXT("path", s->dir.path));
    return is_home;
}

bool store_is_lost(const struct store *s)
{
    return atomic_load(&s->is_lost);
}

struct store *store_new(const char *dir, struct err *e)
{
    struct store *s = xcalloc(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    s->is_open = !data_dir_open(&s->dir, dir, false, e) && !store_open(s, e);
    if (s->is_open && !look(s, s->dev, s->ino))
        return s;
    if (s->is_open)
        err_sys(e, "looking at it");
    err_wrap(e, "data directory %s", dir);
    store_free(s);
    return NULL;
}

void store_free(struct store *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    data_dir_close(&s->dir);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const struct data_dir *store_dir(const struct store *s)
{
    return &s->dir;
}
