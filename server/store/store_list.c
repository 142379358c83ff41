/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of lists, and what deletions leave for them: a client that deletes what it has just been
 * told goes on behind it, and so does one whose last thing went since its time was over or others
 * took its room. So the places of things that are gone are kept, of each owner the newest KEPT, and
 * some more until they are looked through.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/vec.h"
#include "server/store/store_own.h"

enum { SQL_BYTES = 1024, KEPT = 10000, TRIM_BITS = 6 };

/* 1: the first column of the only row; 0: there is none. */
static int one_place(struct store *s, sqlite3_stmt *q, int64_t *place, struct err *e)
{
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1)
        *place = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return row;
}

/* The place behind which the page begins. */
static int find_place(struct store *s, const struct store_list *l, const struct store_page *page,
                      int64_t *place, struct err *e)
{
    char sql[SQL_BYTES];
    *place = page->ascending ? 0 : INT64_MAX;
    if (!page->after)
        return 0;
    snprintf(sql, sizeof sql, "SELECT seq FROM %s WHERE %s AND id = ?3", l->table, l->where);
    int row =
        one_place(s, store_query(s, e, sql, "ttt", l->of[0], l->of[1], page->after), place, e);
    if (row == 0)
        row = one_place(s,
                        store_query(s, e,
                                    "SELECT place FROM gone WHERE list = ? AND id = ? AND "
                                    "(?3 IS NULL OR owner = ?3)",
                                    "ttt", l->table, page->after, l->of[0]),
                        place, e);
    if (row == 0)
        return err_set(e, ERR_BAD_INPUT,
                       "'after' is the id of the last thing of the page before; this list never "
                       "had '%.64s'",
                       page->after);
    return row < 0 ? -1 : 0;
}

/* The things of q's rows in the arena, of which there may be one more than the page has. */
static void *read_rows(struct store *s, const struct store_list *l, sqlite3_stmt *q, int64_t limit,
                       struct arena *a, size_t *n, bool *more, struct err *e)
{
    VEC(char) list = {0};
    void *out = NULL;
    int row;
    *n = 0;
    *more = false;
    while ((row = store_row(s, q, e)) == 1) {
        *more = (int64_t)*n == limit;
        if (*more)
            break;
        vec_reserve(&list, (*n + 1) * l->size);
        if (l->take(q, a, list.at + *n * l->size, e)) {
            row = -1;
            break;
        }
        ++*n;
    }
    if (row >= 0) {
        out = arena_alloc(a, (*n + 1) * l->size);
        if (*n)
            memcpy(out, list.at, *n * l->size);
    }
    vec_release(&list);
    return out;
}

void *store_list(struct store *s, const struct store_list *l, const struct store_page *page,
                 struct arena *a, size_t *n, bool *more, struct err *e)
{
    char sql[SQL_BYTES];
    int64_t place;
    void *out = NULL;
    if (store_begin(s, e))
        return NULL;
    if (!find_place(s, l, page, &place, e)) {
        snprintf(sql, sizeof sql,
                 "SELECT %s FROM %s WHERE %s AND seq %c ?3 ORDER BY seq %s LIMIT ?4", l->columns,
                 l->table, l->where, page->ascending ? '>' : '<', page->ascending ? "ASC" : "DESC");
        sqlite3_stmt *q =
            store_query(s, e, sql, "ttii", l->of[0], l->of[1], place, page->limit + 1);
        out = q ? read_rows(s, l, q, page->limit, a, n, more, e) : NULL;
        sqlite3_finalize(q);
    }
    return store_end(s, out ? 0 : -1, e) ? NULL : out;
}

int store_trim_places(struct store *s, const char *owner, struct err *e)
{
    return store_run(s,
                     store_query(s, e,
                                 "DELETE FROM gone WHERE owner = ?1 AND seq <= (SELECT seq FROM "
                                 "gone WHERE owner = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
                                 "ti", owner, (int64_t)KEPT),
                     e);
}

/* One place in 64, by no pattern that two owners' turns could have: to find the KEPTth takes as
 * long as all else that a deletion does. */
static bool is_time_to_trim(int64_t place)
{
    return (uint64_t)place * 0x9e3779b97f4a7c15u >> (64 - TRIM_BITS) == 0;
}

int store_keep_place(struct store *s, const char *table, const char *key, const char *owner,
                     const char *value, struct err *e)
{
    char keep[SQL_BYTES];
    snprintf(keep, sizeof keep,
             "INSERT INTO gone (list, owner, id, place) SELECT '%s', owner, id, seq FROM %s "
             "WHERE owner = ? AND %s = ?",
             table, table, key);
    if (store_run(s, store_query(s, e, keep, "tt", owner, value), e))
        return -1;
    return is_time_to_trim(sqlite3_last_insert_rowid(s->db)) ? store_trim_places(s, owner, e) : 0;
}

int store_drop(struct store *s, const char *table, const char *key, const char *owner,
               const char *value, struct err *e)
{
    char drop[SQL_BYTES];
    if (store_begin(s, e))
        return -1;
    snprintf(drop, sizeof drop, "DELETE FROM %s WHERE owner = ? AND %s = ?", table, key);
    int rc = store_keep_place(s, table, key, owner, value, e);
    if (!rc)
        rc = store_run(s, store_query(s, e, drop, "tt", owner, value), e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_NOT_FOUND, "no such %s", table);
    return store_end(s, rc, e);
}
