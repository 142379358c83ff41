/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a text's last tokens stood before, against a plain search.
 */
#include "tests/lib/test.h"

#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/draft/ngram.h"

enum { N = 3000 };

static int64_t same(const int32_t *token, int64_t n, int64_t at)
{
    int64_t k = 0;
    while (k < NGRAM_MATCH_MAX && k < at && token[at - 1 - k] == token[n - 1 - k])
        k++;
    return k;
}

/* The last place behind the last `len` tokens; 0: none. */
static int64_t last(const int32_t *token, int64_t n, int64_t len)
{
    for (int64_t at = n - 1; at >= len; at--)
        if (same(token, n, at) >= len)
            return at;
    return 0;
}

/* Faults: a place that is not the last, one that finds the text's own end, a match that is not one,
 * or one that is missed; a text read in pieces that is entered otherwise. */
static void like_a_plain_search(void **state)
{
    (void)state;
    for (uint64_t vocab = 2; vocab < 40; vocab += 5) {
        struct err e = ERR_INIT;
        struct ngram *g = ngram_new(N, &e);
        int32_t token[N];
        int64_t n_missed = 0, n_found = 0;
        for (uint64_t i = 0; i < N; i++)
            token[i] = (int32_t)rng_below(vocab, 0, rng_below(vocab, 1, i, 3) ? i % 97 : i, vocab);
        for (int64_t n = 1; n < N; n += 1 + n % 3) {
            int64_t n_match, want = last(token, n, NGRAM_LONG);
            ngram_read(g, token, n);
            int64_t at = ngram_find(g, token, n, 0, &n_match);
            want = want ? want : last(token, n, NGRAM_SHORT);
            if (at < 0) {
                n_missed += want > 0;
                continue;
            }
            n_found++;
            assert_in_range(at, 1, n - 1);
            assert_int_equal(n_match, same(token, n, at));
            assert_true(n_match >= NGRAM_SHORT);
            n_missed += at != want && n_match < same(token, n, want);
        }
        assert_true(n_found > N / 10 && n_missed < n_found / 5); /* slots are shared */
        ngram_free(g);
    }
}

/* Faults: a place that is known and forgotten for a later one that says less; one that is kept
 * though another says more. */
static void goes_on_where_it_was(void **state)
{
    (void)state;
    static const int32_t token[] = {1, 2, 3, 4, 5, 6, 7, 9, 4, 5, 8, 1, 2, 3, 4, 5};
    struct err e = ERR_INIT;
    struct ngram *g = ngram_new(20, &e);
    int64_t n_match;
    ngram_read(g, token, 8);
    assert_int_equal(ngram_find(g, token, 8, 3, &n_match), 3);
    assert_int_equal(n_match, 0);
    ngram_read(g, token, 16);
    assert_int_equal(ngram_find(g, token, 16, 5, &n_match), 5);
    assert_int_equal(n_match, 5);
    assert_int_equal(ngram_find(g, token, 16, 3, &n_match), 5);
    ngram_free(g);
}

/* Faults: tables that grow with the text, or are too large for a short one. */
static void room_is_bounded(void **state)
{
    (void)state;
    assert_true(ngram_bytes(10) < 1024);
    assert_true(ngram_bytes(1000) < 20000);
    assert_int_equal(ngram_bytes(1 << 16), ngram_bytes(1 << 30));
    assert_true(ngram_bytes(1 << 30) < 600000);
}

/* Faults: reading behind the last token, or before the first. */
static void short_texts(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    int64_t n_match;
    for (int64_t n = 0; n < 12; n++) {
        struct ngram *g = ngram_new(n + 1, &e);
        int32_t *token = xcalloc((size_t)n + 1, sizeof *token);
        ngram_read(g, token, n);
        assert_true((ngram_find(g, token, n, 0, &n_match) > 0) == (n > NGRAM_SHORT));
        free(token);
        ngram_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_a_plain_search), cmocka_unit_test(goes_on_where_it_was),
        cmocka_unit_test(room_is_bounded), cmocka_unit_test(short_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
