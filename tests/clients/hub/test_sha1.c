/* SPDX-License-Identifier: Apache-2.0
 *
 * clients/hub/sha1.h against the vectors of FIPS 180, in one piece and cut at every byte.
 */
#include <stdio.h>
#include <string.h>

#include "clients/hub/sha1.h"
#include "tests/lib/test.h"

static void expect(const char *text, size_t n, size_t cut, const char *want)
{
    struct sha1 s;
    uint8_t digest[SHA1_BYTES];
    char got[2 * SHA1_BYTES + 1];
    sha1_init(&s);
    sha1_add(&s, text, cut);
    sha1_add(&s, text + cut, n - cut);
    sha1_end(&s, digest);
    for (size_t i = 0; i < SHA1_BYTES; i++)
        snprintf(got + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(got, want);
}

static void texts_have_their_digests(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } row[] = {
        {"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlm"
         "nopqrsmnopqrstnopqrstu",
         "a49b2446a02c645bf419f995b67091253a04a259"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (size_t cut = 0; cut <= strlen(row[i].text); cut++)
            expect(row[i].text, strlen(row[i].text), cut, row[i].want);
    static char many[1000000];
    memset(many, 'a', sizeof many);
    expect(many, sizeof many, 12345, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_have_their_digests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
