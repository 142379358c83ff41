/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics looked up in their text.
 */
#include "clients/remote/scrape.h"

#include "tests/lib/test.h"

static const char text[] = "# HELP a_total Of a thing.\n"
                           "# TYPE a_total counter\n"
                           "a_total{model=\"x y\",class=\"one\"} 1.5\n"
                           "a_total{model=\"z\",class=\"two\"} 2\n"
                           "a_total_more 100\n"
                           "b 7\n"
                           "c{le=\"+Inf\"} NaN\n"
                           "d{name=\"\"} +Inf\n"
                           "last 3";

/* Catches: a name that is found in a longer one or in a comment, a label's space taken for the one
 * before the value, a sum that is no number. */
static void test_sum(void **state)
{
    (void)state;
    assert_true(scrape_sum(text, "a_total", NULL) == 3.5);
    assert_true(scrape_sum(text, "a_total", "class=\"two\"") == 2);
    assert_true(scrape_sum(text, "a", NULL) == 0);
    assert_true(scrape_sum(text, "b", NULL) == 7);
    assert_true(scrape_sum(text, "c", NULL) == 0);
    assert_true(scrape_sum(text, "last", NULL) == 3);
    assert_true(scrape_sum("", "last", NULL) == 0);
}

/* Catches: another sample's label, one that is longer than its room. */
static void test_label(void **state)
{
    char room[3];
    (void)state;
    scrape_label(text, "a_total", "model", room, sizeof room);
    assert_string_equal(room, "x ");
    scrape_label(text, "d", "name", room, sizeof room);
    assert_string_equal(room, "");
    scrape_label(text, "b", "model", room, sizeof room);
    assert_string_equal(room, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
