/* SPDX-License-Identifier: Apache-2.0
 *
 * The growable array.
 */
#include "tests/lib/test.h"

#include "engine/base/vec.h"

struct pair {
    int a;
    double b;
};

/* Faults: growth loses elements; a release leaves a stale length behind. */
static void grows_and_keeps(void **state)
{
    (void)state;
    VEC(struct pair) v = {0};
    for (int i = 0; i < 1000; i++)
        vec_push(&v, (struct pair){i, i * 0.5});
    assert_int_equal(v.n, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v.at[i].a, i);
    assert_int_equal(vec_pop(&v).a, 999);
    assert_int_equal(v.n, 999);
    vec_release(&v);
    assert_null(v.at);
    assert_int_equal(v.n + v.cap, 0);
    vec_push(&v, (struct pair){7, 0});
    assert_int_equal(v.at[0].a, 7);
    vec_release(&v);
}

/* Fault: a reservation that shrinks, or is not enough for what was asked. */
static void reserve_only_grows(void **state)
{
    (void)state;
    VEC(char) v = {0};
    vec_reserve(&v, 100);
    assert_true(v.cap >= 100);
    size_t cap = v.cap;
    vec_reserve(&v, 10);
    assert_int_equal(v.cap, cap);
    vec_release(&v);
}

/* Faults: what cannot be had ends the process, loses what is there, or counts an element that is
 * not there. */
static void what_cannot_be_had_is_said(void **state)
{
    struct err e = ERR_INIT;
    VEC(struct pair) v = {0};
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_good(vec_try_push(&v, "pairs", &e, (struct pair){i, 0}), &e);
    struct pair *at = v.at;
    size_t cap = v.cap;
    assert_err(vec_try_reserve(&v, SIZE_MAX / 2, "pairs", &e), &e, ERR_NO_MEMORY, "pairs");
    e = (struct err)ERR_INIT;
    assert_err(vec_try_reserve(&v, SIZE_MAX / sizeof *v.at, "pairs", &e), &e, ERR_NO_MEMORY,
               "pairs: no memory");
    assert_ptr_equal(v.at, at);
    assert_true(v.n == 100 && v.cap == cap && v.at[99].a == 99);
    vec_release(&v);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(grows_and_keeps),
        cmocka_unit_test(reserve_only_grows),
        cmocka_unit_test(what_cannot_be_had_is_said),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
