/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of responses: what was asked and what was said, as JSON, for their owner to ask for again
 * and to go on from. They have a time, and all of an owner's a sum of bytes, for which the oldest
 * go; triggers keep the sums.
 */
#include "server/store/store_own.h"

#define COLUMNS "id, owner, previous, input, body, bytes, created, expires"

static void take(sqlite3_stmt *q, struct arena *a, struct response_row *r)
{
    *r = (struct response_row){.id = store_text(q, 0, a),
                               .owner = store_text(q, 1, a),
                               .previous = store_text(q, 2, a),
                               .input = store_text(q, 3, a),
                               .body = store_text(q, 4, a),
                               .bytes = sqlite3_column_int64(q, 5),
                               .created = sqlite3_column_int64(q, 6),
                               .expires = sqlite3_column_int64(q, 7)};
}

static int put(struct store *s, const struct response_row *r, struct err *e)
{
    return store_run(
        s,
        store_query(s, e, "INSERT INTO response (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    "tttttiii", r->id, r->owner, r->previous, r->input, r->body, r->bytes,
                    r->created, r->expires),
        e);
}

/* 1: they are more than the quota. */
static int is_over(struct store *s, const char *owner, int64_t quota, struct err *e)
{
    sqlite3_stmt *q = store_query(
        s, e, "SELECT 1 FROM response_sum WHERE owner = ?1 AND bytes > ?2", "ti", owner, quota);
    int row = q ? store_row(s, q, e) : -1;
    sqlite3_finalize(q);
    return row;
}

static int drop_oldest(struct store *s, const char *owner, struct err *e)
{
    return store_run(s,
                     store_query(s, e,
                                 "DELETE FROM response WHERE seq = (SELECT min(seq) FROM response "
                                 "WHERE owner = ?)",
                                 "t", owner),
                     e);
}

static int add(struct store *s, const struct response_row *r, int64_t quota, struct err *e)
{
    int over = put(s, r, e) ? -1 : is_over(s, r->owner, quota, e);
    for (; over == 1; over = is_over(s, r->owner, quota, e))
        if (drop_oldest(s, r->owner, e))
            return -1;
    return over;
}

int store_response_add(struct store *s, const struct response_row *r, int64_t quota, struct err *e)
{
    if (r->bytes > quota)
        return err_set(e, ERR_BAD_INPUT,
                       "this response has more bytes than its key's responses may have "
                       "(--responses-quota): ask with store: false");
    return store_begin(s, e) ? -1 : store_end(s, add(s, r, quota, e), e);
}

static int no_response(struct err *e, const char *id)
{
    return err_set(e, ERR_NOT_FOUND, "no such response: %.64s", id);
}

int store_response_get(struct store *s, const char *owner, const char *id, int64_t now,
                       struct arena *a, struct response_row *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e, "SELECT " COLUMNS " FROM response WHERE owner = ? AND id = ? AND expires > ?", "tti",
        owner, id, now);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out);
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : row == 0 ? no_response(e, id) : -1, e);
}

int store_response_drop(struct store *s, const char *owner, const char *id, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_run(
        s, store_query(s, e, "DELETE FROM response WHERE owner = ? AND id = ?", "tt", owner, id),
        e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = no_response(e, id);
    return store_end(s, rc, e);
}

int store_response_expire(struct store *s, int64_t now, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(
        s, store_run(s, store_query(s, e, "DELETE FROM response WHERE expires <= ?", "i", now), e),
        e);
}
