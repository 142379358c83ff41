/* SPDX-License-Identifier: Apache-2.0
 *
 * Regexes as constraints: against PCRE2 on random expressions and all short texts, each character
 * against its class, and what is hostile within its bounds.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tests/lib/test.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/token/utf8.h"
#include "tests/engine/grammar/run.h"

static struct grammar *regex(const char *text)
{
    struct err e = ERR_INIT;
    struct grammar *g = grammar_regex(text, strlen(text), NULL, &e);
    if (!g)
        fail_msg("%s: %s", text, e.msg);
    return g;
}

/* ---- random expressions against PCRE2 ---- */

static void write_regex(struct buf *b, uint64_t *rnd, int depth)
{
    static const char *const atom[] = {"a", "b", "c",       "[ab]", "[^a]", ".",   "\\w", "\\W",
                                       "-", "",  "[^\\s-]", "^",    "$",    "\\b", "\\B", "(?i)B"};
    static const char *const many[] = {"*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "{0}"};
    uint32_t kind = depth == 0 ? 0 : draw(rnd, 5);
    switch (kind) {
    default:
        buf_str(b, atom[draw(rnd, sizeof atom / sizeof *atom)]);
        break;
    case 2:
        write_regex(b, rnd, depth - 1);
        write_regex(b, rnd, depth - 1);
        break;
    case 3:
        buf_str(b, "(?:");
        write_regex(b, rnd, depth - 1);
        buf_char(b, '|');
        write_regex(b, rnd, depth - 1);
        buf_char(b, ')');
        break;
    case 4:
        buf_str(b, "(?:");
        write_regex(b, rnd, depth - 1);
        buf_str(b, ")");
        buf_str(b, many[draw(rnd, sizeof many / sizeof *many)]);
        break;
    }
}

static bool pcre_matches(pcre2_code *c, pcre2_match_data *m, const char *text, size_t len)
{
    return pcre2_match(c, (PCRE2_SPTR)text, len, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, m, NULL) >
           0;
}

/* Faults: a claim that holds where it does not, a count off by one, an alternative lost, a loop of
 * nothing that never ends. */
static void test_like_pcre2(void **state)
{
    (void)state;
    static const char letter[] = "abC-\n";
    uint64_t rnd = 88172645463325252u;
    int n_compared = 0;
    for (int round = 0; round < 3000; round++) {
        struct buf b;
        struct err e = ERR_INIT;
        int code;
        PCRE2_SIZE at;
        buf_init(&b, 4096);
        write_regex(&b, &rnd, 4);
        pcre2_code *c = pcre2_compile((PCRE2_SPTR)(b.len ? b.data : ""), b.len,
                                      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
        assert_non_null(c);
        pcre2_match_data *m = pcre2_match_data_create_from_pattern(c, NULL);
        struct grammar *g = grammar_regex(b.data, b.len, NULL, &e);
        for (int i = 0, n = 1; n <= 3125; i = 0, n *= 5)
            for (; i < n && !(n == 3125 && i > 600); i++) {
                char text[8];
                size_t len = 0;
                for (int k = n, rest = i; k > 1; k /= 5, rest /= 5)
                    text[len++] = letter[rest % 5];
                bool want = pcre_matches(c, m, text, len);
                if (!g) { /* nothing matches it */
                    assert_string_equal(e.msg, "no text can satisfy the constraint");
                    assert_false(want);
                } else if ((verdict_of(g, text, len) == MATCHES) != want) {
                    fail_msg("/%s/ on '%.*s': PCRE2 says %d", b.data, (int)len, text, want);
                }
                n_compared++;
            }
        grammar_unref(g);
        pcre2_match_data_free(m);
        pcre2_code_free(c);
        buf_release(&b);
    }
    assert_true(n_compared > 1000000);
}

/* Faults: a border of UTF-8's lengths cut wrong; surrogates admitted; a byte that is no UTF-8. */
static void test_characters(void **state)
{
    (void)state;
    static const char *const set[] = {"[\\x{7f}-\\x{80}]",
                                      "[\\x{7ff}-\\x{800}]",
                                      "[\\x{ffff}-\\x{10000}]",
                                      "(?s).",
                                      "[^\\x{100}-\\x{10fff}]",
                                      "[\\x{d7ff}-\\x{e000}]",
                                      "[\\x{3f}-\\x{10abc}]",
                                      "[^a]",
                                      "[\\x{1000}-\\x{1234}\\x{40000}-\\x{fffff}]"};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        struct grammar *g = regex(set[i]);
        int code;
        PCRE2_SIZE at;
        pcre2_code *c =
            pcre2_compile((PCRE2_SPTR)set[i], strlen(set[i]), PCRE2_UTF, &code, &at, NULL);
        pcre2_match_data *m = pcre2_match_data_create_from_pattern(c, NULL);
        for (uint32_t ch = 0; ch <= 0x10ffff; ch += ch < 0x3000 || ch % 0x1000 > 0xff0 ? 1 : 7) {
            uint8_t text[4];
            if (ch >= 0xd800 && ch <= 0xdfff)
                continue;
            unsigned len = utf8_put(text, ch);
            bool want = pcre_matches(c, m, (char *)text, len);
            if ((verdict_of(g, (char *)text, len) == MATCHES) != want)
                fail_msg("%s on U+%04X", set[i], ch);
        }
        assert_int_equal(verdict_of(g, "\xed\xa0\x80", 3), REFUSED);
        assert_int_equal(verdict_of(g, "\xff", 1), REFUSED);
        assert_int_equal(verdict_of(g, "\xc0\x80", 2), REFUSED);
        pcre2_match_data_free(m);
        pcre2_code_free(c);
        grammar_unref(g);
    }
}

static void test_spellings(void **state)
{
    (void)state;
    static const struct {
        const char *regex, *good, *bad;
    } row[] = {
        {"\\x41\\x{1F600}\\Q.*\\E", "A\xf0\x9f\x98\x80.*", "A"},
        {"[[:alpha:]_]+[[:^digit:]]", "ab_x", "ab1"},
        {"\\p{Greek}+", "\xce\xb1\xce\xb2", "a"},
        {"\\pL\\PL",
         "\xc3\xa9"
         "1",
         "11"},
        {"\\p{^L}", "1", "a"},
        {"(?i)stra\xc3\x9f"
         "e",
         "STRA\xe1\xba\x9e"
         "E",
         "strase"},
        {"(?i:k)x", "\xe2\x84\xaax", "kX"},
        {"(?P<year>\\d{4})-(?<m>\\d\\d)", "2026-01", "2026-1"},
        {"\\Aab\\z", "ab", "abc"},
        {"(?m:^a$\n^b$)", "a\nb", "ab"},
        {"[]a]+", "]a", "b"},
        {"x{,3}", "x{,3}", "xx"},
        {"(a+)+b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"(a|a)*", "aaaa", "b"},
        {"(a*)*|(b*)+", "bbb", "ab"},
        {"()", "", "a"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct grammar *g = regex(row[i].regex);
        if (!matches(g, row[i].good) || matches(g, row[i].bad))
            fail_msg("%s", row[i].regex);
        grammar_unref(g);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *regex, *words;
    } row[] = {
        {"(a", "without its )"},
        {"a)", "without its ("},
        {"[a", "without its ]"},
        {"a**", "quantifier"},
        {"*a", "nothing before"},
        {"a{2,1}", "interval"},
        {"(a)\\1", "backtracking"},
        {"(?=a)", "backtracking"},
        {"(?<!a)b", "backtracking"},
        {"(?>a)", "atomic"},
        {"\\p{Klingon}", "class of characters"},
        {"\\", "backslash"},
        {"[b-a]", "range"},
        {"\\x{110000}", "no character"},
        {"\\xg0", "hexadecimal"},
        {"\\y", "not known"},
        {"a{70000}", "65535"},
        {"a\\bb", "no text"},
        {"[[:foo:]]", "not known"},
        {"\\ud800", "not known"},
        {"(?", "unknown kind"},
        {"\xff", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        assert_null(grammar_regex(row[i].regex, strlen(row[i].regex), NULL, &e));
        if (!strstr(e.msg, row[i].words))
            fail_msg("%s: %s", row[i].regex, e.msg);
        assert_true(e.code == ERR_BAD_INPUT || e.code == ERR_TOO_LARGE);
    }
}

/* ---- hostile ---- */

static char *repeated(const char *before, const char *what, int n, const char *after)
{
    struct buf b;
    buf_init(&b, 1 << 22);
    buf_str(&b, before);
    for (int i = 0; i < n; i++)
        buf_str(&b, what);
    buf_str(&b, after);
    return buf_take(&b);
}

/* Faults: a C stack that overflows, an automaton that explodes, a compilation that takes its time;
 * and a right answer that is refused. */
static void test_hostile(void **state)
{
    (void)state;
    char *deep = repeated("", "(", 30000, "a"), *closed = repeated(deep, ")", 30000, "");
    char *half = repeated("", "(a?", 120, ""), *nested = repeated(half, ")", 120, "");
    char *options = repeated("", "(a?)", 5000, ""), *many = repeated("(", "a|", 15000, "b)");
    char *stars = repeated("", "(.*)", 2000, "x"), *classes = repeated("", "\\p{L}?\\PN", 3000, "");
    struct {
        const char *regex, *good;
        bool may_be_refused;
    } row[] = {
        {deep, NULL, true},
        {closed, NULL, true},
        {nested, "aaa", false},
        {"(a{1000}){1000}", NULL, true},
        {"((((a{100}){100}){100}){100}){100}", NULL, true},
        {"((a{1,100}){1,100}){1,100}", NULL, true},
        {"(a?){1000}", "aaa", false},
        {"(a|aa)+(b|bb)+c", "aaaabbbc", false},
        {"(a|b)*a(a|b){25}", "bbabbbbbbbbbbbbbbbbbbbbbbbbb", false},
        {"(x+x+)+y", "xxxxxxxxxy", false},
        {"((((((x{0}){0}){0})*)*)*)*", "", false},
        {"(|a)+", "a", false},
        {"(a*)*b", "aab", false},
        {options, "aaa", true},
        {many, "b", false},
        {stars, "x", true},
        {classes, NULL, true},
        {".{65535}", NULL, false},
        {"(\\p{L}|\\p{N}){1,9000}", "a", true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        int64_t t0 = clock_us();
        struct grammar *g = grammar_regex(row[i].regex, strlen(row[i].regex), NULL, &e);
        printf("%-40.40s %6.1f ms %s\n", row[i].regex, (double)(clock_us() - t0) / 1e3,
               g ? "compiled" : e.msg);
        if (!g) {
            assert_true(row[i].may_be_refused);
            assert_int_equal(e.code, ERR_TOO_LARGE);
            continue;
        }
        if (row[i].good && !matches(g, row[i].good))
            fail_msg("%s refuses %s", row[i].regex, row[i].good);
        assert_true(grammar_bytes(g) < 64 << 20);
        grammar_unref(g);
    }
    free(deep), free(closed), free(half), free(nested), free(options), free(many), free(stars);
    free(classes);
}

static void test_choice(void **state)
{
    (void)state;
    static const struct grammar_text text[] = {
        {"red", 3}, {"re", 2}, {"green", 5}, {"red", 3}, {"\xc3\xa9t\xc3\xa9", 5}};
    struct err e = ERR_INIT;
    struct grammar *g = grammar_choice(text, 5, NULL, &e);
    assert_non_null(g);
    assert_true(matches(g, "red") && matches(g, "re") && matches(g, "green"));
    assert_true(matches(g, "\xc3\xa9t\xc3\xa9"));
    assert_int_equal(verdict_of(g, "gree", 4), BEGINS);
    assert_int_equal(verdict_of(g, "redd", 4), REFUSED);
    assert_int_equal(verdict_of(g, "", 0), BEGINS);
    grammar_unref(g);
    assert_null(grammar_choice(text, 0, NULL, &e));
    static const struct grammar_text empty[] = {{"", 0}};
    g = grammar_choice(empty, 1, NULL, &e);
    assert_true(matches(g, ""));
    grammar_unref(g);
}

static void test_choice_of_100000(void **state)
{
    (void)state;
    static struct grammar_text text[100000];
    static char digits[100000][8];
    struct err e = ERR_INIT;
    for (int i = 0; i < 100000; i++) {
        text[i].at = digits[i];
        text[i].len = (size_t)snprintf(digits[i], sizeof digits[i], "%06d", i * 7 % 100000);
    }
    struct grammar *g = grammar_choice(text, 100000, NULL, &e);
    assert_non_null(g);
    assert_true(matches(g, "099999") && !matches(g, "100000"));
    grammar_unref(g);
    struct grammar_limits few = {1000, 64 << 20, 1000}, small = {200000, 1 << 20, 1000};
    assert_null(grammar_choice(text, 100000, &few, &e));
    assert_non_null(strstr(e.msg, "1000 states"));
    assert_null(grammar_choice(text, 100000, &small, &e));
    assert_non_null(strstr(e.msg, "1 MB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_pcre2),       cmocka_unit_test(test_characters),
        cmocka_unit_test(test_spellings),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hostile),          cmocka_unit_test(test_choice),
        cmocka_unit_test(test_choice_of_100000),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
