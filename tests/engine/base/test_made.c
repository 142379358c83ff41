/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders that the program made: what it lists it may remove, and nothing else; what was altered is
 * named.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/made.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = test_dir_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_dir_free(dir);
    return 0;
}

static const char *in_dir(const char *name)
{
    return test_path(dir, name);
}

static void put(const char *name, const char *text)
{
    test_put(in_dir(name), text, strlen(text));
}

static void make(void)
{
    struct err e = ERR_INIT;
    assert_int_equal(mkdir(in_dir("m"), 0777), 0);
    put("m/a", "one");
    put("m/b b", "two");
    assert_good(made_list(in_dir("m"), &e), &e);
}

/* Faults: an altered, cut or missing file that passes; a list that somebody wrote anew. */
static void altered_files_are_named(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    make();
    assert_good(made_check(in_dir("m"), &e), &e);
    put("m/b b", "tWo");
    assert_err(made_check(in_dir("m"), &e), &e, ERR_CORRUPT, "b b is not as it was written");
    assert_int_equal(unlink(in_dir("m/b b")), 0);
    assert_err(made_check(in_dir("m"), &e), &e, ERR_CORRUPT, "b b");
    put("m/b b", "two");
    assert_good(made_check(in_dir("m"), &e), &e);
    put("m/" MADE_LIST, "# made by tandem\nnothing\n");
    assert_err(made_check(in_dir("m"), &e), &e, ERR_CORRUPT, MADE_LIST);
    put("m/" MADE_LIST, "");
    assert_err(made_check(in_dir("m"), &e), &e, ERR_CORRUPT, MADE_LIST);
    assert_int_equal(unlink(in_dir("m/" MADE_LIST)), 0);
    assert_err(made_check(in_dir("m"), &e), &e, ERR_NOT_FOUND, MADE_LIST);
}

/* Faults: a file of somebody else's, or a folder of one, that goes with ours; a list that names
 * what lies outside; a link that leads out. */
static void only_ours_is_removed(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    make();
    put("outside", "x");
    put("m/notes", "not ours");
    assert_err(made_may_remove(in_dir("m"), &e), &e, ERR_EXISTS, "'notes'");
    assert_err(made_remove(in_dir("m"), &e), &e, ERR_EXISTS, "'notes'");
    assert_int_equal(access(in_dir("m/a"), F_OK), 0);
    assert_int_equal(unlink(in_dir("m/notes")), 0);
    assert_int_equal(symlink("m", in_dir("link")), 0);
    assert_err(made_remove(in_dir("link"), &e), &e, ERR_EXISTS, "no folder");
    assert_good(made_may_remove(in_dir("m"), &e), &e);
    assert_good(made_remove(in_dir("m"), &e), &e);
    assert_int_equal(access(in_dir("m"), F_OK), -1);
    assert_good(made_remove(in_dir("m"), &e), &e);
    assert_int_equal(mkdir(in_dir("m"), 0777), 0);
    put("m/a", "one");
    assert_err(made_remove(in_dir("m"), &e), &e, ERR_EXISTS, "no list");
    put("m/" MADE_LIST, "# made by tandem\n"
                        "0000000000000000000000000000000000000000000000000000000000000000  "
                        "../outside\n");
    assert_err(made_remove(in_dir("m"), &e), &e, ERR_EXISTS, "no list");
    assert_int_equal(access(in_dir("outside"), F_OK), 0);
    assert_int_equal(access(in_dir("m/a"), F_OK), 0);
}

/* Faults: a folder's files that are not checked, or not removed; one of somebody else's in it that
 * goes with ours, or a link in its place that leads out. */
static void folders_are_ours_too(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_int_equal(mkdir(in_dir("m"), 0777), 0);
    assert_int_equal(mkdir(in_dir("m/1_Pooling"), 0777), 0);
    put("m/a", "one");
    put("m/1_Pooling/config.json", "{}");
    assert_good(made_list(in_dir("m"), &e), &e);
    assert_good(made_check(in_dir("m"), &e), &e);
    put("m/1_Pooling/config.json", "{ }");
    assert_err(made_check(in_dir("m"), &e), &e, ERR_CORRUPT, "1_Pooling/config.json");
    put("m/1_Pooling/config.json", "{}");
    put("m/1_Pooling/notes", "not ours");
    assert_err(made_remove(in_dir("m"), &e), &e, ERR_EXISTS, "1_Pooling/notes");
    assert_int_equal(unlink(in_dir("m/1_Pooling/notes")), 0);
    assert_int_equal(rename(in_dir("m/1_Pooling"), in_dir("outside")), 0);
    assert_int_equal(symlink("../outside", in_dir("m/1_Pooling")), 0);
    assert_int_equal(made_check(in_dir("m"), &e), -1);
    assert_err(made_remove(in_dir("m"), &e), &e, ERR_EXISTS, "1_Pooling");
    assert_int_equal(access(in_dir("outside/config.json"), F_OK), 0);
    assert_int_equal(unlink(in_dir("m/1_Pooling")), 0);
    assert_int_equal(rename(in_dir("outside"), in_dir("m/1_Pooling")), 0);
    assert_good(made_remove(in_dir("m"), &e), &e);
    assert_int_equal(access(in_dir("m"), F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test_setup_teardown(altered_files_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(only_ours_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(folders_are_ours_too, setup, teardown),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
