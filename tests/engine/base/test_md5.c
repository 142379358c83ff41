/* SPDX-License-Identifier: Apache-2.0
 *
 * MD5 beside the suite of RFC 1321.
 *
 * Catches: a word in the other order, a sine that is rounded, padding that takes a block too many
 * or too few, bytes that come in pieces.
 */
#include "engine/base/md5.h"

#include <string.h>

#include "tests/lib/test.h"

static void vectors(void **state)
{
    static const struct {
        const char *text, *digest;
    } row[] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (size_t piece = 1; piece <= 80; piece += 13) {
            struct md5 m;
            char text[MD5_TEXT_BYTES];
            size_t n = strlen(row[i].text);
            md5_init(&m);
            for (size_t at = 0; at < n; at += piece)
                md5_add(&m, row[i].text + at, n - at < piece ? n - at : piece);
            assert_string_equal(md5_end(&m, text), row[i].digest);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
