/* SPDX-License-Identifier: Apache-2.0
 *
 * The growable buffer: its ceiling, its memory of a refusal.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"

/* Fault: bytes lost or not terminated while growing; printf that meets the end of the room. */
static void grows_and_stays_terminated(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    size_t want = 0;
    for (int i = 0; i < 3000; i++) {
        char text[16];
        want += (size_t)snprintf(text, sizeof text, "%d,", i);
        assert_int_equal(buf_printf(&b, "%d,", i), 0);
        assert_int_equal(b.len, want);
        assert_int_equal(b.data[b.len], 0);
        assert_memory_equal(b.data + b.len - strlen(text), text, strlen(text));
    }
    assert_int_equal(buf_check(&b, "test", NULL), 0);
    buf_release(&b);
}

/* Fault: one byte more or less than the ceiling. */
static void ceiling_is_exact(void **state)
{
    (void)state;
    struct buf b;
    struct err e = ERR_INIT;
    buf_init(&b, 5);
    assert_int_equal(buf_str(&b, "abcd"), 0);
    assert_int_equal(buf_char(&b, 'e'), 0);
    assert_int_equal(buf_check(&b, "answer", &e), 0);
    assert_int_equal(buf_char(&b, 'f'), -1);
    assert_err(buf_check(&b, "answer", &e), &e, ERR_TOO_LARGE, "answer: more than the limit of 5");
    assert_string_equal(b.data, "abcde");
    buf_release(&b);
}

/* Fault: a write after the refused one gets in, and the text has a hole. */
static void refusal_is_remembered(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5);
    buf_str(&b, "abc");
    assert_int_equal(buf_printf(&b, "%s", "defgh"), -1);
    assert_int_equal(buf_char(&b, 'x'), -1);
    assert_string_equal(b.data, "abc");
    assert_null(buf_take(&b));
    assert_int_equal(buf_str(&b, "abc"), 0); /* taking begins anew */
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    buf_release(&b);
}

/* Fault: a size near SIZE_MAX wraps and is taken for a small one. */
static void huge_sizes_do_not_wrap(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, SIZE_MAX);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -1);
    buf_clear(&b);
    buf_str(&b, "abc");
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 2), -1);
    buf_release(&b);
}

/* Fault: take of an empty buffer gives NULL where a string is promised. */
static void take_moves_out(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    char *empty = buf_take(&b);
    assert_string_equal(empty, "");
    buf_add(&b, "a\0b", 3);
    char *s = buf_take(&b);
    assert_memory_equal(s, "a\0b", 4);
    assert_null(b.data);
    free(empty);
    free(s);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(grows_and_stays_terminated),
        cmocka_unit_test(ceiling_is_exact),
        cmocka_unit_test(refusal_is_remembered),
        cmocka_unit_test(huge_sizes_do_not_wrap),
        cmocka_unit_test(take_moves_out),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
