/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of a library's functions. Faults they can catch: a pointer in another's place, a missing
 * function that is called all the same, a second name that is not tried.
 */
#include "engine/base/so_table.h"

#include <math.h>
#include <string.h>

#include "tests/lib/test.h"

struct math {
    double (*floor)(double), (*ceil)(double);
};

static const struct so_row rows[] = {
    {"ceil", offsetof(struct math, ceil)},
    {"floor", offsetof(struct math, floor)},
};

static void each_in_its_place(void **state)
{
    struct math m = {0};
    char why[200] = "before";
    (void)state;
    assert_int_equal(so_table_fill(&m, rows, 2,
                                   (const char *[]){"libnobody.so.1", "libm.so.6", NULL}, why,
                                   sizeof why),
                     0);
    assert_true(m.floor(1.5) == 1 && m.ceil(1.5) == 2);
}

static void what_is_missing(void **state)
{
    struct math m = {0};
    char why[200] = "before";
    (void)state;
    assert_int_equal(
        so_table_fill(&m, rows, 2, (const char *[]){"libnobody.so.1", NULL}, why, sizeof why), -1);
    assert_non_null(strstr(why, "libnobody.so.1"));
    const struct so_row other = {"no_such_function", 0};
    assert_int_equal(
        so_table_fill(&m, &other, 1, (const char *[]){"libm.so.6", NULL}, why, sizeof why), -1);
    assert_string_equal(why, "libm.so.6 lacks no_such_function");
    assert_null(m.floor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_in_its_place),
        cmocka_unit_test(what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
