/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of files. Their bytes lie in the data directory under their ids.
 */
#include <stdio.h>

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
    return store_begin(s, e) ? -1 : store_end(s, store_put_file(s, "INSERT", f, e), e);
}

static int no_file(struct err *e, const char *id)
{
    return err_set(e, ERR_NOT_FOUND, "no such file: %.64s", id);
}

int store_file_get(struct store *s, const char *owner, const char *id, struct arena *a,
                   struct file_row *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e, "SELECT " COLUMNS " FROM file WHERE owner = ? AND id = ?",
                                  "tt", owner, id);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out, e);
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : row == 0 ? no_file(e, id) : -1, e);
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
    sqlite3_stmt *q = store_query(
        s, e, "SELECT " COLUMNS " FROM file WHERE expires > 0 AND expires <= ? LIMIT 1", "i", now);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out, e);
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : row == 0 ? no_file(e, "expired") : -1, e);
}

int store_file_drop(struct store *s, const char *owner, const char *id, struct err *e)
{
    int rc = store_drop(s, "file", "id", owner, id, e);
    return rc && e->code == ERR_NOT_FOUND ? no_file(e, id) : rc;
}

int store_file_list(struct store *s, const char *owner, const char *purpose,
                    const struct store_page *page, struct arena *a, struct file_row **out,
                    size_t *n, bool *more, struct err *e)
{
    const struct store_list l = {.table = "file",
                                 .columns = COLUMNS,
                                 .where = "owner = ?1 AND (?2 IS NULL OR purpose = ?2)",
                                 .of = {owner, purpose},
                                 .size = sizeof **out,
                                 .take = take};
    *out = store_list(s, &l, page, a, n, more, e);
    return *out ? 0 : -1;
}

int store_file_bytes(struct store *s, const char *owner, int64_t *bytes, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q =
        store_query(s, e, "SELECT coalesce(sum(bytes), 0) FROM file WHERE owner = ?", "t", owner);
    int row = q ? store_row(s, q, e) : -1;
    *bytes = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : -1, e);
}
