/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts made harmless, cut by characters, and set in columns.
 */
#include "clients/remote/table.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

static void check_clean(const char *text, bool keeps_lines, const char *want)
{
    struct buf b;
    buf_init(&b, 1 << 16);
    buf_str(&b, "");
    term_clean(&b, text, strlen(text), keeps_lines);
    assert_string_equal(b.data, want);
    buf_release(&b);
}

/* Catches: an escape that reaches the terminal, in any of its spellings; a good character that is
 * taken for one; bytes that are no UTF-8. */
static void test_clean(void **state)
{
    (void)state;
    check_clean("plain", false, "plain");
    check_clean("\033[31mred\a\b\x7f", false, "[31mred");
    check_clean("a\xc2\x9b"
                "31m\xc2\xa0",
                false, "a31m\xc2\xa0");
    check_clean("two\nlines\tand\r", false, "two lines and");
    check_clean("two\nlines\tand\r", true, "two\nlines\tand");
    check_clean("\xe2\x82\xac \xf0\x9f\x98\x80", false, "\xe2\x82\xac \xf0\x9f\x98\x80");
    check_clean("\xff\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82", false,
                "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

/* Catches: a character cut in its middle. */
static void test_cut(void **state)
{
    (void)state;
    assert_int_equal(term_columns("a\xe2\x82\xac"
                                  "b"),
                     3);
    assert_int_equal(term_cut("a\xe2\x82\xac"
                              "b",
                              2),
                     4);
    assert_int_equal(term_cut("ab", 5), 2);
    assert_int_equal(term_cut("ab", 0), 0);
    assert_int_equal(term_columns("\xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81\xff"), 7);
    assert_int_equal(term_cut("\xe6\xbc\xa2\xe5\xad\x97", 3), 3);
}

static const char *const names[] = {"ID", "TEXT"};

static void print(bool is_tty, const char *columns, const char *want)
{
    char *out = NULL;
    size_t n = 0;
    struct table t;
    struct term term = {.out = test_file(), .is_tty = is_tty};
    assert_non_null(term.out);
    setenv("COLUMNS", columns, 1);
    table_init(&t, names, 2);
    table_add(&t, "one");
    table_add(&t, "a long text that gives way");
    table_add(&t, "sixteen letters.");
    table_add(&t, "short");
    table_print(&t, &term);
    table_release(&t);
    n = (size_t)ftell(term.out);
    rewind(term.out);
    out = calloc(1, n + 1);
    assert_int_equal(fread(out, 1, n, term.out), n);
    assert_string_equal(out, want);
    free(out);
    fclose(term.out);
}

/* Catches: cells that a program cannot take apart, columns that do not stand below their names, a
 * line wider than the terminal, a short column cut for a long one. */
static void test_print(void **state)
{
    (void)state;
    print(false, "20", "one\ta long text that gives way\nsixteen letters.\tshort\n");
    print(true, "80",
          "ID                TEXT\n"
          "one               a long text that gives way\n"
          "sixteen letters.  short\n");
    print(true, "30",
          "ID              TEXT\n"
          "one             a long text t~\n"
          "sixteen lette~  short\n");
    print(true, "1",
          "ID         TEXT\n"
          "one        a long t~\n"
          "sixteen ~  short\n");
}

static const char *const id_names[] = {"ID", "STATE", "AT", "RESULT", "NAME"};

static void print_ids(const char *columns, const char *id, const char *want)
{
    struct table t;
    struct term term = {.out = test_file(), .is_tty = true};
    char out[512] = "";
    assert_non_null(term.out);
    setenv("COLUMNS", columns, 1);
    table_init(&t, id_names, 5);
    t.gives = "0312c";
    const char *const cell[] = {id, "running", "12:00", "result-of-it",
                                "a name that is longer than others"};
    for (size_t i = 0; i < 5; i++)
        table_add(&t, cell[i]);
    table_print(&t, &term);
    table_release(&t);
    rewind(term.out);
    out[fread(out, 1, sizeof out - 1, term.out)] = 0;
    fclose(term.out);
    assert_non_null(strchr(out, '\n'));
    assert_string_equal(strchr(out, '\n') + 1, want);
}

/* Catches: an id that is cut where another column could go, or at all; a column left out that has
 * room; a name cut further than it must be. */
static void test_ids_stay_whole(void **state)
{
    (void)state;
    static const char id[] = "job-0123456789", wide[] = "job-0123456789-0123456789";
    print_ids("81", id,
              "job-0123456789  running  12:00  result-of-it  a name that is longer than others\n");
    print_ids("72", id,
              "job-0123456789  running  12:00  result-of-it  a name that is longer tha~\n");
    print_ids("69", id, "job-0123456789  running  result-of-it  a name that is longer than ot~\n");
    print_ids("60", id, "job-0123456789  running  12:00  a name that is longer than ~\n");
    print_ids("32", id, "job-0123456789  running  12:00\n");
    print_ids("20", id, "job-0123456789\n");
    print_ids("20", wide, "job-0123456789-01234\n56789\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_ids_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
