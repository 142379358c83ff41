/* SPDX-License-Identifier: Apache-2.0
 *
 * Base64 beside the vectors of RFC 4648.
 *
 * Catches: padding that is wrong, a byte that is lost at the end, a text that is none and is taken.
 */
#include "engine/base/base64.h"

#include <string.h>

#include "tests/lib/test.h"

static void vectors(void **state)
{
    static const char *const row[][2] = {{"", ""},
                                         {"f", "Zg=="},
                                         {"fo", "Zm8="},
                                         {"foo", "Zm9v"},
                                         {"foob", "Zm9vYg=="},
                                         {"fooba", "Zm9vYmE="},
                                         {"foobar", "Zm9vYmFy"},
                                         {"\xfb\xff", "+/8="}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct buf b;
        buf_init(&b, 100);
        base64_write(&b, row[i][0], strlen(row[i][0]));
        assert_int_equal(b.len, strlen(row[i][1]));
        assert_memory_equal(b.len ? b.data : "", row[i][1], b.len);
        buf_clear(&b);
        assert_int_equal(base64_read(&b, row[i][1], strlen(row[i][1])), 0);
        assert_int_equal(b.len, strlen(row[i][0]));
        assert_memory_equal(b.len ? b.data : "", row[i][0], b.len);
        buf_release(&b);
    }
}

static void what_is_none(void **state)
{
    static const char *const row[] = {"Z",    "Zg",   "Zg=",  "Zh==", "Zm9=",     "=g==", "Z===",
                                      "Zg=a", "Zm9-", "Zm 9", "====", "Zg==Zg==", "Zm8\n"};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct buf b;
        buf_init(&b, 100);
        assert_int_equal(base64_read(&b, row[i], strlen(row[i])), -1);
        buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(what_is_none),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
