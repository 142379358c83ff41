/* SPDX-License-Identifier: Apache-2.0
 *
 * One function to run a statement, one to take a row, one for lists; the rest is what is asked.
 */
#include "server/store/store_loop.h"

#include <string.h>

#include "engine/base/vec.h"
#include "server/store/store_own.h"

#define MODEL   "id, owner, session, base, fingerprint, rank, seed, parts, next, kept, created, seen"
#define REQUEST "id, owner, line, seq, kind, place, state, body, answer, created"
#define WEIGHTS                                                                                    \
    "path, owner, model, dir, base, fingerprint, rank, parts, created, expires, is_sampler, "      \
    "is_named, bytes"
#define SAMPLER "id, owner, session, path, created"

/* With a byte 0 behind. */
static void *copy(struct arena *a, const void *p, size_t n)
{
    char *at = arena_alloc(a, n + 1);
    if (n)
        memcpy(at, p, n);
    return at;
}

static const char *blob(sqlite3_stmt *q, int column, size_t *n, struct arena *a)
{
    const void *p = sqlite3_column_blob(q, column);
    *n = (size_t)sqlite3_column_bytes(q, column);
    if (sqlite3_column_type(q, column) == SQLITE_NULL)
        return NULL;
    return copy(a, p, *n);
}

static void take_model(sqlite3_stmt *q, struct arena *a, void *out)
{
    struct loop_model *m = out;
    *m = (struct loop_model){.id = store_text(q, 0, a),
                             .owner = store_text(q, 1, a),
                             .session = store_text(q, 2, a),
                             .base = store_text(q, 3, a),
                             .fingerprint = store_text(q, 4, a),
                             .rank = sqlite3_column_int64(q, 5),
                             .seed = sqlite3_column_int64(q, 6),
                             .parts = sqlite3_column_int64(q, 7),
                             .next = sqlite3_column_int64(q, 8),
                             .kept = sqlite3_column_int64(q, 9),
                             .created = sqlite3_column_int64(q, 10),
                             .seen = sqlite3_column_int64(q, 11)};
}

static void take_request(sqlite3_stmt *q, struct arena *a, void *out)
{
    struct loop_request *r = out;
    *r = (struct loop_request){.id = store_text(q, 0, a),
                               .owner = store_text(q, 1, a),
                               .line = store_text(q, 2, a),
                               .seq = sqlite3_column_int64(q, 3),
                               .kind = sqlite3_column_int64(q, 4),
                               .place = sqlite3_column_int64(q, 5),
                               .state = (enum loop_state)sqlite3_column_int64(q, 6),
                               .created = sqlite3_column_int64(q, 9)};
    r->body = blob(q, 7, &r->n_body, a);
    r->answer = blob(q, 8, &r->n_answer, a);
}

static void take_weights(sqlite3_stmt *q, struct arena *a, void *out)
{
    struct loop_weights *w = out;
    *w = (struct loop_weights){.path = store_text(q, 0, a),
                               .owner = store_text(q, 1, a),
                               .model = store_text(q, 2, a),
                               .dir = store_text(q, 3, a),
                               .base = store_text(q, 4, a),
                               .fingerprint = store_text(q, 5, a),
                               .rank = sqlite3_column_int64(q, 6),
                               .parts = sqlite3_column_int64(q, 7),
                               .created = sqlite3_column_int64(q, 8),
                               .expires = sqlite3_column_int64(q, 9),
                               .is_sampler = sqlite3_column_int64(q, 10) != 0,
                               .is_named = sqlite3_column_int64(q, 11) != 0,
                               .bytes = sqlite3_column_int64(q, 12)};
}

static void take_sampler(sqlite3_stmt *q, struct arena *a, void *out)
{
    struct loop_sampler *m = out;
    *m = (struct loop_sampler){.id = store_text(q, 0, a),
                               .owner = store_text(q, 1, a),
                               .session = store_text(q, 2, a),
                               .path = store_text(q, 3, a),
                               .created = sqlite3_column_int64(q, 4)};
}

typedef void take_fn(sqlite3_stmt *q, struct arena *a, void *out);

