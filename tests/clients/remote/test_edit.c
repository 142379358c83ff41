/* SPDX-License-Identifier: Apache-2.0
 *
 * What each key does to a line.
 */
#include "clients/remote/edit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

static enum edit_end type(struct edit *e, const char *keys)
{
    enum edit_end end = EDIT_GOES_ON;
    for (const char *s = keys; *s && end == EDIT_GOES_ON; s++)
        end = edit_feed(e, (unsigned char)*s);
    return end;
}

/* `want` has a bar where the cursor must be. */
static void check(const char *keys, const char *want)
{
    struct edit e;
    char got[256];
    edit_init(&e);
    edit_clear(&e);
    assert_int_equal(type(&e, keys), EDIT_GOES_ON);
    snprintf(got, sizeof got, "%.*s|%s", (int)e.at, e.text, e.text + e.at);
    assert_string_equal(got, want);
    assert_int_equal(e.n, strlen(e.text));
    edit_release(&e);
}

/* Catches: a key that does another's work, a character of several bytes taken apart, a cursor that
 * leaves the line, an unknown sequence that becomes text. */
static void test_keys(void **state)
{
    (void)state;
    check("abc", "abc|");
    check("abc\x02\x02X", "aX|bc");
    check("abc\033[D\033[D\033[CX", "abX|c");
    check("abc\x01X\x05Y", "XabcY|");
    check("abc\033[HX\033[FY\033OHZ\033[4~!", "ZXabcY!|");
    check("\x02\x02\x06\x7f\x08\033[3~", "|");
    check("a\xe2\x82\xac"
          "b\x02\x7f",
          "a|b");
    check("\xe2\x82\xac\xe2\x82\xac\x02\x04", "\xe2\x82\xac|");
    check("one two  three\x17", "one two  |");
    check("one two  \x17", "one |");
    check("one two\x02\x02\x0b", "one t|");
    check("one two\x02\x02\x15", "|wo");
    check("a\033[1;5Cb\033[99999999999999~c\033xd\te", "abcde|");
    check("a\033[200~b\rc\nd\x03\033[201~e", "ab\nc\nde|");
}

static void remember(struct edit *e)
{
    edit_init(e);
    edit_remember(e, "the first line");
    edit_remember(e, "a second");
    edit_remember(e, "a second");
    edit_remember(e, "the third line");
    edit_clear(e);
}

/* Catches: a search that finds a newer line than it should, keeps what was found when it is given
 * up, loses the draft, or takes the key that ends it for its own. */
static void test_search(void **state)
{
    struct edit e;
    (void)state;
    remember(&e);
    assert_int_equal(e.n_history, 3);
    assert_int_equal(type(&e, "dra\x12line"), EDIT_GOES_ON);
    assert_true(e.searches);
    assert_string_equal(e.text, "the third line");
    type(&e, "\x12");
    assert_string_equal(e.text, "the first line");
    type(&e, "\x12");
    assert_string_equal(e.text, "the first line");
    type(&e, "\x7f\x7f\x7f\x7f"
             "second");
    assert_string_equal(e.query, "second");
    assert_string_equal(e.text, "a second");
    type(&e, "\x07");
    assert_false(e.searches);
    assert_string_equal(e.text, "dra");
    type(&e, "\x12third\x01X");
    assert_false(e.searches);
    assert_string_equal(e.text, "Xthe third line");
    assert_int_equal(type(&e, "\x12nothing has this\r"), EDIT_DONE);
    edit_release(&e);
}

/* Catches: Alt-Enter that ends the line, or loses what is behind the cursor. */
static void test_lines(void **state)
{
    (void)state;
    check("ab\x02\033\rc", "a\nc|b");
    check("ab\033\r\033\rc", "ab\n\nc|");
}

/* Catches: a line that is recalled wrong, a draft that is lost by looking, one line kept twice, an
 * older line changed by correcting its copy. */
static void test_history(void **state)
{
    struct edit e;
    (void)state;
    edit_init(&e);
    for (int i = 0; i < 3; i++) {
        static const char *const line[] = {"first\r", "second\r", "second\r"};
        edit_clear(&e);
        assert_int_equal(type(&e, line[i]), EDIT_DONE);
    }
    edit_clear(&e);
    assert_int_equal(type(&e, "\r"), EDIT_DONE);
    assert_int_equal(e.n_history, 2);
    edit_clear(&e);
    type(&e, "draft\033[A");
    assert_string_equal(e.text, "second");
    type(&e, "X\033[A\033[A\033[A");
    assert_string_equal(e.text, "first");
    type(&e, "\033[B");
    assert_string_equal(e.text, "second");
    type(&e, "\x0e\033[B\033[B");
    assert_string_equal(e.text, "draft");
    for (int i = 0; i < EDIT_HISTORY_MAX + 7; i++) {
        char line[32];
        snprintf(line, sizeof line, "%d\r", i);
        edit_clear(&e);
        assert_int_equal(type(&e, line), EDIT_DONE);
    }
    assert_int_equal(e.n_history, EDIT_HISTORY_MAX);
    assert_string_equal(e.history[0], "7");
    edit_release(&e);
}

/* Catches: an end taken for another, a line without a ceiling. */
static void test_ends(void **state)
{
    struct edit e;
    (void)state;
    edit_init(&e);
    edit_clear(&e);
    assert_int_equal(type(&e, "\x04"), EDIT_OVER);
    assert_int_equal(type(&e, "ab\x02\x04"), EDIT_GOES_ON);
    assert_int_equal(type(&e, "\x03"), EDIT_DROPPED);
    edit_clear(&e);
    for (int i = 0; i < EDIT_BYTES_MAX + 10; i++)
        assert_int_equal(edit_feed(&e, 'x'), EDIT_GOES_ON);
    assert_int_equal(e.n, EDIT_BYTES_MAX - 1);
    edit_release(&e);
}

static void check_row(const struct edit *e, const char *want)
{
    struct term t = {.out = test_file(), .has_cursor = true, .is_tty = true};
    char row[256];
    assert_non_null(t.out);
    edit_draw(e, &t, "> ");
    rewind(t.out);
    row[fread(row, 1, sizeof row - 1, t.out)] = 0;
    assert_string_equal(row, want);
    fclose(t.out);
}

/* Catches: a row wider than its terminal, or a cursor that is not on it. */
static void test_draw(void **state)
{
    struct edit e;
    (void)state;
    setenv("COLUMNS", "20", 1);
    edit_init(&e);
    edit_clear(&e);
    type(&e, "abcdefghijklmnopqrstuvwxyz");
    check_row(&e, "\r\033[K> jklmnopqrstuvwxyz\r\033[19C");
    type(&e, "\x01");
    check_row(&e, "\r\033[K> abcdefghijklmnopq\r\033[2C");
    edit_release(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),  cmocka_unit_test(test_history), cmocka_unit_test(test_search),
        cmocka_unit_test(test_lines), cmocka_unit_test(test_ends),    cmocka_unit_test(test_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
