/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash map against a plain array.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/rng.h"

/* Fault: any difference to a plain array under a long random run of puts, gets and removals. */
static void agrees_with_an_array(void **state)
{
    (void)state;
    enum { N_KEY = 300, N_STEP = 60000 };
    static int value[N_KEY];
    void *model[N_KEY] = {0};
    struct map m;
    map_init(&m);
    for (uint64_t step = 0; step < N_STEP; step++) {
        size_t k = rng_below(1, 0, step, N_KEY);
        char key[32];
        snprintf(key, sizeof key, "key-%zu", k);
        switch (rng_below(1, 1, step, 3)) {
        case 0:
            assert_ptr_equal(map_put_str(&m, key, &value[k]), model[k]);
            model[k] = &value[k];
            break;
        case 1:
            assert_ptr_equal(map_del_str(&m, key), model[k]);
            model[k] = NULL;
            break;
        default:
            assert_ptr_equal(map_get_str(&m, key), model[k]);
        }
    }
    size_t n = 0;
    for (size_t k = 0; k < N_KEY; k++)
        n += model[k] != NULL;
    assert_int_equal(m.n_live, n);
    assert_true(m.cap_entry <= 1024); /* removals do not make it grow for ever */
    map_release(&m);
}

/* Fault: output that changes from run to run because it follows the hash. */
static void iterates_in_order_of_insertion(void **state)
{
    (void)state;
    struct map m;
    char key[1000][16];
    map_init(&m);
    for (int i = 0; i < 1000; i++) {
        snprintf(key[i], sizeof key[i], "%d", i);
        map_put_str(&m, key[i], key[i]);
    }
    for (int i = 0; i < 1000; i += 2)
        map_del_str(&m, key[i]);
    int i = 1;
    for (struct map_entry *it = map_next(&m, NULL); it; it = map_next(&m, it), i += 2)
        assert_string_equal(it->key, key[i]);
    assert_int_equal(i, 1001);
    map_release(&m);
}

/* Fault: keys compared as strings: a key with a zero byte found under its first part. */
static void keys_are_bytes(void **state)
{
    (void)state;
    struct map m;
    int a, b, c;
    map_init(&m);
    assert_null(map_get(&m, "x", 1));
    map_put(&m, "x", 1, &a);
    map_put(&m, "x\0y", 3, &b);
    map_put(&m, NULL, 0, &c);
    assert_ptr_equal(map_get(&m, "x", 1), &a);
    assert_ptr_equal(map_get(&m, "x\0y", 3), &b);
    assert_ptr_equal(map_get(&m, "", 0), &c);
    assert_null(map_get(&m, "x\0", 2));
    map_release(&m);
    assert_null(map_get(&m, "x", 1));
}

/* Fault: the key given is kept instead of copied. */
static void keys_are_copied(void **state)
{
    (void)state;
    struct map m;
    char key[] = "name";
    int v;
    map_init(&m);
    map_put_str(&m, key, &v);
    key[0] = 'X';
    assert_ptr_equal(map_get_str(&m, "name"), &v);
    assert_null(map_get_str(&m, key));
    map_release(&m);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(agrees_with_an_array),
        cmocka_unit_test(iterates_in_order_of_insertion),
        cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(keys_are_copied),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
