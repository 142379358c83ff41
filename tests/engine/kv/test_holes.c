/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of free cells.
 */
#include "tests/lib/test.h"

#include "engine/base/rng.h"
#include "engine/kv/holes.h"

/* The same by looking at each cell. */
static struct kv_run plainly(const struct kv_holes *h, int64_t n, const bool *claimed)
{
    struct kv_run best = {0};
    for (int64_t at = 0; at < h->n_cell; at++) {
        int64_t end = at;
        while (kv_holes_has(h, end) && !(claimed && claimed[end]))
            end++;
        if (end - at >= n)
            return (struct kv_run){at, n};
        if (end - at > best.n)
            best = (struct kv_run){at, end - at};
    }
    return best;
}

/* Fault: a run that is not there, not the first, or missed, at any place relative to a word. */
static void finds_what_a_plain_search_finds(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct kv_holes h;
        struct err e = ERR_INIT;
        bool claimed[200] = {0};
        int64_t n_cell = 1 + (int64_t)rng_below(1, seed, 0, 200), n_free = 0;
        int64_t dense = 1 + (int64_t)rng_below(1, seed, 1, 20);
        assert_good(kv_holes_init(&h, n_cell, &e), &e);
        for (int64_t c = 0; c < n_cell; c++) {
            if (!rng_below(1, seed, (uint64_t)(10 + c), (uint64_t)dense))
                kv_holes_take(&h, c);
            claimed[c] = !rng_below(2, seed, (uint64_t)(10 + c), 12);
            kv_holes_claim(&h, (struct kv_run){c, 1}, claimed[c]);
            n_free += kv_holes_has(&h, c);
        }
        assert_int_equal(h.n_free, n_free);
        for (int64_t n = 1; n <= 20; n++) {
            struct kv_run want = plainly(&h, n, claimed), got = kv_holes_find(&h, n);
            if (!want.n) {
                want = plainly(&h, n_cell, NULL);
                assert_true(got.at >= want.at && got.at + got.n <= want.at + want.n);
                assert_int_equal(got.n > 0, want.n > 0);
                continue;
            }
            assert_int_equal(got.at, want.at);
            assert_int_equal(got.n, want.n);
        }
        kv_holes_release(&h);
    }
}

/* Fault: a cell past the end, or before the first, that counts as free. */
static void ends_at_the_last_cell(void **state)
{
    (void)state;
    struct kv_holes h;
    struct err e = ERR_INIT;
    assert_good(kv_holes_init(&h, 65, &e), &e);
    assert_true(kv_holes_has(&h, 64));
    assert_false(kv_holes_has(&h, 65));
    assert_false(kv_holes_has(&h, -1));
    struct kv_run r = kv_holes_find(&h, 100);
    assert_int_equal(r.at, 0);
    assert_int_equal(r.n, 65);
    for (int64_t c = 0; c < 65; c++)
        kv_holes_take(&h, c);
    assert_int_equal(kv_holes_find(&h, 1).n, 0);
    kv_holes_give(&h, 64);
    assert_int_equal(kv_holes_find(&h, 1).at, 64);
    kv_holes_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_plain_search_finds),
        cmocka_unit_test(ends_at_the_last_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
