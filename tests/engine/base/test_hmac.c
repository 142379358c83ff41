/* SPDX-License-Identifier: Apache-2.0
 *
 * HMAC-SHA-256 beside the vectors of RFC 4231.
 *
 * Catches: pads that are exchanged, a key of more than a block, one that is not filled with zeros,
 * bytes that come in pieces, digests that are called equal and are not.
 */
#include "engine/base/hmac.h"

#include <string.h>

#include "tests/lib/test.h"

static void digest_of(const char *key, size_t n_key, const char *text, size_t piece, uint8_t *out)
{
    struct hmac h;
    size_t n = strlen(text);
    hmac_init(&h, key, n_key);
    for (size_t at = 0; at < n; at += piece)
        hmac_add(&h, text + at, n - at < piece ? n - at : piece);
    hmac_end(&h, out);
}

static void vectors(void **state)
{
    char ones[20], long_key[131], text[SHA256_TEXT_BYTES];
    memset(ones, 0x0b, sizeof ones);
    memset(long_key, 0xaa, sizeof long_key);
    const struct {
        const char *key;
        size_t n_key;
        const char *text, *digest;
    } row[] = {
        {ones, sizeof ones, "Hi There",
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"Jefe", 4, "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {long_key, sizeof long_key, "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (size_t piece = 1; piece < 70; piece += 23) {
            uint8_t digest[SHA256_BYTES];
            digest_of(row[i].key, row[i].n_key, row[i].text, piece, digest);
            assert_string_equal(sha256_text(digest, text), row[i].digest);
        }
}

static void equal(void **state)
{
    uint8_t a[SHA256_BYTES], b[SHA256_BYTES];
    (void)state;
    digest_of("a key", 5, "a text", 6, a);
    digest_of("a key", 5, "a text", 6, b);
    assert_true(hmac_equal(a, b));
    for (int i = 0; i < SHA256_BYTES; i++) {
        b[i] ^= 0x80;
        assert_false(hmac_equal(a, b));
        b[i] ^= 0x80;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
