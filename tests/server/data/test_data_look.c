/* SPDX-License-Identifier: Apache-2.0
 *
 * What a folder is by what lies in it.
 */
#include "server/data/data_dir.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/engine/load/st_make.h"
#include "tests/lib/test.h"

static void expect(const char *dir, enum data_kind want, const char *words)
{
    struct err e = ERR_INIT;
    char id[DATA_ID_BYTES], said[DATA_LOOK_BYTES];
    enum data_kind kind;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    assert_good(data_look(fd, &kind, id, said, &e), &e);
    close(fd);
    assert_int_equal(kind, want);
    assert_string_equal(said, words);
}

/* Faults: what somebody was about to write is taken for what a start of ours left, and the folder
 * for nobody's; such a leftover, a lock or what a file system keeps makes a folder somebody's. */
static void leftovers_are_ours_by_both_halves(void **state)
{
    (void)state;
    char *dir = test_dir_new();
    expect(dir, DATA_EMPTY, "");
    put_file(dir, DATA_MARK ".tmp-01cdef", "x", 1);
    put_file(dir, "lock", "", 0);
    put_file(dir, "lost+found", "", 0);
    expect(dir, DATA_EMPTY, "");
    put_file(dir, "thesis.txt.tmp-01cdef", "x", 1);
    expect(dir, DATA_FOREIGN, "'thesis.txt.tmp-01cdef'");
    test_dir_free(dir);
    dir = test_dir_new();
    put_file(dir, DATA_MARK ".old", "x", 1);
    expect(dir, DATA_FOREIGN, "'" DATA_MARK ".old'");
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leftovers_are_ours_by_both_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
