/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose a data directory is: only an empty folder becomes one, a store of an older version is
 * adopted, and what is lost, foreign or of another directory is refused and stays as it is.
 */
#include "tests/server/store/home.h"

#include <dirent.h>
#include <glob.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/data/data_dir.h"
#include "server/store/store_own.h"
#include "server/store/store_parts.h"

static const char *in_dir(const char *name)
{
    return test_path(dir, name);
}

static void put(const char *name, const char *text)
{
    test_put(in_dir(name), text, strlen(text));
}

static bool is_there(const char *name)
{
    struct stat st;
    return lstat(in_dir(name), &st) == 0;
}

static size_t n_entries(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void good(void)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    store_free(s);
}

static void refused(enum err_code code, const char *words)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    assert_err(s ? 0 : -1, &e, code, words);
    assert_null(s);
}

static void run_sql(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(in_dir("store.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void add_file(const char *id)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    struct file_row f = {.id = id,
                         .owner = "me",
                         .purpose = "fine-tune",
                         .name = "rows",
                         .sha256 = "00",
                         .bytes = 3};
    assert_good(store_file_add(s, &f, &e), &e);
    store_free(s);
}

/* Faults: a home folder that an option named by mistake becomes a data directory, or loses a file;
 * another program's database that gets our tables. */
static void foreign_folders_are_refused(void **state)
{
    (void)state;
    put("thesis.tex", "years of work");
    refused(ERR_EXISTS, "it holds 'thesis.tex'");
    refused(ERR_EXISTS, "tandem doctor --data-dir DIR --repair");
    assert_int_equal(n_entries(), 1);
    assert_int_equal(unlink(in_dir("thesis.tex")), 0);
    run_sql("CREATE TABLE bookmarks (url)");
    refused(ERR_EXISTS, "another program's");
    put("store.db", "not a database at all, but more than nothing");
    refused(ERR_EXISTS, "another program's, or damaged");
    assert_false(is_there(DATA_MARK));
    assert_int_equal(unlink(in_dir("store.db")), 0);
    unlink(in_dir("lock"));
    assert_int_equal(mkdir(in_dir("lost+found"), 0700), 0); /* as new volumes have it */
    good();
    assert_true(is_there(DATA_MARK));
    good();
}

/* Faults: a store of version 0.1 that is not known, or loses its rows; a mark that is lost and made
 * anew with another id. */
static void older_stores_are_adopted(void **state)
{
    struct err e = ERR_INIT;
    struct file_row f;
    (void)state;
    add_file("file-1");
    run_sql("DROP TABLE home; DROP TABLE shared; ALTER TABLE job DROP COLUMN fingerprint;"
            "ALTER TABLE job DROP COLUMN grader; ALTER TABLE job DROP COLUMN ancestor;"
            "ALTER TABLE job DROP COLUMN ancestor_digest;"
            "ALTER TABLE job DROP COLUMN response_format;"
            "DROP TRIGGER file_came; DROP TRIGGER file_went; DROP TABLE file_sum; "
            "DROP INDEX file_dropped; ALTER TABLE file DROP COLUMN is_dropped;"
            "ALTER TABLE tuned DROP COLUMN fingerprint;"
            "DROP TABLE response; DROP TABLE response_sum; DROP TABLE batch; "
            "DROP TABLE loop_session; DROP TABLE loop_model; DROP TABLE loop_request; "
            "DROP TABLE loop_weights; DROP TABLE loop_sampler; DROP TABLE loop_sum; "
            "DROP TABLE upload_part; DROP TABLE upload; DROP TABLE notice; "
            "PRAGMA user_version = 3");
    assert_int_equal(unlink(in_dir(DATA_MARK)), 0);
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    assert_good(store_file_get(s, "me", "file-1", &arena, &f, &e), &e);
    char id[DATA_ID_BYTES];
    snprintf(id, sizeof id, "%s", store_dir(s)->id);
    assert_true(strlen(id) > 20);
    store_free(s);
    assert_int_equal(unlink(in_dir(DATA_MARK)), 0);
    s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    assert_string_equal(store_dir(s)->id, id);
    store_free(s);
}

/* Faults: a store that is missing, empty, damaged or another directory's, and begun anew in
 * silence: the first sweep would take every file. */
static void lost_stores_are_not_begun_anew(void **state)
{
    (void)state;
    add_file("file-1");
    put("files/file-1", "abc");
    assert_int_equal(rename(in_dir("store.db"), in_dir("saved")), 0);
    refused(ERR_CORRUPT, "missing or empty beside 1 file; `tandem doctor");
    put("store.db", "");
    refused(ERR_CORRUPT, "missing or empty beside 1 file");
    put("store.db", "damaged, and longer than nothing");
    refused(ERR_CORRUPT, "damaged, or no database; `tandem doctor");
    assert_int_equal(rename(in_dir("saved"), in_dir("store.db")), 0);
    run_sql("UPDATE home SET id = 'dir-of-somebody-else'");
    refused(ERR_CORRUPT, "of another directory: its id is 'dir-of-somebody-else'");
    run_sql("DELETE FROM home");
    refused(ERR_CORRUPT, "of another directory");
    run_sql("DROP TABLE home; DROP TABLE shared; PRAGMA user_version = 3");
    refused(ERR_CORRUPT, "of another directory");
    assert_true(is_there("files/file-1"));
}

/* Fault: a first start that is killed behind its mark is refused for ever. */
static void killed_first_starts_begin_again(void **state)
{
    (void)state;
    good();
    assert_int_equal(unlink(in_dir("store.db")), 0);
    good();
    run_sql("DELETE FROM home");
    good();
    put("store.db", "");
    good();
}

/* Fault: a folder that is a link elsewhere, whose files would be swept there. */
static void linked_folders_are_refused(void **state)
{
    (void)state;
    good();
    assert_int_equal(mkdir(in_dir("elsewhere"), 0777), 0);
    put("elsewhere/file-2", "abc");
    assert_int_equal(rmdir(in_dir("files")), 0);
    assert_int_equal(symlink("elsewhere", in_dir("files")), 0);
    refused(ERR_BAD_INPUT, "files/ is a link, or no folder");
    assert_true(is_there("elsewhere/file-2"));
    assert_int_equal(unlink(in_dir("files")), 0);
    assert_int_equal(rename(in_dir("store.db"), in_dir("elsewhere/store.db")), 0);
    assert_int_equal(symlink("elsewhere/store.db", in_dir("store.db")), 0);
    refused(ERR_BAD_INPUT, "links are not followed");
}

/* Faults: a file nobody knows that is removed, or takes the place of another in lost+found; a link
 * that is followed; a half made file of ours that stays, or one of somebody else's that goes. */
static void only_ours_goes(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    const struct data_dir *d = store_dir(s);
    put("files/notes.txt", "mine");
    put("precious", "mine too");
    assert_int_equal(symlink("../precious", in_dir("files/link")), 0);
    assert_good(data_set_aside(d, DATA_FILES, "notes.txt", "test", &e), &e);
    put("files/notes.txt", "again");
    assert_good(data_set_aside(d, DATA_FILES, "notes.txt", "test", &e), &e);
    assert_true(is_there("lost+found/notes.txt") && is_there("lost+found/notes.txt.2"));
    assert_err(data_open(d, DATA_FILES, "link", &e), &e, ERR_BAD_INPUT, "is a link");
    assert_good(data_remove(d, DATA_FILES, "link", &e), &e);
    assert_true(is_there("precious") && is_there("lost+found/link"));
    put("files/file-abcdefghijklmnopqrstuvwx.tmp-012345", "half");
    put("files/file-list.tmp-012345", "mine");
    put("adapters/notes.tmp-012345", "mine");
    assert_good(data_dir_sweep(d, &e), &e);
    assert_false(is_there("files/file-abcdefghijklmnopqrstuvwx.tmp-012345"));
    assert_true(is_there("files/file-list.tmp-012345") && is_there("adapters/notes.tmp-012345"));
    assert_int_equal(mkdir(in_dir("checkpoints/ftjob-1"), 0777), 0);
    put("checkpoints/ftjob-1/rows.csv", "ours");
    put("checkpoints/ftjob-1/plan.txt", "mine");
    assert_good(data_remove_state(d, "ftjob-1", &e), &e);
    assert_true(is_there("lost+found/ftjob-1/plan.txt"));
    assert_good(data_remove_state(d, "ftjob-1", &e), &e);
    assert_int_equal(mkdir(in_dir("adapters/ftjob-1"), 0777), 0);
    put("adapters/ftjob-1/adapter_config.json", "mine");
    assert_good(data_remove_made(d, DATA_ADAPTERS, "ftjob-1", &e), &e);
    assert_true(is_there("lost+found/ftjob-1.2/adapter_config.json"));
    store_free(s);
}

/* Faults: a day without a copy, a copy each minute, more of them than are kept; somebody else's
 * file among them that goes. */
static void copies_are_kept(void **state)
{
    struct err e = ERR_INIT;
    struct stat st;
    (void)state;
    add_file("file-1");
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    char name[64];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "backups/store-202001%02dT000000Z.db", i + 1);
        put(name, "");
    }
    put("backups/notes.db", "mine");
    int64_t now = (int64_t)time(NULL);
    assert_good(store_back_up_daily(s, now, &e), &e);
    assert_int_equal(stat(in_dir("backups"), &st), 0);
    DIR *d = opendir(in_dir("backups"));
    int n = 0;
    while (readdir(d))
        n++;
    assert_int_equal(n - 2, 8 + 1);
    assert_false(is_there("backups/store-20200113T000000Z.db"));
    assert_true(is_there("backups/store-20200114T000000Z.db") && is_there("backups/notes.db"));
    assert_good(store_back_up_daily(s, now + 1000, &e), &e);
    rewinddir(d);
    for (n = 0; readdir(d); n++)
        continue;
    closedir(d);
    assert_int_equal(n - 2, 8 + 1);
    assert_true(is_there("backups/store-20200114T000000Z.db"));
    store_free(s);
}

