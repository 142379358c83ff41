/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a configuration file, and the place that an error names.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/conf.h"

static char *dir, path[512];

static int setup(void **state)
{
    (void)state;
    dir = test_dir_new();
    snprintf(path, sizeof path, "%s/conf", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_dir_free(dir);
    return 0;
}

static int note(void *ctx, const char *name, const char *value, struct err *e)
{
    if (!strcmp(name, "bad"))
        return err_set(e, ERR_BAD_INPUT, "refused");
    return buf_printf(ctx, "%s=%s;", name, value);
}

static int read_text(const char *text, size_t n, struct buf *b, struct err *e)
{
    assert_int_equal(aside_put(path, text, n, NULL), 0);
    buf_clear(b);
    return conf_read(path, note, b, e);
}

/* Faults: spaces kept, a # inside a word or quotes taken for a comment, the last line lost. */
static void lines(void **state)
{
    (void)state;
    static const char text[] = "# first\n"
                               "\n"
                               "  a = 1  \r\n"
                               "b=x#y\t# comment\n"
                               "c = \"  # kept \" # gone\n"
                               "d =\n"
                               "e = p = q\n"
                               "\t# another\n"
                               "f = last";
    struct buf b;
    struct err e = ERR_INIT;
    buf_init(&b, 1000);
    assert_good(read_text(text, sizeof text - 1, &b, &e), &e);
    assert_string_equal(b.data, "a=1;b=x#y;c=  # kept ;d=;e=p = q;f=last;");
    assert_good(read_text("", 0, &b, &e), &e);
    buf_release(&b);
}

/* Fault: an error without its line, or with that of its neighbour. */
static void errors_name_the_line(void **state)
{
    (void)state;
    struct buf b;
    struct err e = ERR_INIT;
    buf_init(&b, 1000);
    assert_err(read_text("a = 1\nrubbish\n", 14, &b, &e), &e, ERR_BAD_INPUT,
               "conf:2: \"rubbish\" is not of the form name = value");
    assert_err(read_text("\n\nbad = 1\n", 10, &b, &e), &e, ERR_BAD_INPUT, "conf:3: refused");
    assert_err(read_text("= 1", 3, &b, &e), &e, ERR_BAD_INPUT, "conf:1: no name");
    assert_err(read_text("a = \"x", 6, &b, &e), &e, ERR_BAD_INPUT, "conf:1: a quote");
    assert_err(read_text("a = \"", 5, &b, &e), &e, ERR_BAD_INPUT, "conf:1: a quote");
    assert_err(read_text("a = 1\0\n", 7, &b, &e), &e, ERR_BAD_INPUT, "zero byte");
    assert_err(conf_read("/nonexistent", note, &b, &e), &e, ERR_NOT_FOUND, "/nonexistent");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(errors_name_the_line),
    };
    return cmocka_run_group_tests(test, setup, teardown);
}
