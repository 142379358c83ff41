/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers from text: each edge, and each thing that the C library would let through.
 */
#include "tests/lib/test.h"

#include <stdbool.h>
#include <string.h>

#include "engine/base/num.h"

/* Faults: junk accepted before or behind; an overflow that wraps; a bound off by one. */
static void ints(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    " 1",  "1 ",  "+1",  "1x", "0x10", "1.0",
                                      "--1", "1e3", "\t1", "1\n", "-",  "1_0",  "①"};
    int64_t v = 77;
    struct err e = ERR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_err(num_int(bad[i], INT64_MIN, INT64_MAX, &v, &e), &e, ERR_BAD_INPUT, "whole");
    assert_int_equal(v, 77);
    assert_good(num_int("9223372036854775807", INT64_MIN, INT64_MAX, &v, &e), &e);
    assert_true(v == INT64_MAX);
    assert_good(num_int("-9223372036854775808", INT64_MIN, INT64_MAX, &v, &e), &e);
    assert_true(v == INT64_MIN);
    assert_int_equal(num_int("9223372036854775808", INT64_MIN, INT64_MAX, &v, &e), -1);
    assert_int_equal(num_int("-9223372036854775809", INT64_MIN, INT64_MAX, &v, &e), -1);
    assert_int_equal(num_int("99999999999999999999999999", INT64_MIN, INT64_MAX, &v, &e), -1);
    assert_good(num_int("65535", 1, 65535, &v, &e), &e);
    assert_err(num_int("65536", 1, 65535, &v, &e), &e, ERR_BAD_INPUT, "65536 is not from 1 to");
    assert_err(num_int("0", 1, 65535, &v, &e), &e, ERR_BAD_INPUT, "from 1 to 65535");
    assert_good(num_int("007", 0, 9, &v, &e), &e);
    assert_int_equal(v, 7);
}

/* Faults: what strtod takes besides numbers; an infinity by overflow. */
static void doubles(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   ".",   "nan", "inf", "-inf", "0x1p3", "1.5 ", " 1",
                                      "+1", "1,5", "1e",  "1e+", "e5",   "1.2.3", "--1",  "1f"};
    double v;
    struct err e = ERR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_err(num_double(bad[i], -1e300, 1e300, &v, &e), &e, ERR_BAD_INPUT, "not a number");
    assert_int_equal(num_double("1e999", -1e308, 1e308, &v, &e), -1);
    assert_good(num_double("-1.5e-3", -1, 1, &v, &e), &e);
    assert_true(v == -1.5e-3);
    assert_good(num_double(".5", 0, 1, &v, &e), &e);
    assert_true(v == 0.5);
    assert_good(num_double("1.", 0, 1, &v, &e), &e);
    assert_err(num_double("1.1", 0, 1, &v, &e), &e, ERR_BAD_INPUT, "1.1 is not from 0 to 1");
}

/* Faults: a unit misread; a product that wraps; a fraction lost. */
static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"1K", 1024},
                {"512M", 512 << 20},
                {"8G", INT64_C(8) << 30},
                {"8g", INT64_C(8) << 30},
                {"8GB", INT64_C(8) << 30},
                {"1.5GiB", INT64_C(3) << 29},
                {"2T", INT64_C(2) << 40},
                {"100B", 100},
                {"9007199254740993", 9007199254740993}};
    static const char *const bad[] = {"",    "G",   "-1G", "8 G", "8X",  "8GG",
                                      "8Gb", "1e3", "8iB", ".G",  "8G ", "0x8"};
    int64_t v;
    struct err e = ERR_INIT;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_good(num_size(good[i].text, 0, INT64_MAX, &v, &e), &e);
        assert_true(v == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_err(num_size(bad[i], 0, INT64_MAX, &v, &e), &e, ERR_BAD_INPUT, "not a size");
    assert_int_equal(num_size("9000000000G", 0, INT64_MAX, &v, &e), -1);
    assert_int_equal(num_size("9223372036854775807.9T", 0, INT64_MAX, &v, &e), -1);
    assert_int_equal(num_size("99999999999999999999", 0, INT64_MAX, &v, &e), -1);
    assert_err(num_size("1K", 4096, 1 << 30, &v, &e), &e, ERR_BAD_INPUT, "from 4K to 1G");
    char text[NUM_TEXT_BYTES];
    assert_string_equal(num_size_text(1536 << 20, text), "1536M");
    assert_string_equal(num_size_text(1000, text), "1000");
    assert_string_equal(num_size_text(0, text), "0");
}

static void bools(void **state)
{
    (void)state;
    bool v = false;
    struct err e = ERR_INIT;
    assert_good(num_bool("yes", &v, &e), &e);
    assert_true(v);
    assert_good(num_bool("off", &v, &e), &e);
    assert_false(v);
    assert_err(num_bool("maybe", &v, &e), &e, ERR_BAD_INPUT, "maybe");
    assert_int_equal(num_bool("", &v, &e), -1);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(ints),
        cmocka_unit_test(doubles),
        cmocka_unit_test(sizes),
        cmocka_unit_test(bools),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
