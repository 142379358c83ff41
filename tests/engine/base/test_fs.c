/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and folders in a scratch folder.
 */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/fs.h"

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

/* Faults: a ceiling off by one byte; an error without the name; a folder read as an empty file. */
static void read_has_a_ceiling(void **state)
{
    (void)state;
    struct buf b;
    struct err e = ERR_INIT;
    test_put(in_dir("f"), "hello", 5);
    for (size_t max = 3; max < 8; max++) {
        buf_init(&b, max);
        if (max < 5) {
            assert_err(fs_read(in_dir("f"), &b, &e), &e, ERR_TOO_LARGE, "/f: more than");
        } else {
            assert_good(fs_read(in_dir("f"), &b, &e), &e);
            assert_string_equal(b.data, "hello");
        }
        buf_release(&b);
    }
    buf_init(&b, 100);
    assert_err(fs_read(in_dir("none"), &b, &e), &e, ERR_NOT_FOUND, "/none: No such file");
    assert_err(fs_read(dir, &b, &e), &e, ERR_BAD_INPUT, "is a folder");
    test_put(in_dir("empty"), "", 0);
    assert_good(fs_read(in_dir("empty"), &b, &e), &e);
    assert_int_equal(b.len, 0);
    buf_release(&b);
}

/* Fault: a file that has no size before it is read (of /proc, a pipe) comes out empty or cut. */
static void read_of_unknown_size(void **state)
{
    (void)state;
    struct buf b;
    struct err e = ERR_INIT;
    buf_init(&b, 1 << 20);
    assert_good(fs_read("/proc/self/status", &b, &e), &e);
    assert_true(b.len > 100);
    assert_non_null(strstr(b.data, "Threads:"));
    buf_release(&b);
}

