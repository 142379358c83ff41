/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures of likeness, beside those that people know: rapidfuzz 3.14.6 (fuzz.ratio / 100),
 * sacrebleu 2.6.0 (BLEU(tokenize='none', effective_order=True).sentence_score / 100), nltk 3.10.4
 * (sentence_gleu of words between spaces), rouge_score 0.1.2 (F1 without stemmer). Faults: a
 * measure that is another, an empty text, a text that takes minutes.
 */
#include "api/similarity.h"

#include <math.h>
#include <string.h>

#include "tests/lib/own_arena.h"
#include "tests/lib/test.h"

static const struct {
    const char *text, *reference;
    double is[SIMILARITY_COUNT];
} golden[] = {
    {"the cat sat on the mat",
     "the cat is on the mat",
     {0.930232558, 0.379917843, 0.5, 0.833333333, 0.6, 0.25, 0, 0, 0.833333333}},
    {"", "a b", {0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"a b", "", {0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"a b c", "a b c", {1, 1, 1, 1, 1, 1, 0, 0, 1}},
    {"The quick brown fox jumps over the lazy dog.",
     "A quick brown dog jumps over a lazy fox",
     {0.795180723, 0.149237295, 0.266666667, 0.777777778, 0.25, 0, 0, 0, 0.555555556}},
    {"to be or not to be to be",
     "to be or not to be",
     {0.857142857, 0.680374933, 0.692307692, 0.857142857, 0.833333333, 0.8, 0.75, 0.666666667,
      0.857142857}},
    {"naïve café 你好",
     "naive café 你好吗",
     {0.888888889, 0.275160604, 0.166666667, 0.4, 0, 0, 0, 0, 0.4}},
    {"hello", "hullo world this is long", {0.275862069, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"x y z", "p q r", {0.4, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"a a a a", "a a", {0.6, 0.319471552, 0.3, 0.666666667, 0.5, 0, 0, 0, 0.666666667}},
    {"one two three four five six seven",
     "zero one two three four five six seven eight",
     {0.857142857, 0.751477293, 0.733333333, 0.875, 0.857142857, 0.833333333, 0.8, 0.75, 0.875}},
};

static int measure(enum similarity s, const char *text, const char *reference, double *out,
                   struct err *e)
{
    return similarity_of(s, (struct similarity_text){text, strlen(text)},
                         (struct similarity_text){reference, strlen(reference)}, &own_arena, out,
                         e);
}

/* rouge_score has no letters beyond ASCII. */
static bool is_compared(size_t i, enum similarity s)
{
    for (const char *p = golden[i].text; s >= SIMILARITY_ROUGE_1 && *p; p++)
        if ((unsigned char)*p >= 0x80)
            return false;
    return true;
}

static void as_packages_have_them(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        for (enum similarity s = 0; s < SIMILARITY_COUNT; s++) {
            double is = -1;
            assert_int_equal(measure(s, golden[i].text, golden[i].reference, &is, &e), 0);
            if (is_compared(i, s) && fabs(is - golden[i].is[s]) > 1e-8)
                fail_msg("%s of '%s': %.9g, not %.9g", similarity_name(s), golden[i].text, is,
                         golden[i].is[s]);
        }
}

/* Equal texts are 1 (of as many words as a run has), whatever letters they have. */
static void equal(void **state)
{
    struct err e = ERR_INIT;
    double is;
    (void)state;
    for (enum similarity s = 0; s < SIMILARITY_COUNT; s++) {
        assert_int_equal(measure(s, "é ü ß 你好 🙂", "é ü ß 你好 🙂", &is, &e), 0);
        assert_true(fabs(is - (1)) <= 1e-12);
    }
    assert_int_equal(measure(SIMILARITY_FUZZY, "", "", &is, &e), 0);
    assert_true(fabs(is - (1)) <= 0);
}

static void too_long(void **state)
{
    enum { N = 12000 };
    struct err e = ERR_INIT;
    double is;
    char *text = arena_alloc(&own_arena, N);
    (void)state;
    memset(text, 'a', N - 1);
    assert_int_equal(measure(SIMILARITY_FUZZY, text, text, &is, &e), -1);
    assert_int_equal(e.code, ERR_TOO_LARGE);
    assert_int_equal(measure(SIMILARITY_ROUGE_L, text, text, &is, &e), 0); /* one word */
    assert_true(fabs(is - (1)) <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_packages_have_them, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(equal, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(too_long, own_arena_new, own_arena_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
