/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/token/tokenizer.h: what the goldens cannot say. Special tokens and who may write them,
 * spans, ceilings, bytes that are not UTF-8, streaming at odd places, files that must be refused.
 */
#include <pthread.h>

#include "tests/engine/token/fixture.h"

static int32_t id(const struct tokenizer *t, const char *piece)
{
    int32_t found = tokenizer_id(t, piece, strlen(piece));
    assert_true(found >= 0);
    return found;
}

static size_t count(const struct tok_list *l, int32_t want)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->id[i] == want;
    return n;
}

static struct tok_list encode_segments(const struct tokenizer *t, const struct tok_segment *seg,
                                       size_t n)
{
    struct tok_list l;
    struct err e = ERR_INIT;
    tok_list_init(&l, 1 << 20, true);
    assert_good(tokenizer_encode_segments(t, seg, n, false, &l, &e), &e);
    return l;
}

/* Fault: a user's "<|end|>" ends the user's turn. */
static void special_tokens_in_user_text_stay_text(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gpt2", "llama3", "llama2", "mistral", "gemma", "qwen2"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct tokenizer *t = golden_tokenizer(kinds[k]);
        int32_t end = id(t, "<|end|>"), user = id(t, "<|user|>"), bos = id(t, "<s>");
        struct tok_segment seg[] = {
            {"<|user|>", 8, true}, {"hi <|end|><|user|> <s>", 22, false}, {"<|end|>", 7, true}};
        struct tok_list l = encode_segments(t, seg, 3);
        assert_int_equal(count(&l, end), 1);
        assert_int_equal(count(&l, user), 1);
        assert_int_equal(count(&l, bos), 0);
        assert_int_equal(l.id[0], user);
        assert_int_equal(l.id[l.n - 1], end);
        tok_list_release(&l);
        tokenizer_free(t);
    }
}

/* Fault: a special token is put together from the end of one text and the beginning of another. */
static void special_tokens_do_not_form_across_a_border(void **state)
{
    (void)state;
    struct tokenizer *t = golden_tokenizer("llama2");
    int32_t end = id(t, "<|end|>");
    struct tok_segment mixed[] = {{"a<|en", 5, false}, {"d|>b", 4, true}};
    struct tok_segment both[] = {{"a<|en", 5, true}, {NULL, 0, false}, {"d|>b", 4, true}};
    struct tok_segment inside[] = {{"a<|", 3, true}, {"end", 3, false}, {"|>b", 3, true}};
    struct tok_list l = encode_segments(t, mixed, 2), m = encode_segments(t, both, 3),
                    n = encode_segments(t, inside, 3);
    assert_int_equal(count(&l, end), 0);
    assert_int_equal(count(&m, end), 1); /* one text of the template, cut by an empty one */
    assert_int_equal(count(&n, end), 0);
    tok_list_release(&l);
    tok_list_release(&m);
    tok_list_release(&n);
    tokenizer_free(t);
}

/* Faults: the model looks a special token up in its own vocabulary, or merges to it; the first of
 * its words is none. */
static void models_do_not_make_special_tokens(void **state)
{
    (void)state;
    static const char words[] =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<eos>\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordLevel\","
        "\"unk_token\":\"<unk>\",\"vocab\":{\"a\":0,\"<eos>\":1,\"<unk>\":2}}}";
    static const char merges[] =
        "{\"added_tokens\":[{\"id\":2,\"content\":\"ab\",\"special\":true}],"
        "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[\"a b\"]}}";
    struct err e = ERR_INIT;
    struct tokenizer *t = tokenizer_parse(words, sizeof words - 1, &e);
    assert_non_null(t);
    struct tok_list l = encode(t, "a <eos>", 7, false), m = encode(t, "a <eos>", 7, true);
    assert_true(l.n == 2 && l.id[0] == 0 && l.id[1] == 2);
    assert_true(m.n == 2 && m.id[0] == 0 && m.id[1] == 1);
    tok_list_release(&l);
    tok_list_release(&m);
    tokenizer_free(t);
    t = tokenizer_parse(merges, sizeof merges - 1, &e);
    assert_non_null(t);
    l = encode(t, "ab", 2, false);
    assert_true(l.n == 2 && l.id[0] == 0 && l.id[1] == 1);
    tok_list_release(&l);
    tokenizer_free(t);
}

