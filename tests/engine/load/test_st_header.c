/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/st_header: headers that lie, each refused for its reason; big ones fast.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/load/st_header.h"
#include "tests/lib/test.h"

static int parse(struct st_header *h, const char *text, uint64_t data_bytes, struct err *e)
{
    return st_header_init(h, text, strlen(text), data_bytes, "f", e);
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* Fault: a field is read wrong, or the order of places is lost. */
static void test_reads_what_stands_there(void **state)
{
    (void)state;
    struct st_header h;
    struct err e = ERR_INIT;
    assert_good(parse(&h,
                      "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"},"
                      "\"b\":" T("BF16", "[2,3]", "[4,16]") ",\"a\":" T(
                          "F32", "[]", "[0,4]") ","
                                                "\"z\":" T("F32", "[0,9]", "[16,16]") ",\"q\":" T(
                                                    "F4", "[4]", "[16,18]") "}  ",
                      18, &e),
                &e);
    assert_int_equal(h.n_tensor, 4);
    assert_string_equal(h.tensor[0]->name, "a");
    assert_int_equal(h.tensor[0]->rank, 0);
    assert_int_equal(st_tensor_count(h.tensor[0]), 1);
    const struct st_tensor *b = st_header_get(&h, "b");
    char text[64];
    assert_ptr_equal(b, h.tensor[1]);
    assert_string_equal(st_tensor_text(b, text, sizeof text), "BF16 [2, 3]");
    assert_int_equal(st_tensor_count(b), 6);
    assert_int_equal(st_tensor_count(st_header_get(&h, "q")), 4);
    assert_null(st_header_get(&h, "B"));
    assert_null(st_header_get(&h, "__metadata__"));
    assert_string_equal(st_header_meta(&h, "format"), "pt");
    assert_string_equal(st_header_meta(&h, "x"), "");
    assert_null(st_header_meta(&h, "y"));
    st_header_release(&h);
}

/* Fault: one of the format's rules is not applied. */
static void test_refuses_lies(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t data_bytes;
        const char *why;
    } bad[] = {
        {"", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"{}", 1, "bytes belong to no tensor"},
        {"{}\0", 0, ""},
        {"{\"a\":1}", 0, "a: expected an object, found a number"},
        {"{\"a\":{}}", 0, "a: dtype is missing"},
        {"{\"a\":{\"dtype\":\"F32\"}}", 0, "a: shape is missing"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a: data_offsets is missing"},
        {"{\"a\":" T("F31", "[1]", "[0,4]") "}", 4, "a: dtype 'F31' is not one"},
        {"{\"a\":" T("f32", "[1]", "[0,4]") "}", 4, "a: dtype 'f32' is not one"},
        {"{\"a\":" T("F32", "1", "[0,4]") "}", 4, "a.shape: expected an array, found a number"},
        {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4, "without sign"},
        {"{\"a\":" T("F32", "[1.0]", "[0,4]") "}", 4, "without sign, point"},
        {"{\"a\":" T("F32", "[1e0]", "[0,4]") "}", 4, "without sign, point or exponent"},
        {"{\"a\":" T("F32", "[\"1\"]", "[0,4]") "}", 4, "a.shape[0]: expected a number"},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "more than 8 dimensions"},
        {"{\"a\":" T("F32", "[1]", "[0]") "}", 4, "expected two offsets, found 1"},
        {"{\"a\":" T("F32", "[1]", "[0,4,4]") "}", 4, "expected two offsets, found 3"},
        {"{\"a\":" T("F32", "[1]", "[4,0]") "}", 4, "ends before it begins"},
        {"{\"a\":" T("F32", "[2]", "[0,4]") "}", 4,
         "f: a: F32 [2] takes 8 bytes, its data_offsets hold 4"},
        {"{\"a\":" T("F4", "[3]", "[0,2]") "}", 2, "does not end at a byte"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 3, "the file is cut short"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 5, "bytes belong to no tensor"},
        {"{\"a\":" T("F32", "[1]", "[4,8]") "}", 8, "a gap lies before it"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[1]", "[4,8]") "}", 8,
         "b: overlaps another tensor"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[1]", "[4,8]") "}", 8,
         "a: the name stands twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
         "stands twice"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__.a: expected a string"},
        {"{\"__metadata__\":[]}", 0, "__metadata__: expected an object"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__: stands twice"},
        {"{\"a\\u0000b\":" T("F32", "[1]", "[0,4]") "}", 4, "NUL"},
        {"{\"a\\u001b[2J\":" T("F32", "[1]", "[0,4]") "}", 4,
         "f: a?[2J: a tensor's name with a control character"},
        {"{\"a\":{\"x\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}}", 0, "nested too deeply"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct st_header h;
        struct err e = ERR_INIT;
        size_t n = strlen(bad[i].text) + (*bad[i].why == 0);
        if (st_header_init(&h, bad[i].text, n, bad[i].data_bytes, "f", &e) == 0)
            fail_msg("taken: %s", bad[i].text);
        if (!strstr(e.msg, bad[i].why))
            fail_msg("%s\n  said: %s\n  not: %s", bad[i].text, e.msg, bad[i].why);
    }
}

