/* SPDX-License-Identifier: Apache-2.0
 *
 * Every tiny tokenizer against what the reference made of odd texts. Catches any departure in
 * added tokens, normalizers, pre-tokenizers, models, post-processors and decoders. On the way each
 * text is also cut into segments, streamed, and repeated, which must change nothing.
 */
#include "tests/engine/token/fixture.h"

static const char *const kinds[] = {
    "gpt2",     "llama3", "qwen2",      "deepseek",      "o200k",        "falcon",
    "roberta",  "clip",   "llama2",     "mistral",       "gemma",        "metaspace",
    "unknowns", "bert",   "bert_cased", "words",         "prefixes",     "added",
    "xlmr",     "t5",     "albert",     "unigram_bytes", "unigram_bare", "unigram_ties"};

enum { FIRST_UNIGRAM = 18 }; /* from here on kinds have the texts of both files */

enum { MAX_TEXTS = 1000 };

struct text {
    const char *p;
    size_t len;
};

static struct text texts[MAX_TEXTS];
static size_t n_text, n_common; /* common: of texts.json */

static void expect_ids(const struct json *want, const struct tok_list *got, const char *kind,
                       size_t at, const char *what)
{
    struct json v;
    size_t i = 0;
    json_each(v, *want)
    {
        int64_t id = -1;
        if (i >= got->n || json_as_int(&v, 0, INT32_MAX, &id, NULL) || id != got->id[i])
            fail_msg("%s, text %zu (%.60s), %s: id %zu is wrong", kind, at, texts[at].p, what, i);
        i++;
    }
    if (i != got->n)
        fail_msg("%s, text %zu, %s: %zu ids, not %zu", kind, at, what, got->n, i);
}

static void expect_text(const struct tokenizer *t, const struct tok_list *ids, bool skip,
                        const struct json *want, const char *kind, size_t at)
{
    struct buf whole, part;
    struct err e = ERR_INIT;
    const char *s;
    size_t len;
    buf_init(&whole, 1 << 20);
    buf_init(&part, 1 << 20);
    assert_good(json_as_bytes(want, &s, &len, &e), &e);
    assert_good(tokenizer_decode(t, ids->id, ids->n, skip, &whole, &e), &e);
    if (whole.len != len || (len && memcmp(whole.data, s, len) != 0))
        fail_msg("%s, text %zu (%.60s): decoded as \"%s\"", kind, at, texts[at].p, whole.data);
    struct detok *d = detok_new(t, skip);
    for (size_t i = 0; i < ids->n; i++) {
        size_t before = part.len;
        assert_good(detok_push(d, ids->id[i], &part, &e), &e);
        if (part.len > before) /* never half a character */
            assert_int_equal(utf8_valid((uint8_t *)part.data + before, part.len - before),
                             part.len - before);
    }
    assert_good(detok_finish(d, &part, &e), &e);
    detok_free(d);
    assert_int_equal(part.len, whole.len);
    if (part.len)
        assert_memory_equal(part.data, whole.data, part.len);
    buf_release(&whole);
    buf_release(&part);
}

/* Wherever it is cut, and with all parts trusted or none, a text has the same ids. */
static void expect_cuts(const struct tokenizer *t, const struct text *x,
                        const struct tok_list *want, bool trusted, uint64_t *seed)
{
    for (int round = 0; round < 3 && x->len > 1; round++) {
        size_t a = rnd(seed, (uint32_t)x->len), b = a + rnd(seed, (uint32_t)(x->len - a));
        struct tok_segment seg[] = {{x->p, a, trusted},
                                    {NULL, 0, !trusted},
                                    {x->p + a, b - a, trusted},
                                    {x->p + b, x->len - b, trusted}};
        struct tok_list l;
        struct err e = ERR_INIT;
        tok_list_init(&l, 1 << 20, false);
        assert_good(tokenizer_encode_segments(t, seg, 4, false, &l, &e), &e);
        assert_true(same_list(&l, want));
        tok_list_release(&l);
    }
}

static void check_case(const struct tokenizer *t, const struct json *v, const char *kind, size_t at,
                       uint64_t *seed)
{
    struct err e = ERR_INIT;
    struct json ids, text = json_member(v, "text"), plain = json_member(v, "plain"),
                     skipped = json_member(v, "skipped"), around = json_member(v, "around");
    const struct text *x = &texts[at];
    struct tok_list l = encode(t, x->p, x->len, true), p = encode(t, x->p, x->len, false);
    assert_good(json_get(v, "ids", JSON_ARRAY, &ids, &e), &e);
    expect_ids(&ids, &l, kind, at, "trusted");
    expect_ids(plain.node ? &plain : &ids, &p, kind, at, "not trusted");
    if (text.node) {
        expect_text(t, &l, false, &text, kind, at);
        expect_text(t, &l, true, skipped.node ? &skipped : &text, kind, at);
    }
    expect_cuts(t, x, &l, true, seed);
    expect_cuts(t, x, &p, false, seed);
    if (around.node) {
        struct tok_list empty;
        tok_list_init(&empty, 64, true);
        assert_good(tokenizer_encode(t, "", 0, true, true, &empty, &e), &e);
        expect_ids(&around, &empty, kind, at, "before and after");
        tok_list_release(&empty);
    }
    tok_list_release(&l);
    tok_list_release(&p);
}

static void check_kind(const char *kind, size_t n_want)
{
    char name[64];
    struct json v;
    size_t i = 0;
    uint64_t seed = 12345;
    struct tokenizer *t = golden_tokenizer(kind);
    snprintf(name, sizeof name, "%s.ids.json", kind);
    struct json_doc *doc = golden_read(name);
    struct json root = json_root(doc);
    json_each(v, root)
    {
        assert_true(i < n_text);
        check_case(t, &v, kind, i++, &seed);
    }
    assert_int_equal(i, n_want);
    json_free(doc);
    tokenizer_free(t);
}

/* Its texts, appended to those that are there. */
static struct json_doc *read_texts(const char *name)
{
    struct json v;
    struct err e = ERR_INIT;
    struct json_doc *doc = golden_read(name);
    struct json root = json_root(doc);
    json_each(v, root)
    {
        assert_true(n_text < MAX_TEXTS);
        assert_good(json_as_bytes(&v, &texts[n_text].p, &texts[n_text].len, &e), &e);
        n_text++;
    }
    return doc;
}

static void tiny_tokenizers_agree_with_the_reference(void **state)
{
    (void)state;
    struct json_doc *common = read_texts("texts.json");
    n_common = n_text;
    struct json_doc *more = read_texts("texts_unigram.json");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check_kind(kinds[i], i < FIRST_UNIGRAM ? n_common : n_text);
    json_free(common);
    json_free(more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiny_tokenizers_agree_with_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
