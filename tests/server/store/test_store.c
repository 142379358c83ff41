/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: what it has acknowledged stands, whoever is killed; states move only from where they
 * may; lists page without gaps while others are added; owners do not see each other.
 */
#include "tests/server/store/home.h"

#include <glob.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/data/data_dir.h"
#include "server/store/store.h"

static struct store *open_store(void)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    return s;
}

static struct file_row file_of(const char *id, const char *owner)
{
    return (struct file_row){.id = id,
                             .owner = owner,
                             .purpose = "fine-tune",
                             .name = "rows'); DROP TABLE file;--",
                             .sha256 = "00",
                             .bytes = 10,
                             .created = 5};
}

static struct job job_of(const char *id, const char *owner)
{
    return (struct job){.id = id,
                        .owner = owner,
                        .model = "m",
                        .training_file = "file-1",
                        .hyper = {.n_epochs = 3, .lr_multiplier = 0.1},
                        .result_files = "[]",
                        .state = JOB_QUEUED,
                        .created = 100,
                        .seed = 2147483647,
                        .trained_tokens = -1};
}

/* Faults: a name that is read as SQL, an owner who sees another's files, a page that skips. */
static void files(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct file_row got, *list;
    size_t n;
    bool more;
    int64_t bytes;
    char id[STORE_ID_BYTES];
    bool held;
    (void)state;
    for (int i = 0; i < 7; i++) {
        snprintf(id, sizeof id, "file-%d", i);
        struct file_row f = file_of(id, i % 2 ? "odd" : "even");
        assert_good(store_file_add(s, &f, &e), &e);
    }
    struct file_row again = file_of("file-1", "odd");
    assert_err(store_file_add(s, &again, &e), &e, ERR_EXISTS, "file");
    assert_good(store_file_get(s, "odd", "file-3", &arena, &got, &e), &e);
    assert_string_equal(got.name, "rows'); DROP TABLE file;--");
    assert_err(store_file_get(s, "even", "file-3", &arena, &got, &e), &e, ERR_NOT_FOUND, "file-3");
    assert_good(store_file_bytes(s, "even", &bytes, &e), &e);
    assert_int_equal(bytes, 40);
    struct store_page page = {.limit = 3};
    assert_good(store_file_list(s, "even", NULL, &page, &arena, &list, &n, &more, &e), &e);
    assert_true(n == 3 && more);
    assert_string_equal(list[0].id, "file-6");
    page.after = list[2].id;
    assert_good(store_file_list(s, "even", NULL, &page, &arena, &list, &n, &more, &e), &e);
    assert_true(n == 1 && !more);
    page = (struct store_page){.limit = 4, .ascending = true};
    assert_good(store_file_list(s, "even", "fine-tune", &page, &arena, &list, &n, &more, &e), &e);
    assert_true(n == 4 && !more); /* exactly as many as asked: no more */
    assert_string_equal(list[0].id, "file-0");
    assert_good(store_file_list(s, "even", "batch", &page, &arena, &list, &n, &more, &e), &e);
    assert_int_equal(n, 0);
    assert_good(store_file_drop(s, "even", "file-0", &held, &e), &e);
    assert_err(store_file_drop(s, "even", "file-0", &held, &e), &e, ERR_NOT_FOUND, "file-0");
    store_free(s);
}

/* Faults: an unknown `after` that begins again, so that a client reads a list for ever; a thing
 * that is deleted between two pages and takes its place with it; a place of another's, or of
 * another list. */
static void places(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct file_row *list;
    struct job_tuned *models;
    size_t n;
    bool more;
    bool held;
    (void)state;
    for (int i = 0; i < 6; i++) {
        char id[STORE_ID_BYTES];
        snprintf(id, sizeof id, "file-%d", i);
        struct file_row f = file_of(id, i < 5 ? "me" : "you");
        assert_good(store_file_add(s, &f, &e), &e);
    }
    assert_good(store_file_drop(s, "me", "file-2", &held, &e), &e);
    struct store_page page = {.limit = 2, .after = "file-2"};
    assert_good(store_file_list(s, "me", NULL, &page, &arena, &list, &n, &more, &e), &e);
    assert_true(n == 2 && !more);
    assert_string_equal(list[0].id, "file-1");
    page.ascending = true;
    assert_good(store_file_list(s, "me", NULL, &page, &arena, &list, &n, &more, &e), &e);
    assert_string_equal(list[0].id, "file-3");
    static const char *const strange[] = {"file-5", "file-9", ""};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        page.after = strange[i];
        assert_err(store_file_list(s, "me", NULL, &page, &arena, &list, &n, &more, &e), &e,
                   ERR_BAD_INPUT, "never had");
    }
    page.after = "file-2";
    assert_err(store_file_list(s, "you", NULL, &page, &arena, &list, &n, &more, &e), &e,
               ERR_BAD_INPUT, "never had");
    assert_err(store_tuned_list(s, "me", NULL, &page, &arena, &models, &n, &more, &e), &e,
               ERR_BAD_INPUT, "never had");
    store_free(s);
}

