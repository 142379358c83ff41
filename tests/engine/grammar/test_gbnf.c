/* SPDX-License-Identifier: Apache-2.0
 *
 * Grammars in GBNF and structural tags: what they admit and refuse, faults with their place, and
 * what is hostile within its bounds.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/buf.h"
#include "tests/engine/grammar/run.h"
#include "tests/lib/jvalue_json.h"
#include "tests/lib/own_arena.h"

static struct grammar *gbnf(const char *text)
{
    struct err e = ERR_INIT;
    struct grammar *g = grammar_gbnf(text, strlen(text), NULL, &e);
    if (!g)
        fail_msg("%s: %s", text, e.msg);
    return g;
}

static void check(const char *grammar, const char *good, const char *bad)
{
    struct grammar *g = gbnf(grammar);
    if (!matches(g, good) || matches(g, bad))
        fail_msg("%s", grammar);
    grammar_unref(g);
}

static void test_grammars(void **state)
{
    (void)state;
    check("root ::= \"a\" [b-d]+ | \"x\"{2,3}", "abcd", "x");
    check("root ::= \"a\" [b-d]+ | \"x\"{2,3}", "xxx", "xxxx");
    check(
        "# a comment\nroot ::= expr # more\nexpr ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" expr \")\"\n",
        "1+(2+(33))+4", "1+(2");
    check("root ::= (\n  \"a\" # first\n  | \"b\"\n) \"c\"\n", "bc", "c");
    check("root ::= \"a\"\n  | \"b\"\n\n  | \"c\"\nother ::= \"d\"", "c", "d");
    check("root ::= [^\\n\\]\\-]+ \"\\x41\\u00e9\\U0001F600\"", "zA\xc3\xa9\xf0\x9f\x98\x80", "]A");
    check("root ::= item{3}\nitem ::= \"a\" | \"bb\"", "abba", "abb");
    check("root ::= .{2,} \"!\"", "\xc3\xa9\xc3\xa9!", "\xc3\xa9!");
    check("root ::= \"(\" root \")\" | \"\"", "((()))", "(()");
    check("root ::= list\nlist ::= \"a\" list | \"a\"", "aaaaaaaa", "");
    check("root ::= [ab]{,2} \"c\"", "abc", "aabc");
    check("root ::= ((\"a\"?)*)+ \"b\"", "aab", "a");
    check("root ::= \"say \\\"hi\\\"\"", "say \"hi\"", "say hi");
}

static void test_long_recursion(void **state)
{
    (void)state;
    struct grammar *g = gbnf("root ::= \"a\" root \"b\" | \"c\""),
                   *r = gbnf("root ::= \"a\" root | \"b\"");
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 50000; i++)
        buf_char(&b, 'a');
    buf_char(&b, 'c');
    for (int i = 0; i < 50000; i++)
        buf_char(&b, 'b');
    assert_int_equal(verdict_of(g, b.data, b.len), MATCHES);
    assert_int_equal(verdict_of(g, b.data, b.len - 1), BEGINS);
    b.data[50000] = 'b';
    assert_int_equal(verdict_of(r, b.data, 50001), MATCHES);
    buf_release(&b);
    grammar_unref(g);
    grammar_unref(r);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *words;
    } row[] = {
        {"", "no rule root"},
        {"rot ::= \"a\"", "no rule root"},
        {"root ::= a", "line 1, byte 10: a rule that is nowhere defined"},
        {"root ::= \"a", "ends inside"},
        {"root ::= [a", "ends inside"},
        {"root ::= (\"a\"", "without its )"},
        {"root ::= \"a\")", "end of a line"},
        {"root = \"a\"", "::= was expected"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, byte 1: a rule of this name"},
        {"root ::= root \"a\" | \"b\"", "rule root comes to itself"},
        {"root ::= x\nx ::= y \"a\" | \"c\"\ny ::= z x \"b\"\nz ::= \"d\"?", "left recursion"},
        {"root ::= \"a\"{70000}", "65535"},
        {"root ::= \"a\"{3,1}", "end lies before"},
        {"root ::= [z-a]", "range"},
        {"root ::= \"\\q\"", "escape"},
        {"root ::= <[5]>", "tokens cannot be named"},
        {"root ::= \"a\" root", "no text can satisfy"},
        {"root ::= \"\\ud800\"", "no character"},
        {"root ::= \xff", "UTF-8"},
        {"root ::= \"a\"?????", "quantifiers"},
        {"root ::= *", "name of a rule"},
        {"root ::= (\"a\"{1000}){1000}", "states"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        struct grammar *g = grammar_gbnf(row[i].grammar, strlen(row[i].grammar), NULL, &e);
        if (g || !strstr(e.msg, row[i].words))
            fail_msg("%s: %s", row[i].grammar, g ? "compiled" : e.msg);
    }
}

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

/* Faults: a C stack that overflows with nested groups or chains of rules, loops of nothing. */
static void test_hostile(void **state)
{
    (void)state;
    char *text[] = {
        repeated("root ::= ", "(", 60000, "\"a\""),
        repeated("root ::= ", "\"a\" | ", 40000, "\"b\""),
        repeated("root ::= ", "(\"a\"?)*", 5000, ""),
        repeated("root ::= ", "root ", 5000, "\"a\""),
        repeated("root ::= ", "x ", 20000, "\nx ::= \"a\"? x \"b\" | \"\""),
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct err e = ERR_INIT;
        struct grammar *g = grammar_gbnf(text[i], strlen(text[i]), NULL, &e);
        assert_true(g || e.msg[0]);
        grammar_unref(g);
        free(text[i]);
    }
    struct buf b; /* a chain of rules, each beginning with the next */
    struct err e = ERR_INIT;
    buf_init(&b, 1 << 22);
    buf_str(&b, "root ::= r0 \"x\"\n");
    for (int i = 0; i < 20000; i++)
        buf_printf(&b, "r%d ::= r%d \"x\"\n", i, i + 1);
    buf_str(&b, "r20000 ::= \"x\"\n");
    struct grammar *g = grammar_gbnf(b.data, b.len, NULL, &e);
    assert_true(g || e.code == ERR_TOO_LARGE);
    grammar_unref(g);
    buf_release(&b);
}

