/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over adapters that products ask memory for: each byte once, in order, whatever the
 * shares, and adapters that stand one behind the other as one run.
 */
#include "kernels/x86/prefetch.h"
#include "tests/lib/test.h"

enum { GROUPS = 5, TABLES = 3, STRIDE = 7, ROOM = 100000 };

struct fixture {
    char memory[ROOM];
    int seen[ROOM];
    struct k_lora_group group[TABLES * STRIDE];
    struct k_prefetch prefetch;
};

static struct fixture f;

/* Group 1 has no adapter, group 3 none on the second product; a gap lies between groups. */
static int64_t set_up(void)
{
    int64_t at = 0, bytes = 0;
    f = (struct fixture){
        .prefetch = {.group = f.group, .n_group = GROUPS, .n_table = TABLES, .stride = STRIDE}};
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
        struct prefetch s;
        prefetch_init(&s, &f.prefetch, n_share);
        assert_int_equal(s.bytes, want);
        for (int64_t i = 0; i < n_share; i++) {
            for (struct prefetch_share share = prefetch_share(&s, i); share.lo < share.hi;
                 sum += n) {
                const char *at = prefetch_cut(&s, &share, &n);
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
    struct prefetch s;
    struct prefetch_share all;
    set_up();
    prefetch_init(&s, &f.prefetch, 1);
    all = prefetch_share(&s, 0);
    prefetch_cut(&s, &all, &n);
    assert_int_equal(n, 3 * 64 + 3 * 131);
}

/* Would catch a slice that begins in the middle, as all but the first do. */
static void test_begins_anywhere(void **state)
{
    (void)state;
    int64_t want = set_up(), n;
    struct prefetch s, t;
    prefetch_init(&s, &f.prefetch, 40);
    for (int64_t i = 0; i < 40; i++) {
        struct prefetch_share one = prefetch_share(&s, i), two = one;
        prefetch_init(&t, &f.prefetch, 40);
        assert_ptr_equal(prefetch_cut(&s, &one, &n), prefetch_cut(&t, &two, &n));
        while (one.lo < one.hi)
            prefetch_cut(&s, &one, &n);
    }
    assert_int_equal(s.bytes, want);
}

/* Would catch a walk that only goes forward: spans of rows pass the same panels again. */
static void test_goes_back(void **state)
{
    (void)state;
    struct prefetch s;
    int64_t n;
    set_up();
    prefetch_init(&s, &f.prefetch, 40);
    struct prefetch_share first = prefetch_share(&s, 0), last = prefetch_share(&s, 39),
                          again = first;
    const char *at = prefetch_cut(&s, &first, &n);
    prefetch_cut(&s, &last, &n);
    assert_ptr_equal(prefetch_cut(&s, &again, &n), at);
}

/* Would catch a product that asks for more than the last cache keeps, or for nothing at all. */
static void test_bounds(void **state)
{
    (void)state;
    struct prefetch s;
    set_up();
    f.group[0].stored_bytes = (size_t)1 << 40;
    prefetch_init(&s, &f.prefetch, 40);
    assert_true(s.bytes > 0 && s.bytes <= 32 << 20);
    prefetch_init(&s, &(struct k_prefetch){0}, 40);
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
