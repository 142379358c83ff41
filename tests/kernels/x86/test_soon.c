/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over adapters that products ask memory for: each byte once, in order, whatever the
 * shares, and adapters that stand one behind the other as one run.
 */
#include "kernels/x86/soon.h"
#include "tests/lib/test.h"

enum { GROUPS = 5, TABLES = 3, STRIDE = 7, ROOM = 100000 };

struct fixture {
    char memory[ROOM];
    int seen[ROOM];
    struct k_lora_group group[TABLES * STRIDE];
    struct k_soon soon;
};

static struct fixture f;

/* Group 1 has no adapter, group 3 none on the second product; a gap lies between groups. */
static int64_t set_up(void)
{
    int64_t at = 0, bytes = 0;
    f = (struct fixture){
        .soon = {.group = f.group, .n_group = GROUPS, .n_table = TABLES, .stride = STRIDE}};
    for (int g = 0; g < GROUPS; g++, at += 1000) {
        for (int t = 0; t < TABLES; t++) {
            if (g == 1 || (g == 3 && t == 1))
                continue;
            int64_t n = 64 + 997 * g + 131 * t;
            f.group[t * STRIDE + g] =
                (struct k_lora_group){.stored = f.memory + at, .stored_bytes = (size_t)n};
            at += n;
            bytes += n;
        }
    }
    assert_true(at < ROOM);
    return bytes;
}

/* Would catch bytes that are left out, asked for twice, or outside of all adapters. */
static void test_each_byte_once(void **state)
{
    (void)state;
    for (int64_t n_share = 1; n_share < 400; n_share += n_share / 3 + 1) {
        int64_t want = set_up(), sum = 0, n;
        struct soon s;
        soon_init(&s, &f.soon, n_share);
        assert_int_equal(s.bytes, want);
        for (int64_t i = 0; i < n_share; i++) {
            for (struct soon_share share = soon_share(&s, i); share.lo < share.hi; sum += n) {
                const char *at = soon_cut(&s, &share, &n);
                assert_true(n > 0 && at >= f.memory && at + n <= f.memory + ROOM);
                for (int64_t k = 0; k < n; k++)
                    f.seen[at - f.memory + k]++;
            }
        }
        assert_int_equal(sum, want);
        for (int t = 0; t < TABLES * STRIDE; t++) {
            const struct k_lora_group *g = &f.group[t];
            for (size_t k = 0; k < g->stored_bytes; k++)
                assert_int_equal(f.seen[(const char *)g->stored - f.memory + k], 1);
        }
    }
}

/* Would catch a run that is cut between the products of an adapter: each cut costs a product its
 * sums' way to memory and back. */
static void test_neighbours_are_one_run(void **state)
{
    (void)state;
    int64_t n;
    struct soon s;
    struct soon_share all;
    set_up();
    soon_init(&s, &f.soon, 1);
    all = soon_share(&s, 0);
    soon_cut(&s, &all, &n);
    assert_int_equal(n, 3 * 64 + 3 * 131);
}

/* Would catch a slice that begins in the middle, as all but the first do. */
static void test_begins_anywhere(void **state)
{
    (void)state;
    int64_t want = set_up(), n;
    struct soon s, t;
    soon_init(&s, &f.soon, 40);
    for (int64_t i = 0; i < 40; i++) {
        struct soon_share one = soon_share(&s, i), two = one;
        soon_init(&t, &f.soon, 40);
        assert_ptr_equal(soon_cut(&s, &one, &n), soon_cut(&t, &two, &n));
        while (one.lo < one.hi)
            soon_cut(&s, &one, &n);
    }
    assert_int_equal(s.bytes, want);
}

/* Would catch a walk that only goes forward: spans of rows pass the same panels again. */
static void test_goes_back(void **state)
{
    (void)state;
    struct soon s;
    int64_t n;
    set_up();
    soon_init(&s, &f.soon, 40);
    struct soon_share first = soon_share(&s, 0), last = soon_share(&s, 39), again = first;
    const char *at = soon_cut(&s, &first, &n);
    soon_cut(&s, &last, &n);
    assert_ptr_equal(soon_cut(&s, &again, &n), at);
}

/* Would catch a product that asks for more than the last cache keeps, or for nothing at all. */
static void test_bounds(void **state)
{
    (void)state;
    struct soon s;
    set_up();
    f.group[0].stored_bytes = (size_t)1 << 40;
    soon_init(&s, &f.soon, 40);
    assert_true(s.bytes > 0 && s.bytes <= 32 << 20);
    soon_init(&s, &(struct k_soon){0}, 40);
    assert_int_equal(s.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_byte_once), cmocka_unit_test(test_neighbours_are_one_run),
        cmocka_unit_test(test_begins_anywhere), cmocka_unit_test(test_goes_back),
        cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
