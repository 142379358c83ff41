/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts and codes of errors.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

/* Faults: a message that is not terminated or silently cut; a lost code. */
static void set_cuts_long_text(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char text[1000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(err_set(&e, ERR_TOO_LARGE, "%s", text), -1);
    assert_int_equal(e.code, ERR_TOO_LARGE);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    assert_string_equal(e.msg + sizeof e.msg - 4, "...");
}

/* Fault: the cut leaves half a character, and the JSON made from it is invalid. */
static void cut_keeps_characters_whole(void **state)
{
    (void)state;
    for (int shift = 0; shift < 3; shift++) {
        struct err e = ERR_INIT;
        char text[1000] = "";
        memset(text, 'x', (size_t)shift);
        for (size_t n = (size_t)shift; n + 3 < sizeof text; n += 3)
            memcpy(text + n, "\xe2\x82\xac", 3);
        err_set(&e, ERR_IO, "%s", text);
        size_t len = strlen(e.msg) - 3;
        assert_string_equal(e.msg + len, "...");
        assert_int_equal((len - (size_t)shift) % 3, 0);
    }
}

/* Faults: the order of the parts; the code overwritten by the wrapping. */
static void wrap_puts_the_context_first(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    err_set(&e, ERR_CORRUPT, "tensor %s: ends past the file", "w");
    assert_int_equal(err_wrap(&e, "loading %s", "a.safetensors"), -1);
    assert_string_equal(e.msg, "loading a.safetensors: tensor w: ends past the file");
    assert_int_equal(e.code, ERR_CORRUPT);
    for (int i = 0; i < 50; i++)
        err_wrap(&e, "a long context %d", i);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

/* Fault: errno overwritten while the text is made, or mapped to the wrong code. */
static void sys_keeps_errno(void **state)
{
    (void)state;
    static const struct {
        int no;
        enum err_code code;
    } row[] = {{ENOENT, ERR_NOT_FOUND}, {EEXIST, ERR_EXISTS},    {ENOSPC, ERR_NO_SPACE},
               {EDQUOT, ERR_NO_SPACE},  {ENOMEM, ERR_NO_MEMORY}, {EACCES, ERR_IO}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        errno = row[i].no;
        assert_int_equal(err_sys(&e, "opening %s", "f"), -1);
        assert_int_equal(e.code, row[i].code);
        assert_non_null(strstr(e.msg, "opening f: "));
        assert_non_null(strstr(e.msg, strerrordesc_np(row[i].no)));
    }
}

/* Fault: a caller that wants no text crashes. */
static void null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_IO, "x"), -1);
    assert_int_equal(err_wrap(NULL, "x"), -1);
    assert_int_equal(err_sys(NULL, "x"), -1);
}

/* Fault: a row of err.def without a name, or two with one. */
static void names_are_there_and_differ(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ERR_COUNT; i++) {
        assert_non_null(err_name((enum err_code)i));
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(err_name((enum err_code)i), err_name((enum err_code)j));
    }
    assert_string_equal(err_name(ERR_BAD_INPUT), "bad_input");
    assert_string_equal(err_name((enum err_code)999), "unknown");
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(set_cuts_long_text),
        cmocka_unit_test(cut_keeps_characters_whole),
        cmocka_unit_test(wrap_puts_the_context_first),
        cmocka_unit_test(sys_keeps_errno),
        cmocka_unit_test(null_is_allowed),
        cmocka_unit_test(names_are_there_and_differ),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
