/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of models that jobs made. A row is the publication: what has none is not served.
 */
#include "server/store/store_own.h"

#define COLUMNS                                                                                    \
    "id, name, owner, job, base, dir, metrics, step, is_checkpoint, created, is_full, "            \
    "fingerprint"

static int take(sqlite3_stmt *q, struct arena *a, void *out, struct err *e)
{
    struct job_tuned *t = out;
    (void)e;
    *t = (struct job_tuned){.id = store_text(q, 0, a),
                            .name = store_text(q, 1, a),
                            .owner = store_text(q, 2, a),
                            .job = store_text(q, 3, a),
                            .base = store_text(q, 4, a),
                            .dir = store_text(q, 5, a),
                            .metrics = store_text(q, 6, a),
                            .step = sqlite3_column_int64(q, 7),
                            .is_checkpoint = sqlite3_column_int(q, 8),
                            .created = sqlite3_column_int64(q, 9),
                            .is_full = sqlite3_column_int(q, 10),
                            .fingerprint = store_text(q, 11, a)};
    return 0;
}

int store_put_tuned(struct store *s, const struct job_tuned *t, struct err *e)
{
    return store_run(s,
                     store_query(s, e,
                                 "INSERT OR REPLACE INTO tuned (" COLUMNS
                                 ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                 "tttttttiiiit", t->id, t->name, t->owner, t->job, t->base, t->dir,
                                 t->metrics, t->step, (int64_t)t->is_checkpoint, t->created,
                                 (int64_t)t->is_full, t->fingerprint),
                     e);
}

int store_tuned_add(struct store *s, const struct job_tuned *t, struct err *e)
{
    return store_note_tuned(s, t, e) || store_begin(s, e)
               ? -1
               : store_end(s, store_put_tuned(s, t, e), e);
}

/* The note of this owner's model of this name, where it has one. */
static int drop_note(struct store *s, const char *owner, const char *name, struct err *e)
{
    struct arena a;
    const char *dir = NULL;
    bool is_full = false;
    if (store_begin(s, e))
        return -1;
    arena_init(&a, 0);
    sqlite3_stmt *q = store_query(
        s, e, "SELECT dir, is_full FROM tuned WHERE owner = ? AND name = ?", "tt", owner, name);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1) {
        dir = store_text(q, 0, &a);
        is_full = sqlite3_column_int(q, 1);
    }
    sqlite3_finalize(q);
    int rc = store_end(s, row < 0 ? -1 : 0, e);
    if (!rc && dir)
        rc = store_note_drop(s, is_full ? DATA_MODELS : DATA_ADAPTERS, dir, e);
    arena_release(&a);
    return rc;
}

int store_tuned_adopt(struct store *s, const char *name, const char *fingerprint, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(s,
                     store_run(s,
                               store_query(s, e, "UPDATE tuned SET fingerprint = ? WHERE name = ?",
                                           "tt", fingerprint, name),
                               e),
                     e);
}

int store_tuned_drop(struct store *s, const char *owner, const char *name, struct err *e)
{
    int rc =
        drop_note(s, owner, name, e) || store_drop(s, "tuned", "name", owner, name, e) ? -1 : 0;
    return rc && e->code == ERR_NOT_FOUND ? err_set(e, ERR_NOT_FOUND, "no such model: %.200s", name)
                                          : rc;
}

int store_tuned_has(struct store *s, const char *dir, bool *has, struct err *e)
{
    return store_has(s, "SELECT 1 FROM tuned WHERE dir = ?", dir, has, e);
}

int store_tuned_get(struct store *s, const char *owner, const char *name, struct arena *a,
                    struct job_tuned *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e, "SELECT " COLUMNS " FROM tuned WHERE owner = ? AND name = ?", "tt", owner, name);
    int row = q ? store_row(s, q, e) : -1;
    int rc = row == 1   ? take(q, a, out, e)
             : row == 0 ? err_set(e, ERR_NOT_FOUND, "no such model: %.200s", name)
                        : -1;
    sqlite3_finalize(q);
    return store_end(s, rc, e);
}

int store_tuned_is_ancestor(struct store *s, const char *owner, const char *name, bool *is,
                            struct err *e)
{
    const int64_t open = 1 << JOB_VALIDATING | 1 << JOB_QUEUED | 1 << JOB_RUNNING | 1 << JOB_PAUSED;
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e,
                                  "SELECT 1 FROM job WHERE owner = ?1 AND ancestor = ?2 AND "
                                  "(?3 >> state) & 1 LIMIT 1",
                                  "tti", owner, name, open);
    int row = q ? store_row(s, q, e) : -1;
    *is = row == 1;
    sqlite3_finalize(q);
    return store_end(s, row < 0 ? -1 : 0, e);
}

int store_tuned_list(struct store *s, const char *owner, const char *job,
                     const struct store_page *page, struct arena *a, struct job_tuned **out,
                     size_t *n, bool *more, struct err *e)
{
    const struct store_list l = {.table = "tuned",
                                 .columns = COLUMNS,
                                 .where = job ? "(?1 IS NULL OR owner = ?1) AND job = ?2"
                                              : "(?1 IS NULL OR owner = ?1) AND ?2 IS NULL",
                                 .of = {owner, job},
                                 .size = sizeof **out,
                                 .take = take};
    *out = store_list(s, &l, page, a, n, more, e);
    return *out ? 0 : -1;
}
