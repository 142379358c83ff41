/* SPDX-License-Identifier: Apache-2.0
 *
 * Distances of words, and who is near enough.
 */
#include "tests/lib/test.h"

#include <limits.h>
#include <string.h>

#include "engine/base/near.h"

/* Fault: a wrong recurrence, or rows mixed up. */
static void distances(void **state)
{
    (void)state;
    assert_int_equal(near_distance("", ""), 0);
    assert_int_equal(near_distance("", "abc"), 3);
    assert_int_equal(near_distance("port", "prot"), 1);
    assert_int_equal(near_distance("port", "ports"), 1);
    assert_int_equal(near_distance("kitten", "sitting"), 3);
    assert_int_equal(near_distance("ca", "abc"), 3);
    assert_int_equal(near_distance("abcdef", "abdcef"), 1);
    char word[66];
    memset(word, 'a', 65);
    word[65] = 0;
    assert_int_equal(near_distance(word, "a"), INT_MAX); /* and nothing is overrun */
    assert_int_equal(near_distance(word + 1, word + 1), 0);
}

/* Fault: a suggestion for a word that resembles nothing, or a worse one than there is. */
static void picks_the_nearest(void **state)
{
    (void)state;
    struct near n = {.word = "max-batch-token"}, m = {.word = "xyz"};
    static const char *const word[] = {"max-tokens", "max-batch-tokens", "port", "max-batches"};
    for (size_t i = 0; i < 4; i++) {
        near_try(&n, word[i]);
        near_try(&m, word[i]);
    }
    assert_string_equal(n.best, "max-batch-tokens");
    assert_null(m.best);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(picks_the_nearest),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