/* The job whose turn it is, of all states. */
static int next_of(struct store *s, const char *fingerprint, const char *in_hand, const char *last,
                   struct job *out, struct err *e)
{
    const struct store_turn t = {
        .states = ~0u, .fingerprint = fingerprint, .in_hand = in_hand, .last = last};
    return store_job_next(s, &t, &arena, out, e);
}

/* Faults: a state that jumps, an event without its change or a change without its event. */
static void jobs(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct job j = job_of("ftjob-1", "me"), got, found;
    struct job_event v = {.id = "ev-1", .level = "info", .type = "message", .message = "went"};
    struct job_event *list;
    size_t n;
    bool more;
    (void)state;
    assert_good(store_job_add(s, &j, NULL, NULL, "", 0, &arena, &found, &e), &e);
    assert_null(found.id);
    j.state = JOB_RUNNING;
    j.step = 3;
    assert_good(store_job_move(s, &j, 1u << JOB_QUEUED, &v, &e), &e);
    assert_err(store_job_move(s, &j, 1u << JOB_QUEUED, NULL, &e), &e, ERR_BUSY, "another state");
    j.state = JOB_FAILED;
    j.error_code = "x";
    assert_err(store_job_move(s, &j, 1u << JOB_RUNNING, &v, &e), &e, ERR_EXISTS, "event");
    assert_good(store_job_get(s, "me", "ftjob-1", &arena, &got, &e), &e);
    assert_int_equal(got.state, JOB_RUNNING); /* the event failed, so nothing moved */
    assert_int_equal(got.step, 3);
    assert_int_equal(got.seed, 2147483647);
    assert_null(got.error_code);
    assert_good(next_of(s, "f:bf16", "", "", &got, &e), &e);
    assert_string_equal(got.id, "ftjob-1");
    for (int i = 2; i < 6; i++) {
        char id[16];
        snprintf(id, sizeof id, "ev-%d", i);
        v.id = id;
        assert_good(store_event_add(s, "ftjob-1", &v, &e), &e);
    }
    struct store_page page = {.limit = 2, .after = "ev-4"};
    assert_good(store_event_list(s, "ftjob-1", &page, &arena, &list, &n, &more, &e), &e);
    assert_true(n == 2 && more);
    assert_string_equal(list[0].id, "ev-3");
    page = (struct store_page){.limit = 9, .after = "ev-4", .ascending = true};
    assert_good(store_event_list(s, "ftjob-1", &page, &arena, &list, &n, &more, &e), &e);
    assert_true(n == 1 && !more);
    v.id = "ev-none";
    assert_err(store_event_add(s, "ftjob-none", &v, &e), &e, ERR_EXISTS, "FOREIGN KEY");
    store_free(s);
}

static void is_ancestor(struct store *s, const char *owner, const char *name, bool want)
{
    struct err e = ERR_INIT;
    bool is;
    assert_good(store_tuned_is_ancestor(s, owner, name, &is, &e), &e);
    assert_int_equal(is, want);
}

/* Fault: a checkpoint is dropped that a job of its owner waits to go on from; or kept for ever. */
static void ancestors(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct job j = job_of("ftjob-1", "me"), found;
    (void)state;
    j.ancestor = "ft:a";
    j.ancestor_digest = "0";
    assert_good(store_job_add(s, &j, NULL, NULL, "", 0, &arena, &found, &e), &e);
    is_ancestor(s, "me", "ft:a", true);
    is_ancestor(s, "me", "ft:b", false);
    is_ancestor(s, "you", "ft:a", false);
    j.state = JOB_CANCELLED;
    assert_good(store_job_move(s, &j, 1u << JOB_QUEUED, NULL, &e), &e);
    is_ancestor(s, "me", "ft:a", false);
    store_free(s);
}

