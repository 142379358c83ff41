/* SPDX-License-Identifier: Apache-2.0
 *
 * The hand-written splitters against PCRE2 running the patterns that they stand for, on random
 * text of the characters at which the alternatives take turns. Catches a cut at another place,
 * a class that differs, a gap.
 */
#include "engine/token/regex.h"
#include "engine/token/split.h"
#include "tests/engine/token/fixture.h"

enum { MAX_CHARS = 60, ROUNDS = 6000 };

static void compare(const struct split_rules *rules, const struct regex *re, struct regex_run *run,
                    const struct uclass *u, const uint8_t *text, size_t len)
{
    struct err e = ERR_INIT;
    for (size_t at = 0, lo, hi; at < len; at = hi) {
        assert_int_equal(regex_find(re, run, text, len, at, &lo, &hi, &e), 1);
        size_t got = split_next(rules, u, text, len, at);
        if (lo != at || hi != got)
            fail_msg("at byte %zu of \"%.*s\": the regex ends at %zu, the rules at %zu", at,
                     (int)len, (const char *)text, hi, got);
    }
}

static void rules_cut_as_their_regexes_do(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    uint8_t text[4 * MAX_CHARS];
    uint64_t seed = 88172645463325252u;
    struct uclass *u = uclass_new(SPLIT_CLASSES, &e);
    assert_non_null(u);
    assert_true(split_count() >= 5);
    for (size_t i = 0; i < split_count(); i++) {
        const char *pattern = split_pattern(i);
        const struct split_rules *rules = split_find(pattern, strlen(pattern));
        struct regex *re = regex_new(pattern, strlen(pattern), &e);
        struct regex_run *run = re ? regex_run_new(re, &e) : NULL;
        assert_non_null(rules);
        assert_non_null(run);
        for (int k = 0; k < ROUNDS; k++)
            compare(rules, re, run, u, text, rnd_text(&seed, 1 + rnd(&seed, MAX_CHARS), text));
        regex_run_free(run);
        regex_free(re);
    }
    uclass_free(u);
}

/* Each character in front of, between and behind the others' classes. */
static void every_character_has_the_class_that_the_regex_sees(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct uclass *u = uclass_new(SPLIT_CLASSES, &e);
    for (size_t i = 0; i < split_count(); i++) {
        const char *pattern = split_pattern(i);
        const struct split_rules *rules = split_find(pattern, strlen(pattern));
        struct regex *re = regex_new(pattern, strlen(pattern), &e);
        struct regex_run *run = regex_run_new(re, &e);
        for (uint32_t c = 0; c < 0x32000; c += c < 0x3400 ? 1 : 7) {
            uint8_t text[32];
            size_t n = 0;
            if (c >= 0xd800 && c < 0xe000)
                continue;
            text[n++] = 'a';
            n += utf8_put(text + n, c);
            n += utf8_put(text + n, c);
            text[n++] = '1';
            n += utf8_put(text + n, c);
            text[n++] = ' ';
            n += utf8_put(text + n, c);
            compare(rules, re, run, u, text, n);
        }
        regex_run_free(run);
        regex_free(re);
    }
    uclass_free(u);
}

static void expect_translation(const char *pattern, const char *want)
{
    struct buf b;
    struct err e = ERR_INIT;
    buf_init(&b, 4096);
    if (want) {
        assert_good(regex_translate(pattern, strlen(pattern), &b, &e), &e);
        assert_string_equal(b.data, want);
    } else {
        assert_err(regex_translate(pattern, strlen(pattern), &b, &e), &e, ERR_UNSUPPORTED, "regex");
    }
    buf_release(&b);
}

/* Fault: an escape that means something else to PCRE2 passes as it is. */
static void patterns_are_translated(void **state)
{
    (void)state;
    expect_translation("\\s+(?!\\S)", "\\p{White_Space}+(?!\\P{White_Space})");
    expect_translation("[^\\s\\p{L}]", "[^\\p{White_Space}\\p{L}]");
    expect_translation("\\w", "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]");
    expect_translation("[\\w-]", "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}-]");
    expect_translation("\\u4e00[]a]\\[[[:alpha:]]", "\\x{4e00}[]a]\\[[[:alpha:]]");
    expect_translation("\\p{N}{1,3}+", "(?:\\p{N}{1,3})+");
    expect_translation("(?<=x{2})(a|b[c]){2}?d{2,}?e{,4}\\x{41}++",
                       "(?<=x{2})(?:(a|b[c]){2})?d{2,}?e{0,4}\\x{41}++");
    expect_translation("(?i:a){3}+|{x}+", "(?:(?i:a){3})+|{x}+");
    expect_translation("[a[bc]]", NULL);
    expect_translation("[a-z&&[^b]]", NULL);
    expect_translation("(?m:.)", NULL);
}

/* Fault: a pattern that backtracks without end holds a thread. */
static void a_costly_match_is_an_error(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    size_t lo, hi;
    char text[64];
    memset(text, 'a', sizeof text);
    struct regex *re = regex_new("(a+)+b|(a|aa)+$x", 16, &e);
    struct regex_run *run = regex_run_new(re, &e);
    assert_err(regex_find(re, run, (uint8_t *)text, sizeof text, 0, &lo, &hi, &e), &e,
               ERR_TOO_LARGE, "too many steps");
    regex_run_free(run);
    regex_free(re);
}

/* Fault: a match that only lacks the stack of compiled code, and counts as too costly. */
static void a_long_match_is_found(void **state)
{
    enum { LONG = 50000 };
    struct err e = ERR_INIT;
    size_t lo, hi;
    (void)state;
    char *text = malloc(LONG);
    memset(text, 'a', LONG);
    text[LONG - 1] = 'c';
    struct regex *re = regex_new("((a)|b)*c", 9, &e);
    struct regex_run *run = regex_run_new(re, &e);
    assert_int_equal(regex_find(re, run, (uint8_t *)text, LONG, 0, &lo, &hi, &e), 1);
    assert_true(lo == 0 && hi == LONG);
    regex_run_free(run);
    regex_free(re);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_cut_as_their_regexes_do),
        cmocka_unit_test(every_character_has_the_class_that_the_regex_sees),
        cmocka_unit_test(patterns_are_translated),
        cmocka_unit_test(a_costly_match_is_an_error),
        cmocka_unit_test(a_long_match_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
