/* SPDX-License-Identifier: Apache-2.0
 *
 * Which batches are to be worked on. Catches: one that is to be validated, cancelled or expired,
 * and waits until the batches of others have ended; one that is said twice; an owner with two
 * turns; rows of an owner without end, or one of another's, or that has not ended, that goes for
 * them; a page that goes on behind one that went; one that cannot be looked for, taken for none.
 */
#include "tests/server/store/home.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "server/store/store_batch.h"
#include "server/store/store_own.h"

enum { MOST = 3, OWNERS = 5, LATER = 100, KEPT = 8 };

static void add(struct store *s, const char *owner, const char *id, enum batch_state state,
                int64_t expires)
{
    struct err e = ERR_INIT;
    const struct batch b = {.id = id,
                            .owner = owner,
                            .endpoint = "/v1/completions",
                            .input_file = "file-1",
                            .state = state,
                            .expires = expires};
    assert_good(store_batch_add(s, &b, NULL, NULL, KEPT, &e), &e);
}

static void assert_open(struct store *s, int64_t now, const char *want)
{
    struct err e = ERR_INIT;
    struct batch *b;
    char got[256] = "";
    size_t n;
    assert_good(store_batch_open(s, now, MOST, &arena, &b, &n, &e), &e);
    for (size_t i = 0; i < n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s ", b[i].id);
    assert_string_equal(got, want);
}

static void open_ones(void **state)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    char id[OWNERS][2][16];
    (void)state;
    assert_good(s ? 0 : -1, &e);
    for (int i = 0; i < OWNERS; i++)
        for (int k = 0; k < 2; k++) {
            snprintf(id[i][k], sizeof id[i][k], "b%d%c", i, 'a' + k);
            add(s, arena_printf(&arena, "owner-%d", i), id[i][k], BATCH_IN_PROGRESS, LATER);
        }
    assert_open(s, 1, "b0a b1a b2a ");
    add(s, "owner-0", "new", BATCH_VALIDATING, LATER);
    add(s, "owner-9", "left", BATCH_CANCELLING, LATER);
    add(s, "owner-9", "late", BATCH_IN_PROGRESS, 1);
    add(s, "owner-9", "more", BATCH_VALIDATING, LATER);
    assert_open(s, 1, "new left late b0a b1a b2a ");
    assert_open(s, LATER, "b0a b0b b1a ");
    store_free(s);
}

static void old_ones_go(void **state)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    struct store_page page = {.limit = 2 * KEPT, .after = "a1", .ascending = true};
    struct batch *b;
    size_t n;
    bool more;
    (void)state;
    assert_good(s ? 0 : -1, &e);
    add(s, "bob", "b", BATCH_COMPLETED, LATER);
    add(s, "ann", "a0", BATCH_IN_PROGRESS, LATER);
    for (int i = 1; i < KEPT + 3; i++)
        add(s, "ann", arena_printf(&arena, "a%d", i), BATCH_COMPLETED, LATER);
    assert_good(store_batch_list(s, "ann", &page, &arena, &b, &n, &more, &e), &e);
    assert_int_equal(n, KEPT - 1);
    assert_string_equal(b[0].id, "a4");
    page.after = NULL;
    assert_good(store_batch_list(s, "ann", &page, &arena, &b, &n, &more, &e), &e);
    assert_int_equal(n, KEPT);
    assert_string_equal(b[0].id, "a0");
    assert_good(store_batch_list(s, "bob", &page, &arena, &b, &n, &more, &e), &e);
    assert_int_equal(n, 1);
    store_free(s);
}

static int fails_at(void *ctx, int act, const char *table, const char *b, const char *c,
                    const char *d)
{
    (void)b, (void)c, (void)d;
    return act == SQLITE_READ && strcmp(table, ctx) == 0 ? SQLITE_DENY : SQLITE_OK;
}

/* Whoever sweeps a folder asks so, and what is no batch's goes. */
static void one_that_cannot_be_looked_for(void **state)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    char table[] = "batch";
    bool has;
    (void)state;
    assert_good(s ? 0 : -1, &e);
    add(s, "ann", "a", BATCH_COMPLETED, LATER);
    assert_good(store_batch_has(s, "a", &has, &e), &e);
    assert_true(has);
    sqlite3_set_authorizer(s->db, fails_at, table);
    assert_int_equal(store_batch_has(s, "a", &has, &e), -1);
    sqlite3_set_authorizer(s->db, NULL, NULL);
    e = (struct err)ERR_INIT;
    assert_good(store_batch_has(s, "b", &has, &e), &e);
    assert_false(has);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(open_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(old_ones_go, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_looked_for, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