/* Faults: a creation sent twice that makes two jobs; a key used for something else. */
static void repeated_creation(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct job a = job_of("ftjob-a", "me"), b = job_of("ftjob-b", "me"), found;
    (void)state;
    assert_good(store_job_add(s, &a, NULL, "key", "body", 600, &arena, &found, &e), &e);
    assert_good(store_job_add(s, &b, NULL, "key", "body", 600, &arena, &found, &e), &e);
    assert_string_equal(found.id, "ftjob-a");
    assert_err(store_job_add(s, &b, NULL, "key", "other", 600, &arena, &found, &e), &e, ERR_EXISTS,
               "another request");
    b.owner = "you";
    assert_good(store_job_add(s, &b, NULL, "key", "other", 600, &arena, &found, &e), &e);
    assert_null(found.id);
    struct job late = job_of("ftjob-c", "me");
    late.created = 100 + 601;
    assert_good(store_job_add(s, &late, NULL, "key", "body", 600, &arena, &found, &e), &e);
    assert_null(found.id);
    store_free(s);
}

static void two_servers(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    (void)state;
    struct store *other = store_new(dir, &e);
    assert_null(other);
    assert_int_equal(e.code, ERR_BUSY);
    store_free(s);
    store_free(open_store());
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

/* Faults: a file that is taken from a job that has not ended; one that is still shown, or never
 * goes; a page that ends at one that was dropped. */
static void held_files(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct file_row f = file_of("file-1", "me"), other = file_of("file-2", "me"), got, *list;
    struct job found, j = job_of("ftjob-1", "me");
    struct store_page page = {.limit = 9, .after = "file-1", .ascending = true};
    int64_t bytes;
    bool held, has, more;
    size_t n;
    (void)state;
    assert_good(store_file_add(s, &f, &e), &e);
    assert_good(store_file_add(s, &other, &e), &e);
    assert_good(store_job_add(s, &j, NULL, NULL, "", 0, &arena, &found, &e), &e);
    assert_good(store_file_drop(s, "me", "file-1", &held, &e), &e);
    assert_true(held);
    assert_err(store_file_get(s, "me", "file-1", &arena, &got, &e), &e, ERR_NOT_FOUND, "file-1");
    assert_err(store_file_drop(s, "me", "file-1", &held, &e), &e, ERR_NOT_FOUND, "file-1");
    assert_good(store_file_list(s, "me", NULL, &page, &arena, &list, &n, &more, &e), &e);
    assert_int_equal(n, 1);
    assert_good(store_file_get_held(s, "me", "file-1", &arena, &got, &e), &e);
    assert_good(store_file_has(s, "file-1", &has, &e), &e);
    assert_true(has);
    assert_err(store_file_let_go(s, &arena, &got, &e), &e, ERR_NOT_FOUND, "dropped");
    assert_good(store_file_bytes(s, "me", &bytes, &e), &e);
    assert_int_equal(bytes, 20);
    j.state = JOB_CANCELLED;
    assert_good(store_job_move(s, &j, 1u << JOB_QUEUED, NULL, &e), &e);
    assert_good(store_file_let_go(s, &arena, &got, &e), &e);
    assert_string_equal(got.id, "file-1");
    assert_err(store_file_let_go(s, &arena, &got, &e), &e, ERR_NOT_FOUND, "dropped");
    assert_good(store_file_drop(s, "me", "file-2", &held, &e), &e);
    assert_false(held);
    store_free(s);
}

static void assert_next(struct store *s, const char *fingerprint, const char *id, size_t n_strange)
{
    struct err e = ERR_INIT;
    struct job got, *list;
    size_t n;
    int rc = next_of(s, fingerprint, "", "", &got, &e);
    if (id) {
        assert_good(rc, &e);
        assert_string_equal(got.id, id);
    } else {
        assert_err(rc, &e, ERR_NOT_FOUND, "no such job");
    }
    assert_good(store_job_strange(s, fingerprint, &arena, &list, &n, &e), &e);
    assert_int_equal(n, n_strange);
}

/* Faults: a job that runs over another base, or over its own packed otherwise once a step of it was
 * taken; one that ran before and is not looked at; rows without a base that are anybody's. */
static void bases(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct job found, one = job_of("ftjob-1", "me"), two = job_of("ftjob-2", "me"),
                      none = job_of("ftjob-3", "me");
    int64_t n;
    (void)state;
    one.fingerprint = "aa:bf16";
    two.fingerprint = "bb:bf16";
    two.step = 2;
    none.model = "other";
    assert_good(store_job_add(s, &one, NULL, NULL, "", 0, &arena, &found, &e), &e);
    assert_good(store_job_add(s, &two, NULL, NULL, "", 0, &arena, &found, &e), &e);
    assert_good(store_job_add(s, &none, NULL, NULL, "", 0, &arena, &found, &e), &e);
    assert_next(s, "aa:bf16", "ftjob-1", 2);
    assert_err(next_of(s, "aa:bf16", "ftjob-0 ftjob-1 ", "", &found, &e), &e, ERR_NOT_FOUND,
               "no such job");
    assert_next(s, "aa:int8", "ftjob-1", 2);
    assert_next(s, "bb:bf16", "ftjob-2", 2);
    assert_next(s, "bb:int8", NULL, 3);
    assert_next(s, "a:bf16", NULL, 3);
    assert_good(store_adopt(s, "m", "cc:f32", &n, &e), &e);
    assert_int_equal(n, 0);
    assert_good(store_adopt(s, "other", "cc:f32", &n, &e), &e);
    assert_int_equal(n, 1);
    assert_next(s, "cc:f32", "ftjob-3", 2);
    two.state = JOB_RUNNING;
    assert_good(store_job_move(s, &two, 1u << JOB_QUEUED, NULL, &e), &e);
    assert_next(s, "aa:bf16", "ftjob-2", 1);
    store_free(s);
}

static void assert_turn(struct store *s, const char *in_hand, const char *last, const char *id)
{
    struct err e = ERR_INIT;
    struct job got;
    assert_good(next_of(s, "f:bf16", in_hand, last, &got, &e), &e);
    assert_string_equal(got.id, id);
}

/* Faults: a key whose many jobs keep out another's first; one that has a second job at work while
 * another has none; a key that is passed over in its turn; a job that ran when its server died and
 * waits for one that did not. */
static void keys_take_turns(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    static const struct {
        const char *id, *owner;
    } row[] = {{"ftjob-a1", "ann"}, {"ftjob-a2", "ann"}, {"ftjob-a3", "ann"},
               {"ftjob-b1", "bob"}, {"ftjob-b2", "bob"}, {"ftjob-c1", "cyd"}};
    struct job found, j;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        j = job_of(row[i].id, row[i].owner);
        j.fingerprint = "f:bf16";
        assert_good(store_job_add(s, &j, NULL, NULL, "", 0, &arena, &found, &e), &e);
    }
    assert_turn(s, "", "", "ftjob-a1");
    assert_turn(s, "", "ann", "ftjob-b1");
    assert_turn(s, "", "bob", "ftjob-c1");
    assert_turn(s, "", "bud", "ftjob-c1");
    assert_turn(s, "", "cyd", "ftjob-a1");
    assert_turn(s, "ftjob-a1 ", "cyd", "ftjob-b1");
    assert_turn(s, "ftjob-a1 ftjob-b1 ftjob-c1 ", "ann", "ftjob-b2");
    assert_turn(s, "ftjob-a1 ftjob-b1 ftjob-b2 ", "ann", "ftjob-c1");
    assert_turn(s, "ftjob-a1 ftjob-b1 ftjob-b2 ftjob-c1 ", "ann", "ftjob-a2");
    assert_turn(s, "ftjob-b1 ftjob-b2 ftjob-c1 ", "ann", "ftjob-a1");
    j = job_of("ftjob-a3", "ann");
    j.state = JOB_RUNNING;
    assert_good(store_job_move(s, &j, 1u << JOB_QUEUED, NULL, &e), &e);
    assert_turn(s, "ftjob-a1 ", "ann", "ftjob-a3");
    store_free(s);
}

