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

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(grows_and_keeps),
        cmocka_unit_test(reserve_only_grows),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