/* Fault: matches that touch are held apart by the nothing between them. */
static void matches_that_touch_are_one(void **state)
{
    (void)state;
    static const char words[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[.]\"},"
        "\"behavior\":\"Contiguous\",\"invert\":false},\"model\":{\"type\":\"WordLevel\","
        "\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"a\":1,\"...\":2,\".\":3}}}";
    struct err e = ERR_INIT;
    struct tokenizer *t = tokenizer_parse(words, sizeof words - 1, &e);
    assert_good(t ? 0 : -1, &e);
    struct tok_list l = encode(t, "...a.a...", 9, false);
    static const int32_t want[] = {2, 1, 3, 1, 2};
    assert_int_equal(l.n, 5);
    assert_memory_equal(l.id, want, sizeof want);
    tok_list_release(&l);
    tokenizer_free(t);
}

/* Fault: a loss mask or a log-probability is laid over the wrong bytes. */
static void spans_cover_the_text_in_order(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gpt2",  "qwen2",   "llama2", "mistral",
                                        "gemma", "roberta", "falcon", "added"};
    uint64_t seed = 99;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct tokenizer *t = golden_tokenizer(kinds[k]);
        for (int round = 0; round < 300; round++) {
            uint8_t text[4 * 60];
            size_t n = rnd_text(&seed, 1 + rnd(&seed, 60), text);
            struct tok_list l = encode(t, (char *)text, n, round % 2);
            uint32_t reached = 0;
            for (size_t i = 0; i < l.n; i++) {
                assert_true(l.span[i].lo <= l.span[i].hi && l.span[i].hi <= n);
                assert_true(l.span[i].lo <= reached); /* nothing is left out */
                reached = l.span[i].hi > reached ? l.span[i].hi : reached;
            }
            assert_int_equal(reached, n);
            tok_list_release(&l);
        }
        tokenizer_free(t);
    }
}

static void spans_are_the_bytes_of_the_tokens(void **state)
{
    (void)state;
    static const char text[] = "The  lighthouse<|end|>\xc3\xa9!";
    struct tokenizer *t = golden_tokenizer("gpt2");
    struct tok_list l = encode(t, text, strlen(text), true);
    for (size_t i = 0; i < l.n; i++) {
        struct buf out;
        struct err e = ERR_INIT;
        size_t n = l.span[i].hi - l.span[i].lo;
        buf_init(&out, 100);
        if (n == 1 && (uint8_t)text[l.span[i].lo] >= 0x80)
            continue; /* a byte of a character has no text of its own */
        assert_good(tokenizer_decode(t, &l.id[i], 1, false, &out, &e), &e);
        assert_int_equal(out.len, n);
        assert_memory_equal(out.data, text + l.span[i].lo, n);
        buf_release(&out);
    }
    tok_list_release(&l);
    tokenizer_free(t);
}

