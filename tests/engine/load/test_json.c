/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/json: what the strict scan must refuse, what cJSON alone would take, and that errors
 * say where.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/json.h"
#include "tests/lib/test.h"

static struct json_doc *parse(const char *text, struct err *e)
{
    return json_parse(text, strlen(text), "f.json", &json_rules_config, e);
}

static void refuse(const char *text, const char *why)
{
    struct err e = ERR_INIT;
    struct json_doc *d = parse(text, &e);
    if (d)
        fail_msg("taken: %s", text);
    if (!strstr(e.msg, why))
        fail_msg("%s\n  said: %s\n  not: %s", text, e.msg, why);
}

/* Fault: the leniencies of cJSON (leading zeros, control characters, garbage behind the value,
 * broken UTF-8, lone surrogates, NUL) reach the tree. */
static void test_refuses_what_is_not_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "line 1, column 1: expected a value, found the end of the text"},
        {"{", "expected a key in quotes"},
        {"{\"a\"", "expected ':'"},
        {"{\"a\":1,}", "expected a key in quotes, found '}'"},
        {"[1,]", "expected a value, found ']'"},
        {"[1 2]", "expected ',' or ']', found '2'"},
        {"[01]", "leading zero"},
        {"[1.]", "expected a digit"},
        {"[.5]", "expected a value"},
        {"[+1]", "expected a value"},
        {"[-]", "expected a digit"},
        {"[1e]", "expected a digit"},
        {"[1e+]", "expected a digit"},
        {"[NaN]", "expected a value, found 'N'"},
        {"[Infinity]", "expected a value"},
        {"[tru]", "expected a value"},
        {"[nul", "expected a value"},
        {"{} x", "expected nothing more, found 'x'"},
        {"\xef\xbb\xbf{}", "found byte 0xef"},
        {"[\"a\nb\"]", "control character"},
        {"[\"\x01\"]", "control character"},
        {"[\"abc", "column 2: a string that does not end"},
        {"[\"\\", "expected an escape"},
        {"[\"\\x\"]", "not an escape"},
        {"[\"\\u12g4\"]", "four hexadecimal digits"},
        {"[\"\\u12", "four hexadecimal digits"},
        {"[\"\\udc00\"]", "second half of a surrogate"},
        {"[\"\\ud800\"]", "first half of a surrogate"},
        {"[\"\\ud800\\ud800\"]", "first half of a surrogate"},
        {"[\"\\ud800x\"]", "first half of a surrogate"},
        {"[\"\\u0000\"]", "NUL"},
        {"{\"a\\u0000b\":1}", "NUL"},
        {"[\"\x80\"]", "not UTF-8"},
        {"[\"\xc0\xaf\"]", "not UTF-8"},
        {"[\"\xc1\xbf\"]", "not UTF-8"},
        {"[\"\xe0\x80\x80\"]", "not UTF-8"},
        {"[\"\xed\xa0\x80\"]", "not UTF-8"},
        {"[\"\xf0\x80\x80\x80\"]", "not UTF-8"},
        {"[\"\xf4\x90\x80\x80\"]", "not UTF-8"},
        {"[\"\xf5\x80\x80\x80\"]", "not UTF-8"},
        {"[\"\xe2\x82", "not UTF-8"},
        {"[\n 1,\n  x]", "line 3, column 3"},
        {"[1000000000000000000000000000000000000000000000000000000000000000000]", "63 characters"},
        {"{\"a\":1,\"b\":2,\"a\":3}", "\"a\" stands twice"},
        {"{\"o\":[{\"x\":1,\"x\":1}]}", "\"x\" stands twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse(bad[i].text, bad[i].why);
}

/* Fault: the check for duplicates of a large object (by map) differs from that of a small one. */
static void test_duplicate_in_large_object(void **state)
{
    (void)state;
    char text[8192] = "{", *p = text + 1, *end = text + sizeof text;
    for (int i = 0; i < 500; i++)
        p += snprintf(p, (size_t)(end - p), "\"k%d\":%d,", i, i);
    snprintf(p, (size_t)(end - p), "\"z\":0}");
    struct err e = ERR_INIT;
    struct json_doc *d = parse(text, &e);
    assert_non_null(d);
    json_free(d);
    snprintf(p, (size_t)(end - p), "\"k0\":0}");
    refuse(text, "\"k0\" stands twice");
}