/* Faults: a directory that was moved away under a server, and a call that says nothing of it, or
 * that there is nothing; one that is back, and refused still. */
static void a_directory_that_is_gone(void **state)
{
    struct err e = ERR_INIT;
    struct file_row file;
    struct job job;
    int64_t n;
    char away[512];
    (void)state;
    add_file("file-1");
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    const struct store_turn turn = {
        .states = ~0u, .fingerprint = "aa:bf16", .in_hand = "", .last = ""};
    snprintf(away, sizeof away, "%s-away", dir);
    assert_int_equal(rename(dir, away), 0);
    assert_err(store_file_get(s, "me", "file-1", &arena, &file, &e), &e, ERR_BUSY, "is gone");
    assert_err(store_file_count(s, "me", &n, &e), &e, ERR_BUSY, "is gone");
    assert_err(store_job_next(s, &turn, &arena, &job, &e), &e, ERR_BUSY, "is gone");
    assert_err(store_parts_count(s, "me", &n, &e), &e, ERR_BUSY, "is gone");
    assert_int_equal(rename(away, dir), 0);
    assert_good(store_file_get(s, "me", "file-1", &arena, &file, &e), &e);
    assert_good(store_file_count(s, "me", &n, &e), &e);
    assert_err(store_job_next(s, &turn, &arena, &job, &e), &e, ERR_NOT_FOUND, "");
    assert_good(store_parts_count(s, "me", &n, &e), &e);
    store_free(s);
}

