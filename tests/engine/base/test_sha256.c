/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 against published digests, and its two compression functions against each other.
 */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/base/sha256.h"
#include "engine/base/sha256_block.h"

/* Fault: any slip in rounds or padding. The digests are those of FIPS 180-4's examples. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        const char *msg, *digest;
    } row[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        sha256_of(row[i].msg, strlen(row[i].msg), digest);
        assert_string_equal(sha256_text(digest, text), row[i].digest);
    }
    struct sha256 s;
    sha256_init(&s);
    char a[1000];
    memset(a, 'a', sizeof a);
    for (int i = 0; i < 1000; i++)
        sha256_add(&s, a, sizeof a);
    sha256_end(&s, digest);
    assert_string_equal(sha256_text(digest, text),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Fault: bytes lost or doubled where pieces meet the edges of blocks. */
static void pieces_do_not_matter(void **state)
{
    (void)state;
    uint8_t msg[300], want[SHA256_BYTES], have[SHA256_BYTES];
    for (size_t i = 0; i < sizeof msg; i++)
        msg[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n <= sizeof msg; n += 1 + n / 70) {
        sha256_of(msg, n, want);
        for (size_t piece = 1; piece < 130; piece += 9) {
            struct sha256 s;
            sha256_init(&s);
            for (size_t at = 0; at < n; at += piece)
                sha256_add(&s, msg + at, n - at < piece ? n - at : piece);
            sha256_end(&s, have);
            assert_memory_equal(have, want, sizeof want);
        }
    }
}

/* Fault: a machine with SHA instructions names a file otherwise than one without. */
static void instructions_agree_with_plain(void **state)
{
    (void)state;
    sha256_block_fn *fast = sha256_block_x86();
    if (!fast)
        skip();
    uint32_t plain[8] = {0}, other[8] = {0}, msg[16 * 3];
    for (uint64_t round = 0; round < 200; round++) {
        for (uint64_t i = 0; i < 16 * 3; i++)
            msg[i] = rng_at(1, round, i).v[0];
        sha256_block_plain(plain, (const uint8_t *)msg, 3);
        fast(other, (const uint8_t *)msg, 3);
        assert_memory_equal(plain, other, sizeof plain);
    }
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(instructions_agree_with_plain),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
