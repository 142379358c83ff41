/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of batches. What a batch was asked for never changes; what becomes of it changes only by
 * store_batch_change, which looks at the state first.
 */
#include "server/store/store_batch.h"

#include <string.h>

#include "server/store/store_own.h"

/* Times stand in the order of enum batch_state. */
#define TIMES "created, in_progress, finalizing, completed, failed, expired, cancelling, cancelled"
#define COLUMNS                                                                                    \
    "id, owner, endpoint, input_file, model, metadata, errors, output_file, error_file, state, "   \
    "expires, keep_s, n_line, n_good, n_bad, tok_in, tok_cached, tok_out, tok_thoughts, " TIMES

/* Found by their states: those that ended are many, and stay. */
#define OPEN_ONES "batch INDEXED BY batch_state"

static int take(sqlite3_stmt *q, struct arena *a, void *out, struct err *e)
{
    struct batch *b = out;
    const char **const text[] = {&b->id,         &b->owner,       &b->endpoint,
                                 &b->input_file, &b->model,       &b->metadata,
                                 &b->errors,     &b->output_file, &b->error_file};
    int64_t *const number[] = {&b->expires,      &b->keep_s,    &b->n_line,
                               &b->n_good,       &b->n_bad,     &b->usage.in,
                               &b->usage.cached, &b->usage.out, &b->usage.thoughts};
    int c = 0;
    (void)e;
    *b = (struct batch){.id = NULL};
    for (; c < (int)(sizeof text / sizeof *text); c++)
        *text[c] = store_text(q, c, a);
    b->state = (enum batch_state)sqlite3_column_int(q, c++);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        *number[i] = sqlite3_column_int64(q, c++);
    for (size_t i = 0; i < BATCH_STATE_COUNT; i++)
        b->at[i] = sqlite3_column_int64(q, c++);
    return 0;
}

static int no_batch(struct err *e, const char *id)
{
    return err_set(e, ERR_NOT_FOUND, "no such batch: %.64s", id);
}

int store_batch_retry(struct store *s, const char *owner, const char *retry, const char *body,
                      int64_t since, struct arena *a, struct batch *found, struct err *e)
{
    *found = (struct batch){.id = NULL};
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e,
                                  "SELECT " COLUMNS ", body FROM batch WHERE owner = ? AND "
                                  "retry = ? AND created >= ? ORDER BY seq DESC LIMIT 1",
                                  "tti", owner, retry, since);
    int row = q ? store_row(s, q, e) : -1;
    const char *before = row == 1 ? store_text(q, sqlite3_column_count(q) - 1, a) : NULL;
    if (row == 1 && (!before || strcmp(before, body) != 0))
        row = err_set(e, ERR_EXISTS, "this key was used for another request");
    else if (row == 1)
        take(q, a, found, e);
    sqlite3_finalize(q);
    return store_end(s, row < 0 ? -1 : 0, e);
}

/* The oldest that has ended goes where its owner has more than are kept. */
static int trim(struct store *s, const char *owner, int64_t kept, struct err *e)
{
    const char *of = NULL;
    struct arena a;
    arena_init(&a, 0);
    sqlite3_stmt *q =
        store_query(s, e,
                    "SELECT id FROM batch WHERE owner = ?1 AND NOT (?2 >> state) & 1 AND (SELECT "
                    "count(*) FROM batch WHERE owner = ?1) > ?3 ORDER BY seq LIMIT 1",
                    "tii", owner, (int64_t)BATCH_OPEN, kept);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        of = store_text(q, 0, &a);
    sqlite3_finalize(q);
    int rc = row < 0 ? -1 : 0;
    if (of)
        rc = store_keep_place(s, "batch", "id", owner, of, e) ||
                     store_run(s, store_query(s, e, "DELETE FROM batch WHERE id = ?", "t", of), e)
                 ? -1
                 : 0;
    arena_release(&a);
    return rc;
}

int store_batch_add(struct store *s, const struct batch *b, const char *retry, const char *body,
                    int64_t kept, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_run(
        s,
        store_query(
            s, e,
            "INSERT INTO batch (id, owner, endpoint, input_file, metadata, state, expires, "
            "keep_s, n_line, n_good, n_bad, tok_in, tok_cached, tok_out, tok_thoughts, " TIMES
            ", retry, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, ?, 0, 0, 0, 0, 0, "
            "0, 0, ?, ?)",
            "tttttiiiitt", b->id, b->owner, b->endpoint, b->input_file, b->metadata,
            (int64_t)b->state, b->expires, b->keep_s, b->at[BATCH_VALIDATING], retry, body),
        e);
    return store_end(s, rc || trim(s, b->owner, kept, e) ? -1 : 0, e);
}

int store_batch_get(struct store *s, const char *owner, const char *id, struct arena *a,
                    struct batch *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e, "SELECT " COLUMNS " FROM batch WHERE owner = ? AND id = ?",
                                  "tt", owner, id);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out, e);
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : row == 0 ? no_batch(e, id) : -1, e);
}