/* Faults: damage that is served; a newer program's data that an older one writes over. */
static void strange_databases(void **state)
{
    struct err e = ERR_INIT;
    char path[512];
    (void)state;
    store_free(open_store());
    run_sql("PRAGMA user_version = 99");
    assert_null(store_new(dir, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    snprintf(path, sizeof path, "%s/store.db", dir);
    FILE *f = fopen(path, "r+b");
    fseek(f, 100, SEEK_SET);
    for (int i = 0; i < 20000; i++)
        fputc(i * 7, f);
    fclose(f);
    assert_null(store_new(dir, &e));
    assert_int_equal(e.code, ERR_CORRUPT);
}

/* Faults: a database of an older form that is changed without a copy, or loses rows by it. */
static void older_form(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct file_row f = file_of("file-1", "me"), got;
    char path[512];
    sqlite3 *db;
    bool held;
    int64_t bytes;
    (void)state;
    assert_good(store_file_add(s, &f, &e), &e);
    store_free(s);
    run_sql(
        "ALTER TABLE tuned DROP COLUMN is_full; DROP TABLE gone; DROP TABLE home; DROP TABLE shared;"
        "ALTER TABLE tuned DROP COLUMN fingerprint; ALTER TABLE job DROP COLUMN fingerprint; "
        "DROP TRIGGER file_came; DROP TRIGGER file_went; DROP TABLE file_sum; "
        "DROP INDEX file_dropped; ALTER TABLE file DROP COLUMN is_dropped; ALTER TABLE job DROP COLUMN grader; "
        "DROP TABLE response; DROP TABLE response_sum; DROP TABLE batch; "
        "DROP TABLE loop_session; DROP TABLE loop_model; DROP TABLE loop_request; "
        "DROP TABLE loop_weights; DROP TABLE loop_sampler; DROP TABLE loop_sum; "
        "DROP TABLE upload_part; DROP TABLE upload; DROP TABLE notice; "
        "ALTER TABLE job DROP COLUMN ancestor; ALTER TABLE job DROP COLUMN ancestor_digest; "
        "ALTER TABLE job DROP COLUMN response_format; PRAGMA user_version = 1");
    snprintf(path, sizeof path, "%s/" DATA_MARK, dir);
    assert_int_equal(unlink(path), 0); /* older ones have none */
    s = open_store();
    assert_good(store_file_get(s, "me", "file-1", &arena, &got, &e), &e);
    assert_good(store_file_bytes(s, "me", &bytes, &e), &e);
    assert_int_equal(bytes, f.bytes);
    assert_good(store_file_drop(s, "me", "file-1", &held, &e), &e);
    assert_good(store_file_bytes(s, "me", &bytes, &e), &e);
    assert_int_equal(bytes, 0);
    store_free(s);
    glob_t found;
    snprintf(path, sizeof path, "%s/backups/store-*.db", dir);
    assert_int_equal(glob(path, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    globfree(&found);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "SELECT seq FROM gone", NULL, NULL, NULL), SQLITE_ERROR);
    sqlite3_close(db);
}

/* Adds events and says so on a pipe, until it is killed. */
static void add_until_killed(int out, int round)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    for (int i = 0; s; i++) {
        char id[32];
        struct job_event v = {.id = id, .level = "info", .type = "message", .message = "m"};
        snprintf(id, sizeof id, "ev-%d-%d", round, i);
        if (store_event_add(s, "ftjob-1", &v, &e) || write(out, id, sizeof id) != sizeof id)
            break;
    }
    _exit(1);
}

static bool has_event(struct store *s, const char *id)
{
    struct job_event *list;
    struct store_page page = {.limit = 1 << 20};
    struct err e = ERR_INIT;
    size_t n;
    bool more;
    assert_good(store_event_list(s, "ftjob-1", &page, &arena, &list, &n, &more, &e), &e);
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].id, id) == 0)
            return true;
    return false;
}