/* Fault: broken bytes crash, or give other tokens than the text that a client would repair. */
static void broken_bytes_are_read_as_replacements(void **state)
{
    (void)state;
    static const struct {
        const char *bad, *good;
    } pair[] = {{"a\xff b", "a\xef\xbf\xbd b"},
                {"\xe2\x82", "\xef\xbf\xbd"},
                {"\xe2\x82z", "\xef\xbf\xbdz"},
                {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
                {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                {"x\xf0\x9f\x98", "x\xef\xbf\xbd"},
                {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
    struct tokenizer *t = golden_tokenizer("gpt2");
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        struct tok_list a = encode(t, pair[i].bad, strlen(pair[i].bad), false),
                        b = encode(t, pair[i].good, strlen(pair[i].good), false);
        assert_true(same_list(&a, &b));
        assert_int_equal(a.span[a.n - 1].hi, strlen(pair[i].bad));
        tok_list_release(&a);
        tok_list_release(&b);
    }
    tokenizer_free(t);
}

static void ceilings_are_errors_and_leave_the_list_alone(void **state)
{
    (void)state;
    struct tokenizer *t = golden_tokenizer("gpt2");
    struct tok_list l;
    struct err e = ERR_INIT;
    tok_list_init(&l, 4, true);
    assert_good(tokenizer_encode(t, "a b", 3, false, false, &l, &e), &e);
    size_t n = l.n;
    assert_err(tokenizer_encode(t, "1 2 3 4 5 6", 11, false, false, &l, &e), &e, ERR_TOO_LARGE,
               "more than 4 tokens");
    assert_int_equal(l.n, n);
    assert_good(tokenizer_encode(t, NULL, 0, false, false, &l, &e), &e); /* no text is a text */
    struct tok_segment huge = {"", (size_t)TOKENIZER_MAX_TEXT + 1, false};
    assert_err(tokenizer_encode_segments(t, &huge, 1, false, &l, &e), &e, ERR_TOO_LARGE, "bytes");
    assert_int_equal(l.n, n);
    tok_list_release(&l);
    tokenizer_free(t);
}

static void expect_stream(const struct tokenizer *t, const char *const *pieces, size_t n,
                          const char *want)
{
    struct detok *d = detok_new(t, false);
    struct buf out;
    struct err e = ERR_INIT;
    buf_init(&out, 1000);
    for (size_t i = 0; i < n; i++) {
        assert_good(detok_push(d, id(t, pieces[i]), &out, &e), &e);
        buf_char(&out, '|');
    }
    assert_good(detok_finish(d, &out, &e), &e);
    assert_string_equal(out.data, want);
    detok_free(d);
    buf_release(&out);
}

/* Fault: the first word behind a prompt loses the space before it. */
static void a_text_that_goes_on_keeps_its_space(void **state)
{
    struct buf out;
    struct err e = ERR_INIT;
    (void)state;
    struct tokenizer *t = golden_tokenizer("llama2");
    for (int inside = 0; inside < 2; inside++) {
        struct detok *d = detok_new(t, true);
        buf_init(&out, 1000);
        if (inside)
            detok_inside(d);
        assert_good(detok_push(d, id(t, "\xe2\x96\x81the"), &out, &e), &e);
        assert_good(detok_push(d, id(t, "\xe2\x96\x81the"), &out, &e), &e);
        assert_string_equal(out.data, inside ? " the the" : "the the");
        detok_free(d);
        buf_release(&out);
    }
    tokenizer_free(t);
}

/* Fault: a mark of a tool or a thought that is not shown, the first or the last of those that
 * should be; a special token that is, since others are. */
static void marks_are_shown_among_specials(void **state)
{
    (void)state;
    struct tokenizer *t = golden_tokenizer("llama2");
    const int32_t marks[] = {id(t, "<s>"), id(t, "</s>")};
    static const char *const want[] = {"a", "<s>a", "<s>a</s>"};
    for (size_t n = 0; n < 3; n++) {
        struct detok *d = detok_new(t, true);
        struct buf out;
        struct err e = ERR_INIT;
        buf_init(&out, 1000);
        detok_show(d, marks, n);
        const int32_t text[] = {marks[0], id(t, "a"), marks[1], id(t, "<unk>")};
        for (size_t i = 0; i < 4; i++)
            assert_good(detok_push(d, text[i], &out, &e), &e);
        assert_good(detok_finish(d, &out, &e), &e);
        assert_string_equal(out.data, want[n]);
        detok_free(d);
        buf_release(&out);
    }
    tokenizer_free(t);
}

static void expect_bytes(struct detok *d, const struct tokenizer *t, const char *piece,
                         const char *want)
{
    struct buf out;
    struct err e = ERR_INIT;
    buf_init(&out, 1000);
    assert_good(detok_bytes(d, id(t, piece), &out, &e), &e);
    assert_string_equal(out.data, want);
    buf_release(&out);
}

/* Fault: a token alone loses its space, or half a character is spelled as a replacement. */
static void tokens_have_bytes_of_their_own(void **state)
{
    (void)state;
    struct tokenizer *t = golden_tokenizer("llama2");
    struct detok *d = detok_new(t, true);
    expect_bytes(d, t, "<0xF0>", "\xf0");
    expect_bytes(d, t, "\xe2\x96\x81the", " the");
    expect_bytes(d, t, "</s>", "</s>");
    detok_free(d);
    tokenizer_free(t);
    t = golden_tokenizer("gpt2");
    d = detok_new(t, true);
    expect_bytes(d, t, "\xc3\xb0", "\xf0");
    expect_bytes(d, t, "\xc4\xa0the", " the");
    detok_free(d);
    tokenizer_free(t);
}

/* Fault: a stream shows half a character, or loses what it holds back. */
static void streams_emit_whole_characters(void **state)
{
    (void)state;
    struct tokenizer *t = golden_tokenizer("llama2");
    expect_stream(t, (const char *const[]){"<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "a"}, 5,
                  "|||\xf0\x9f\x98\x80|a|");
    expect_stream(t, (const char *const[]){"<0xE2>", "<0x82>", "a"}, 3,
                  "||\xef\xbf\xbd\xef\xbf\xbd"
                  "a|");
    expect_stream(t, (const char *const[]){"<0xE2>", "<0x82>"}, 2, "||\xef\xbf\xbd\xef\xbf\xbd");
    expect_stream(t, (const char *const[]){"\xe2\x96\x81", "\xe2\x96\x81", "a"}, 3, "| |a|");
    tokenizer_free(t);
    t = golden_tokenizer("gpt2");
    expect_stream(t, (const char *const[]){"\xc3\xb0", "\xc5\x81", "a"}, 3,
                  "||\xef\xbf\xbd"
                  "a|");
    expect_stream(t, (const char *const[]){"\xc3\xb0", "\xc5\x81"}, 2, "||\xef\xbf\xbd");
    expect_stream(t, (const char *const[]){"\xc4\xa0", "a"}, 2, " |a|");
    tokenizer_free(t);
}

static void ids_without_a_token_have_no_text(void **state)
{
    (void)state;
    struct tokenizer *t = golden_tokenizer("gpt2");
    const int32_t ids[] = {-1, INT32_MAX, INT32_MIN, (int32_t)tokenizer_size(t), id(t, "a")};
    struct buf out;
    struct err e = ERR_INIT;
    size_t len;
    buf_init(&out, 100);
    assert_good(tokenizer_decode(t, ids, 5, false, &out, &e), &e);
    assert_string_equal(out.data, "a");
    assert_null(tokenizer_piece(t, -1, &len));
    assert_null(tokenizer_piece(t, (int32_t)tokenizer_size(t), &len));
    assert_string_equal(tokenizer_piece(t, ids[4], &len), "a");
    assert_false(tokenizer_is_special(t, -1));
    assert_true(tokenizer_is_special(t, id(t, "<|end|>")));
    assert_false(tokenizer_is_special(t, id(t, "<tool>")));
    buf_release(&out);
    tokenizer_free(t);
}

/* Fault: tokens that begin a text and are no text are taken for some, or text for none. */
static void specials_are_no_text(void **state)
{
    (void)state;
    struct tokenizer *t = golden_tokenizer("gpt2");
    const int32_t ids[] = {id(t, "<|end|>"), id(t, "<|end|>"), id(t, "a"), id(t, "<|end|>")};
    assert_false(tokenizer_has_text(t, ids, 0));
    assert_false(tokenizer_has_text(t, ids, 2));
    assert_true(tokenizer_has_text(t, ids, 3));
    assert_true(tokenizer_has_text(t, ids, 4));
    tokenizer_free(t);
}

static void refuse(const char *json, enum err_code code, const char *words)
{
    struct err e = ERR_INIT;
    struct tokenizer *t = tokenizer_parse(json, strlen(json), &e);
    if (t)
        fail_msg("taken: %s", json);
    if (e.code != code || !strstr(e.msg, words))
        fail_msg("%s\n  said: %s (%s)\n  not: %s", json, e.msg, err_name(e.code), words);
}

#define BPE_MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}"

/* Fault: what is not supported is silently left out, and all texts are tokenized wrongly. */
static void unsupported_parts_are_named(void **state)
{
    (void)state;
    refuse("{\"normalizer\":{\"type\":\"Odd\"}," BPE_MODEL "}", ERR_UNSUPPORTED,
           "normalizer: the type \"Odd\" is not supported");
    refuse("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
           "\"UnicodeScripts\"}]}," BPE_MODEL "}",
           ERR_UNSUPPORTED, "pretokenizers[0]: the type \"UnicodeScripts\" is not supported");
    refuse("{\"post_processor\":{\"type\":\"Odd\"}," BPE_MODEL "}", ERR_UNSUPPORTED,
           "post_processor: the type \"Odd\"");
    refuse("{\"decoder\":{\"type\":\"CTC\"}," BPE_MODEL "}", ERR_UNSUPPORTED,
           "decoder: the type \"CTC\"");
    refuse("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
           "\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"b\"}]}," BPE_MODEL "}",
           ERR_UNSUPPORTED, "decoders[1]: the type \"Replace\" is not supported in this place");
    refuse("{\"model\":{\"type\":\"Odd\",\"vocab\":[]}}", ERR_UNSUPPORTED,
           "model: the type \"Odd\"");
    refuse("{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}",
           ERR_UNSUPPORTED, "model.dropout");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a[b]]\"},"
           "\"behavior\":\"Isolated\",\"invert\":false}," BPE_MODEL "}",
           ERR_UNSUPPORTED, "set inside a set");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
           "\"behavior\":\"Sideways\",\"invert\":false}," BPE_MODEL "}",
           ERR_UNSUPPORTED, "behavior: \"Sideways\"");
}

static void broken_files_are_refused(void **state)
{
    (void)state;
    refuse("", ERR_BAD_INPUT, "tokenizer.json");
    refuse("[]", ERR_BAD_INPUT, "expected an object");
    refuse("{}", ERR_BAD_INPUT, "model");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", ERR_BAD_INPUT,
           "model.vocab.a");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]}}", ERR_BAD_INPUT,
           "model.vocab.a");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
           ERR_BAD_INPUT, "given to two tokens");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", ERR_BAD_INPUT,
           "not in the vocabulary");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", ERR_BAD_INPUT,
           "two parts");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"b\",\"c\"]]}}",
           ERR_BAD_INPUT, "two parts");
    refuse("{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{\"a\":0}}}",
           ERR_BAD_INPUT, "unk_token");
    refuse("{\"added_tokens\":[{\"id\":5,\"content\":\"a\"}]," BPE_MODEL "}", ERR_BAD_INPUT,
           "added token \"a\" has id 5");
    refuse("{\"added_tokens\":[{\"id\":0,\"content\":\"x\"}]," BPE_MODEL "}", ERR_BAD_INPUT,
           "given to two tokens");
    refuse("{\"added_tokens\":[{\"id\":7,\"content\":\"\"}]," BPE_MODEL "}", ERR_BAD_INPUT,
           "added_tokens[0]");
    refuse(
        "{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"s\",9],\"cls\":[\"c\",8]}," BPE_MODEL
        "}",
        ERR_BAD_INPUT, "there is no token");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
           "\"Isolated\",\"invert\":false}," BPE_MODEL "}",
           ERR_BAD_INPUT, "does not compile");
}

