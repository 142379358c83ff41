/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of files. Their bytes lie in the data directory under their ids.
 */
#include <stdio.h>

#include "api/batch.h"
#include "api/parts.h"
#include "server/store/store_own.h"

#define COLUMNS "id, owner, purpose, name, sha256, bytes, created, expires"

static int take(sqlite3_stmt *q, struct arena *a, void *out, struct err *e)
{
    struct file_row *f = out;
    (void)e;
    *f = (struct file_row){.id = store_text(q, 0, a),
                           .owner = store_text(q, 1, a),
                           .purpose = store_text(q, 2, a),
                           .name = store_text(q, 3, a),
                           .sha256 = store_text(q, 4, a),
                           .bytes = sqlite3_column_int64(q, 5),
                           .created = sqlite3_column_int64(q, 6),
                           .expires = sqlite3_column_int64(q, 7)};
    return 0;
}

int store_put_file(struct store *s, const char *verb, const struct file_row *f, struct err *e)
{
    char sql[256];
    snprintf(sql, sizeof sql, "%s INTO file (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)", verb);
    return store_run(s,
                     store_query(s, e, sql, "tttttiii", f->id, f->owner, f->purpose, f->name,
                                 f->sha256, f->bytes, f->created, f->expires),
                     e);
}

int store_file_add(struct store *s, const struct file_row *f, struct err *e)
{
    struct err unheard = ERR_INIT;
    bool is_there;
    if (store_file_has(s, f->id, &is_there, e))
        return -1;
    if (is_there)
        return err_set(e, ERR_EXISTS, "file %.64s is there already", f->id);
    int rc = store_note_file(s, f, e) || store_begin(s, e)
                 ? -1
                 : store_end(s, store_put_file(s, "INSERT", f, e), e);
    if (rc) /* it may lie there all the same, when only its folder could not be synced */
        store_note_drop(s, DATA_FILES, f->id, &unheard);
    return rc;
}

static int no_file(struct err *e, const char *id)
{
    return err_set(e, ERR_NOT_FOUND, "no such file: %.64s", id);
}

static int get(struct store *s, const char *owner, const char *id, bool held, struct arena *a,
               struct file_row *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e, "SELECT " COLUMNS " FROM file WHERE owner = ? AND id = ? AND is_dropped <= ?", "tti",
        owner, id, (int64_t)held);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out, e);
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : row == 0 ? no_file(e, id) : -1, e);
}

int store_file_get(struct store *s, const char *owner, const char *id, struct arena *a,
                   struct file_row *out, struct err *e)
{
    return get(s, owner, id, false, a, out, e);
}

int store_file_get_held(struct store *s, const char *owner, const char *id, struct arena *a,
                        struct file_row *out, struct err *e)
{
    return get(s, owner, id, true, a, out, e);
}

int store_file_has(struct store *s, const char *id, bool *has, struct err *e)
{
    return store_has(s, "SELECT 1 FROM file WHERE id = ?", id, has, e);
}

int store_file_expired(struct store *s, int64_t now, struct arena *a, struct file_row *out,
                       struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q =
        store_query(s, e,
                    "SELECT " COLUMNS
                    " FROM file WHERE expires > 0 AND expires <= ? AND NOT is_dropped LIMIT 1",
                    "i", now);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out, e);
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : row == 0 ? no_file(e, "expired") : -1, e);
}

/* Of a row of `file`: a job or a batch that has not ended reads it. mask: the parameter of
 * HOLDERS. */
#define IS_HELD(mask)                                                                              \
    "(EXISTS (SELECT 1 FROM job WHERE (" mask " >> state) & 1 AND job.owner = file.owner AND "     \
    "(training_file = file.id OR validation_file = file.id)) OR "                                  \
    "EXISTS (SELECT 1 FROM batch WHERE (" mask " >> (state + 16)) & 1 AND "                        \
    "batch.owner = file.owner AND input_file = file.id))"

/* States of jobs, and above BATCH_BIT of batches. */
enum {
    BATCH_BIT = 16,
    HOLDERS = 1 << JOB_VALIDATING | 1 << JOB_QUEUED | 1 << JOB_RUNNING | 1 << JOB_PAUSED |
              BATCH_OPEN << BATCH_BIT
};
_Static_assert(BATCH_BIT == 16 && JOB_STATE_COUNT <= 16, "as IS_HELD has it");

