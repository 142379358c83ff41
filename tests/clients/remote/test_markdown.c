/* SPDX-License-Identifier: Apache-2.0
 *
 * Styles of an answer. Faults they can catch: a text that changes; a style that does not end with
 * its line, or ends a block of code; marks in code that are taken for marks; a piece's end that
 * changes the styles.
 */
#include "clients/remote/markdown.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

static char *styled(const char *text, size_t piece, bool has_color)
{
    const struct term t = {.out = stdout, .has_color = has_color};
    struct markdown m;
    struct buf out;
    buf_init(&out, 1 << 16);
    buf_str(&out, "");
    markdown_init(&m, &t);
    for (size_t n = strlen(text), i = 0; i < n; i += piece)
        markdown_put(&m, &out, text + i, n - i < piece ? n - i : piece);
    markdown_end(&m, &out);
    char *s = buf_take(&out);
    assert_non_null(s);
    return s;
}

/* Styles as letters: b[old, c[ode, and ] for none. */
static void check(const char *text, const char *want)
{
    static const char *const code[] = {"\033[0m", "\033[1m", "\033[36m"};
    static const char *const shown[] = {"]", "b[", "c["};
    for (size_t piece = 1; piece < 5; piece++) {
        char *s = styled(text, piece, true), got[1024];
        size_t n = 0;
        for (const char *at = s; *at;) {
            size_t k = 0;
            while (k < 3 && strncmp(at, code[k], strlen(code[k])) != 0)
                k++;
            n += (size_t)snprintf(got + n, sizeof got - n, "%.*s", k < 3 ? 9 : 1,
                                  k < 3 ? shown[k] : at);
            at += k < 3 ? strlen(code[k]) : 1;
        }
        assert_string_equal(got, want);
        free(s);
        s = styled(text, piece, false);
        assert_string_equal(s, text);
        free(s);
    }
}

static void test_lines(void **state)
{
    (void)state;
    check("plain * text # 3\n", "plain * text # 3\n");
    check("a **b c** d", "a ]b[**b c**] d");
    check("a **b\nc", "a ]b[**b]\nc");
    check("`x * **y**` z", "]c[`x * **y**`] z");
    check("# Head\ntext", "]b[# Head]\ntext");
    check("####### no\n#no\n a # no", "####### no\n#no\n a # no");
    check("**a `b` c**", "]b[**a ]c[`b`]b[ c**]");
    check("2 ** 3", "2 ]b[** 3]");
}

static void test_blocks(void **state)
{
    (void)state;
    check("```c\nint **p; # `x`\n```\nafter", "]c[```c\nint **p; # `x`\n]c[```]\nafter");
    check("  ```\nx\n", "  ]c[```\nx\n]");
    check("a ``` b", "a ]c[``` b]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
