/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of uploads in parts. A row outlives its end by the upload's hour, to say what became of it.
 */
#include "server/store/store_parts.h"

#include "server/store/store_own.h"

#define COLUMNS                                                                                    \
    "id, owner, purpose, name, mime, file, asked, bytes, created, expires, keep_s, state"

static void take(sqlite3_stmt *q, struct arena *a, struct parts *p)
{
    *p = (struct parts){.id = store_text(q, 0, a),
                        .owner = store_text(q, 1, a),
                        .purpose = store_text(q, 2, a),
                        .name = store_text(q, 3, a),
                        .mime = store_text(q, 4, a),
                        .file = store_text(q, 5, a),
                        .asked = store_text(q, 6, a),
                        .bytes = sqlite3_column_int64(q, 7),
                        .created = sqlite3_column_int64(q, 8),
                        .expires = sqlite3_column_int64(q, 9),
                        .keep_s = sqlite3_column_int64(q, 10),
                        .state = (enum parts_state)sqlite3_column_int(q, 11)};
}

/* The one row of q, as a transaction that has begun. */
static int take_one(struct store *s, sqlite3_stmt *q, const char *id, struct arena *a,
                    struct parts *out, struct err *e)
{
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out);
    sqlite3_finalize(q);
    return store_end(s,
                     row == 1   ? 0
                     : row == 0 ? err_set(e, ERR_NOT_FOUND, "no such upload: %.64s", id)
                                : -1,
                     e);
}

int store_parts_add(struct store *s, const struct parts *p, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(s,
                     store_run(s,
                               store_query(s, e,
                                           "INSERT INTO upload (" COLUMNS
                                           ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                           "tttttttiiiii", p->id, p->owner, p->purpose, p->name,
                                           p->mime, p->file, p->asked, p->bytes, p->created,
                                           p->expires, p->keep_s, (int64_t)p->state),
                               e),
                     e);
}

int store_parts_get(struct store *s, const char *owner, const char *id, struct arena *a,
                    struct parts *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e, "SELECT " COLUMNS " FROM upload WHERE owner = ? AND id = ?",
                                  "tt", owner, id);
    return take_one(s, q, id, a, out, e);
}

int store_parts_expired(struct store *s, int64_t now, struct arena *a, struct parts *out,
                        struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q =
        store_query(s, e, "SELECT " COLUMNS " FROM upload WHERE expires <= ? LIMIT 1", "i", now);
    return take_one(s, q, "expired", a, out, e);
}

/* Two numbers of the one row that q always gives. */
static int take_numbers(struct store *s, sqlite3_stmt *q, int64_t *first, int64_t *second,
                        struct err *e)
{
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1) {
        *first = sqlite3_column_int64(q, 0);
        *second = sqlite3_column_int64(q, 1);
    }
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : -1, e);
}

int store_parts_count(struct store *s, const char *owner, int64_t *n, struct err *e)
{
    int64_t unused;
    if (store_begin(s, e))
        return -1;
    return take_numbers(
        s, store_query(s, e, "SELECT count(*), 0 FROM upload WHERE owner = ?", "t", owner), n,
        &unused, e);
}

int store_part_sum(struct store *s, const char *upload, int64_t *n, int64_t *bytes, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return take_numbers(
        s,
        store_query(s, e,
                    "SELECT count(*), coalesce(sum(bytes), 0) FROM upload_part WHERE upload = ?",
                    "t", upload),
        n, bytes, e);
}

/* What ran before changed a row, or the upload is not pending any more. */
static int was_pending(struct store *s, int rc, struct err *e)
{
    return rc || sqlite3_changes(s->db) > 0
               ? rc
               : err_set(e, ERR_BUSY, "the upload is not pending any more");
}

int store_part_add(struct store *s, const struct part *p, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_run(s,
                       store_query(s, e,
                                   "INSERT INTO upload_part (id, upload, sha256, bytes, created) "
                                   "SELECT ?1, id, ?3, ?4, ?5 FROM upload WHERE id = ?2 AND "
                                   "state = ?6",
                                   "tttiii", p->id, p->upload, p->sha256, p->bytes, p->created,
                                   (int64_t)PARTS_PENDING),
                       e);
    return store_end(s, was_pending(s, rc, e), e);
}

int store_part_list(struct store *s, const char *upload, struct arena *a, struct part **out,
                    size_t *n, struct err *e)
{
    int row = -1;
    *n = 0;
    *out = NULL;
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e,
                                  "SELECT id, upload, sha256, bytes, created, count(*) OVER () "
                                  "FROM upload_part WHERE upload = ? ORDER BY seq",
                                  "t", upload);
    while (q && (row = store_row(s, q, e)) == 1) {
        if (!*out)
            *out = ARENA_ARRAY(a, struct part, sqlite3_column_int64(q, 5));
        (*out)[(*n)++] = (struct part){.id = store_text(q, 0, a),
                                       .upload = store_text(q, 1, a),
                                       .sha256 = store_text(q, 2, a),
                                       .bytes = sqlite3_column_int64(q, 3),
                                       .created = sqlite3_column_int64(q, 4)};
    }
    sqlite3_finalize(q);
    return store_end(s, row, e);
}

int store_part_has(struct store *s, const char *id, bool *has, struct err *e)
{
    return store_has(s, "SELECT 1 FROM upload_part WHERE id = ?", id, has, e);
}

int store_part_is_needed(struct store *s, const char *id, bool *is_needed, struct err *e)
{
    return store_has(s,
                     "SELECT 1 FROM upload_part JOIN upload ON upload.id = upload_part.upload "
                     "WHERE upload_part.id = ? AND state = 0",
                     id, is_needed, e);
}
_Static_assert(PARTS_PENDING == 0, "as the statement has it");

/* ---- what becomes of one --------------------------------------------------------------------- */

static int move(struct store *s, const struct parts *p, enum parts_state to, struct err *e)
{
    int rc = store_run(s,
                       store_query(s, e,
                                   "UPDATE upload SET state = ?2, file = ?3, asked = ?4 WHERE id = "
                                   "?1 AND state = ?5",
                                   "titti", p->id, (int64_t)to, p->file, p->asked,
                                   (int64_t)PARTS_PENDING),
                       e);
    return was_pending(s, rc, e);
}

int store_parts_complete(struct store *s, const struct parts *p, const struct file_row *f,
                         struct err *e)
{
    struct err unheard = ERR_INIT;
    int rc =
        store_note_file(s, f, e) || store_begin(s, e)
            ? -1
            : store_end(
                  s, move(s, p, PARTS_COMPLETED, e) || store_put_file(s, "INSERT", f, e) ? -1 : 0,
                  e);
    if (rc)
        store_note_drop(s, DATA_FILES, f->id, &unheard);
    return rc;
}

int store_parts_cancel(struct store *s, const struct parts *p, struct err *e)
{
    return store_begin(s, e) ? -1 : store_end(s, move(s, p, PARTS_CANCELLED, e), e);
}

static int drop(struct store *s, const char *sql, const char *id, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(s, store_run(s, store_query(s, e, sql, "t", id), e), e);
}

int store_part_drop(struct store *s, const char *upload, struct err *e)
{
    return drop(s, "DELETE FROM upload_part WHERE upload = ?", upload, e);
}

int store_parts_drop(struct store *s, const char *id, struct err *e)
{
    return drop(s, "DELETE FROM upload WHERE id = ?", id, e);
}
