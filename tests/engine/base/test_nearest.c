/* SPDX-License-Identifier: Apache-2.0
 *
 * Which name a slip of the keys is taken for, and that a strange word is taken for none.
 */
#include "engine/base/nearest.h"

#include <string.h>

#include "tests/lib/test.h"

static const char *const names[] = {"serve", "run", "chat", "doctor", "version", "graph"};

static const char *meant_by(const char *word)
{
    struct nearest n;
    nearest_init(&n, word);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        nearest_add(&n, names[i]);
    return n.name;
}

/* Catches: one of the four slips not counted as one. */
static void test_slips(void **state)
{
    (void)state;
    assert_string_equal(meant_by("sevre"), "serve");
    assert_string_equal(meant_by("chta"), "chat");
    assert_string_equal(meant_by("docter"), "doctor");
    assert_string_equal(meant_by("vrsion"), "version");
    assert_string_equal(meant_by("runn"), "run");
}

/* Catches: a beginning that is far in letters left unrecognised. */
static void test_beginning(void **state)
{
    (void)state;
    assert_string_equal(meant_by("ver"), "version");
    assert_string_equal(meant_by("doc"), "doctor");
}

/* Catches: any word being taken for something, and reads past the table for long ones. */
static void test_strange(void **state)
{
    (void)state;
    char word[400];
    memset(word, 's', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_null(meant_by(word));
    assert_null(meant_by(""));
    assert_null(meant_by("x"));
    assert_null(meant_by("banana"));
}

/* Catches: the first near name winning over a nearer one. */
static void test_nearest_wins(void **state)
{
    (void)state;
    struct nearest n;
    nearest_init(&n, "server");
    nearest_add(&n, "severe");
    nearest_add(&n, "serve");
    nearest_add(&n, "saver");
    assert_string_equal(n.name, "serve");
    assert_int_equal(n.far, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slips),
        cmocka_unit_test(test_beginning),
        cmocka_unit_test(test_strange),
        cmocka_unit_test(test_nearest_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
