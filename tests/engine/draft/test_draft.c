/* SPDX-License-Identifier: Apache-2.0
 *
 * Guesses for a text, and what is learnt of them.
 */
#include "tests/lib/test.h"

#include "engine/draft/draft.h"

enum { N = 4000, PIECE = 23 };

/* Faults: guesses that stop where the text ends, or read behind it. */
static void a_loop_is_guessed_as_far_as_wanted(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct draft d;
    int32_t token[N];
    for (int32_t period = 1; period < 9; period++) {
        assert_good(draft_init(&d, N, &e), &e);
        for (int32_t i = 0; i < N; i++)
            token[i] = i % period;
        assert_int_equal(draft_look(&d, token, 20, 100), DRAFT_MAX);
        for (int32_t i = 0; i < DRAFT_MAX; i++)
            assert_int_equal(d.guess[i], (20 + i) % period);
        assert_int_equal(draft_look(&d, token, 20, 3), 3);
        assert_int_equal(draft_look(&d, token, 20, 0), 0);
        assert_int_equal(draft_look(&d, token, 20, -1), 0);
        draft_release(&d);
    }
}

/* What the chance is after n tokens of a text that is a piece again and again, every `odd`th token
 * another one. */
static float chance_after(int64_t n, int32_t odd)
{
    struct err e = ERR_INIT;
    struct draft d;
    int32_t token[N];
    assert_good(draft_init(&d, N, &e), &e);
    for (int32_t i = 0; i < n; i++) {
        token[i] = (i + 1) % odd ? i % PIECE : 1000 + i;
        draft_heard(&d, token[i]);
        draft_look(&d, token, i + 1, 1 + i % DRAFT_MAX);
    }
    float chance = draft_chance(&d);
    draft_release(&d);
    return chance;
}

/* Faults: a chance that does not follow the text; guesses that count though nobody made them. */
static void chances_follow_the_text(void **state)
{
    (void)state;
    assert_true(chance_after(1000, N) > 0.98F);
    float some = chance_after(1000, 12);
    assert_true(some > 0.5F && some < 0.98F);
    assert_true(chance_after(1000, 4) < 0.7F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_loop_is_guessed_as_far_as_wanted),
                                       cmocka_unit_test(chances_follow_the_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
