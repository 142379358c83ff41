/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue between two threads.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "engine/base/ring.h"

struct elem {
    uint64_t n;
    char text[12];
    uint32_t check;
};

/* Fault: capacity off by one, order lost, places mixed up at the turn. */
static void fills_and_empties(void **state)
{
    (void)state;
    struct ring *r = ring_new(5, sizeof(struct elem)); /* becomes 8 */
    struct elem e = {0};
    assert_false(ring_pop(r, &e));
    for (uint64_t round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < 8; i++) {
            e.n = round * 8 + i;
            assert_true(ring_push(r, &e));
            assert_int_equal(ring_count(r), i + 1);
        }
        assert_false(ring_push(r, &e));
        for (uint64_t i = 0; i < 8; i++) {
            assert_true(ring_pop(r, &e));
            assert_int_equal(e.n, round * 8 + i);
        }
        assert_false(ring_pop(r, &e));
        e.n = 0;
        assert_true(ring_push(r, &e)); /* shifts the turn */
        assert_true(ring_pop(r, &e));
    }
    ring_free(r);
}

enum { N_ELEM = 100000 };

static void *pusher(void *arg)
{
    struct elem e = {0};
    for (uint64_t i = 0; i < N_ELEM; i++) {
        e.n = i;
        memset(e.text, (int)(i & 0x7f), sizeof e.text);
        e.check = (uint32_t)i * 2654435761u;
        while (!ring_push(arg, &e))
            sched_yield();
    }
    return NULL;
}

/* Fault: an element seen before it is whole, lost, or seen twice. */
static void two_threads(void **state)
{
    (void)state;
    struct ring *r = ring_new(64, sizeof(struct elem));
    pthread_t t;
    pthread_create(&t, NULL, pusher, r);
    struct elem e;
    int n_bad = 0;
    for (uint64_t i = 0; i < N_ELEM; i++) {
        while (!ring_pop(r, &e))
            sched_yield();
        n_bad += e.n != i || e.check != (uint32_t)i * 2654435761u ||
                 e.text[0] != (char)(i & 0x7f) || e.text[11] != e.text[0] || ring_count(r) > 64;
    }
    pthread_join(t, NULL);
    assert_int_equal(n_bad, 0);
    assert_false(ring_pop(r, &e));
    ring_free(r);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(fills_and_empties),
        cmocka_unit_test(two_threads),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
