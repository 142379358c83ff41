/* SPDX-License-Identifier: Apache-2.0
 *
 * Values: what the builders take and refuse, and that dicts find their keys as Python does.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/template/jvalue.h"

static int setup(void **state)
{
    static struct arena a;
    arena_init(&a, 1 << 22);
    *state = &a;
    return 0;
}

static int teardown(void **state)
{
    arena_release(*state);
    return 0;
}

/* Fault: text that is not UTF-8 gets in, and later walks run past its end. */
static void test_strings_are_utf8(void **state)
{
    struct err e = ERR_INIT;
    struct jvalue v;
    static const char *const bad[] = {
        "\xff", "\xc3", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf5\x80\x80\x80", "a\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_err(jv_str(*state, bad[i], strlen(bad[i]), &v, &e), &e, ERR_BAD_INPUT, "UTF-8");
    assert_good(jv_str(*state, "a\xc3\xa9\xf0\x9f\x8e\x89\0", 8, &v, &e), &e);
    assert_int_equal(v.s->len, 8);
    assert_int_equal(v.s->n_cp, 4);
}

/* Faults: a key lost or doubled when the index is built or grows; the order changed. */
static void test_dict_keeps_order(void **state)
{
    struct err e = ERR_INIT;
    struct jvalue d;
    char key[16];
    assert_good(jv_dict(*state, &d, &e), &e);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 1000; i++) {
            size_t n = (size_t)snprintf(key, sizeof key, "k%d", i);
            assert_good(jv_dict_put(*state, &d, key, n, jv_int(i + round), &e), &e);
        }
    assert_int_equal(d.d->n, 1000);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(jv_dict_get(&d, key)->i, i + 1);
        assert_memory_equal(d.d->key[i].s->p, key, strlen(key));
    }
    assert_null(jv_dict_get(&d, "k1000"));
}

/* Fault: 1, 1.0 and True as different keys. */
static void test_numbers_are_one_key(void **state)
{
    struct err e = ERR_INIT;
    struct jvalue d;
    const struct jvalue keys[] = {jv_int(1), jv_float(1), jv_bool(true)};
    assert_good(jv_dict(*state, &d, &e), &e);
    for (int i = 0; i < 40; i++)
        assert_good(jdict_put(*state, d.d, jv_float(i + 10.5), jv_none(), &e), &e);
    for (size_t i = 0; i < 3; i++)
        assert_good(jdict_put(*state, d.d, keys[i], jv_int((int64_t)i), &e), &e);
    assert_int_equal(d.d->n, 41);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(jdict_get(d.d, &keys[i])->i, 2);
    const struct jvalue big = jv_int(9007199254740993), near = jv_float(9007199254740992.0);
    assert_false(jvalue_same_key(&big, &near));
}

/* Fault: a builder that takes more than its arena may hold. */
static void test_ceiling(void **state)
{
    struct arena a;
    struct err e = ERR_INIT;
    struct jvalue list;
    int rc = 0;
    (void)state;
    arena_init(&a, 4096);
    assert_good(jv_list(&a, &list, &e), &e);
    for (int i = 0; i < 100000 && rc == 0; i++)
        rc = jv_list_add(&a, &list, jv_int(i), &e);
    assert_err(rc, &e, ERR_TOO_LARGE, "");
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_strings_are_utf8, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dict_keeps_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_numbers_are_one_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ceiling, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