struct job {
    const struct tokenizer *t;
    const char *text;
    size_t len;
    const struct tok_list *want;
};

static void *encode_again(void *arg)
{
    const struct job *j = arg;
    for (int i = 0; i < 20; i++) {
        struct tok_list l;
        tok_list_init(&l, 1 << 20, false);
        if (tokenizer_encode(j->t, j->text, j->len, true, false, &l, NULL) ||
            !same_list(&l, j->want))
            return arg;
        tok_list_release(&l);
    }
    return NULL;
}

/* Fault: what one thread remembers in the tokenizer confuses another (run under tsan too). */
static void many_threads_may_encode(void **state)
{
    (void)state;
    static uint8_t text[4 * 3000];
    uint64_t seed = 3;
    size_t len = rnd_text(&seed, 3000, text);
    struct tokenizer *t = golden_tokenizer("llama2"), *fresh = golden_tokenizer("llama2");
    struct tok_list want = encode(t, (char *)text, len, true);
    struct job j = {fresh, (char *)text, len, &want};
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, encode_again, &j), 0);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
    tok_list_release(&want);
    tokenizer_free(t);
    tokenizer_free(fresh);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void roles_come_from_the_config(void **state)
{
    (void)state;
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    assert_null(tokenizer_load(dir, &e));
    write_file(dir, "tokenizer.json", "{" BPE_MODEL "}");
    struct tokenizer *t = tokenizer_load(dir, &e);
    assert_non_null(t);
    assert_int_equal(tokenizer_bos(t), -1);
    tokenizer_free(t);
    write_file(dir, "tokenizer_config.json",
               "{\"bos_token\":{\"content\":\"b\"},\"eos_token\":\"a\",\"pad_token\":\"none\"}");
    t = tokenizer_load(dir, &e);
    assert_non_null(t);
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 0);
    assert_int_equal(tokenizer_pad(t), -1);
    tokenizer_free(t);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_in_user_text_stay_text),
        cmocka_unit_test(special_tokens_do_not_form_across_a_border),
        cmocka_unit_test(models_do_not_make_special_tokens),
        cmocka_unit_test(matches_that_touch_are_one),
        cmocka_unit_test(spans_cover_the_text_in_order),
        cmocka_unit_test(spans_are_the_bytes_of_the_tokens),
        cmocka_unit_test(broken_bytes_are_read_as_replacements),
        cmocka_unit_test(ceilings_are_errors_and_leave_the_list_alone),
        cmocka_unit_test(streams_emit_whole_characters),
        cmocka_unit_test(a_text_that_goes_on_keeps_its_space),
        cmocka_unit_test(tokens_have_bytes_of_their_own),
        cmocka_unit_test(marks_are_shown_among_specials),
        cmocka_unit_test(ids_without_a_token_have_no_text),
        cmocka_unit_test(specials_are_no_text),
        cmocka_unit_test(unsupported_parts_are_named),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(many_threads_may_encode),
        cmocka_unit_test(roles_come_from_the_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
