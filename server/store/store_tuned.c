/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of models that jobs made. A row is the publication: what has none is not served.
 */
#include "server/store/store_own.h"

#define COLUMNS "id, name, owner, job, base, dir, metrics, step, is_checkpoint, created, is_full"

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
                            .is_full = sqlite3_column_int(q, 10)};
    return 0;
}

int store_put_tuned(struct store *s, const struct job_tuned *t, struct err *e)
{
    return store_run(s,
                     store_query(s, e,
                                 "INSERT OR REPLACE INTO tuned (" COLUMNS
                                 ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                 "tttttttiiii", t->id, t->name, t->owner, t->job, t->base, t->dir,
                                 t->metrics, t->step, (int64_t)t->is_checkpoint, t->created,
                                 (int64_t)t->is_full),
                     e);
}

int store_tuned_add(struct store *s, const struct job_tuned *t, struct err *e)
{
    return store_begin(s, e) ? -1 : store_end(s, store_put_tuned(s, t, e), e);
}

int store_tuned_drop(struct store *s, const char *owner, const char *name, struct err *e)
{
    int rc = store_drop(s, "tuned", "name", owner, name, e);
    return rc && e->code == ERR_NOT_FOUND ? err_set(e, ERR_NOT_FOUND, "no such model: %.200s", name)
                                          : rc;
}

int store_tuned_has(struct store *s, const char *dir, bool *has, struct err *e)
{
    return store_has(s, "SELECT 1 FROM tuned WHERE dir = ?", dir, has, e);
}

int store_tuned_list(struct store *s, const char *owner, const char *job,
                     const struct store_page *page, struct arena *a, struct job_tuned **out,
                     size_t *n, bool *more, struct err *e)
{
    const struct store_list l = {.table = "tuned",
                                 .columns = COLUMNS,
                                 .where = "(?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR job = ?2)",
                                 .of = {owner, job},
                                 .size = sizeof **out,
                                 .take = take};
    *out = store_list(s, &l, page, a, n, more, e);
    return *out ? 0 : -1;
}
