/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of jobs that ended. Catches: an end without one, or one without an end; one that comes
 * when nobody wants any; one that is told too soon, too often, or is lost when the store is closed.
 */
#include "tests/server/store/home.h"

#include <string.h>

#include "server/store/store_notice.h"

static int n_came;

static void came(void *ctx)
{
    (void)ctx;
    n_came++;
}

static struct store *open_store(bool wants)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    if (wants)
        store_notices_begin(s, came, NULL);
    return s;
}

static void add(struct store *s, const char *id)
{
    struct err e = ERR_INIT;
    struct job found;
    const struct job j = {.id = id,
                          .owner = "me",
                          .model = "m",
                          .training_file = "file-1",
                          .result_files = "[]",
                          .state = JOB_QUEUED};
    assert_good(store_job_add(s, &j, NULL, NULL, "", 0, &arena, &found, &e), &e);
}

static int move(struct store *s, const char *id, enum job_state from, enum job_state to,
                int64_t finished, struct err *e)
{
    const struct job j = {.id = id, .result_files = "[]", .state = to, .finished = finished};
    return store_job_move(s, &j, 1u << from, NULL, e);
}

static void assert_next(struct store *s, const char *job, enum job_state state,
                        struct notice_row *out)
{
    struct err e = ERR_INIT;
    assert_good(store_notice_next(s, &arena, out, &e), &e);
    assert_string_equal(out->job, job);
    assert_int_equal(out->state, state);
    assert_memory_equal(out->id, "evt_", 4);
}

static void ends_leave_notices(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct notice_row n;
    struct store *s = open_store(true);
    add(s, "a");
    add(s, "b");
    add(s, "c");
    assert_good(move(s, "a", JOB_QUEUED, JOB_RUNNING, 0, &e), &e);
    assert_err(move(s, "b", JOB_RUNNING, JOB_SUCCEEDED, 5, &e), &e, ERR_BUSY, "another state");
    assert_err(store_notice_next(s, &arena, &n, &e), &e, ERR_NOT_FOUND, "notice");
    assert_int_equal(n_came, 0);
    assert_good(move(s, "a", JOB_RUNNING, JOB_SUCCEEDED, 7, &e), &e);
    assert_good(move(s, "b", JOB_QUEUED, JOB_CANCELLED, 8, &e), &e);
    assert_int_equal(n_came, 2);
    assert_next(s, "a", JOB_SUCCEEDED, &n);
    assert_true(n.created == 7 && n.tries == 0);
    n.tries = 1;
    n.due = 99;
    assert_good(store_notice_later(s, &n, &e), &e);
    store_free(s);

    s = open_store(false); /* nobody wants any: those that are there stay */
    assert_good(move(s, "c", JOB_QUEUED, JOB_FAILED, 9, &e), &e);
    assert_next(s, "b", JOB_CANCELLED, &n);
    assert_good(store_notice_drop(s, n.id, &e), &e);
    assert_next(s, "a", JOB_SUCCEEDED, &n);
    assert_true(n.tries == 1 && n.due == 99);
    assert_good(store_notice_drop(s, n.id, &e), &e);
    assert_err(store_notice_next(s, &arena, &n, &e), &e, ERR_NOT_FOUND, "notice");
    assert_int_equal(n_came, 2);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ends_leave_notices, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
