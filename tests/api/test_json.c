/* SPDX-License-Identifier: Apache-2.0
 *
 * The front of the JSON reader. Faults it can catch: a depth, a number or a count of values that
 * reaches jansson unbounded; a duplicate key or a lone surrogate that is taken; an error that
 * repeats what was sent; a text that loses what there was no memory for, or is called bad then.
 */
#include "api/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/test.h"

static struct api_error error;

static bool reads(const char *text, size_t n)
{
    struct arena a;
    arena_init(&a, 1 << 16);
    error = (struct api_error){.status = 0};
    bool good = api_json_object(&a, text, n, &error) != NULL;
    assert_int_equal(error.status, good ? 0 : 400);
    assert_int_equal(good, !*error.message);
    arena_release(&a);
    return good;
}

static bool reads_text(const char *text)
{
    return reads(text, strlen(text));
}

/* {"a":[[[...]]]} with so many brackets in all. */
static bool reads_depth(size_t depth)
{
    size_t n = 5 + 2 * (depth - 1) + 1, at = 5;
    char *text = malloc(n);
    memcpy(text, "{\"a\":", 5);
    memset(text + at, '[', depth - 1);
    memset(text + at + depth - 1, ']', depth - 1);
    text[n - 1] = '}';
    bool good = reads(text, n);
    free(text);
    return good;
}

static void test_depth(void **state)
{
    (void)state;
    assert_true(reads_depth(63));
    assert_true(reads_depth(64));
    assert_false(reads_depth(65));
    assert_non_null(strstr(error.message, "64"));
    assert_false(reads_depth(2047));
    assert_false(reads_depth(2049));
    assert_false(reads_depth(1000000));
}

static void test_brackets_in_strings_are_text(void **state)
{
    char text[1024] = "{\"a\":\"";
    (void)state;
    memset(text + 6, '[', 500);
    memcpy(text + 506, "\\\"[[\"}", 7);
    assert_true(reads_text(text));
}

static void test_long_numbers(void **state)
{
    size_t n = 10 << 20;
    char *text = malloc(n);
    (void)state;
    memset(text, '1', n);
    memcpy(text, "{\"a\":", 5);
    text[n - 1] = '}';
    assert_false(reads(text, n));
    assert_non_null(strstr(error.message, "number"));
    text[5 + API_JSON_NUMBER_MAX] = '}';
    assert_false(reads(text, 5 + API_JSON_NUMBER_MAX + 1)); /* no 64 bits, and no crash */
    free(text);
    assert_false(reads_text("{\"a\":1e999}"));
    assert_false(reads_text("{\"a\":9223372036854775808}"));
    assert_false(reads_text("{\"a\":NaN}"));
    assert_false(reads_text("{\"a\":Infinity}"));
    assert_true(reads_text("{\"a\":-9223372036854775808}"));
}

/* Faults: a number past what is read that names no field, or another's. */
static void test_large_numbers_have_a_field(void **state)
{
    static const char *const texts[] = {
        "{\"a\":1,\"max_tokens\":9223372036854775808,\"b\":2}", "{\"max_tokens\" : -1e400}",
        "{\"max_tokens\":{\"b\":[1,{\"c\":\"}\",\"d\":1e400}]},\"e\":1}",
        "{\"a\":\"\\\"x\\\":\",\"b\":{\"c\":1},\"max_tokens\":[[18446744073709551616"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_false(reads_text(texts[i]));
        assert_string_equal(error.param, "max_tokens");
        assert_string_equal(error.code, "invalid_value");
    }
    assert_false(reads_text("{\"a b\":1e400}")); /* no name that may be repeated */
    assert_string_equal(error.param, "");
    assert_false(reads_text("[9223372036854775808]"));
    assert_string_equal(error.param, "");
    assert_false(reads_text("9223372036854775808"));
    assert_string_equal(error.param, "");
}

