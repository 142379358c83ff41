/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults they can catch: a pipe, a device or a socket in the place of a model's file that is waited
 * for, or read; a refusal that does not name the file; a descriptor that stays open.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/mem.h"
#include "engine/load/path.h"

static int lowest_free(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void refused(const char *dir, const char *name)
{
    struct err e = ERR_INIT;
    size_t n;
    char *path = path_join(dir, name);
    int before = lowest_free();
    assert_null(path_read(path, name, 100, &n, &e));
    assert_int_equal(e.code, ERR_BAD_INPUT);
    assert_string_equal(strchr(e.msg, ':'), ": not a regular file");
    assert_int_equal(strncmp(e.msg, name, strlen(name)), 0);
    assert_int_equal(lowest_free(), before);
    unlink(path);
    free(path);
}

/* Nobody writes into the pipe: who opened it as a file would wait for ever. */
static void odd_files(void **state)
{
    char *dir = test_dir_new();
    (void)state;
    char *path = path_join(dir, "config.json");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(dir, "config.json");
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    refused(dir, "config.json");
    assert_int_equal(symlink("/dev/zero", path), 0);
    refused(dir, "config.json");
    close(fd);
    free(path);
    test_dir_free(dir);
}

static void plain_files(void **state)
{
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    size_t n;
    (void)state;
    char *path = path_join(dir, "a");
    assert_null(path_read(path, "a", 3, &n, &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_good(aside_put(path, "abc", 3, &e), &e);
    char *text = path_read(path, "a", 3, &n, &e); /* exactly what it may have */
    assert_non_null(text);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "abc", 3);
    mem_free(text);
    assert_null(path_read(path, "a", 2, &n, &e));
    assert_int_equal(e.code, ERR_TOO_LARGE);
    unlink(path);
    test_dir_free(dir);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(odd_files), cmocka_unit_test(plain_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
