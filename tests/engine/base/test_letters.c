/* SPDX-License-Identifier: Apache-2.0
 *
 * Random letters: as many as were asked for, of the right kind, and other ones each time.
 */
#include "tests/lib/test.h"

#include <ctype.h>
#include <string.h>

#include "engine/base/letters.h"

/* Fault: one too few or too many, no terminator, or a byte that has no place in an id. */
static void writes_as_many_as_asked(void **state)
{
    (void)state;
    for (size_t n = 0; n <= LETTERS_MAX; n++) {
        char to[LETTERS_MAX + 2];
        memset(to, '!', sizeof to);
        letters_draw(to, n);
        assert_int_equal(strlen(to), n);
        assert_int_equal(to[n + 1], '!');
        for (size_t i = 0; i < n; i++)
            assert_true(isalnum((unsigned char)to[i]));
    }
}

/* Fault: the same id twice. */
static void differs_each_time(void **state)
{
    (void)state;
    char a[25], b[25];
    letters_draw(a, 24);
    letters_draw(b, 24);
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_as_many_as_asked),
        cmocka_unit_test(differs_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