int store_batch_list(struct store *s, const char *owner, const struct store_page *page,
                     struct arena *a, struct batch **out, size_t *n, bool *more, struct err *e)
{
    const struct store_list l = {.table = "batch",
                                 .columns = COLUMNS,
                                 .where = "owner = ?1 AND ?2 IS NULL",
                                 .of = {owner, NULL},
                                 .size = sizeof **out,
                                 .take = take};
    *out = store_list(s, &l, page, a, n, more, e);
    return *out ? 0 : -1;
}

int store_batch_open(struct store *s, int64_t now, size_t most, struct arena *a, struct batch **out,
                     size_t *n, struct err *e)
{
    int row;
    *n = 0;
    *out = ARENA_ARRAY(a, struct batch, 2 * most + 1);
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e,
        "SELECT * FROM (SELECT " COLUMNS " FROM " OPEN_ONES " WHERE state IN (?1, ?2, ?3, ?4) AND "
        "(state IN (?1, ?2) OR expires <= ?5) ORDER BY seq LIMIT ?6) UNION ALL "
        "SELECT * FROM (SELECT " COLUMNS " FROM " OPEN_ONES " WHERE state IN (?3, ?4) AND "
        "expires > ?5 AND seq IN (SELECT min(seq) FROM " OPEN_ONES " WHERE state IN (?3, ?4) GROUP "
        "BY owner) ORDER BY seq LIMIT ?6)",
        "iiiiii", (int64_t)BATCH_VALIDATING, (int64_t)BATCH_CANCELLING, (int64_t)BATCH_IN_PROGRESS,
        (int64_t)BATCH_FINALIZING, now, (int64_t)most);
    for (row = q ? 1 : -1; row == 1 && (row = store_row(s, q, e)) == 1;)
        take(q, a, *out + (*n)++, e);
    sqlite3_finalize(q);
    return store_end(s, row < 0 ? -1 : 0, e);
}

int store_batch_count(struct store *s, const char *owner, int64_t *open, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e, "SELECT count(*) FROM " OPEN_ONES " WHERE owner = ? AND state IN (?, ?, ?, ?)",
        "tiiii", owner, (int64_t)BATCH_VALIDATING, (int64_t)BATCH_CANCELLING,
        (int64_t)BATCH_IN_PROGRESS, (int64_t)BATCH_FINALIZING);
    int row = q ? store_row(s, q, e) : -1;
    *open = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : -1, e);
}

int store_batch_is_open(struct store *s, const char *id, bool *is_open, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e, "SELECT 1 FROM batch WHERE id = ?1 AND (?2 >> state) & 1",
                                  "ti", id, (int64_t)BATCH_OPEN);
    int row = q ? store_row(s, q, e) : -1;
    *is_open = row == 1;
    sqlite3_finalize(q);
    return store_end(s, row < 0 ? -1 : 0, e);
}

int store_batch_has(struct store *s, const char *id, bool *has, struct err *e)
{
    return store_has(s, "SELECT 1 FROM batch WHERE id = ?", id, has, e);
}

static int update(struct store *s, const struct batch *b, unsigned from, struct err *e)
{
    const int64_t *at = b->at;
    const struct batch_usage *u = &b->usage;
    int rc = store_run(
        s,
        store_query(
            s, e,
            "UPDATE batch SET model = ?2, errors = ?3, output_file = ?4, error_file = ?5, state = "
            "?6, n_line = ?7, n_good = ?8, n_bad = ?9, tok_in = ?10, tok_cached = ?11, tok_out = "
            "?12, tok_thoughts = ?13, in_progress = ?14, finalizing = ?15, completed = ?16, failed "
            "= ?17, expired = ?18, cancelling = ?19, cancelled = ?20 "
            "WHERE id = ?1 AND (?21 >> state) & 1",
            "tttttiiiiiiiiiiiiiiii", b->id, b->model, b->errors, b->output_file, b->error_file,
            (int64_t)b->state, b->n_line, b->n_good, b->n_bad, u->in, u->cached, u->out,
            u->thoughts, at[BATCH_IN_PROGRESS], at[BATCH_FINALIZING], at[BATCH_COMPLETED],
            at[BATCH_FAILED], at[BATCH_EXPIRED], at[BATCH_CANCELLING], at[BATCH_CANCELLED],
            (int64_t)from),
        e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_BUSY, "batch %.64s is in another state", b->id);
    return rc;
}

int store_batch_change(struct store *s, const struct batch *b, unsigned from,
                       const struct file_row *file, size_t n_file, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < n_file; i++)
        rc = store_note_file(s, &file[i], e);
    if (rc || store_begin(s, e))
        return -1;
    rc = update(s, b, from, e);
    for (size_t i = 0; !rc && i < n_file; i++)
        rc = store_put_file(s, "INSERT OR IGNORE", &file[i], e);
    return store_end(s, rc, e);
}