/* Faults: a level left out; a folder there already is an error; a file in the way is none. */
static void mkdirs_makes_all_levels(void **state)
{
    (void)state;
    struct stat st;
    struct err e = ERR_INIT;
    assert_good(fs_mkdirs(in_dir("a/b//c/"), &e), &e);
    assert_int_equal(stat(in_dir("a/b/c"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_good(fs_mkdirs(in_dir("a/b/c"), &e), &e);
    assert_good(fs_mkdirs("/", &e), &e);
    test_put(in_dir("file"), "", 0);
    assert_err(fs_mkdirs(in_dir("file"), &e), &e, ERR_EXISTS, "something else");
    assert_int_equal(fs_mkdirs(in_dir("file/x"), &e), -1);
    assert_err(fs_mkdirs("", &e), &e, ERR_NOT_FOUND, "");
}

/* Fault: a rename that fails is not told, or names only one side. */
static void rename_and_remove(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    test_put(in_dir("r1"), "x", 1);
    fs_mkdirs(in_dir("sub"), NULL);
    assert_good(fs_rename(in_dir("r1"), in_dir("sub/r2"), &e), &e);
    assert_int_equal(access(in_dir("sub/r2"), F_OK), 0);
    assert_err(fs_rename(in_dir("r1"), in_dir("r3"), &e), &e, ERR_NOT_FOUND, "/r1 to ");
    assert_good(fs_remove(in_dir("sub/r2"), &e), &e);
    assert_good(fs_remove(in_dir("sub/r2"), &e), &e);
    assert_int_equal(fs_remove(in_dir("sub"), &e), -1);
    assert_int_equal(symlink(in_dir("file"), in_dir("sub/link")), 0);
    test_put(in_dir("file"), "", 0);
    assert_good(fs_remove_tree(in_dir("sub"), &e), &e);
    assert_int_equal(access(in_dir("sub"), F_OK), -1);
    assert_int_equal(access(in_dir("file"), F_OK), 0); /* links are not followed */
    assert_good(fs_remove_tree(in_dir("sub"), &e), &e);
}

/* Faults: links that are followed, folders of folders without end, a name that begins with a dot.
 */
static void bytes_of_a_folder(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_good(fs_mkdirs(in_dir("sum/sub/deep"), &e), &e);
    test_put(in_dir("sum/a"), "12345", 5);
    test_put(in_dir("sum/.b"), "12", 2);
    test_put(in_dir("sum/sub/c"), "123", 3);
    test_put(in_dir("sum/sub/deep/d"), "1234", 4);
    assert_int_equal(symlink(in_dir("sum/sub"), in_dir("sum/link")), 0);
    assert_int_equal(fs_bytes(in_dir("sum")), 10);
    assert_int_equal(fs_bytes(in_dir("nowhere")), 0);
    assert_good(fs_remove_tree(in_dir("sum"), &e), &e);
}

static bool is_model_or_step(const char *stem)
{
    return strcmp(stem, "model") == 0 || strcmp(stem, "step") == 0;
}

/* Faults: the sweep after a crash takes what is not temporary, or leaves what is; one that takes
 * what others gave such a name, or follows a link that has one. */
static void sweep_takes_only_temporaries(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char *name = NULL, *tmp;
    int fd = fs_temp_file(in_dir("model"), &name, &e);
    assert_true(fd >= 0 && fs_is_temp(name));
    close(fd);
    tmp = fs_temp_dir(in_dir("step"), &e);
    assert_non_null(tmp);
    test_put(in_dir("keep.tmp"), "", 0);
    test_put(in_dir(".tmp-"), "", 0);
    test_put(in_dir("notes.tmp-123456"), "", 0);
    test_put(in_dir("model.tmp-backup"), "", 0);
    assert_int_equal(mkdir(in_dir("kept"), 0777), 0);
    test_put(in_dir("kept/file"), "", 0);
    assert_int_equal(symlink(in_dir("kept"), in_dir("step.tmp-123456")), 0);
    assert_good(fs_sweep(dir, is_model_or_step, &e), &e);
    assert_int_equal(access(in_dir("notes.tmp-123456"), F_OK), 0);
    assert_int_equal(access(in_dir("model.tmp-backup"), F_OK), 0);
    assert_int_equal(access(in_dir("kept/file"), F_OK), 0);
    assert_int_equal(access(in_dir("step.tmp-123456"), F_OK), 0);
    assert_err(fs_remove_tree(in_dir("step.tmp-123456"), &e), &e, ERR_EXISTS, "stays");
    assert_int_equal(access(name, F_OK), -1);
    free(name);
    assert_int_equal(access(tmp, F_OK), -1);
    assert_int_equal(access(in_dir("keep.tmp"), F_OK), 0);
    assert_int_equal(access(in_dir(".tmp-"), F_OK), 0);
    assert_int_equal(fs_sweep(in_dir("nowhere"), is_model_or_step, &e), -1);
    assert_int_equal(fs_temp_file(in_dir("nowhere/x"), &name, &e), -1);
    assert_null(name);
    free(tmp);
}

/* Fault: a pipe without a writer, a device or a link as a file: a thread that waits for ever, or
 * reads what was not meant. */
static void only_regular_files_are_opened(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    assert_err(fs_open(in_dir("fifo"), &e), &e, ERR_BAD_INPUT, "no regular file");
    assert_err(fs_open("/dev/zero", &e), &e, ERR_BAD_INPUT, "no regular file");
    assert_err(fs_open(dir, &e), &e, ERR_BAD_INPUT, "is a folder");
    assert_err(fs_open(in_dir("none"), &e), &e, ERR_NOT_FOUND, "none");
    test_put(in_dir("plain"), "x", 1);
    assert_int_equal(symlink("plain", in_dir("link")), 0);
    int fd = fs_open(in_dir("link"), &e), at = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0 && at >= 0);
    close(fd);
    assert_err(fs_open_at(at, "link", &e), &e, ERR_BAD_INPUT, "is a link");
    fd = fs_open_at(at, "plain", &e);
    assert_true(fd >= 0);
    close(fd);
    close(at);
}

/* Fault: two servers on one folder, or a lock that outlives its holder. */
static void lock_is_for_one(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    int fd = fs_lock(in_dir("lock"), &e);
    assert_true(fd >= 0);
    char who[64];
    snprintf(who, sizeof who, "process %ld:", (long)getpid());
    assert_err(fs_lock(in_dir("lock"), &e), &e, ERR_BUSY, who);
    close(fd);
    fd = fs_lock(in_dir("lock"), &e);
    assert_true(fd >= 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(read_has_a_ceiling),      cmocka_unit_test(read_of_unknown_size),
        cmocka_unit_test(mkdirs_makes_all_levels), cmocka_unit_test(rename_and_remove),
        cmocka_unit_test(bytes_of_a_folder),       cmocka_unit_test(sweep_takes_only_temporaries),
        cmocka_unit_test(lock_is_for_one),         cmocka_unit_test(only_regular_files_are_opened),
    };
    return cmocka_run_group_tests(test, setup, teardown);
}