/* Faults: an acknowledged event that a kill takes back; a database that a kill damages. */
static void killed_while_writing(void **state)
{
    struct store *s = open_store();
    struct err e = ERR_INIT;
    struct job j = job_of("ftjob-1", "me"), found;
    (void)state;
    assert_good(store_job_add(s, &j, NULL, NULL, "", 0, &arena, &found, &e), &e);
    store_free(s);
    for (int round = 0; round < 20; round++) {
        char id[32], last[32] = "";
        int p[2];
        assert_int_equal(pipe(p), 0);
        pid_t child = fork();
        if (child == 0)
            add_until_killed(p[1], round);
        close(p[1]);
        usleep(3000 + (unsigned)(round * 7919 % 20) * 1000);
        kill(child, SIGKILL);
        while (read(p[0], id, sizeof id) == sizeof id)
            memcpy(last, id, sizeof id);
        waitpid(child, NULL, 0);
        close(p[0]);
        s = open_store(); /* checks its integrity */
        if (*last && !has_event(s, last))
            fail_msg("round %d: %s was acknowledged and is not there", round, last);
        store_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files, setup, teardown),
        cmocka_unit_test_setup_teardown(places, setup, teardown),
        cmocka_unit_test_setup_teardown(jobs, setup, teardown),
        cmocka_unit_test_setup_teardown(ancestors, setup, teardown),
        cmocka_unit_test_setup_teardown(repeated_creation, setup, teardown),
        cmocka_unit_test_setup_teardown(two_servers, setup, teardown),
        cmocka_unit_test_setup_teardown(strange_databases, setup, teardown),
        cmocka_unit_test_setup_teardown(held_files, setup, teardown),
        cmocka_unit_test_setup_teardown(bases, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(older_form, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_while_writing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
