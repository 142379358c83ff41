/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens of thoughts. Faults it can catch: words counted as thoughts, a mark in several tokens or
 * in the midst of one that is not seen, a text without thoughts that has some.
 */
#include "engine/tools/think_count.h"

#include <string.h>

#include "tests/lib/test.h"

/* Tokens end at |. */
static int64_t count(enum think_place place, const char *text)
{
    static const struct think_marks marks = {.open = "<think>", .close = "</think>"};
    struct think_count c = {.marks = &marks, .place = place};
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "|");
        think_count_token(&c, p, n);
        p += n + (p[n] == '|');
    }
    return think_count_get(&c);
}

static void test_counts(void **state)
{
    (void)state;
    assert_int_equal(count(THINK_INSIDE, "a|b|</think>|c|d"), 3);
    assert_int_equal(count(THINK_INSIDE, "a|b</|thi|nk>c|d"), 4);
    assert_int_equal(count(THINK_INSIDE, "a|<</think>|c"), 2);
    assert_int_equal(count(THINK_INSIDE, "a||b"), 3);
    assert_int_equal(count(THINK_MAY, "\n|<thi|nk>|a|</think>|b"), 5);
    assert_int_equal(count(THINK_MAY, "<thi|s>|</think>"), 0);
    assert_int_equal(count(THINK_MAY, "a|<think>|b|</think>"), 0);
    assert_int_equal(count(THINK_MAY, "<thi"), 0);
    assert_int_equal(count(THINK_NOT, "a|</think>|b"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
