/* SPDX-License-Identifier: Apache-2.0
 *
 * What the store looks at for those who ask often, beside many rows that are none of their
 * business: others' files, answers that are in no list, batches that ended, files whose time comes
 * later. Counted in instructions of SQLite's machine. Catches: a question that goes through all
 * rows, while everybody waits for the store.
 */
#include "tests/server/store/home.h"

#include <sqlite3.h>
#include <stdio.h>

#include "server/store/store_batch.h"
#include "server/store/store_own.h"
#include "server/store/store_parts.h"
#include "server/store/store_response.h"

enum { N_ROW = 20000, COUNTED = 100, MOST = 100 };

#define MANY "WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 20000) "

static int64_t n_counted;

static int count(void *ctx)
{
    (void)ctx;
    n_counted++;
    return 0;
}

static struct store *open_store(void)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    return s;
}

static void put_many(struct store *s, const char *sql)
{
    assert_int_equal(sqlite3_exec(s->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void begin(struct store *s)
{
    n_counted = 0;
    sqlite3_progress_handler(s->db, COUNTED, count, NULL);
}

/* In hundreds of instructions, of which each row takes several. */
static void assert_few(struct store *s)
{
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    assert_in_range(n_counted, 0, N_ROW / 4 / COUNTED);
}

static void files(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    const struct store_page page = {.limit = 10};
    struct file_row *f;
    size_t n;
    bool more;
    int64_t bytes;
    (void)state;
    put_many(s, MANY
             "INSERT INTO file (id, owner, purpose, name, sha256, bytes, created, expires) "
             "SELECT 'file-' || i, iif(i % 2, 'you', 'me'), 'user_data', 'a', '', 3, 0, 0 FROM k");
    for (int i = 0; i < 2; i++) {
        begin(s);
        assert_good(store_file_list(s, i ? "me" : "nobody", i ? "batch" : NULL, &page, &arena, &f,
                                    &n, &more, &e),
                    &e);
        assert_few(s);
        assert_true(n == 0 && !more);
    }
    begin(s); /* with each upload */
    assert_good(store_file_bytes(s, "me", &bytes, &e), &e);
    assert_few(s);
    assert_int_equal(bytes, N_ROW / 2 * 3);
    const struct file_row row = {
        .id = "file-a", .owner = "me", .purpose = "batch", .name = "a", .sha256 = "", .bytes = 5};
    for (int i = 0; i < 2; i++) { /* the second time it is there: a server was killed between */
        assert_good(store_begin(s, &e), &e);
        assert_good(store_end(s, store_put_file(s, "INSERT OR IGNORE", &row, &e), &e), &e);
        assert_good(store_file_bytes(s, "me", &bytes, &e), &e);
        assert_int_equal(bytes, N_ROW / 2 * 3 + 5);
    }
    store_free(s);
}

/* Who deletes all that there is pays for each thing, not for all that went before. */
static void deletions(void **state)
{
    enum { N_DROP = 64 };
    struct store *s = open_store();
    struct err e = ERR_INIT;
    (void)state;
    put_many(s, MANY "INSERT INTO file (id, owner, purpose, name, sha256, bytes, created, expires) "
                     "SELECT 'file-' || i, 'me', 'user_data', 'a', '', 3, 0, 0 FROM k");
    put_many(s, MANY "INSERT INTO gone (list, owner, id, place) SELECT 'file', 'me', 'f' || i, i "
                     "FROM k LIMIT 10000");
    begin(s);
    for (int i = 1; i <= N_DROP; i++) {
        char id[32];
        bool held;
        snprintf(id, sizeof id, "file-%d", i);
        assert_good(store_file_drop(s, "me", id, &held, &e), &e);
    }
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    assert_in_range(n_counted, 0, N_DROP * N_ROW / 20 / COUNTED);
    store_free(s);
}

/* Each minute, and again for each file that is found. */
static void house(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct file_row f;
    struct parts p;
    bool more;
    (void)state;
    put_many(s, MANY
             "INSERT INTO file (id, owner, purpose, name, sha256, bytes, created, expires) "
             "SELECT 'file-' || i, 'me', 'user_data', 'a', '', 0, 0, iif(i % 2, 0, 100) FROM k");
    put_many(s, MANY "INSERT INTO upload (id, owner, purpose, name, mime, bytes, created, expires, "
                     "keep_s, state) SELECT 'upload_' || i, 'me', 'batch', 'a', '', 0, 0, 100, 0, "
                     "0 FROM k");
    begin(s);
    assert_err(store_file_expired(s, 99, &arena, &f, &e), &e, ERR_NOT_FOUND, "expired");
    assert_err(store_file_let_go(s, &arena, &f, &e), &e, ERR_NOT_FOUND, "dropped");
    assert_int_not_equal(store_parts_expired(s, 99, &arena, &p, &e), 0);
    e = (struct err)ERR_INIT;
    assert_good(store_response_expire(s, 99, &more, &e), &e);
    assert_few(s);
    assert_good(store_file_expired(s, 100, &arena, &f, &e), &e);
    store_free(s);
}

static void chats(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    const struct store_page page = {.limit = 10, .ascending = true};
    struct response_row *r;
    size_t n;
    bool more;
    (void)state;
    put_many(s,
             MANY "INSERT INTO response (id, owner, input, body, bytes, created, expires) SELECT "
                  "'resp_' || i, 'me', '', '', 1, 0, 9 FROM k");
    begin(s);
    assert_good(store_response_list(s, "me", RESPONSE_CHAT, &page, &arena, &r, &n, &more, &e), &e);
    assert_few(s);
    assert_true(n == 0 && !more);
    store_free(s);
}

static void batches(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    const struct batch b = {.id = "batch_open",
                            .owner = "me",
                            .endpoint = "/v1/completions",
                            .input_file = "file-1",
                            .state = BATCH_IN_PROGRESS,
                            .expires = 100};
    struct batch *found;
    size_t n;
    int64_t n_open;
    char sql[1024];
    (void)state;
    snprintf(sql, sizeof sql,
             MANY
             "INSERT INTO batch (id, owner, endpoint, input_file, state, created, in_progress, "
             "finalizing, completed, failed, expired, cancelling, cancelled, expires, keep_s, "
             "n_line, n_good, n_bad, tok_in, tok_cached, tok_out, tok_thoughts) SELECT "
             "'batch_' || i, 'me', 'x', 'y', %d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 "
             "FROM k",
             BATCH_COMPLETED);
    put_many(s, sql);
    assert_good(store_batch_add(s, &b, NULL, NULL, INT64_MAX, &e), &e);
    begin(s);
    assert_good(store_batch_open(s, 1, MOST, &arena, &found, &n, &e), &e);
    assert_good(store_batch_count(s, "me", &n_open, &e), &e);
    assert_few(s);
    assert_true(n == 1 && n_open == 1);
    assert_string_equal(found->id, "batch_open");
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files, setup, teardown),
        cmocka_unit_test_setup_teardown(deletions, setup, teardown),
        cmocka_unit_test_setup_teardown(house, setup, teardown),
        cmocka_unit_test_setup_teardown(chats, setup, teardown),
        cmocka_unit_test_setup_teardown(batches, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
