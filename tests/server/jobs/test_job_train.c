/* SPDX-License-Identifier: Apache-2.0
 *
 * A job between its last step and its end.
 */
#include "tests/server/jobs/world.h"

#include <sqlite3.h>

static void run_sql(struct world *w, const char *sql)
{
    pthread_mutex_lock(&w->store->lock);
    int rc = sqlite3_exec(w->store->db, sql, NULL, NULL, NULL);
    pthread_mutex_unlock(&w->store->lock);
    assert_int_equal(rc, SQLITE_OK);
}

/* Fault: of a job that is killed between its last step and its end, which takes no step when it
 * goes on, a model that is told without the numbers of that step. */
static void killed_behind_the_last_step(void **state)
{
    struct world *w = *state;
    char sql[200];
    sqlite3_stmt *q;
    put_rows(w, "file-1", 12);
    snprintf(sql, sizeof sql,
             "CREATE TRIGGER halt BEFORE UPDATE ON job WHEN NEW.state IN (%d, %d) "
             "BEGIN SELECT RAISE(ABORT, 'killed'); END",
             JOB_SUCCEEDED, JOB_FAILED);
    run_sql(w, sql);
    put_job(w, "ftjob-cut", "file-1", 1);
    struct job j = wait_for(w, "ftjob-cut", ENDS, 12);
    assert_true(j.state == JOB_RUNNING && j.step == 12);
    jobs_free(w->jobs);
    run_sql(w, "DROP TRIGGER halt");
    store_free(w->store);
    jobs_begin(w);
    assert_int_equal(wait_for(w, "ftjob-cut", ENDS, 0).state, JOB_SUCCEEDED);
    assert_int_equal(sqlite3_prepare_v2(w->store->db,
                                        "SELECT metrics FROM tuned WHERE NOT is_checkpoint", -1, &q,
                                        NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    const char *metrics = (const char *)sqlite3_column_text(q, 0);
    assert_non_null(metrics);
    assert_non_null(strstr(metrics, "\"step\":12"));
    sqlite3_finalize(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_behind_the_last_step, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