/* The row of one that is held stays; it is the store's own from here on. */
static int drop(struct store *s, const char *owner, const char *id, bool *held, struct err *e)
{
    int rc = store_run(s,
                       store_query(s, e,
                                   "UPDATE file SET is_dropped = 1 WHERE owner = ?1 AND id = ?2 "
                                   "AND NOT is_dropped",
                                   "tt", owner, id),
                       e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = no_file(e, id);
    if (!rc)
        rc = store_keep_place(s, "file", "id", owner, id, e);
    if (!rc)
        rc = store_run(s,
                       store_query(s, e,
                                   "DELETE FROM file WHERE owner = ?1 AND id = ?2 "
                                   "AND NOT " IS_HELD("?3"),
                                   "tti", owner, id, (int64_t)HOLDERS),
                       e);
    *held = !rc && sqlite3_changes(s->db) == 0;
    return rc;
}

int store_file_drop(struct store *s, const char *owner, const char *id, bool *held, struct err *e)
{
    struct arena a;
    struct file_row f;
    struct err unheard = ERR_INIT;
    arena_init(&a, 0);
    *held = false;
    int rc =
        store_file_get(s, owner, id, &a, &f, e) || store_note_drop(s, DATA_FILES, id, e) ? -1 : 0;
    if (!rc) {
        rc = store_begin(s, e) ? -1 : store_end(s, drop(s, owner, id, held, e), e);
        if (rc)
            store_note_file(s, &f, &unheard); /* it stays */
    }
    arena_release(&a);
    return rc;
}

int store_file_let_go(struct store *s, struct arena *a, struct file_row *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e, "SELECT " COLUMNS " FROM file WHERE is_dropped AND NOT " IS_HELD("?1") " LIMIT 1",
        "i", (int64_t)HOLDERS);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out, e);
    sqlite3_finalize(q);
    int rc = row == 1
                 ? store_run(s, store_query(s, e, "DELETE FROM file WHERE id = ?", "t", out->id), e)
             : row == 0 ? no_file(e, "dropped")
                        : -1;
    return store_end(s, rc, e);
}

/* As an index has it: nobody looks through the rows of others. */
static const char *where_of(const char *owner, const char *purpose)
{
    return !owner    ? "?1 IS NULL AND NOT is_dropped AND (?2 IS NULL OR purpose = ?2)"
           : purpose ? "owner = ?1 AND purpose = ?2 AND NOT is_dropped"
                     : "owner = ?1 AND ?2 IS NULL AND NOT is_dropped";
}

int store_file_list(struct store *s, const char *owner, const char *purpose,
                    const struct store_page *page, struct arena *a, struct file_row **out,
                    size_t *n, bool *more, struct err *e)
{
    const struct store_list l = {.table = "file",
                                 .columns = COLUMNS,
                                 .where = where_of(owner, purpose),
                                 .of = {owner, purpose},
                                 .size = sizeof **out,
                                 .take = take};
    *out = store_list(s, &l, page, a, n, more, e);
    return *out ? 0 : -1;
}

int store_file_count(struct store *s, const char *owner, int64_t *n, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e, "SELECT count(*) FROM file WHERE owner = ?", "t", owner);
    int row = q ? store_row(s, q, e) : -1;
    *n = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : -1, e);
}

int store_file_bytes(struct store *s, const char *owner, int64_t *bytes, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    /* an upload in parts has its bytes from its begin, and those of more parts than it needs */
    sqlite3_stmt *q = store_query(
        s, e,
        "SELECT coalesce((SELECT bytes FROM file_sum WHERE owner = ?1), 0) + (SELECT "
        "coalesce(sum(max(bytes, (SELECT coalesce(sum(bytes), 0) FROM upload_part WHERE upload = "
        "upload.id))), 0) FROM upload WHERE owner = ?1 AND state = ?2)",
        "ti", owner, (int64_t)PARTS_PENDING);
    int row = q ? store_row(s, q, e) : -1;
    *bytes = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : -1, e);
}
