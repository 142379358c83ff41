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
    limit_init(
        &w->limit,
        (struct limit_rule){.requests_min = requests, .tokens_min = tokens, .at_once = at_once}, 0);
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

static enum limit_answer reserve(struct world *w, int64_t texts, int64_t tokens, int64_t now_us,
                                 struct grant *g)
{
    return limit_reserve(g, texts, tokens, now_us, &w->view, &w->retry_us);
}

/* Tokens that are charged when all is over: many requests at once leave a debt of hours. What was
 * not used that is not given back, or is given back twice; a time to come back that is not true. */
static void test_tokens(void **state)
{
    struct world w;
    struct grant g[3];
    (void)state;
    open_world(&w, 0, 600, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(take(&w, 0, &g[i]), LIMIT_GOOD);
    assert_int_equal(reserve(&w, 1, 400, 0, &g[0]), LIMIT_GOOD);
    assert_int_equal(w.view.left_tokens, 200);
    assert_int_equal(reserve(&w, 1, 400, 0, &g[1]), LIMIT_TOKENS);
    assert_int_equal(w.view.left_tokens, 200);
    assert_true(w.retry_us > 20 * second - 2 && w.retry_us <= 20 * second + 2);
    int64_t retry = w.retry_us;
    assert_int_equal(reserve(&w, 1, 400, retry - 10, &g[1]), LIMIT_TOKENS);
    assert_int_equal(reserve(&w, 1, 400, retry, &g[1]), LIMIT_GOOD);
    assert_int_equal(w.view.left_tokens, 0);
    limit_give(&g[0], 150, retry); /* 250 come back */
    limit_give(&g[0], 150, retry); /* it was given: nothing more */
    assert_int_equal(reserve(&w, 1, 251, retry, &g[2]), LIMIT_TOKENS);
    assert_int_equal(reserve(&w, 1, 250, retry, &g[2]), LIMIT_GOOD);
    limit_give(&g[1], 400, retry);
    limit_give(&g[2], 0, 10 * 60 * second);
    assert_int_equal(take(&w, 10 * 60 * second, &g[0]), LIMIT_GOOD);
    assert_int_equal(w.view.left_tokens, 600); /* a minute's worth, and no more */
    limit_give(&g[0], 0, 10 * 60 * second);
    limit_release(&w.limit);
}

/* A request that could never be is told to come back. */
static void test_never(void **state)
{
    struct world w;
    struct grant g;
    (void)state;
    open_world(&w, 0, 600, 0);
    assert_int_equal(take(&w, 0, &g), LIMIT_GOOD);
    assert_int_equal(reserve(&w, 1, 601, 0, &g), LIMIT_NEVER);
    assert_int_equal(w.retry_us, 0);
    assert_int_equal(reserve(&w, 1, 600, 0, &g), LIMIT_GOOD);
    limit_give(&g, 600, 0);
    assert_int_equal(take(&w, 0, &g), LIMIT_TOKENS);
    limit_release(&w.limit);
}

/* What was not set aside and is known only at the end: no debt, and the time between the take and
 * the give has filled the bucket before it is taken, not after. */
static void test_used_without_reserve(void **state)
{
    struct world w;
    struct grant g;
    (void)state;
    open_world(&w, 0, 600, 0);
    assert_int_equal(take(&w, 0, &g), LIMIT_GOOD);
    limit_give(&g, 600, 60 * second);
    assert_int_equal(take(&w, 60 * second, &g), LIMIT_TOKENS);
    assert_int_equal(take(&w, 61 * second, &g), LIMIT_GOOD);
    limit_give(&g, 100000, 61 * second);
    assert_int_equal(take(&w, 61 * second, &g), LIMIT_TOKENS);
    assert_true(w.retry_us <= second);
    limit_release(&w.limit);
}

/* Texts at once that are counted by request, or not given back. */
static void test_texts(void **state)
{
    struct world w;
    struct grant g[2];
    (void)state;
    open_world(&w, 0, 0, 0);
    w.limit.rule.texts = 5;
    assert_int_equal(take(&w, 0, &g[0]), LIMIT_GOOD);
    assert_int_equal(take(&w, 0, &g[1]), LIMIT_GOOD);
    assert_int_equal(reserve(&w, 6, 1, 0, &g[0]), LIMIT_NEVER);
    assert_int_equal(reserve(&w, 3, 1, 0, &g[0]), LIMIT_GOOD);
    assert_int_equal(reserve(&w, 3, 1, 0, &g[1]), LIMIT_TEXTS);
    assert_true(w.retry_us > 0);
    assert_int_equal(reserve(&w, 2, 1, 0, &g[1]), LIMIT_GOOD);
    limit_give(&g[0], 10, 0);
    limit_give(&g[1], 10, 0);
    assert_int_equal(w.limit.level->n_text, 0);
    limit_release(&w.limit);
}

/* Bytes of a request that are counted as others' of its key, or not given back. */
static void test_held(void **state)
{
    struct world w;
    struct grant g[2], none = {.limit = NULL};
    (void)state;
    open_world(&w, 0, 0, 0);
    w.limit.rule.held = 100;
    assert_int_equal(take(&w, 0, &g[0]), LIMIT_GOOD);
    assert_int_equal(take(&w, 0, &g[1]), LIMIT_GOOD);
    assert_true(limit_hold(&g[0], 150)); /* alone */
    assert_false(limit_hold(&g[1], 1));
    limit_hold(&g[1], -1);
    limit_hold(&g[0], -60);
    assert_true(limit_hold(&g[1], 10));
    assert_false(limit_hold(&g[1], 1));
    limit_give(&g[0], 0, 0);
    assert_true(limit_hold(&g[1], 89));
    limit_give(&g[1], 0, 0);
    assert_int_equal(w.limit.level->held, 0);
    assert_true(limit_hold(&none, 1000));
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
    assert_int_equal(w.limit.level->n_now, 0);
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

/* Behind a new rule: what was set aside that does not come back, or comes back twice; requests in
 * work that count no more, so that there are twice as many; a bucket that is full again. */
static void test_carry(void **state)
{
    struct world w;
    struct grant old, other, g;
    struct limit to;
    (void)state;
    open_world(&w, 60, 100, 2);
    assert_int_equal(take(&w, 0, &old), LIMIT_GOOD);
    assert_int_equal(reserve(&w, 3, 80, 0, &old), LIMIT_GOOD);
    assert_int_equal(take(&w, 0, &other), LIMIT_GOOD);
    struct limit from = w.limit; /* who is in work keeps the old keys */
    limit_init(&to, (struct limit_rule){.requests_min = 60, .tokens_min = 90, .at_once = 2}, 0);
    limit_carry(&to, &from);
    w.limit = to;
    assert_int_equal(take(&w, 0, &g), LIMIT_AT_ONCE);
    assert_int_equal(w.view.left_requests, 58);
    assert_int_equal(w.view.left_tokens, 20);
    old.limit = other.limit = &from;
    limit_give(&other, 0, 0);
    assert_int_equal(take(&w, 0, &g), LIMIT_GOOD);
    limit_give(&old, 30, 0);
    assert_int_equal(w.limit.level->n_text, 0);
    assert_int_equal(reserve(&w, 1, 71, 0, &g), LIMIT_TOKENS);
    assert_int_equal(reserve(&w, 1, 70, 0, &g), LIMIT_GOOD);
    limit_release(&from); /* the last of the old ones has ended */
    limit_give(&g, 0, 0);
    assert_int_equal(w.limit.level->n_now, 0);
    limit_release(&w.limit);
}

/* A limit that is taken away and comes back: a bucket of nothing for ever. */
static void test_carry_none(void **state)
{
    struct world w;
    struct grant g;
    (void)state;
    open_world(&w, 1, 10, 0);
    assert_int_equal(take(&w, 0, &g), LIMIT_GOOD);
    limit_give(&g, 0, 0);
    for (int i = 0; i < 2; i++) {
        struct limit to, from = w.limit;
        limit_init(&to, (struct limit_rule){.requests_min = i, .tokens_min = i * 10}, 0);
        limit_carry(&to, &from);
        limit_release(&from);
        w.limit = to;
        assert_int_equal(take(&w, second, &g), LIMIT_GOOD);
        limit_give(&g, 0, second);
    }
    assert_int_equal(take(&w, second, &g), LIMIT_REQUESTS);
    limit_release(&w.limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_backwards),
        cmocka_unit_test(test_no_rule),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_used_without_reserve),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_carry),
        cmocka_unit_test(test_carry_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
