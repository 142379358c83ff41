/* SPDX-License-Identifier: Apache-2.0
 *
 * The keyed hash against another implementation.
 */
#include "tests/lib/test.h"

#include "engine/base/siphash.h"

/* Fault: any slip in the rounds or the tail. The expected values are those of another
 * implementation (CPython 3.11: _imp.source_hash(0x0706050403020100, bytes(range(n)))), whose key
 * has k1 = 0. */
static void agrees_with_another(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint64_t hash;
    } row[] = {{0, 0xf46d3bfe2ea281dc}, {1, 0x5bb2c195fe70a449},  {7, 0x3dd20bc6123b60e0},
               {8, 0x5124317f8cfc24cb}, {15, 0x7f501f340ece0c62}, {63, 0x9c56dbe0649233f3}};
    struct siphash_key key = {.k0 = 0x0706050403020100};
    unsigned char msg[64];
    for (int i = 0; i < 64; i++)
        msg[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_true(siphash(key, msg, row[i].n) == row[i].hash);
}

/* Fault: the second half of the key does nothing. */
static void both_key_words_count(void **state)
{
    (void)state;
    uint64_t h = siphash((struct siphash_key){1, 2}, "a", 1);
    assert_true(h != siphash((struct siphash_key){1, 3}, "a", 1));
    assert_true(h != siphash((struct siphash_key){2, 2}, "a", 1));
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(agrees_with_another),
        cmocka_unit_test(both_key_words_count),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
