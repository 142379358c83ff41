/* SPDX-License-Identifier: Apache-2.0
 *
 * Where values end, against jansson. Faults it can catch: a value that is taken and is no JSON, one
 * that is refused, an end that is seen too early or too late.
 */
#include "engine/tools/json_scan.h"

#include <jansson.h>
#include <string.h>

#include "tests/engine/grammar/run.h"

/* Bytes of the value that the text begins with; 0: none. */
static size_t scanned(const char *text, size_t n)
{
    struct json_scan s;
    json_scan_init(&s);
    for (size_t i = 0; i < n; i++) {
        enum json_scan_is is = json_scan_byte(&s, text[i]);
        if (is == JSON_SCAN_BAD)
            return 0;
        if (is != JSON_SCAN_MORE)
            return i + (is == JSON_SCAN_DONE);
    }
    return 0;
}

static void test_ends(void **state)
{
    (void)state;
    assert_int_equal(scanned("{\"a\": [1, 2]} x", 15), 13);
    assert_int_equal(scanned("-1.5e+3,", 8), 7);
    assert_int_equal(scanned("0 ", 2), 1);
    assert_int_equal(scanned("\"\\u00e9\\\"\" ", 11), 10);
    assert_int_equal(scanned(" true]", 6), 5);
    assert_int_equal(scanned("{\"a\"}", 5), 0);
    assert_int_equal(scanned("[1,]", 4), 0);
    assert_int_equal(scanned("[1}", 3), 0);
    assert_int_equal(scanned("01 ", 3), 0);
    assert_int_equal(scanned("\"\n\"", 3), 0);
}

static void test_depth(void **state)
{
    (void)state;
    char text[2 * JSON_SCAN_DEPTH_MAX + 2];
    memset(text, '[', sizeof text / 2);
    memset(text + sizeof text / 2, ']', sizeof text / 2);
    assert_int_equal(scanned(text, sizeof text), 0);
    assert_int_equal(scanned(text + 1, sizeof text - 2), sizeof text - 2);
}

static void test_against_jansson(void **state)
{
    static const char seed[] =
        "{\"a\":[1,-2.5e3,0,true,false,null,{}],\"b\":{\"c\":\"x\\n\\\"y\"}}";
    static const char byte[] = "{}[]:,\"\\0123456789-+.eEtrufalsn ax";
    uint64_t at = 7;
    int n_good = 0;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[sizeof seed + 8];
        size_t n = sizeof seed - 1;
        memcpy(text, seed, n);
        for (uint32_t k = draw(&at, 3); k; k--) {
            size_t place = draw(&at, (uint32_t)n);
            if (draw(&at, 2)) {
                text[place] = byte[draw(&at, sizeof byte - 1)];
            } else {
                memmove(text + place, text + place + 1, n - place - 1);
                n--;
            }
        }
        json_error_t why;
        json_t *v = json_loadb(text, n, JSON_DECODE_ANY, &why);
        if (!v && strstr(why.text, "overflow")) /* a number like any other here */
            continue;
        text[n] = ' '; /* a number at the end has ended */
        if ((v != NULL) != (scanned(text, n + 1) == n))
            fail_msg("%.*s: jansson %s", (int)n, text, v ? "takes it" : "does not");
        n_good += v != NULL;
        json_decref(v);
    }
    assert_true(n_good > 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_against_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
