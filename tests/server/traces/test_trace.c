/* SPDX-License-Identifier: Apache-2.0
 *
 * Which trace a request is of, and whether it is kept.
 *
 * Catches: a header that is none taken for one, or one of a later version refused; a sender's word
 * that is not heeded; ids of zeros; a share that keeps more or fewer.
 */
#include "server/traces/traces.h"

#include <string.h>

#include "tests/lib/test.h"

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void heeds_its_sender(void **state)
{
    struct trace_ids ids;
    (void)state;
    assert_true(trace_begin(&ids, "00-" TRACE "-" PARENT "-01", 0));
    assert_string_equal(ids.trace, TRACE);
    assert_string_equal(ids.parent, PARENT);
    assert_false(trace_begin(&ids, "00-" TRACE "-" PARENT "-00", 1));
    assert_true(trace_begin(&ids, "00-" TRACE "-" PARENT "-03", 0));
    assert_true(trace_begin(&ids, "cc-" TRACE "-" PARENT "-01-more", 0));
    assert_string_equal(ids.parent, PARENT);
}

static void takes_nothing_else(void **state)
{
    static const char *const not [] = {
        NULL,
        "",
        "x",
        "00-" TRACE "-" PARENT,
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-01-more",
        "00-" TRACE "-" PARENT "-01x",
        "ff-" TRACE "-" PARENT "-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
        "00_" TRACE "-" PARENT "-01",
    };
    (void)state;
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++) {
        struct trace_ids a, b;
        assert_true(trace_begin(&a, not [i], 1));
        assert_false(trace_begin(&b, not [i], 0));
        assert_string_equal(a.parent, "");
        assert_int_equal(strlen(a.trace), 32);
        assert_string_not_equal(a.trace, b.trace);
        assert_string_not_equal(a.trace, TRACE);
    }
}

static void keeps_a_share(void **state)
{
    enum { N = 20000 };
    int n = 0;
    (void)state;
    for (int i = 0; i < N; i++) {
        struct trace_ids ids;
        n += trace_begin(&ids, NULL, 0.25);
    }
    assert_in_range(n, N / 4 - 500, N / 4 + 500); /* eight deviations */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heeds_its_sender),
        cmocka_unit_test(takes_nothing_else),
        cmocka_unit_test(keeps_a_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
