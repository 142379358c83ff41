/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of notices.
 */
#include "server/store/store_notice.h"

#include "server/store/store_own.h"

void store_notices_begin(struct store *s, void (*came)(void *ctx), void *ctx)
{
    s->notice_came = came;
    s->notice_ctx = ctx;
}

bool store_wants_notice(const struct store *s, const struct job *j)
{
    return s->notice_came &&
           (j->state == JOB_SUCCEEDED || j->state == JOB_FAILED || j->state == JOB_CANCELLED);
}

int store_put_notice(struct store *s, const struct job *j, struct err *e)
{
    char id[STORE_ID_BYTES];
    store_id("evt_", id);
    return store_run(s,
                     store_query(s, e,
                                 "INSERT INTO notice (id, job, state, created, tries, due) "
                                 "VALUES (?, ?, ?, ?, 0, 0)",
                                 "ttii", id, j->id, (int64_t)j->state, j->finished),
                     e);
}

int store_notice_next(struct store *s, struct arena *a, struct notice_row *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e,
                                  "SELECT id, job, state, created, tries, due FROM notice "
                                  "ORDER BY due, seq LIMIT 1",
                                  "");
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        *out = (struct notice_row){.id = store_text(q, 0, a),
                                   .job = store_text(q, 1, a),
                                   .state = (enum job_state)sqlite3_column_int(q, 2),
                                   .created = sqlite3_column_int64(q, 3),
                                   .tries = sqlite3_column_int64(q, 4),
                                   .due = sqlite3_column_int64(q, 5)};
    sqlite3_finalize(q);
    if (row == 0)
        row = err_set(e, ERR_NOT_FOUND, "no notice waits");
    return store_end(s, row < 0 ? -1 : 0, e);
}

int store_notice_later(struct store *s, const struct notice_row *n, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(
        s,
        store_run(s,
                  store_query(s, e, "UPDATE notice SET tries = ?2, due = ?3 WHERE id = ?1", "tii",
                              n->id, n->tries, n->due),
                  e),
        e);
}

int store_notice_drop(struct store *s, const char *id, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(
        s, store_run(s, store_query(s, e, "DELETE FROM notice WHERE id = ?", "t", id), e), e);
}
