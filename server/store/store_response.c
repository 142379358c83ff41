/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of responses: what was asked and what was said, as JSON, for their owner to ask for again
 * and to go on from. They have a time, and all of an owner's a sum of bytes, for which the oldest
 * go; triggers keep the sums. Of chats, which are listed, the places of those that go are kept.
 */
#include "server/store/store_response.h"

#include "server/store/store_own.h"

enum { EXPIRE_MOST = 200 };

#define SHOWN   "id, owner, previous, bytes, created, expires, kind, model, metadata"
#define COLUMNS SHOWN ", input, body"

static int take_shown(sqlite3_stmt *q, struct arena *a, void *out, struct err *e)
{
    struct response_row *r = out;
    (void)e;
    *r = (struct response_row){.id = store_text(q, 0, a),
                               .owner = store_text(q, 1, a),
                               .previous = store_text(q, 2, a),
                               .bytes = sqlite3_column_int64(q, 3),
                               .created = sqlite3_column_int64(q, 4),
                               .expires = sqlite3_column_int64(q, 5),
                               .kind = (enum response_kind)sqlite3_column_int64(q, 6),
                               .model = store_text(q, 7, a),
                               .metadata = store_text(q, 8, a)};
    return 0;
}

static void take(sqlite3_stmt *q, struct arena *a, struct response_row *r)
{
    take_shown(q, a, r, NULL);
    r->input = store_text(q, 9, a);
    r->body = store_text(q, 10, a);
}

static int put(struct store *s, const struct response_row *r, struct err *e)
{
    return store_run(
        s,
        store_query(s, e,
                    "INSERT INTO response (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    "tttiiiitttt", r->id, r->owner, r->previous, r->bytes, r->created, r->expires,
                    (int64_t)r->kind, r->model, r->metadata, r->input, r->body),
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

/* For pages that go on behind them. */
#define KEEP_PLACES                                                                                \
    "INSERT INTO gone (list, owner, id, place) SELECT 'response', owner, id, seq FROM response "   \
    "WHERE kind = 1 AND "

/* The oldest but this one. */
static int drop_oldest(struct store *s, const char *owner, const char *id, struct err *e)
{
#define OLDEST "seq = (SELECT min(seq) FROM response WHERE owner = ? AND id <> ?)"
    if (store_run(s, store_query(s, e, KEEP_PLACES OLDEST, "tt", owner, id), e) ||
        store_run(s, store_query(s, e, "DELETE FROM response WHERE " OLDEST, "tt", owner, id), e))
        return -1;
    return sqlite3_changes(s->db)
               ? 0
               : err_set(e, ERR_BAD_INPUT,
                         "this answer has more bytes than its key's answers may have "
                         "(--responses-quota): ask with store: false");
}

static int make_room(struct store *s, const char *owner, const char *id, int64_t quota,
                     struct err *e)
{
    int over = is_over(s, owner, quota, e);
    if (over != 1)
        return over;
    for (; over == 1; over = is_over(s, owner, quota, e))
        if (drop_oldest(s, owner, id, e))
            return -1;
    return over ? over : store_trim_places(s, owner, e);
}

int store_response_add(struct store *s, const struct response_row *r, int64_t quota, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(s, put(s, r, e) || make_room(s, r->owner, r->id, quota, e) ? -1 : 0, e);
}

static int no_response(struct err *e, enum response_kind kind, const char *id)
{
    static const char *const name[] = {"response", "chat completion"};
    return err_set(e, ERR_NOT_FOUND, "no such %s: %.64s", name[kind], id);
}

int store_response_get(struct store *s, const char *owner, enum response_kind kind, const char *id,
                       int64_t now, struct arena *a, struct response_row *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e,
        "SELECT " COLUMNS " FROM response WHERE owner = ? AND id = ? AND kind = ? AND expires > ?",
        "ttii", owner, id, (int64_t)kind, now);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        take(q, a, out);
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : row == 0 ? no_response(e, kind, id) : -1, e);
}

/* q's statement, of one row. */
static int change(struct store *s, sqlite3_stmt *q, enum response_kind kind, const char *id,
                  struct err *e)
{
    if (store_run(s, q, e))
        return -1;
    return sqlite3_changes(s->db) ? 0 : no_response(e, kind, id);
}

int store_response_drop(struct store *s, const char *owner, enum response_kind kind, const char *id,
                        struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_keep_place(s, "response", "id", owner, id, e);
    if (!rc)
        rc =
            change(s,
                   store_query(s, e, "DELETE FROM response WHERE owner = ? AND id = ? AND kind = ?",
                               "tti", owner, id, (int64_t)kind),
                   kind, id, e);
    return store_end(s, rc, e);
}

int store_response_mark(struct store *s, const char *owner, enum response_kind kind, const char *id,
                        const char *metadata, int64_t quota, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e,
        "UPDATE response SET metadata = ?1, bytes = bytes + coalesce(length(CAST(?1 AS BLOB)), 0) "
        "- coalesce(length(CAST(metadata AS BLOB)), 0) WHERE owner = ?2 AND id = ?3 AND kind = ?4",
        "ttti", metadata, owner, id, (int64_t)kind);
    int rc = change(s, q, kind, id, e);
    if (!rc && quota > 0) /* where none is kept any more, those that are there may be marked */
        rc = make_room(s, owner, id, quota, e);
    return store_end(s, rc, e);
}

int store_response_list(struct store *s, const char *owner, enum response_kind kind,
                        const struct store_page *page, struct arena *a, struct response_row **out,
                        size_t *n, bool *more, struct err *e)
{
    const struct store_list l = {.table = "response",
                                 .columns = SHOWN,
                                 .where = kind == RESPONSE_CHAT ? "owner = ?1 AND kind = 1"
                                                                : "owner = ?1 AND kind = 0",
                                 .of = {owner},
                                 .size = sizeof **out,
                                 .take = take_shown};
    *out = store_list(s, &l, page, a, n, more, e);
    return *out ? 0 : -1;
}

/* The owner of one whose time is over. 1: there is one; 0: there is none. */
static int find_expired(struct store *s, int64_t now, struct arena *a, const char **owner,
                        struct err *e)
{
    sqlite3_stmt *q =
        store_query(s, e, "SELECT owner FROM response WHERE expires <= ? LIMIT 1", "i", now);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        *owner = store_text(q, 0, a);
    sqlite3_finalize(q);
    return row;
}

static int expire(struct store *s, const char *owner, int64_t now, struct err *e)
{
#define EXPIRED                                                                                    \
    "seq IN (SELECT seq FROM response INDEXED BY response_expires WHERE expires <= ? AND "         \
    "owner = ? ORDER BY expires, seq LIMIT ?)"
    const int64_t most = EXPIRE_MOST;
    return store_run(s, store_query(s, e, KEEP_PLACES EXPIRED, "iti", now, owner, most), e) ||
                   store_run(s,
                             store_query(s, e, "DELETE FROM response WHERE " EXPIRED, "iti", now,
                                         owner, most),
                             e) ||
                   store_trim_places(s, owner, e)
               ? -1
               : 0;
}

int store_response_expire(struct store *s, int64_t now, bool *more, struct err *e)
{
    struct arena a;
    const char *owner = NULL;
    *more = false;
    if (store_begin(s, e))
        return -1;
    arena_init(&a, 0);
    int rc = find_expired(s, now, &a, &owner, e);
    if (rc == 1) {
        rc = expire(s, owner, now, e);
        *more = !rc;
    }
    arena_release(&a);
    return store_end(s, rc, e);
}