/* Fault: a product or a sum of sizes wraps, or a number passes through 32 bits or a double on its
 * way and comes out as a smaller, legal one. */
static void test_huge_numbers(void **state)
{
    (void)state;
    static const char *const huge[] = {"2147483648",           "4294967296",
                                       "4294967300",           "9007199254740992",
                                       "9007199254740993",     "9223372036854775808",
                                       "18446744073709551612", "18446744073709551615",
                                       "18446744073709551616", "18446744073709551620"};
    char text[400];
    struct st_header h;
    struct err e = ERR_INIT;
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        static const char *const form[] = {
            "{\"a\":" T("U8", "[4]", "[0,%s]") "}",       "{\"a\":" T("U8", "[4]", "[%s,4]") "}",
            "{\"a\":" T("U8", "[%s]", "[0,4]") "}",       "{\"a\":" T("U8", "[%s,%s]", "[0,0]") "}",
            "{\"a\":" T("F64", "[%s,8,%s]", "[0,4]") "}",
        };
        for (size_t j = 0; j < sizeof form / sizeof form[0]; j++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
            snprintf(text, sizeof text, form[j], huge[i], huge[i]);
#pragma GCC diagnostic pop
            assert_int_equal(parse(&h, text, 4, &e), -1);
        }
    }
    /* the same beyond 2 GiB and 4 GiB, but true: exact */
    const uint64_t big = UINT64_C(9007199254740991);
    snprintf(
        text, sizeof text,
        "{\"a\":" T(
            "U8", "[4294967299]",
            "[0,4294967299]") ","
                              "\"b\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[4294967299,%llu]}}",
        (unsigned long long)(big - 4294967299), (unsigned long long)big);
    assert_good(parse(&h, text, big, &e), &e);
    assert_true(h.tensor[1]->end == big && h.tensor[1]->begin == 4294967299);
    st_header_release(&h);
}

/* Fault: the name's ceiling is off by one. */
static void test_name_ceiling(void **state)
{
    (void)state;
    char text[1024], name[514];
    for (size_t n = 511; n <= 513; n++) {
        struct st_header h;
        struct err e = ERR_INIT;
        memset(name, 'n', n);
        name[n] = 0;
        snprintf(text, sizeof text, "{\"%s\":" T("U8", "[1]", "[0,1]") "}", name);
        int rc = parse(&h, text, 1, &e);
        assert_int_equal(rc == 0, n <= ST_MAX_NAME_BYTES);
        if (rc == 0)
            st_header_release(&h);
    }
}

