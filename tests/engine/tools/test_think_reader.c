/* SPDX-License-Identifier: Apache-2.0
 *
 * Thoughts apart from words. Faults it can catch: a text that is read otherwise when it comes in
 * other pieces, half a mark that is lost, spaces of a text without thoughts that are dropped, a
 * prompt whose thoughts are open taken for one whose are not.
 */
#include "engine/tools/think_reader.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

static const struct think_marks *marks;

static void reads(enum think_place place, const char *text, const char *thoughts, const char *words)
{
    size_t n = strlen(text);
    for (size_t piece = 1; piece <= n + 1; piece++)
        for (size_t first = 1; first <= piece && first <= n; first++) {
            struct think_reader *r = think_reader_new(marks, place);
            think_reader_push(r, text, first);
            for (size_t at = first; at < n; at += piece)
                think_reader_push(r, text + at, piece < n - at ? piece : n - at);
            think_reader_end(r);
            const struct buf *t = think_reader_thoughts(r), *w = think_reader_words(r);
            if (t->len != strlen(thoughts) || (t->len && memcmp(t->data, thoughts, t->len) != 0) ||
                w->len != strlen(words) || (w->len && memcmp(w->data, words, w->len) != 0))
                fail_msg("%s by %zu: thoughts %s, words %s", text, piece, t->len ? t->data : "",
                         w->len ? w->data : "");
            think_reader_free(r);
        }
}

static void test_reads(void **state)
{
    (void)state;
    reads(THINK_MAY, "<think>\nI see. </thi \n\n</think>\n\nYes </think> <think>", "I see. </thi",
          "Yes </think> <think>");
    reads(THINK_MAY, " <think></think>x ", "", "x ");
    reads(THINK_MAY, " \nplain <think>a</think>", "", " \nplain <think>a</think>");
    reads(THINK_MAY, " <thin", "", " <thin");
    reads(THINK_MAY, "<think> a\n b </th", "a\n b </th", "");
    reads(THINK_MAY, "<think> a \n", "a", "");
    reads(THINK_INSIDE, "\n hm </think></think>b", "hm", "</think>b");
    reads(THINK_INSIDE, "hm <<</think>", "hm <<", "");
    reads(THINK_NOT, " <think>a</think>", "", " <think>a</think>");
}

/* Harmony. Faults: a header told as text, a call whose name is lost, two messages that run into
 * each other, a mark within a message taken for its end. */
static void test_channels(void **state)
{
    const struct think_marks *was = marks;
    (void)state;
    marks = think_marks_told("<|channel|>analysis<|message|> <|channel|>final");
    reads(THINK_MAY,
          "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant<|channel|>final<|message|>"
          "Yes.<|return|>",
          "I see.", "Yes.");
    reads(THINK_MAY, "<|channel|>final<|message|>a < b <|x|> <|en", "", "a < b <|x|> <|en");
    reads(THINK_MAY, "Plain <|text", "", "Plain <|text");
    reads(THINK_MAY,
          "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b"
          "<|end|>\n<|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>"
          "assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\":1}"
          "<|call|>",
          "a\n\nb",
          "I look.\n\n<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\":1}");
    reads(THINK_MAY, " to=functions.f<|channel|>commentary json<|message|>{}<|call|>", "",
          "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}");
    reads(THINK_MAY, "<|start|>assistant<|channel|>analysis to=browser.open<|message|>{}<|call|>",
          "{}", "");
    reads(THINK_INSIDE, "hm<|end|><|start|>assistant<|channel|>final<|message|>b<|start|>", "hm",
          "b");
    reads(THINK_NOT, "and so<|return|>", "", "and so");
    reads(THINK_MAY, "<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "a", "b");
    assert_int_equal(think_place_of(marks, "<|end|><|start|>assistant", 25), THINK_MAY);
    assert_int_equal(think_place_of(marks, "x<|channel|>analysis<|message|>", 31), THINK_INSIDE);
    marks = was;
}

static void test_told(void **state)
{
    (void)state;
    assert_string_equal(think_marks_told("{{ '</think>' }}")->open, "<think>");
    assert_string_equal(think_marks_told("[THINK] [/THINK]")->close, "[/THINK]");
    assert_null(think_marks_told("<think>"));
    assert_null(think_marks_told("</think><response>"));
    assert_int_equal(think_place_of(marks, "a<think>\n", 9), THINK_INSIDE);
    assert_int_equal(think_place_of(marks, "<think>\n\n</think>\n\n", 19), THINK_NOT);
    assert_int_equal(think_place_of(marks, "user: <think> is a tag", 22), THINK_MAY);
    assert_int_equal(think_place_of(marks, "", 0), THINK_MAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_told),
    };
    marks = think_marks_told("</think>");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