/* The first row of a query, of an open transaction; frees the query. ERR_NOT_FOUND: it has none. */
static int first(struct store *s, sqlite3_stmt *q, take_fn *take, struct arena *a, void *out,
                 struct err *e)
{
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1 && take)
        take(q, a, out);
    sqlite3_finalize(q);
    return row == 1 ? 0 : row == 0 ? err_set(e, ERR_NOT_FOUND, "there is none of this name") : -1;
}

/* All rows, of an open transaction, in the arena. */
static int all(struct store *s, sqlite3_stmt *q, take_fn *take, size_t size, struct arena *a,
               void **out, size_t *n, struct err *e)
{
    VEC(char) list = {0};
    int row = q ? store_row(s, q, e) : -1;
    for (*n = 0; row == 1; row = store_row(s, q, e), ++*n) {
        char one[256];
        ASSERT(size <= sizeof one);
        take(q, a, one);
        for (size_t i = 0; i < size; i++)
            vec_push(&list, one[i]);
    }
    sqlite3_finalize(q);
    *out = copy(a, list.at, list.n);
    vec_release(&list);
    return row < 0 ? -1 : 0;
}

/* ---- sessions -------------------------------------------------------------------------------- */

int store_loop_session_add(struct store *s, const char *id, const char *owner, int64_t now,
                           int64_t most, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_run(
        s,
        store_query(s, e,
                    "INSERT INTO loop_session SELECT ?1, ?2, ?3, ?3 WHERE (SELECT count(*) FROM "
                    "loop_session WHERE owner = ?2) < ?4",
                    "ttii", id, owner, now, most),
        e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_BUSY, "this key has %lld sessions, and may have no more",
                     (long long)most);
    return store_end(s, rc, e);
}

int store_loop_session_see(struct store *s, const char *id, const char *owner, int64_t now,
                           struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = first(s,
                   store_query(s, e,
                               "SELECT 1 FROM loop_session WHERE id = ? AND owner = ? AND seen > 0",
                               "tt", id, owner),
                   NULL, NULL, NULL, e);
    if (!rc) /* a minute is near enough, and a write of the disk less */
        rc = store_run(s,
                       store_query(s, e,
                                   "UPDATE loop_session SET seen = ?2 WHERE id = ?1 AND seen < ?2 "
                                   "- 60",
                                   "ti", id, now),
                       e);
    return store_end(s, rc, e);
}

static void take_id(sqlite3_stmt *q, struct arena *a, void *out)
{
    *(const char **)out = store_text(q, 0, a);
}

int store_loop_session_old(struct store *s, int64_t since, int64_t bare, struct arena *a,
                           const char **id, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(s,
                     first(s,
                           store_query(s, e,
                                       "SELECT id FROM loop_session s WHERE seen < ?1 OR (seen < "
                                       "?2 AND NOT EXISTS (SELECT 1 FROM loop_model WHERE session "
                                       "= s.id)) LIMIT 1",
                                       "ii", since, bare),
                           take_id, a, (void *)id, e),
                     e);
}

int store_loop_session_end(struct store *s, const char *id, const char *owner, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc =
        store_run(s,
                  store_query(s, e, "UPDATE loop_session SET seen = 0 WHERE id = ? AND owner = ?",
                              "tt", id, owner),
                  e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_NOT_FOUND, "there is no session of this id");
    return store_end(s, rc, e);
}

int store_loop_expire(struct store *s, int64_t before, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return store_end(s,
                     store_run(s,
                               store_query(s, e,
                                           "DELETE FROM loop_request WHERE kind = 6 AND state > 0 "
                                           "AND created < ?",
                                           "i", before),
                               e),
                     e);
}

int store_loop_open(struct store *s, struct arena *a, struct loop_request **out, size_t *n,
                    struct err *e)
{
    void *list;
    if (store_begin(s, e))
        return -1;
    int rc = all(s,
                 store_query(s, e,
                             "SELECT id, owner, line, seq, kind, place, state, NULL, NULL, created "
                             "FROM loop_request WHERE state = 0",
                             ""),
                 take_request, sizeof **out, a, &list, n, e);
    *out = list;
    return store_end(s, rc, e);
}

