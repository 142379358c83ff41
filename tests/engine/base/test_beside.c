/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults: a file beside the program that is not found, one that is found although it is not there,
 * a search that goes by the current folder.
 */
#include "tests/lib/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/beside.h"

/* This program lies in build/MODE/tests/engine/base. */
static void above(void **state)
{
    char *path = beside_find("tests/engine/base/test_beside", "nothing");
    (void)state;
    assert_non_null(path);
    assert_int_equal(access(path, X_OK), 0);
    free(path);
}

static void from_its_own_folder(void **state)
{
    char *path = beside_find("no/such/file", "../base/test_beside");
    (void)state;
    assert_non_null(path);
    assert_non_null(strstr(path, "/../base/test_beside"));
    free(path);
    path = beside_find("test_beside", "../base/test_beside");
    assert_null(strstr(path, "/../"));
    free(path);
}

static int mkdir_in(const char *dir)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/only-here", dir);
    return mkdir(path, 0700);
}

static void not_by_the_current_folder(void **state)
{
    char here[PATH_MAX], *dir = test_dir_new();
    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    assert_null(beside_find("no/such/file", "../no/such/file"));
    assert_int_equal(mkdir_in(dir), 0);
    assert_int_equal(chdir(dir), 0);
    assert_null(beside_find("only-here", "only-here"));
    assert_int_equal(chdir(here), 0);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(above),
                                       cmocka_unit_test(from_its_own_folder),
                                       cmocka_unit_test(not_by_the_current_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
