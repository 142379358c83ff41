/* SPDX-License-Identifier: Apache-2.0
 *
 * The helpers of tests/lib/test.h.
 */
#include "tests/lib/test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/mem.h"

void test_has_err(const struct err *e, enum err_code code, const char *words, const char *file,
                  int line)
{
    if (e->code == code && strstr(e->msg, words))
        return;
    print_error("want %s with \"%s\", have %s: \"%s\"\n", err_name(code), words, err_name(e->code),
                e->msg);
    _fail(file, line);
}

void test_shows_err(const struct err *e, const char *file, int line)
{
    print_error("%s: %s\n", err_name(e->code), e->msg);
    _fail(file, line);
}

bool test_is_slow(void)
{
    const char *mode = getenv("TEST_MODE");
    return mode && strcmp(mode, "release") != 0;
}

char *test_dir_new(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/tandem-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
    return xstrdup(path);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void test_dir_free(char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

FILE *test_file(void)
{
    FILE *f = fdopen(memfd_create("test", MFD_CLOEXEC), "w+");
    assert_non_null(f);
    return f;
}

const char *test_path(const char *dir, const char *name)
{
    static char path[4][512];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

void test_put(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

/* The sanitizers ask for their options here. Memory that cannot be had is NULL, as in a release. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}
