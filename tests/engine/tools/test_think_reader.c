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
        cmocka_unit_test(test_told),
    };
    marks = think_marks_told("</think>");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