/* Fault: an element type is missing or has a wrong size (against the format's own list). */
static void test_every_dtype(void **state)
{
    (void)state;
    static const struct {
        enum st_dtype t;
        const char *name;
        int bits;
    } want[] = {
        {ST_BOOL, "BOOL", 8},
        {ST_U8, "U8", 8},
        {ST_I8, "I8", 8},
        {ST_U16, "U16", 16},
        {ST_I16, "I16", 16},
        {ST_U32, "U32", 32},
        {ST_I32, "I32", 32},
        {ST_U64, "U64", 64},
        {ST_I64, "I64", 64},
        {ST_F16, "F16", 16},
        {ST_BF16, "BF16", 16},
        {ST_F32, "F32", 32},
        {ST_F64, "F64", 64},
        {ST_C64, "C64", 64},
        {ST_F8_E4M3, "F8_E4M3", 8},
        {ST_F8_E5M2, "F8_E5M2", 8},
        {ST_F8_E8M0, "F8_E8M0", 8},
        {ST_F8_E4M3FNUZ, "F8_E4M3FNUZ", 8},
        {ST_F8_E5M2FNUZ, "F8_E5M2FNUZ", 8},
        {ST_F6_E2M3, "F6_E2M3", 6},
        {ST_F6_E3M2, "F6_E3M2", 6},
        {ST_F4, "F4", 4},
    };
    assert_int_equal(sizeof want / sizeof want[0], ST_DTYPE_COUNT);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        enum st_dtype t;
        assert_true(st_dtype_parse(want[i].name, &t));
        assert_int_equal(t, want[i].t);
        assert_string_equal(st_dtype_name(t), want[i].name);
        assert_int_equal(st_dtype_bits(t), want[i].bits);
    }
}

static char *many(size_t n, size_t *len)
{
    char *text = malloc(n * 110 + 2), *p = text;
    *p++ = '{';
    for (size_t i = 0; i < n; i++)
        p += snprintf(
            p, 110,
            "%s\"model.layers.%zu.mlp.experts.%zu.weight\":" T("BF16", "[2,4]", "[%zu,%zu]"),
            i ? "," : "", i / 100, i, i * 16, i * 16 + 16);
    *p++ = '}';
    *len = (size_t)(p - text);
    return text;
}

/* Fault: look-up, or the check for duplicates, is quadratic in the number of tensors. (No test is
 * judged by the clock; a quadratic walk of 100k names would take minutes, and the time is shown.)
 */
static void test_hundred_thousand_tensors(void **state)
{
    (void)state;
    const size_t n = 100000;
    size_t len;
    char *text = many(n, &len);
    struct st_header h;
    struct err e = ERR_INIT;
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    assert_good(st_header_init(&h, text, len, n * 16, "f", &e), &e);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    print_message("100k tensors, %zu bytes: %.1f ms\n", len,
                  1e3 * (double)(t1.tv_sec - t0.tv_sec) + 1e-6 * (double)(t1.tv_nsec - t0.tv_nsec));
    assert_int_equal(h.n_tensor, n);
    assert_true(st_header_get(&h, "model.layers.999.mlp.experts.99999.weight")->end == n * 16);
    st_header_release(&h);
    free(text);
}

/* Fault: some prefix of a header is taken as a whole one, or read past its end (under ASan). */
static void test_every_prefix(void **state)
{
    (void)state;
    const char *text = "{\"__metadata__\":{\"a\":\"\\ud83d\\ude00\xe2\x82\xac\"},\"t\":" T(
        "F16", "[2,1]", "[0,4]") "}";
    for (size_t n = 0; n <= strlen(text); n++) {
        struct st_header h;
        struct err e = ERR_INIT;
        char *exact = malloc(n ? n : 1);
        memcpy(exact, text, n);
        int rc = st_header_init(&h, exact, n, 4, "f", &e);
        assert_int_equal(rc == 0, n == strlen(text));
        if (rc == 0)
            st_header_release(&h);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_stands_there),
        cmocka_unit_test(test_refuses_lies),
        cmocka_unit_test(test_huge_numbers),
        cmocka_unit_test(test_name_ceiling),
        cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(test_hundred_thousand_tensors),
        cmocka_unit_test(test_every_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