int store_loop_session_models(struct store *s, const char *id, struct arena *a,
                              struct loop_model **out, size_t *n, struct err *e)
{
    void *list;
    if (store_begin(s, e))
        return -1;
    int rc =
        all(s,
            store_query(s, e, "SELECT " MODEL " FROM loop_model WHERE ?1 IS NULL OR session = ?1",
                        "t", id),
            take_model, sizeof **out, a, &list, n, e);
    *out = list;
    return store_end(s, rc, e);
}

static int run_of(struct store *s, const char *sql, const char *id, struct err *e)
{
    return store_run(s, store_query(s, e, sql, "t", id), e);
}

int store_loop_session_drop(struct store *s, const char *id, struct err *e)
{
    static const char *const sql[] = {
        "DELETE FROM loop_request WHERE line IN (SELECT id FROM loop_model WHERE session = ?1 "
        "UNION SELECT id FROM loop_sampler WHERE session = ?1)",
        "DELETE FROM loop_weights WHERE is_named = 0 AND model IN (SELECT id FROM loop_model "
        "WHERE session = ?)",
        "DELETE FROM loop_sampler WHERE session = ?", "DELETE FROM loop_model WHERE session = ?",
        "DELETE FROM loop_session WHERE id = ?"};
    if (store_begin(s, e))
        return -1;
    int rc = 0;
    for (size_t i = 0; i < sizeof sql / sizeof *sql && !rc; i++)
        rc = run_of(s, sql[i], id, e);
    return store_end(s, rc, e);
}

/* ---- requests -------------------------------------------------------------------------------- */

static int put_model(struct store *s, const struct loop_model *m, const struct loop_most *most,
                     struct err *e)
{
    if (first(s,
              store_query(s, e,
                          "SELECT 1 FROM loop_session WHERE id = ? AND owner = ? AND seen > 0",
                          "tt", m->session, m->owner),
              NULL, NULL, NULL, e))
        return -1;
    int rc = store_run(
        s,
        store_query(s, e,
                    "INSERT OR IGNORE INTO loop_model SELECT ?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0, -1, "
                    "0, ?6, ?6 WHERE (SELECT count(*) FROM loop_model WHERE owner = ?2) < ?7",
                    "tttttii", m->id, m->owner, m->session, m->base, m->fingerprint, m->created,
                    most->models),
        e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_NO_SPACE, "this key has %lld models, and may have no more",
                     (long long)most->models);
    return rc;
}

static int has_line(struct store *s, const struct loop_request *r, struct err *e)
{
    return first(s,
                 store_query(s, e,
                             "SELECT 1 FROM loop_model WHERE id = ?1 AND owner = ?2 UNION SELECT 1 "
                             "FROM loop_sampler WHERE id = ?1 AND owner = ?2",
                             "tt", r->line, r->owner),
                 NULL, NULL, NULL, e);
}

static int has_room(struct store *s, const struct loop_request *r, const struct loop_most *most,
                    struct err *e)
{
    struct err none = ERR_INIT;
    int rc = first(s,
                   store_query(s, &none,
                               "SELECT 1 FROM (SELECT count(*) AS n, coalesce(sum(bytes), 0) AS b "
                               "FROM loop_request WHERE owner = ?1 AND state = 0) WHERE n < ?2 AND "
                               "b + ?3 <= ?4",
                               "tiii", r->owner, most->requests, (int64_t)r->n_body, most->bytes),
                   NULL, NULL, NULL, &none);
    return !rc ? 0
           : none.code == ERR_NOT_FOUND
               ? err_set(e, ERR_BUSY, "as many requests of this key wait as may")
               : err_set(e, none.code, "%s", none.msg);
}

#define OWNED                                                                                      \
    "coalesce((SELECT sum(bytes) FROM loop_weights WHERE owner = ?1), 0) + "                       \
    "coalesce((SELECT bytes FROM loop_sum WHERE owner = ?1), 0)"

static int has_bytes(struct store *s, const struct loop_request *r, const struct loop_most *most,
                     struct err *e)
{
    struct err none = ERR_INIT;
    int rc = most->stored ? first(s,
                                  store_query(s, &none, "SELECT 1 WHERE " OWNED " + ?2 <= ?3",
                                              "tii", r->owner, (int64_t)r->n_body, most->stored),
                                  NULL, NULL, NULL, &none)
                          : 0;
    return !rc ? 0
           : none.code == ERR_NOT_FOUND
               ? err_set(e, ERR_TOO_LARGE,
                         "what trainings of this key keep, passes since their last update "
                         "included, comes to more than the %lld bytes that it may have "
                         "(--files-quota)",
                         (long long)most->stored)
               : err_set(e, none.code, "%s", none.msg);
}

