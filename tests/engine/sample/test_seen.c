/* SPDX-License-Identifier: Apache-2.0
 *
 * The counts of a text's tokens against a plain array.
 */
#include "tests/lib/test.h"

#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/sample/seen.h"

enum { VOCAB = 500, N = 3000 };

/* Faults: a token entered twice, one lost in a run of the table, a prompt that counts as answer. */
static void like_an_array(void **state)
{
    int32_t in_prompt[VOCAB] = {0}, count[VOCAB] = {0};
    struct err e = ERR_INIT;
    int64_t n, different = 0;
    (void)state;
    struct seen *s = seen_new(VOCAB, &e);
    for (uint64_t i = 0; i < N; i++) {
        int32_t id = (int32_t)(rng_unit(3, 0, i) * rng_unit(3, 1, i) * VOCAB);
        if (i < N / 3)
            seen_prompt(s, id);
        else
            seen_answer(s, id);
        in_prompt[id] |= i < N / 3;
        count[id] += i >= N / 3;
    }
    const struct seen_token *t = seen_tokens(s, &n);
    for (int32_t id = 0; id < VOCAB; id++)
        different += in_prompt[id] || count[id];
    assert_int_equal(n, different);
    assert_int_equal(seen_find(s, VOCAB), -1);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(t[i].n_answer, count[t[i].id]);
        assert_int_equal(seen_find(s, t[i].id), i);
        count[t[i].id] = -1; /* a second entry would not fit it */
    }
    seen_free(s);
}

/* Faults: a table too small for the text it was made for; one as large as the vocabulary. */
static void room_follows_the_text(void **state)
{
    struct err e = ERR_INIT;
    int64_t n;
    (void)state;
    for (int64_t n_tok = 1; n_tok < 100; n_tok++) {
        struct seen *s = seen_new(n_tok, &e);
        for (int32_t i = 0; i < n_tok; i++)
            seen_answer(s, i * 1024 + INT32_MAX / 2);
        seen_tokens(s, &n);
        assert_int_equal(n, n_tok);
        seen_free(s);
    }
    assert_true(seen_bytes(100) < 4096);
    assert_true(seen_bytes(100000) <= 100000 * 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_an_array),
        cmocka_unit_test(room_follows_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