/* Copies that hold something. */
static int count_copies(void)
{
    glob_t found;
    int n = 0;
    assert_int_equal(glob(in_dir("backups/store-*.db"), 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat st;
        n += stat(found.gl_pathv[i], &st) == 0 && st.st_size > 0;
    }
    globfree(&found);
    return n;
}

/* Faults: where a clock was ahead for some days, copies that go as the oldest as soon as they are
 * made, one each minute, or that are taken for older than they are. */
static void a_clock_that_was_ahead(void **state)
{
    struct err e = ERR_INIT;
    struct store_backups all;
    int64_t now = (int64_t)time(NULL), day = 24 * 60 * 60;
    (void)state;
    add_file("file-1");
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    for (int i = 0; i < 8; i++) {
        char name[64];
        snprintf(name, sizeof name, "backups/store-209901%02dT000000Z.db", i + 1);
        put(name, "");
    }
    for (int i = 0; i < 3; i++)
        assert_good(store_back_up_daily(s, now + 60 * i, &e), &e);
    assert_int_equal(count_copies(), 1);
    assert_good(store_back_up_daily(s, now + day + 60, &e), &e);
    assert_int_equal(count_copies(), 2);
    assert_good(store_backups(store_dir(s), &all, &e), &e);
    assert_string_equal(all.name[0], "store-20990108T000002Z.db");
    assert_false(is_there("backups/store-20990102T000000Z.db"));
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(foreign_folders_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(older_stores_are_adopted, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_stores_are_not_begun_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_first_starts_begin_again, setup, teardown),
        cmocka_unit_test_setup_teardown(linked_folders_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(only_ours_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clock_that_was_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_that_is_gone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