/* Of one that was asked for before: its model's next is past it, or its row is there. */
static int is_known(struct store *s, const struct loop_request *r, bool *is, struct err *e)
{
    struct err none = ERR_INIT;
    int rc = first(s,
                   store_query(s, &none,
                               "SELECT 1 FROM loop_request WHERE id = ?1 UNION SELECT 1 FROM "
                               "loop_model WHERE id = ?2 AND next > ?3",
                               "tti", r->id, r->line, r->seq),
                   NULL, NULL, NULL, &none);
    *is = !rc;
    return !rc || none.code == ERR_NOT_FOUND ? 0 : err_set(e, none.code, "%s", none.msg);
}

/* A request is a sign of its client, as a heartbeat is. */
static int see_line(struct store *s, const struct loop_request *r, struct err *e)
{
    return store_run(s,
                     store_query(s, e,
                                 "UPDATE loop_session SET seen = ?2 WHERE seen > 0 AND seen < ?2 - "
                                 "60 AND id IN (SELECT session FROM loop_model WHERE id = ?1 UNION "
                                 "SELECT session FROM loop_sampler WHERE id = ?1)",
                                 "ti", r->line, r->created),
                     e);
}

static int put(struct store *s, const struct loop_request *r, const struct loop_model *m,
               const struct loop_most *most, bool *is_new, struct err *e)
{
    const struct store_blob body = {r->body ? r->body : "", r->n_body};
    bool is;
    *is_new = false;
    if (is_known(s, r, &is, e) || is)
        return is ? has_line(s, r, e) : -1;
    if (has_room(s, r, most, e) || has_bytes(s, r, most, e) || (m && put_model(s, m, most, e)) ||
        has_line(s, r, e))
        return -1;
    *is_new = true;
    if (see_line(s, r, e))
        return -1;
    return store_run(s,
                     store_query(s, e,
                                 "INSERT INTO loop_request (id, owner, line, seq, kind, state, "
                                 "body, bytes, created) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)",
                                 "tttiibii", r->id, r->owner, r->line, r->seq, r->kind, &body,
                                 (int64_t)r->n_body, r->created),
                     e);
}

int store_loop_put(struct store *s, const struct loop_request *r, const struct loop_model *m,
                   const struct loop_most *most, bool *is_new, struct err *e)
{
    return store_begin(s, e) ? -1 : store_end(s, put(s, r, m, most, is_new, e), e);
}

static int get(struct store *s, sqlite3_stmt *q, take_fn *take, struct arena *a, void *out,
               struct err *e)
{
    return store_end(s, first(s, q, take, a, out, e), e);
}

int store_loop_get(struct store *s, const char *owner, const char *id, struct arena *a,
                   struct loop_request *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return get(s,
               store_query(s, e,
                           "SELECT id, owner, line, seq, kind, place, state, NULL, answer, created "
                           "FROM loop_request WHERE id = ? AND owner = ?",
                           "tt", id, owner),
               take_request, a, out, e);
}

int store_loop_next(struct store *s, const char *fingerprint, struct arena *a,
                    struct loop_request *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return get(
        s,
        store_query(
            s, e,
            "SELECT r.id, r.owner, r.line, r.seq, r.kind, r.place, r.state, r.body, "
            "NULL, r.created FROM loop_request r JOIN loop_model m ON m.id = r.line "
            "AND m.next = r.seq JOIN (SELECT owner, max(turn) AS turn FROM "
            "loop_model GROUP BY owner) k ON k.owner = m.owner WHERE r.state = 0 "
            "AND m.fingerprint = ? AND has_key(m.owner) ORDER BY k.turn, m.turn, r.place LIMIT 1",
            "t", fingerprint),
        take_request, a, out, e);
}