static void test_many_values(void **state)
{
    size_t n = 5 + 2 * (size_t)(API_JSON_VALUES_MAX + 8);
    char *text = malloc(n);
    (void)state;
    memcpy(text, "{\"a\":[", 6);
    for (size_t i = 6; i + 2 < n; i += 2)
        memcpy(text + i, "1,", 2);
    assert_false(reads(text, n));
    assert_non_null(strstr(error.message, "values"));
    free(text);
}

/* Faults: a table of a million keys, which holds a thread and its memory for long. */
static void test_many_members(void **state)
{
    struct buf text;
    (void)state;
    buf_init(&text, 16 << 20);
    buf_char(&text, '{');
    for (int i = 0; i < API_JSON_VALUES_MAX / 16 + 8; i++)
        buf_printf(&text, "%s\"%d\":1", i ? "," : "", i);
    buf_char(&text, '}');
    assert_false(reads(text.data, text.len));
    assert_non_null(strstr(error.message, "values"));
    buf_release(&text);
}

static void test_text(void **state)
{
    (void)state;
    assert_true(reads_text("{\"a\":\"\\ud83d\\ude00\"}"));
    assert_false(reads_text("{\"a\":\"\\ud83d\"}"));
    assert_false(reads_text("{\"a\":\"\\ude00\"}"));
    assert_false(reads_text("{\"a\":\"\xff\"}"));
    assert_false(reads_text("{\"a\":\"\xed\xa0\x80\"}"));
    assert_true(reads_text("{\"a\":\"x\\u0000y\"}"));
    assert_false(reads_text("{\"a\\u0000b\":1}"));
    assert_false(reads_text("{\"a\":\"\n\"}"));
}

static void test_form(void **state)
{
    (void)state;
    assert_true(reads_text("{}"));
    assert_false(reads_text(""));
    assert_false(reads_text("[]"));
    assert_false(reads_text("\"x\""));
    assert_false(reads_text("{\"a\":1,\"a\":2}"));
    assert_false(reads_text("{\"a\":{\"b\":1,\"b\":1}}"));
    assert_false(reads_text("{\"a\":1}x"));
    assert_false(reads_text("{\"a\":1"));
    assert_false(reads_text("{\"a\":\"\\"));
    assert_false(reads_text("]]]]]]"));
}

static void test_errors_keep_what_was_sent(void **state)
{
    (void)state;
    assert_false(reads_text("{\"xyzzy\":xyzzy}"));
    assert_null(strstr(error.message, "xyzzy"));
    assert_non_null(strstr(error.message, "line 1"));
}

/* Bytes of address space that this process has. */
static rlim_t space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void test_memory_that_ends_within_a_string(void **state)
{
    enum { N = 32 << 20, ROOM = 40 << 20 };
    const char *mode = getenv("TEST_MODE");
    struct rlimit old, less;
    struct arena a;
    (void)state;
    if (mode && (strcmp(mode, "asan") == 0 || strcmp(mode, "tsan") == 0)) {
        print_message("skipped: a sanitizer's shadow takes more than a limit on memory leaves\n");
        skip();
    }
    char *text = malloc(N);
    memset(text, 'a', N);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + N - 2, "\"}", 2);
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    less = (struct rlimit){.rlim_cur = space() + ROOM, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
    arena_init(&a, 1 << 16);
    bool good = api_json_object(&a, text, N, &error) != NULL;
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_false(good);
    assert_int_equal(error.status, 503);
    assert_non_null(api_json_object(&a, text, N, &error));
    arena_release(&a);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_brackets_in_strings_are_text),
        cmocka_unit_test(test_long_numbers),
        cmocka_unit_test(test_large_numbers_have_a_field),
        cmocka_unit_test(test_many_values),
        cmocka_unit_test(test_many_members),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_errors_keep_what_was_sent),
        cmocka_unit_test(test_memory_that_ends_within_a_string),
    };
    api_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
