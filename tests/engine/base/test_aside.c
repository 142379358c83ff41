/* SPDX-License-Identifier: Apache-2.0
 *
 * Files written aside: the old one or the new one, and nothing else left behind.
 */
#include "tests/lib/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"

static char *dir, path[512];

static int setup(void **state)
{
    (void)state;
    dir = test_dir_new();
    snprintf(path, sizeof path, "%s/file", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_dir_free(dir);
    return 0;
}

static void assert_file(const char *want)
{
    struct buf b;
    struct err e = ERR_INIT;
    buf_init(&b, 1 << 20);
    assert_good(fs_read(path, &b, &e), &e);
    assert_string_equal(b.data, want);
    buf_release(&b);
}

static int n_entry(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* Faults: the new bytes seen before the commit; a name of its own left behind; a file that only
 * its owner can read. */
static void commit_replaces(void **state)
{
    (void)state;
    struct aside a;
    struct stat st;
    struct err e = ERR_INIT;
    assert_good(aside_put(path, "old", 3, &e), &e);
    assert_good(aside_init(&a, path, &e), &e);
    assert_good(aside_reserve(&a, 6, &e), &e);
    assert_good(aside_write(&a, "new ", 4, &e), &e);
    assert_good(aside_write(&a, "er", 2, &e), &e);
    assert_file("old");
    assert_int_equal(a.n_bytes, 6);
    assert_good(aside_commit(&a, &e), &e);
    aside_release(&a);
    assert_file("new er");
    assert_int_equal(n_entry(), 1);
    mode_t mask = umask(022);
    assert_good(aside_put(path, "x", 1, &e), &e);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
}

/* Fault: what was not committed replaces what is there, or stays on the disk. */
static void release_leaves_the_old(void **state)
{
    (void)state;
    struct aside a;
    struct err e = ERR_INIT;
    assert_good(aside_put(path, "old", 3, &e), &e);
    assert_good(aside_init(&a, path, &e), &e);
    assert_good(aside_write(&a, "new", 3, &e), &e);
    aside_release(&a);
    assert_file("old");
    assert_int_equal(n_entry(), 1);
}

/* Fault: a write that fails half-way (here by a limit on file sizes) is taken for done. */
static void failed_write_is_told(void **state)
{
    (void)state;
    struct rlimit before, small;
    struct err e = ERR_INIT;
    char *big = calloc(1, 100000);
    assert_good(aside_put(path, "old", 3, &e), &e);
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = 5000, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = aside_put(path, big, 100000, &e);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_err(rc, &e, ERR_NO_SPACE, "file");
    assert_file("old");
    assert_int_equal(n_entry(), 1);
    free(big);
}

/* Fault: an open that failed cannot be released, or does not name the file. */
static void missing_folder(void **state)
{
    (void)state;
    struct aside a;
    struct err e = ERR_INIT;
    assert_err(aside_init(&a, "/nonexistent/x", &e), &e, ERR_NOT_FOUND, "/nonexistent/x");
    aside_release(&a);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(commit_replaces),
        cmocka_unit_test(release_leaves_the_old),
        cmocka_unit_test(failed_write_is_told),
        cmocka_unit_test(missing_folder),
    };
    return cmocka_run_group_tests(test, setup, teardown);
}