int store_loop_samples(struct store *s, const char *owner, int64_t behind, size_t most,
                       struct arena *a, struct loop_request **out, size_t *n, struct err *e)
{
    void *list;
    if (store_begin(s, e))
        return -1;
    int rc = all(s,
                 store_query(s, e,
                             "SELECT " REQUEST " FROM loop_request WHERE state = 0 AND kind = 6 "
                             "AND place > ? AND owner = ? ORDER BY place LIMIT ?",
                             "iti", behind, owner, (int64_t)most),
                 take_request, sizeof **out, a, &list, n, e);
    *out = list;
    return store_end(s, rc, e);
}

int store_loop_ran(struct store *s, const char *model, int64_t from, struct arena *a,
                   struct loop_request *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return get(s,
               store_query(s, e,
                           "SELECT " REQUEST " FROM loop_request WHERE line = ? AND seq >= ? AND "
                           "state > 0 ORDER BY seq LIMIT 1",
                           "ti", model, from),
               take_request, a, out, e);
}

int store_loop_model(struct store *s, const char *owner, const char *id, struct arena *a,
                     struct loop_model *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return get(s,
               store_query(s, e,
                           "SELECT " MODEL " FROM loop_model WHERE id = ?1 AND (?2 IS NULL OR "
                           "owner = ?2)",
                           "tt", id, owner),
               take_model, a, out, e);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static int put_weights(struct store *s, const struct loop_weights *w, struct err *e)
{
    return store_run(s,
                     store_query(s, e,
                                 "INSERT OR REPLACE INTO loop_weights (" WEIGHTS
                                 ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                 "ttttttiiiiiii", w->path, w->owner, w->model, w->dir, w->base,
                                 w->fingerprint, w->rank, w->parts, w->created, w->expires,
                                 (int64_t)w->is_sampler, (int64_t)w->is_named, w->bytes),
                     e);
}

static int put_sampler(struct store *s, const struct loop_sampler *m, struct err *e)
{
    return store_run(
        s,
        store_query(s, e, "INSERT OR IGNORE INTO loop_sampler (" SAMPLER ") VALUES (?, ?, ?, ?, ?)",
                    "tttti", m->id, m->owner, m->session, m->path, m->created),
        e);
}

static int put_end(struct store *s, const struct loop_end *end, struct err *e)
{
    const struct loop_request *r = end->request;
    const struct store_blob answer = {r->answer ? r->answer : "", r->n_answer};
    const struct loop_model *m = end->model;
    if (store_run(s,
                  store_query(s, e,
                              "UPDATE loop_request SET state = ?1, answer = ?2, created = ?3, body "
                              "= iif(?4, body, NULL), bytes = iif(?4, bytes, 0) + ?5 WHERE id = ?6",
                              "ibiiit", (int64_t)r->state, &answer, r->created,
                              (int64_t)end->runs_again, (int64_t)r->n_answer, r->id),
                  e) ||
        store_run(s,
                  store_query(s, e,
                              "UPDATE loop_model SET next = ?2 + 1, seen = ?3, turn = (SELECT "
                              "max(turn) + 1 FROM loop_model) WHERE id = ?1 AND next = ?2",
                              "tii", r->line, r->seq, r->created),
                  e))
        return -1;
    if (m && store_run(s,
                       store_query(s, e,
                                   "UPDATE loop_model SET rank = ?, seed = ?, parts = ? WHERE id = "
                                   "?",
                                   "iiit", m->rank, m->seed, m->parts, m->id),
                       e))
        return -1;
    return (end->weights && put_weights(s, end->weights, e)) ||
                   (end->sampler && put_sampler(s, end->sampler, e))
               ? -1
               : 0;
}

int store_loop_end(struct store *s, const struct loop_end *end, struct err *e)
{
    return store_begin(s, e) ? -1 : store_end(s, put_end(s, end, e), e);
}

int store_loop_keep(struct store *s, const char *model, int64_t seq, int64_t answers, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc =
        store_run(
            s, store_query(s, e, "UPDATE loop_model SET kept = ? WHERE id = ?", "it", seq, model),
            e) ||
                store_run(s,
                          store_query(s, e,
                                      "UPDATE loop_request SET body = NULL, bytes = "
                                      "coalesce(length(answer), 0) WHERE line = ? AND seq <= ? AND "
                                      "body IS NOT NULL AND state > 0",
                                      "ti", model, seq),
                          e) ||
                store_run(s,
                          store_query(s, e,
                                      "DELETE FROM loop_request WHERE line = ? AND seq < ? AND "
                                      "state > 0",
                                      "ti", model, seq - answers),
                          e)
            ? -1
            : 0;
    return store_end(s, rc, e);
}

/* ---- weights and samplers -------------------------------------------------------------------- */

int store_loop_weights(struct store *s, const char *owner, const char *path, struct arena *a,
                       struct loop_weights *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return get(s,
               store_query(s, e,
                           "SELECT " WEIGHTS " FROM loop_weights WHERE path = ? AND owner = ?",
                           "tt", path, owner),
               take_weights, a, out, e);
}

int store_loop_weights_drop(struct store *s, const char *owner, const char *path, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_run(s,
                       store_query(s, e, "DELETE FROM loop_weights WHERE path = ? AND owner = ?",
                                   "tt", path, owner),
                       e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_NOT_FOUND, "there are no weights of this path");
    return store_end(s, rc, e);
}

int store_loop_weights_list(struct store *s, const char *owner, const char *model, struct arena *a,
                            struct loop_weights **out, size_t *n, struct err *e)
{
    void *list;
    if (store_begin(s, e))
        return -1;
    int rc = all(s,
                 store_query(s, e,
                             "SELECT " WEIGHTS " FROM loop_weights WHERE (?1 IS NULL OR owner = "
                             "?1) AND (?2 IS NULL OR model = ?2) ORDER BY rowid DESC",
                             "tt", owner, model),
                 take_weights, sizeof **out, a, &list, n, e);
    *out = list;
    return store_end(s, rc, e);
}

int store_loop_weights_over(struct store *s, int64_t now, struct arena *a,
                            struct loop_weights **out, size_t *n, struct err *e)
{
    void *list;
    if (store_begin(s, e))
        return -1;
    int rc = all(s,
                 store_query(s, e,
                             "SELECT " WEIGHTS " FROM loop_weights WHERE expires > 0 AND expires "
                             "<= ?",
                             "i", now),
                 take_weights, sizeof **out, a, &list, n, e);
    *out = list;
    return store_end(s, rc, e);
}

static void take_int(sqlite3_stmt *q, struct arena *a, void *out)
{
    (void)a;
    *(int64_t *)out = sqlite3_column_int64(q, 0);
}

int store_loop_bytes(struct store *s, const char *owner, int64_t *bytes, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return get(s, store_query(s, e, "SELECT " OWNED, "t", owner), take_int, NULL, bytes, e);
}

/* Those of a training's own saving are as many as its requests. */
static int has_place(struct store *s, const struct loop_sampler *m, int64_t most, struct err *e)
{
    struct err none = ERR_INIT;
    int rc = first(s,
                   store_query(s, &none,
                               "SELECT 1 WHERE (SELECT count(*) FROM loop_sampler WHERE owner = "
                               "?1) < ?2 OR EXISTS (SELECT 1 FROM loop_sampler WHERE id = ?3)",
                               "tit", m->owner, most, m->id),
                   NULL, NULL, NULL, &none);
    return !rc ? 0
           : none.code == ERR_NOT_FOUND
               ? err_set(e, ERR_NO_SPACE, "this key has %lld samplers, and may have no more",
                         (long long)most)
               : err_set(e, none.code, "%s", none.msg);
}

int store_loop_sampler_add(struct store *s, const struct loop_sampler *m, int64_t most,
                           struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = first(s,
                   store_query(s, e,
                               "SELECT 1 FROM loop_session WHERE id = ? AND owner = ? AND seen > 0",
                               "tt", m->session, m->owner),
                   NULL, NULL, NULL, e);
    rc = rc || has_place(s, m, most, e) ? -1 : 0;
    return store_end(s, rc || put_sampler(s, m, e) ? -1 : 0, e);
}

int store_loop_sampler(struct store *s, const char *owner, const char *id, struct arena *a,
                       struct loop_sampler *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    return get(s,
               store_query(s, e, "SELECT " SAMPLER " FROM loop_sampler WHERE id = ? AND owner = ?",
                           "tt", id, owner),
               take_sampler, a, out, e);
}
