/* SPDX-License-Identifier: Apache-2.0
 *
 * The Unigram model beside the goldens: spans, memory on long texts, characters that are unknown
 * where nothing stands for them, and files that must be refused.
 */
#include "tests/engine/token/fixture.h"

static struct tokenizer *parse(const char *model, struct err *e)
{
    char text[4096];
    int n = snprintf(text, sizeof text, "{\"model\":{\"type\":\"Unigram\",%s}}", model);
    assert_true(n > 0 && (size_t)n < sizeof text);
    return tokenizer_parse(text, (size_t)n, e);
}

static struct tokenizer *must_parse(const char *model)
{
    struct err e = ERR_INIT;
    struct tokenizer *t = parse(model, &e);
    if (!t)
        fail_msg("%s", e.msg);
    return t;
}

static void refuse(const char *model, enum err_code code, const char *words)
{
    struct err e = ERR_INIT;
    struct tokenizer *t = parse(model, &e);
    assert_null(t);
    assert_int_equal(e.code, code);
    if (!strstr(e.msg, words))
        fail_msg("\"%s\" does not say \"%s\"", e.msg, words);
}

#define VOCAB "\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"aa\",-1.5],[\"b\",-2]]"

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    char text[3000], piece[1100];
    refuse("\"vocab\":{}", ERR_BAD_INPUT, "vocab");
    refuse("\"unk_id\":0", ERR_BAD_INPUT, "vocab");
    refuse("\"vocab\":[[\"a\"]]", ERR_BAD_INPUT, "a token and its score");
    refuse("\"vocab\":[[\"a\",1,2]]", ERR_BAD_INPUT, "a token and its score");
    refuse("\"vocab\":[\"a\"]", ERR_BAD_INPUT, "vocab[0]");
    refuse("\"vocab\":[[1,\"a\"]]", ERR_BAD_INPUT, "vocab[0]");
    refuse("\"vocab\":[[\"a\",NaN]]", ERR_BAD_INPUT, "tokenizer.json");
    refuse("\"vocab\":[[\"a\",-1e999]]", ERR_BAD_INPUT, "too large");
    refuse("\"vocab\":[[\"a\",null]]", ERR_BAD_INPUT, "vocab[0]");
    refuse("\"vocab\":[[\"a\",0],[\"\",0]]", ERR_BAD_INPUT, "token 1 is empty");
    refuse("\"vocab\":[[\"a\",0],[\"b\",0],[\"a\",0]]", ERR_BAD_INPUT, "vocab[2]");
    refuse("\"unk_id\":4," VOCAB, ERR_BAD_INPUT, "unk_id is 4, but the vocabulary has 4 tokens");
    refuse("\"unk_id\":-1," VOCAB, ERR_BAD_INPUT, "unk_id");
    refuse("\"unk_id\":0,\"vocab\":[]", ERR_BAD_INPUT, "unk_id");
    refuse("\"byte_fallback\":1," VOCAB, ERR_BAD_INPUT, "byte_fallback");
    memset(piece, 'x', sizeof piece);
    piece[1025] = 0;
    snprintf(text, sizeof text, "\"vocab\":[[\"%s\",0]]", piece);
    refuse(text, ERR_TOO_LARGE, "more than 1024 bytes");
}

/* Fault: an id is made up where the file has none for unknown characters. */
static void what_nothing_stands_for_is_an_error(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct tok_list l;
    struct tokenizer *t = must_parse(VOCAB);
    tok_list_init(&l, 100, false);
    assert_int_equal(tokenizer_encode(t, "aac", 3, true, false, &l, &e), -1);
    assert_int_equal(e.code, ERR_BAD_INPUT);
    assert_int_equal(l.n, 0);
    e = (struct err)ERR_INIT;
    assert_good(tokenizer_encode(t, "aab", 3, true, false, &l, &e), &e);
    assert_int_equal(l.n, 2);
    tok_list_release(&l);
    tokenizer_free(t);
}

/* Fault: a token's span is not the bytes that it was made of. */
static void spans_follow_the_text(void **state)
{
    (void)state;
    struct tokenizer *t = must_parse("\"unk_id\":0," VOCAB);
    struct tok_list l = encode(t, "aa\xc3\xa9z b", 7, true);
    const struct tok_span want[] = {{0, 2}, {2, 6}, {6, 7}};
    assert_int_equal(l.n, 3);
    assert_int_equal(l.id[1], 0); /* three unknown characters are one token */
    assert_memory_equal(l.span, want, sizeof want);
    tok_list_release(&l);
    tokenizer_free(t);
}

/* Fault: a token, the first of its file, that is passed over where each of its characters is
 * unknown: of tokens that count for much two unknown ones count for more. */
static void unknown_ones_may_be_a_token_as_a_whole(void **state)
{
    (void)state;
    struct tokenizer *t =
        must_parse("\"unk_id\":1,\"vocab\":[[\"zz\",30],[\"<unk>\",40],[\"a\",40]]");
    struct tok_list l = encode(t, "azz", 3, true);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.id[1], 0);
    tok_list_release(&l);
    l = encode(t, "az", 2, true);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.id[1], 1);
    tok_list_release(&l);
    tokenizer_free(t);
}

/* The text in parts is the text, wherever a part is given out: 1 to 300 times each of these. */
static void long_runs_are_cut_where_every_way_meets(void **state)
{
    (void)state;
    struct tokenizer *t = must_parse("\"unk_id\":0," VOCAB);
    char text[1024];
    for (size_t n = 1; n <= 300; n++) {
        memset(text, 'b', n); /* one token a letter */
        struct tok_list l = encode(t, text, n, true);
        assert_int_equal(l.n, n);
        tok_list_release(&l);
        memset(text, 'z', n); /* one token in all */
        l = encode(t, text, n, true);
        assert_int_equal(l.n, 1);
        assert_int_equal(l.span[0].hi, n);
        tok_list_release(&l);
        memset(text, 'a', n); /* tokens stand over every place; the odd one comes first */
        l = encode(t, text, n, true);
        assert_int_equal(l.n, (n + 1) / 2);
        assert_int_equal(l.id[l.n - 1], n > 1 ? 2 : 1);
        tok_list_release(&l);
    }
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(what_nothing_stands_for_is_an_error),
        cmocka_unit_test(spans_follow_the_text),
        cmocka_unit_test(unknown_ones_may_be_a_token_as_a_whole),
        cmocka_unit_test(long_runs_are_cut_where_every_way_meets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
