/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and text of the clocks.
 */
#include "tests/lib/test.h"

#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"

static int64_t steady_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Fault: wrong units, or a duration from a clock that can be set back. */
static void monotonic(void **state)
{
    (void)state;
    int64_t from = steady_ns(), us = clock_us(), ns = clock_ns(), to = steady_ns();
    assert_in_range(us, from / 1000, ns / 1000);
    assert_in_range(ns, from, to);
    usleep(2000);
    assert_true(clock_us() - us >= 2000);
    assert_true(clock_ns() > ns);
}

/* Fault: month or hour off by one, local time, milliseconds not padded. */
static void text(void **state)
{
    (void)state;
    char s[CLOCK_TEXT_BYTES];
    assert_string_equal(clock_text(0, s), "1970-01-01T00:00:00.000Z");
    assert_string_equal(clock_text(951782399 * INT64_C(1000000) + 7000, s),
                        "2000-02-28T23:59:59.007Z");
    assert_string_equal(clock_text(-1000, s), "1969-12-31T23:59:59.999Z");
    clock_text(INT64_MAX, s); /* stays inside */
    assert_true(clock_wall_us() > 1700000000 * INT64_C(1000000));
}

/* Fault: a wait that ends by the wall clock, or never. */
static void waits(void **state)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t c;
    (void)state;
    clock_cond_init(&c);
    pthread_mutex_lock(&lock);
    int64_t until = clock_ns() + 3000000;
    while (clock_cond_wait(&c, &lock, until))
        continue;
    assert_true(clock_ns() >= until);
    assert_false(clock_cond_wait(&c, &lock, 0));
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(monotonic),
        cmocka_unit_test(text),
        cmocka_unit_test(waits),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
