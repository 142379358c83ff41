/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of kept chats while chats go: for want of room, since their time is over, or deleted.
 * Catches: a client that walks through the list and is refused in the middle, or sent back to the
 * begin, since the chat that it was told last is gone; one owner's deletions that take another's
 * places; an expiry that takes what is not over, or all of many at once.
 */
#include "tests/server/store/home.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "server/store/store_response.h"

enum { QUOTA = 50, BYTES = 10 };

static struct store *open_store(void)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    return s;
}

static void run_sql(const char *sql)
{
    char path[512];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/store.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void add(struct store *s, const char *owner, const char *id, int64_t expires, int64_t quota)
{
    struct err e = ERR_INIT;
    const struct response_row r = {.kind = RESPONSE_CHAT,
                                   .id = id,
                                   .owner = owner,
                                   .model = "m",
                                   .input = "[]",
                                   .body = "{}",
                                   .bytes = BYTES,
                                   .expires = expires};
    assert_good(store_response_add(s, &r, quota, &e), &e);
}

/* The ids behind `after`. */
static void assert_behind(struct store *s, const char *owner, const char *after, bool ascending,
                          const char *want)
{
    const struct store_page page = {.after = after, .limit = 9, .ascending = ascending};
    struct response_row *r;
    struct err e = ERR_INIT;
    char got[256] = "";
    size_t n;
    bool more;
    assert_good(store_response_list(s, owner, RESPONSE_CHAT, &page, &arena, &r, &n, &more, &e), &e);
    for (size_t i = 0; i < n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s ", r[i].id);
    assert_string_equal(got, want);
}

static void evicted_ones_keep_their_place(void **state)
{
    static const char *const id[] = {"a", "b", "c", "d", "e", "f", "g"};
    struct store *s = open_store();
    (void)state;
    for (size_t i = 0; i < sizeof id / sizeof *id; i++)
        add(s, "me", id[i], 100, QUOTA);
    assert_behind(s, "me", NULL, true, "c d e f g ");
    assert_behind(s, "me", "a", true, "c d e f g ");
    assert_behind(s, "me", "b", true, "c d e f g ");
    assert_behind(s, "me", "b", false, "");
    store_free(s);
}

static void metadata_that_takes_room_leaves_places(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    (void)state;
    add(s, "me", "a", 100, QUOTA);
    add(s, "me", "b", 100, QUOTA);
    add(s, "me", "c", 100, QUOTA);
    assert_good(store_response_mark(s, "me", RESPONSE_CHAT, "a", "{\"a\":\"0123456789012345678\"}",
                                    QUOTA, &e),
                &e);
    assert_behind(s, "me", NULL, true, "a c ");
    assert_behind(s, "me", "b", true, "c ");
    assert_behind(s, "me", "b", false, "a ");
    store_free(s);
}

static int64_t expire_all(struct store *s, int64_t now)
{
    struct err e = ERR_INIT;
    bool more = true;
    int64_t n = 0;
    for (; more; n++)
        assert_good(store_response_expire(s, now, &more, &e), &e);
    return n;
}

static void expired_ones_keep_their_place(void **state)
{
    struct store *s = open_store();
    (void)state;
    add(s, "me", "a", 10, 1000);
    add(s, "you", "x", 10, 1000);
    add(s, "me", "b", 20, 1000);
    add(s, "me", "c", 10, 1000);
    add(s, "me", "d", 11, 1000);
    expire_all(s, 10);
    assert_behind(s, "me", NULL, true, "b d ");
    assert_behind(s, "me", "a", true, "b d ");
    assert_behind(s, "me", "c", true, "d ");
    assert_behind(s, "me", "c", false, "b ");
    assert_behind(s, "you", "x", true, "");
    store_free(s);
}

/* Fault: one transaction for all, for which everybody waits who wants the store. */
static void many_expire_in_parts(void **state)
{
    (void)state;
    store_free(open_store());
    run_sql(
        "WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 999) INSERT INTO "
        "response (id, owner, input, body, bytes, created, expires, kind) SELECT 'chat-' || i, "
        "CASE i % 2 WHEN 1 THEN 'me' ELSE 'you' END, '[]', '{}', 1, 0, 10, 1 FROM k");
    struct store *s = open_store();
    assert_in_range(expire_all(s, 10), 4, 999);
    assert_behind(s, "me", NULL, true, "");
    assert_behind(s, "me", "chat-1", true, "");
    store_free(s);
}

static void drop(struct store *s, const char *owner, const char *id)
{
    struct err e = ERR_INIT;
    assert_good(store_response_drop(s, owner, RESPONSE_CHAT, id, &e), &e);
}

static void places_are_their_owners(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    const struct store_page page = {.after = "old", .limit = 9};
    struct response_row *r;
    size_t n;
    bool more;
    (void)state;
    add(s, "me", "mine", 100, 1000);
    add(s, "me", "next", 100, 1000);
    add(s, "you", "old", 100, 1000);
    add(s, "you", "new", 100, 1000);
    drop(s, "me", "mine");
    drop(s, "you", "old");
    store_free(s);
    run_sql(
        "WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 20000) "
        "INSERT INTO gone (list, owner, id, place) SELECT 'response', 'you', 'g' || i, i FROM k");
    s = open_store();
    drop(s, "you", "new");
    int rc = 0;
    for (int i = 0; i < 1000 && !rc; i++) { /* places are looked through once in some deletions */
        add(s, "you", "last", 100, 1000);
        drop(s, "you", "last");
        rc = store_response_list(s, "you", RESPONSE_CHAT, &page, &arena, &r, &n, &more, &e);
    }
    assert_behind(s, "me", "mine", true, "next ");
    assert_behind(s, "you", "new", true, "");
    assert_err(rc, &e, ERR_BAD_INPUT, "never had");
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(evicted_ones_keep_their_place, setup, teardown),
        cmocka_unit_test_setup_teardown(metadata_that_takes_room_leaves_places, setup, teardown),
        cmocka_unit_test_setup_teardown(expired_ones_keep_their_place, setup, teardown),
        cmocka_unit_test_setup_teardown(many_expire_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(places_are_their_owners, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
