/* SPDX-License-Identifier: Apache-2.0
 *
 * What every test program includes: cmocka with the headers that it wants before itself, and the
 * few assertions that the tests share.
 */
#ifndef TESTS_LIB_TEST_H
#define TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/base/err.h"

/* The call failed with this code, and the text holds these words. */
#define assert_err(rc, e, want_code, words)                                                        \
    do {                                                                                           \
        assert_int_not_equal((rc), 0);                                                             \
        test_has_err((e), (want_code), (words), __FILE__, __LINE__);                               \
    } while (0)

/* The call succeeded; when not, the error's text is shown. */
#define assert_good(rc, e)                                                                         \
    do {                                                                                           \
        if ((rc) != 0)                                                                             \
            test_shows_err((e), __FILE__, __LINE__);                                               \
    } while (0)

void test_has_err(const struct err *e, enum err_code code, const char *words, const char *file,
                  int line);
void test_shows_err(const struct err *e, const char *file, int line);

/* Whether this build is a checked one (asan, tsan, paranoid), which computes many times as long. */
bool test_is_slow(void);

/* A fresh folder under $TMPDIR or /tmp, and its removal with all that is in it. */
char *test_dir_new(void);
void test_dir_free(char *dir);

/* As tmpfile, but nowhere on a disk. */
FILE *test_file(void);

/* "dir/name", in one of a few static buffers; and a file of that path with these bytes. */
const char *test_path(const char *dir, const char *name);
void test_put(const char *path, const void *p, size_t n);

#endif
