/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of models that jobs made. A row is the publication: what has none is not served.
 */
#include <string.h>

#include "engine/base/vec.h"
#include "server/store_own.h"

#define COLUMNS "id, name, owner, job, base, dir, metrics, step, is_checkpoint, created"

static void take(sqlite3_stmt *q, struct arena *a, struct job_tuned *t)
{
    *t = (struct job_tuned){.id = store_text(q, 0, a),
                            .name = store_text(q, 1, a),
                            .owner = store_text(q, 2, a),
                            .job = store_text(q, 3, a),
                            .base = store_text(q, 4, a),
                            .dir = store_text(q, 5, a),
                            .metrics = store_text(q, 6, a),
                            .step = sqlite3_column_int64(q, 7),
                            .is_checkpoint = sqlite3_column_int(q, 8),
                            .created = sqlite3_column_int64(q, 9)};
}

int store_tuned_add(struct store *s, const struct job_tuned *t, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(
        s,
        store_run(s,
                  store_query(s, e,
                              "INSERT OR REPLACE INTO tuned (" COLUMNS
                              ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                              "tttttttiii", t->id, t->name, t->owner, t->job, t->base, t->dir,
                              t->metrics, t->step, (int64_t)t->is_checkpoint, t->created),
                  e),
        e);
}

int store_tuned_drop(struct store *s, const char *owner, const char *name, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_run(
        s, store_query(s, e, "DELETE FROM tuned WHERE owner = ? AND name = ?", "tt", owner, name),
        e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_NOT_FOUND, "no such model: %.200s", name);
    return store_end(s, rc, e);
}

int store_tuned_list(struct store *s, const char *owner, const char *job,
                     const struct store_page *page, struct arena *a, struct job_tuned **out,
                     size_t *n, bool *more, struct err *e)
{
    VEC(struct job_tuned) list = {0};
    int row = -1;
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e,
        "SELECT " COLUMNS " FROM tuned WHERE (?1 IS NULL OR owner = ?1) AND "
        "(?2 IS NULL OR job = ?2) AND seq < coalesce((SELECT seq FROM tuned WHERE id = ?3), "
        "9223372036854775807) ORDER BY seq DESC LIMIT ?4",
        "ttti", owner, job, page->after, page->limit + 1);
    while (q && (row = store_row(s, q, e)) == 1) {
        vec_push(&list, (struct job_tuned){.id = NULL});
        take(q, a, &list.at[list.n - 1]);
    }
    sqlite3_finalize(q);
    *more = (int64_t)list.n > page->limit;
    *n = list.n - *more;
    *out = ARENA_ARRAY(a, struct job_tuned, *n + 1);
    if (*n)
        memcpy(*out, list.at, *n * sizeof **out);
    vec_release(&list);
    return store_end(s, row, e);
}