/* ---- structural tags ---- */

#define TEXT(s)                                                                                    \
    {                                                                                              \
        s, sizeof(s) - 1                                                                           \
    }

static struct grammar *tags(bool needs_one, bool stops)
{
    static const char schema[] = "{\"type\": \"object\", \"properties\": {\"q\": {\"type\": "
                                 "\"integer\"}}, \"required\": [\"q\"]}";
    static const struct grammar_text trigger[] = {TEXT("<fn="), TEXT("[[")};
    struct err e = ERR_INIT;
    struct jvalue v;
    assert_good(test_jvalue_parse(&own_arena, schema, sizeof schema - 1, &v, &e), &e);
    struct grammar_tag tag[] = {
        {TEXT("<fn=find>"), TEXT("</fn>"), GRAMMAR_SCHEMA, &v, {0}},
        {TEXT("<fn=list>"), TEXT("</fn>"), GRAMMAR_REGEX, NULL, TEXT("[a-z]*")},
        {TEXT("[["), TEXT("]]"), GRAMMAR_GBNF, NULL, TEXT("root ::= \"x\" root | \"y\"")},
    };
    struct grammar_tags ask = {tag, 3, trigger, 2, needs_one, stops, false};
    struct grammar *g = grammar_tags(&ask, NULL, &e);
    if (!g)
        fail_msg("%s", e.msg);
    return g;
}

/* Faults: a trigger that is missed behind a beginning of itself, or seen where there is none; text
 * that ends inside of a tag. */
static void test_tags(void **state)
{
    (void)state;
    struct grammar *g = tags(false, false);
    static const char *const good[] = {"", "plain < [ <f <<fn text",
                                       "a <fn=find>{\"q\": 1}</fn> b [[xxy]] <fn=list>abc</fn>",
                                       "<<fn=list></fn>", "[[[y]]"};
    static const char *const bad[] = {
        "<fn=", "<fn=other>", "<fn=find>{}</fn>", "<fn=find>{\"q\": 1}", "[[x]]", "x [[z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (matches(g, bad[i]))
            fail_msg("admitted: %s", bad[i]);
    for (size_t i = 0; i < 4; i++)
        if (!matches(g, good[i]))
            fail_msg("refused: %s", good[i]);
    assert_int_equal(verdict_of(g, good[4], strlen(good[4])), REFUSED); /* [[ and then [ */
    grammar_unref(g);
    g = tags(true, false);
    assert_true(!matches(g, "") && !matches(g, "text") && matches(g, "t [[y]] <"));
    grammar_unref(g);
    g = tags(true, true);
    assert_true(matches(g, "t [[y]]") && !matches(g, "t [[y]] "));
    grammar_unref(g);
    g = tags(false, true);
    assert_true(matches(g, "t") && matches(g, "[[y]]") && !matches(g, "[[y]]."));
    grammar_unref(g);
}

static void test_tags_refused(void **state)
{
    (void)state;
    static const struct grammar_text one[] = {TEXT("<a")}, nested[] = {TEXT("<a"), TEXT("a")};
    static const struct grammar_text empty[] = {TEXT("")};
    struct grammar_tag tag = {TEXT("<a>"), TEXT("<"), GRAMMAR_REGEX, NULL, TEXT("(")};
    struct grammar_tag stray = {TEXT("<b>"), TEXT("<"), GRAMMAR_REGEX, NULL, TEXT("a")};
    struct {
        struct grammar_tags ask;
        const char *words;
    } row[] = {
        {{&tag, 1, one, 1, 0, 0, 0}, "tag 0: the regex at byte"},
        {{&stray, 1, one, 1, 0, 0, 0}, "none of the triggers"},
        {{&stray, 1, nested, 2, 0, 0, 0}, "lies within"},
        {{&stray, 1, empty, 1, 0, 0, 0}, "not empty"},
        {{&stray, 0, one, 1, 0, 0, 0}, "1 to 1024"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        assert_null(grammar_tags(&row[i].ask, NULL, &e));
        if (!strstr(e.msg, row[i].words))
            fail_msg("%s", e.msg);
    }
}

#define OWN(f) cmocka_unit_test_setup_teardown(f, own_arena_new, own_arena_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammars),
        cmocka_unit_test(test_long_recursion),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hostile),
        OWN(test_tags),
        cmocka_unit_test(test_tags_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