/* Fault: nesting one past the limit recurses further, or the last legal depth is refused. */
static void test_depth(void **state)
{
    (void)state;
    static const int deep[] = {63, 64, 65, 2047, 2049, 1000000};
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) {
        size_t n = (size_t)deep[i];
        char *text = malloc(2 * n);
        memset(text, '[', n);
        memset(text + n, ']', n);
        struct err e = ERR_INIT;
        struct json_doc *d = json_parse(text, 2 * n, "deep", &json_rules_config, &e);
        assert_int_equal(d != NULL, n <= 64);
        if (!d)
            assert_non_null(strstr(e.msg, "nested too deeply"));
        json_free(d);
        free(text);
    }
}

/* Fault: the ceilings on bytes and values are off by one or not applied. */
static void test_ceilings(void **state)
{
    (void)state;
    struct json_rules r = {.max_bytes = 7, .max_nodes = 4, .max_depth = 2};
    struct err e = ERR_INIT;
    struct json_doc *d = json_parse("[1,2,3]", 7, "f", &r, &e);
    assert_non_null(d);
    json_free(d);
    assert_null(json_parse("[1,2,3] ", 8, "f", &r, &e));
    assert_string_equal(e.msg, "f: more than 7 bytes");
    r.max_nodes = 3;
    assert_null(json_parse("[1,2,3]", 7, "f", &r, &e));
    assert_string_equal(e.msg, "f: more than 3 values");
    assert_int_equal(e.code, ERR_TOO_LARGE);
}

/* Fault: a getter takes a value of another type, loses bits, or names the wrong place. */
static void test_errors_name_the_path(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct json_doc *d = parse(
        "{\"rope_scaling\":{\"factor\":\"8\",\"list\":[1,{\"x\":1.5}]},\"n\":9007199254740993,"
        "\"m\":9007199254740991,\"h\":1e999,\"z\":null}",
        &e);
    assert_non_null(d);
    struct json root = json_root(d), scaling, list, item;
    double num = 0;
    int64_t n = 0;
    assert_int_equal(json_get(&root, "rope_scaling", JSON_OBJECT, &scaling, &e), 0);
    assert_int_equal(json_get_num(&scaling, "factor", &num, &e), -1);
    assert_string_equal(e.msg, "f.json: rope_scaling.factor: expected a number, found a string");
    assert_int_equal(json_get_num(&scaling, "beta", &num, &e), -1);
    assert_string_equal(e.msg, "f.json: rope_scaling: beta is missing");
    assert_int_equal(json_get(&scaling, "list", JSON_ARRAY, &list, &e), 0);
    assert_int_equal(json_count(&list), 2);
    item = json_child(&list);
    item = json_next(&item);
    assert_int_equal(json_get_int(&item, "x", 0, 9, &n, &e), -1);
    assert_string_equal(e.msg, "f.json: rope_scaling.list[1].x: expected a whole number below 2^53,"
                               " found 1.5");
    assert_int_equal(json_get_int(&root, "n", 0, INT64_MAX, &n, &e), -1);
    assert_non_null(strstr(e.msg, "f.json: n: expected a whole number below 2^53"));
    assert_int_equal(json_get_int(&root, "m", 0, INT64_MAX, &n, &e), 0);
    assert_true(n == 9007199254740991);
    assert_int_equal(json_get_int(&root, "m", 0, 10, &n, &e), -1);
    assert_non_null(strstr(e.msg, "from 0 to 10"));
    assert_int_equal(json_get_num(&root, "h", &num, &e), -1);
    assert_int_equal(json_get_int(&root, "h", 0, 10, &n, &e), -1);
    assert_int_equal(json_get_int(&root, "Z", 0, 10, &n, &e), -1);
    assert_string_equal(e.msg, "f.json: Z is missing");
    assert_int_equal(json_opt_int(&root, "z", 0, 10, &n, &e), 0); /* null leaves n */
    assert_true(n == 9007199254740991);
    assert_int_equal(json_get_int(&root, "z", 0, 10, &n, &e), -1);
    json_free(d);
}

