/* SPDX-License-Identifier: Apache-2.0
 *
 * Two texts in one input: where the tokens between them stand, which are of the second type, and
 * what is cut. That whole texts come out as the reference's the scores of
 * tests/server/test_scores.py say.
 */
#include "engine/token/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

enum { ROOM = 64 };

static struct tokenizer *make(const char *post)
{
    char json[2048];
    struct err e = ERR_INIT;
    snprintf(json, sizeof json,
             "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
             "\"post_processor\":%s,\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\","
             "\"vocab\":{\"u\":0,\"C\":1,\"S\":2,\"a\":3,\"b\":4}}}",
             post);
    struct tokenizer *t = tokenizer_parse(json, strlen(json), &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

/* Texts of ids 3 and 4, of so many tokens, as digits; behind a | the second type. */
static const char *join(const struct tokenizer *t, size_t n_first, size_t n_second)
{
    static char text[ROOM + 2];
    int32_t a[ROOM], b[ROOM], out[ROOM];
    for (size_t i = 0; i < ROOM; i++) {
        a[i] = 3;
        b[i] = 4;
    }
    size_t n = n_first + n_second + tokenizer_pair_added(t), at = 0;
    size_t n_type =
        tokenizer_pair_put(t, &(struct tok_run){a, n_first}, &(struct tok_run){b, n_second}, out);
    for (size_t i = 0; i < n; i++) {
        if (i == n_type)
            text[at++] = '|';
        text[at++] = (char)('0' + out[i]);
    }
    text[at] = 0;
    return text;
}

#define SPECIAL(id, type) "{\"SpecialToken\":{\"id\":\"" id "\",\"type_id\":" #type "}}"
#define TEXT(id, type)    "{\"Sequence\":{\"id\":\"" id "\",\"type_id\":" #type "}}"
#define TEMPLATE(pair)                                                                             \
    "{\"type\":\"TemplateProcessing\",\"single\":[" SPECIAL("C", 0) "," TEXT(                      \
        "A", 0) "],\"pair\":[" pair                                                                \
                "],\"special_tokens\":{\"C\":{\"id\":\"C\",\"ids\":[1],\"tokens\":[\"C\"]},"       \
                "\"S\":{\"id\":\"S\",\"ids\":[2],\"tokens\":[\"S\"]}}}"
#define MARKERS(type) "{\"type\":\"" type "\",\"sep\":[\"S\",2],\"cls\":[\"C\",1]}"

/* Faults: a separator of the wrong type, or too many of them; two texts that change places. */
static void as_the_file_says(void **state)
{
    static const struct {
        const char *post, *joined;
    } row[] = {
        {"null", "33|4"},
        {MARKERS("BertProcessing"), "1332|42"},
        {MARKERS("RobertaProcessing"), "1332242"},
        {TEMPLATE(SPECIAL("C", 0) "," TEXT("A", 0) "," SPECIAL("S", 0) "," TEXT("B", 1) "," SPECIAL(
             "S", 1)),
         "1332|42"},
        {TEMPLATE(TEXT("A", 0) "," SPECIAL("S", 0) "," SPECIAL("C", 1) "," TEXT("B", 1)), "332|14"},
        {TEMPLATE(SPECIAL("C", 0) "," TEXT("A", 0) "," SPECIAL("S", 0) "," TEXT("B", 0)), "13324"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        struct tokenizer *t = make(row[i].post);
        assert_good(tokenizer_pair_check(t, &e), &e);
        assert_string_equal(join(t, 2, 1), row[i].joined);
        tokenizer_free(t);
    }
}

/* Faults: a template that is taken for another; a model refused for what nobody asks of it. */
static void what_is_not_understood(void **state)
{
    static const char *const post[] = {
        TEMPLATE(TEXT("B", 0) "," TEXT("A", 0)),
        TEMPLATE(TEXT("A", 0)),
        TEMPLATE(TEXT("A", 0) "," TEXT("B", 0) "," TEXT("B", 0)),
        TEMPLATE(TEXT("A", 1) "," TEXT("B", 0)),
        TEMPLATE(TEXT("A", 0) "," TEXT("B", 0) "," SPECIAL("S", 1)),
        TEMPLATE(TEXT("A", 0) "," SPECIAL("X", 0) "," TEXT("B", 0)),
        "{\"type\":\"Sequence\",\"processors\":[" MARKERS("BertProcessing") "," MARKERS(
            "BertProcessing") "]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof post / sizeof *post; i++) {
        struct err e = ERR_INIT;
        struct tokenizer *t = make(post[i]);
        assert_err(tokenizer_pair_check(t, &e), &e, ERR_UNSUPPORTED, "post_processor");
        tokenizer_free(t);
    }
}

/* Fault: the shorter text cut while the longer one could be. */
static void longest_first(void **state)
{
    static const size_t row[][5] = {/* most, both as they are, both as they become */
                                    {13, 5, 5, 5, 5}, {12, 5, 5, 4, 5}, {10, 2, 9, 2, 5},
                                    {10, 9, 2, 5, 2}, {10, 9, 9, 3, 4}, {3, 9, 9, 0, 0},
                                    {0, 1, 1, 0, 0},  {4, 0, 9, 0, 1},  {11, 9, 4, 4, 4}};
    struct tokenizer *t = make(MARKERS("BertProcessing"));
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t a = row[i][1], b = row[i][2];
        tokenizer_pair_cut(t, row[i][0], &a, &b);
        assert_int_equal(a, row[i][3]);
        assert_int_equal(b, row[i][4]);
    }
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_file_says),
        cmocka_unit_test(what_is_not_understood),
        cmocka_unit_test(longest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
