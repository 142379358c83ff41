/* SPDX-License-Identifier: Apache-2.0
 *
 * Formulas. Faults: an operator that binds wrongly, a function taken for another, a text that is no
 * formula and counts as one, a depth without an end.
 */
#include "api/formula.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/own_arena.h"
#include "tests/lib/test.h"

static const char *const names[] = {"a", "b", "minimal"};
static const double values[] = {2, 0.5, 7};
static char why[160];

static const struct formula *read(const char *text)
{
    return formula_new(&own_arena, text, strlen(text), names, 3, why, sizeof why);
}

static double value(const char *text)
{
    const struct formula *f = read(text);
    if (!f)
        fail_msg("%s: %s", text, why);
    return formula_value(f, values);
}

static void numbers(void **state)
{
    static const struct {
        const char *text;
        double is;
    } good[] = {{"1", 1},
                {" 0.5 * a + 0.5 * b ", 1.25},
                {"1 - 2 - 3", -4},
                {"8 / 4 / 2", 1},
                {"2 + 3 * 4", 14},
                {"(2 + 3) * 4", 20},
                {"2 ^ 3 ^ 2", 512},
                {"-2 ^ 2", -4},
                {"2 ^ -1", 0.5},
                {"2 * -3", -6},
                {"+a", 2},
                {"1e2 + .5 + 1.", 101.5},
                {"min(a, b, minimal)", 0.5},
                {"max(a, b, minimal) - min(3, 4)", 4},
                {"abs(-3) + floor(1.5) + ceil(1.5)", 6},
                {"sqrt(exp(log(16)))", 4},
                {"max(0, 1 - a / 4)", 0.5}};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(fabs(value(good[i].text) - (good[i].is)) <= 1e-12);
    assert_true(isinf(value("1 / 0")));
    assert_true(isnan(value("sqrt(-1)")));
    assert_true(isnan(value("max(sqrt(-1), 1)")));
    assert_true(isnan(value("min(1, sqrt(-1))")));
}

static void refused(void **state)
{
    static const char *const bad[] = {"",        "a +",  "a b",      "c",      "(a",    "a)",
                                      "min(a)",  "min",  "abs(a,b)", "a ** b", "a % b", "1 2",
                                      "0x10",    "nan",  "1e999",    "e",      "a..b",  ",",
                                      "min(a,)", "a; b", "min a b",  "1e",     "--a",   "()"};
    static const size_t n = 30000;
    char *deep = arena_alloc(&own_arena, n);
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (read(bad[i]))
            fail_msg("read: '%s'", bad[i]);
    memset(deep, '(', n);
    assert_null(formula_new(&own_arena, deep, 900, names, 3, why, sizeof why));
    assert_non_null(strstr(why, "deep"));
    assert_null(formula_new(&own_arena, deep, n, names, 3, why, sizeof why));
    assert_non_null(strstr(why, "long"));
    assert_null(read("2 * nothing"));
    assert_non_null(strstr(why, "'nothing'"));
}

/* As much as its bytes and its depth allow on the stack. */
static void full_stack(void **state)
{
    char text[FORMULA_BYTES_MAX + 1] = "";
    size_t n = 0;
    (void)state;
    for (int i = 0; i < 30; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "min(1,1+1*1^");
    n += (size_t)snprintf(text + n, sizeof text - n, "1");
    for (int i = 0; i < 30; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ")");
    if (read(text))
        assert_true(isfinite(value(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(refused, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(full_stack, own_arena_new, own_arena_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