/* Fault: a NUL in a string cuts it, or marks the wrong string, where the rules allow it. */
static void test_nul_keeps_its_length(void **state)
{
    (void)state;
    const char *text = "{\"a\":[\"x\",\"p\\u0000q\\u00e9\",{\"k\":\"\\u0000\"},"
                       "\"\\u0000\\u007f\\u0080\\u07ff\\u0800\\uffff\"],\"b\":\"plain\"}";
    struct err e = ERR_INIT;
    struct json_doc *d = json_parse(text, strlen(text), "t", &json_rules_tokenizer, &e);
    assert_non_null(d);
    struct json root = json_root(d), a = json_member(&root, "a"), v = json_child(&a);
    const char *s;
    size_t n;
    assert_int_equal(json_as_bytes(&v, &s, &n, &e), 0);
    assert_int_equal(n, 1);
    v = json_next(&v);
    assert_int_equal(json_as_bytes(&v, &s, &n, &e), 0);
    assert_int_equal(n, 5);
    assert_memory_equal(s, "p\0q\xc3\xa9", 5);
    assert_int_equal(json_as_str(&v, &s, &e), -1);
    v = json_next(&v);
    struct json k = json_child(&v);
    assert_int_equal(json_as_bytes(&k, &s, &n, &e), 0);
    assert_int_equal(n, 1);
    v = json_next(&v); /* where UTF-8 takes a byte more */
    assert_int_equal(json_as_bytes(&v, &s, &n, &e), 0);
    assert_int_equal(n, 12);
    assert_memory_equal(s, "\0\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 12);
    assert_int_equal(json_get_str(&root, "b", &s, &e), 0);
    assert_string_equal(s, "plain");
    json_free(d);
}

static int sum_member(void *ctx, const struct json *m, struct err *e)
{
    int64_t v;
    if (json_get_int(m, "v", 0, 100, &v, e))
        return -1;
    *(int64_t *)ctx = *(int64_t *)ctx * 10 + v + (json_key(m)[0] == 'k' ? 0 : 1000000);
    return 0;
}

/* Fault: the member-by-member walk loses its place at white space, at the last member, or in an
 * empty object; or goes on after an error. */
static void test_stream(void **state)
{
    (void)state;
    struct json_rules r = {.max_bytes = 1000,
                           .max_nodes = 100,
                           .max_depth = 16,
                           .unique_keys = true,
                           .naturals_only = true};
    const char *text = " { \"k1\" : {\"v\":1} ,\n\"k2\":{\"v\" : 2 }, \"k\\\"3\":{\"v\":3}  }  ";
    struct err e = ERR_INIT;
    int64_t sum = 0;
    assert_int_equal(json_stream(text, strlen(text), "s", &r, sum_member, &sum, &e), 0);
    assert_int_equal(sum, 123);
    assert_int_equal(json_stream(" { } ", 5, "s", &r, sum_member, &sum, &e), 0);
    assert_int_equal(json_stream("[]", 2, "s", &r, sum_member, &sum, &e), -1);
    text = "{\"k1\":{\"v\":1},\"k2\":{\"v\":\"x\"}}";
    assert_int_equal(json_stream(text, strlen(text), "s", &r, sum_member, &sum, &e), -1);
    assert_string_equal(e.msg, "s: k2.v: expected a number, found a string");
    text = "{\"k1\":{\"v\":1.0}}";
    assert_int_equal(json_stream(text, strlen(text), "s", &r, sum_member, &sum, &e), -1);
    assert_non_null(strstr(e.msg, "without sign, point or exponent"));
    text = "{\"k1\":{\"v\":1,\"v\":1}}";
    assert_int_equal(json_stream(text, strlen(text), "s", &r, sum_member, &sum, &e), -1);
}

/* Fault: the order of the file is lost, or a real 10 MB tokenizer does not pass the rules. */
static void test_real_tokenizers(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",        "llama2", "llama3.2",  "mistral-v0.3",
                                        "cl100k_base", "phi-3",  "starcoder", "bert-base-uncased"};
    const char *dir = getenv("TANDEM_TEST_DATA");
    char path[512];
    int n_seen = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/tokenizers/%s/tokenizer.json", dir ? dir : "../shared/data",
                 names[i]);
        struct err e = ERR_INIT;
        struct json_doc *d = json_read(path, "tokenizer.json", &json_rules_tokenizer, &e);
        if (!d && e.code == ERR_NOT_FOUND)
            continue;
        if (!d)
            fail_msg("%s", e.msg);
        struct json root = json_root(d), model, vocab;
        assert_int_equal(json_get(&root, "model", JSON_OBJECT, &model, &e), 0);
        assert_int_equal(json_get(&model, "vocab", JSON_OBJECT, &vocab, &e), 0);
        assert_true(json_count(&vocab) > 20000);
        json_free(d);
        n_seen++;
    }
    if (n_seen == 0) {
        print_message("no tokenizers under TANDEM_TEST_DATA: skipped\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_what_is_not_json),
        cmocka_unit_test(test_duplicate_in_large_object),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_errors_name_the_path),
        cmocka_unit_test(test_nul_keeps_its_length),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_real_tokenizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
