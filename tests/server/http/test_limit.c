/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets of requests and tokens, at times that the test makes up.
 */
#include "server/http/limit.h"

#include <string.h>

#include "tests/lib/test.h"

static const int64_t second = 1000 * 1000;

struct world {
    struct limit limit;
    struct limit_view view;
    int64_t retry_us;
};

static void open_world(struct world *w, int64_t requests, int64_t tokens, int64_t at_once)
{
    memset(w, 0, sizeof *w);
    limit_init(&w->limit, (struct limit_rule){requests, tokens, at_once}, 0);
}

static enum limit_answer take(struct world *w, int64_t now_us, struct grant *g)
{
    *g = (struct grant){NULL};
    return limit_take(&w->limit, now_us, g, &w->view, &w->retry_us);
}

/* One more, or one less, than a minute's worth at once; a retry time at which it is still refused,
 * or long after it is worth it; a bucket that grows past its minute. */
static void test_requests(void **state)
{
    struct world w;
    struct grant g;
    (void)state;
    open_world(&w, 6, 0, 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(take(&w, 0, &g), LIMIT_GOOD);
        assert_int_equal(w.view.left_requests, 5 - i);
        limit_give(&g, 0, 0);
    }
    assert_int_equal(take(&w, 0, &g), LIMIT_REQUESTS);
    assert_null(g.limit);
    assert_true(w.retry_us >= 10 * second && w.retry_us <= 10 * second + 2);
    int64_t retry = w.retry_us;
    assert_int_equal(take(&w, retry - 10, &g), LIMIT_REQUESTS);
    assert_int_equal(take(&w, retry, &g), LIMIT_GOOD);
    limit_give(&g, 0, retry);
    for (int i = 0; i < 6; i++)
        assert_int_equal(take(&w, 3600 * second, &g), LIMIT_GOOD);
    assert_int_equal(take(&w, 3600 * second, &g), LIMIT_REQUESTS);
    limit_release(&w.limit);
}

/* Tokens that are not charged at the end, or charged again; a debt that is forgotten. */
static void test_tokens(void **state)
{
    struct world w;
    struct grant g;
    (void)state;
    open_world(&w, 0, 600, 0);
    assert_int_equal(take(&w, 0, &g), LIMIT_GOOD);
    limit_give(&g, 1200, 0);
    limit_give(&g, 1200, 0); /* it was given: nothing more */
    assert_int_equal(take(&w, 0, &g), LIMIT_TOKENS);
    assert_int_equal(w.view.left_tokens, 0);
    assert_true(w.retry_us > 60 * second && w.retry_us < 61 * second);
    assert_true(w.view.full_tokens_us >= 120 * second);
    assert_int_equal(take(&w, 60 * second, &g), LIMIT_TOKENS);
    assert_int_equal(take(&w, 61 * second, &g), LIMIT_GOOD);
    limit_give(&g, 0, 61 * second);
    limit_release(&w.limit);
}

/* A refused request that is counted as in work, or an ended one that stays so. */
static void test_at_once(void **state)
{
    struct world w;
    struct grant g[3];
    (void)state;
    open_world(&w, 100, 0, 2);
    assert_int_equal(take(&w, 0, &g[0]), LIMIT_GOOD);
    assert_int_equal(take(&w, 0, &g[1]), LIMIT_GOOD);
    assert_int_equal(take(&w, 0, &g[2]), LIMIT_AT_ONCE);
    assert_int_equal(w.view.left_requests, 98); /* what was refused costs nothing */
    assert_true(w.retry_us > 0);
    limit_give(&g[2], 0, 0);
    assert_int_equal(take(&w, 0, &g[2]), LIMIT_AT_ONCE);
    limit_give(&g[0], 0, 0);
    assert_int_equal(take(&w, 0, &g[2]), LIMIT_GOOD);
    limit_give(&g[1], 0, 0);
    limit_give(&g[2], 0, 0);
    assert_int_equal(w.limit.n_now, 0);
    limit_release(&w.limit);
}

/* Time that seems to run backwards, between threads that asked the clock in another order. */
static void test_backwards(void **state)
{
    struct world w;
    struct grant g;
    (void)state;
    open_world(&w, 1, 0, 0);
    assert_int_equal(take(&w, 100 * second, &g), LIMIT_GOOD);
    limit_give(&g, 0, 50 * second);
    assert_int_equal(take(&w, 60 * second, &g), LIMIT_REQUESTS);
    assert_int_equal(take(&w, 159 * second, &g), LIMIT_REQUESTS);
    assert_int_equal(take(&w, 161 * second, &g), LIMIT_GOOD);
    limit_release(&w.limit);
}

/* A rule of nothing that limits. */
static void test_no_rule(void **state)
{
    struct world w;
    struct grant g;
    (void)state;
    open_world(&w, 0, 0, 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(take(&w, 0, &g), LIMIT_GOOD);
    assert_int_equal(w.view.full_requests_us, 0);
    assert_int_equal(w.view.full_tokens_us, 0);
    limit_release(&w.limit);
}

/* Times that clients parse. */
static void test_text(void **state)
{
    char text[LIMIT_TEXT_BYTES];
    (void)state;
    assert_string_equal(limit_text(0, text), "0ms");
    assert_string_equal(limit_text(1, text), "1ms");
    assert_string_equal(limit_text(12 * 1000, text), "12ms");
    assert_string_equal(limit_text(1500 * 1000, text), "1.5s");
    assert_string_equal(limit_text(60 * second, text), "1m0s");
    assert_string_equal(limit_text(366 * second, text), "6m6s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests), cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_at_once),  cmocka_unit_test(test_backwards),
        cmocka_unit_test(test_no_rule),  cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
