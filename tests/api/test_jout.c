/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing JSON: read back by a parser that is not ours.
 */
#include "api/jout.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "tests/lib/test.h"

/* Fault: a comma too many or too few, at any nesting. */
static void commas_stand_right(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    struct jout j = jout_on(&b);
    jout_open(&j, '{');
    jout_key(&j, "a");
    jout_open(&j, '[');
    jout_int(&j, INT64_MIN);
    jout_open(&j, '{');
    jout_close(&j, '}');
    jout_open(&j, '[');
    jout_close(&j, ']');
    jout_bool(&j, true);
    jout_null(&j);
    jout_close(&j, ']');
    jout_put_str(&j, "s", NULL);
    jout_put_str(&j, "t", "x");
    jout_put_num(&j, "n", 0.1);
    jout_put_num(&j, "inf", (double)INFINITY);
    jout_put_bool(&j, "f", false);
    jout_put_int(&j, "i", 7);
    jout_put_null(&j, "z");
    jout_close(&j, '}');
    assert_string_equal(b.data,
                        "{\"a\":[-9223372036854775808,{},[],true,null],\"s\":null,"
                        "\"t\":\"x\",\"n\":0.1,\"inf\":null,\"f\":false,\"i\":7,\"z\":null}");
    buf_release(&b);
}

/* Fault: a byte that breaks the string, or comes back as another. */
static void every_byte_comes_back(void **state)
{
    (void)state;
    char text[300];
    size_t n = 0;
    for (int c = 0; c < 0x80; c++)
        text[n++] = (char)c;
    memcpy(text + n, "\u00e9\u20ac\U0001f600", 9);
    n += 9;
    struct buf b;
    buf_init(&b, 10000);
    struct jout j = jout_on(&b);
    jout_open(&j, '[');
    jout_bytes(&j, text, n);
    jout_bytes(&j, "", 0);
    jout_close(&j, ']');
    for (size_t i = 0; i < b.len; i++)
        assert_true((unsigned char)b.data[i] >= 0x20);
    json_t *doc = json_loadb(b.data, b.len, JSON_ALLOW_NUL, NULL);
    assert_non_null(doc);
    assert_int_equal(json_string_length(json_array_get(doc, 0)), n);
    assert_memory_equal(json_string_value(json_array_get(doc, 0)), text, n);
    assert_int_equal(json_string_length(json_array_get(doc, 1)), 0);
    json_decref(doc);
    buf_release(&b);
}

/* Fault: an answer that no client can read, because a file's name is not UTF-8. */
static void names_are_made_good(void **state)
{
    static const struct {
        const char *name, *is;
    } known[] = {{"caf\xe9.jsonl", "caf\ufffd.jsonl"},
                 {"\xff\xfe", "\ufffd\ufffd"},
                 {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
                 {"a\xc3", "a\ufffd"},
                 {"\u00e9\u20ac\U0001f600\"", "\u00e9\u20ac\U0001f600\""},
                 {"", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct buf b;
        buf_init(&b, 1000);
        struct jout j = jout_on(&b);
        jout_open(&j, '[');
        jout_str(&j, known[i].name);
        jout_close(&j, ']');
        json_t *doc = json_loadb(b.data, b.len, 0, NULL);
        assert_non_null(doc);
        assert_string_equal(json_string_value(json_array_get(doc, 0)), known[i].is);
        json_decref(doc);
        buf_release(&b);
    }
}

/* Fault: a number that loses bits, or is no JSON. */
static void numbers_come_back(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    for (int i = 0; i < 20000; i++) {
        struct rng_block r = rng_at(1, 2, (uint64_t)i);
        uint64_t bits = ((uint64_t)r.v[0] << 32) | r.v[1];
        double x;
        float f;
        memcpy(&x, &bits, sizeof x);
        memcpy(&f, &bits, sizeof f);
        buf_clear(&b);
        struct jout j = jout_on(&b);
        jout_open(&j, '[');
        jout_num(&j, x);
        jout_float(&j, f);
        jout_close(&j, ']');
        json_t *doc = json_loadb(b.data, b.len, 0, NULL);
        assert_non_null(doc);
        const json_t *at = json_array_get(doc, 0);
        if (isfinite(x))
            assert_true(json_number_value(at) == x);
        else
            assert_true(json_is_null(at));
        at = json_array_get(doc, 1);
        if (isfinite(f))
            assert_true((float)json_number_value(at) == f);
        else
            assert_true(json_is_null(at));
        json_decref(doc);
    }
    buf_release(&b);
}

/* Fault: a full buffer that is taken for a whole answer. */
static void full_is_said(void **state)
{
    (void)state;
    struct buf b;
    struct err e;
    buf_init(&b, 10);
    struct jout j = jout_on(&b);
    jout_str(&j, "0123456789");
    assert_int_not_equal(buf_check(&b, "the answer", &e), 0);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_right),  cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(names_are_made_good), cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(full_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
