/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks, their refusal, and their count.
 */
#include "tests/lib/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

static bool all_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* Faults: a block that is not aligned, not zeroed, or shorter than asked, on either side of the
 * size from which blocks are mapped. */
static void blocks_are_aligned_and_zeroed(void **state)
{
    (void)state;
    static const size_t size[] = {0, 1, 63, 64, 65, 4095, 1 << 20, (4 << 20) - 1, 4 << 20, 9 << 20};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        for (int again = 0; again < 2; again++) { /* the second may get used memory */
            char *p = try_alloc(1, size[i], "test", NULL);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 64, 0);
            assert_true(all_zero(p, size[i]));
            memset(p, 0x55, size[i]);
            mem_free(p);
        }
    }
    mem_free(NULL);
}

/* Fault: a product that wraps gives a small block for a large count. */
static void overflow_is_refused(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_null(try_alloc(SIZE_MAX / 8, 16, "weights", &e));
    assert_err(-1, &e, ERR_NO_MEMORY, "weights");
    assert_null(try_alloc(1, SIZE_MAX, "weights", &e));
    assert_null(try_alloc(1, SIZE_MAX - 63, "weights", &e));
    assert_null(try_alloc(1, SIZE_MAX / 4, "weights", &e));
}

/* Fault: a planner that trusts the counters is told the wrong size. */
static void counters_follow(void **state)
{
    (void)state;
    struct mem_stat before = mem_stat();
    mem_peak_reset();
    void *a = try_alloc(10, 100, "a", NULL), *b = try_alloc(1, 8 << 20, "b", NULL);
    assert_int_equal(mem_stat().now_bytes, before.now_bytes + 1000 + (8 << 20));
    assert_int_equal(mem_stat().n_block, before.n_block + 2);
    mem_free(b);
    mem_free(a);
    assert_int_equal(mem_stat().now_bytes, before.now_bytes);
    assert_int_equal(mem_stat().peak_bytes, before.now_bytes + 1000 + (8 << 20));
    mem_peak_reset();
    assert_int_equal(mem_stat().peak_bytes, before.now_bytes);
}

/* Fault: a copy that runs past an unterminated run of n bytes, or keeps no terminator. */
static void strings_are_copied(void **state)
{
    (void)state;
    static const char raw[3] = {'a', 'b', 'c'};
    char *s = xstrndup(raw, 3), *t = xstrndup("ab", 9), *u = xstrdup("");
    assert_string_equal(s, "abc");
    assert_string_equal(t, "ab");
    assert_string_equal(u, "");
    free(s);
    free(t);
    free(u);
}

/* Fault: the failing allocation of the paranoid build does not fail, or fails for ever. */
static void paranoid_fails_one(void **state)
{
    (void)state;
#ifdef TANDEM_PARANOID
    struct err e = ERR_INIT;
    int n_failed = 0;
    setenv("TANDEM_FAIL_ALLOC", "1000", 1); /* more than this program made so far */
    for (int i = 0; i < 2000; i++) {
        void *p = try_alloc(1, 1, "x", &e);
        n_failed += !p;
        mem_free(p);
    }
    unsetenv("TANDEM_FAIL_ALLOC");
    assert_int_equal(n_failed, 1);
    assert_err(-1, &e, ERR_NO_MEMORY, "x");
#else
    skip();
#endif
}

/* Faults: room for the most that may come that is paid for at once; a freed map with another size
 * than was mapped; memory that is not zero. */
static void lazy_room_costs_what_is_touched(void **state)
{
    (void)state;
    enum { N = 40 };
    struct mem_stat before = mem_stat();
    struct err e = ERR_INIT;
    char *p[N];
    for (int i = 0; i < N; i++) {
        p[i] = try_lazy(64 << 20, 1, "room", &e);
        assert_non_null(p[i]);
        assert_int_equal(p[i][0] | p[i][(64 << 20) - 1], 0);
        p[i][5 << 20] = 1;
    }
    size_t n_page = 0, rss = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &n_page, &rss), 2);
    fclose(f);
#ifndef __SANITIZE_ADDRESS__
    assert_true(rss < (256 << 20) / 4096);
#endif
    for (int i = 0; i < N; i++)
        mem_free(p[i]);
    char *small = try_lazy(1, 100, "room", &e);
    assert_non_null(small);
    mem_free(small);
    assert_int_equal(mem_stat().now_bytes, before.now_bytes);
    assert_int_equal(mem_stat().n_block, before.n_block);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(blocks_are_aligned_and_zeroed),
        cmocka_unit_test(overflow_is_refused),
        cmocka_unit_test(counters_follow),
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(paranoid_fails_one),
        cmocka_unit_test(lazy_room_costs_what_is_touched),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
