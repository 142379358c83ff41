/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/token/charsmap.h: arrays made by hand, whose bounds lie or are the last that hold. That
 * SentencePiece's own are read as the reference reads them, the goldens say.
 */
#include "engine/token/charsmap.h"
#include "tests/engine/token/fixture.h"

enum { N_UNIT = 768, ROOT = 256, LEAF = 512, CHAR = ROOT ^ 'A', FLAG = 1 << 8 };

struct blob {
    uint32_t trie_bytes;
    uint32_t unit[N_UNIT];
    char put[400];
    size_t put_len;
};

/* 'A' alone leads to the replacement at byte 0. */
static struct blob make_blob(const char *put, size_t put_len)
{
    struct blob b = {.trie_bytes = N_UNIT * 4, .put_len = put_len};
    b.unit[0] = ROOT << 10;
    b.unit[CHAR] = 'A' | FLAG | (uint32_t)(CHAR ^ LEAF) << 10;
    b.unit[LEAF] = 1u << 31;
    memcpy(b.put, put, put_len);
    return b;
}

static struct charsmap *load(const struct blob *b, struct err *e)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf raw, text;
    buf_init(&raw, 1 << 20);
    buf_init(&text, 1 << 20);
    buf_add(&raw, &b->trie_bytes, 4);
    buf_add(&raw, b->unit, sizeof b->unit);
    buf_add(&raw, b->put, b->put_len);
    for (size_t i = 0; i < raw.len; i += 3) {
        const uint8_t *p = (const uint8_t *)raw.data + i;
        size_t n = raw.len - i;
        uint32_t bits =
            (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);
        buf_char(&text, digit[bits >> 18]);
        buf_char(&text, digit[bits >> 12 & 63]);
        buf_char(&text, n > 1 ? digit[bits >> 6 & 63] : '=');
        buf_char(&text, n > 2 ? digit[bits & 63] : '=');
    }
    struct charsmap *m = charsmap_new(text.data, text.len, e);
    buf_release(&raw);
    buf_release(&text);
    return m;
}

static void expect(const struct blob *b, const char *text, const char *want)
{
    struct err e = ERR_INIT;
    struct piece in = {.p = (const uint8_t *)text, .len = (uint32_t)strlen(text)};
    struct piece_buf out;
    struct charsmap *m = load(b, &e);
    if (!m)
        fail_msg("%s", e.msg);
    piece_buf_init(&out, true);
    if (!want) {
        assert_false(charsmap_apply(m, &in, &out));
    } else {
        assert_true(charsmap_apply(m, &in, &out));
        assert_int_equal(out.len, strlen(want));
        if (out.len)
            assert_memory_equal(out.p, want, out.len);
        for (uint32_t i = 0; i < out.len; i++)
            assert_true(out.from[i].lo < out.from[i].hi && out.from[i].hi <= in.len);
    }
    piece_buf_release(&out);
    charsmap_free(m);
}

static void refuse(const struct blob *b, enum err_code code, const char *words)
{
    struct err e = ERR_INIT;
    struct charsmap *m = load(b, &e);
    assert_null(m);
    assert_int_equal(e.code, code);
    if (!strstr(e.msg, words))
        fail_msg("\"%s\" does not say \"%s\"", e.msg, words);
}

/* Fault: a cluster is looked up by its characters where it is short, or whole where it is long. */
static void clusters_and_characters_are_replaced(void **state)
{
    (void)state;
    struct blob b = make_blob("xy\0", 3);
    expect(&b, "", NULL);
    expect(&b, "abc", NULL);
    expect(&b, "aAbA", "axybxy");
    expect(&b, "A\xcc\x81-", "xy-");                                       /* 3 bytes: whole */
    expect(&b, "A\xcc\x81\xcc\x81\xcc\x81", "xy\xcc\x81\xcc\x81\xcc\x81"); /* 7: the first alone */
    b.put[0] = 0;
    expect(&b, "AbA", "b");
}

/* Fault: a place that the array lacks is read; a value that lies is followed. */
static void arrays_that_lie_are_refused(void **state)
{
    (void)state;
    struct blob b = make_blob("xy\0", 3);
    b.trie_bytes = N_UNIT * 4 + 4000;
    refuse(&b, ERR_BAD_INPUT, "says that its trie takes");
    b.trie_bytes = 0;
    refuse(&b, ERR_BAD_INPUT, "says that its trie takes");
    b.trie_bytes = N_UNIT * 4 - 1;
    refuse(&b, ERR_BAD_INPUT, "says that its trie takes");
    b = make_blob("xy\0", 3);
    b.unit[0] = N_UNIT << 10;
    refuse(&b, ERR_BAD_INPUT, "unit 0 of the charsmap's trie leads to unit 768 of 768");
    b = make_blob("xy\0", 3);
    b.unit[CHAR] |= 0xffu << 22;
    refuse(&b, ERR_BAD_INPUT, "charsmap's trie leads to unit");
    b = make_blob("xy\0", 3);
    b.unit[LEAF] = 1u << 31 | 4;
    refuse(&b, ERR_BAD_INPUT, "leads to byte 4 of 3 bytes");
    b.unit[LEAF] = 1u << 31 | 3;
    expect(&b, "A", "");
    b = make_blob("\xc3\xa9\0", 3);
    b.unit[LEAF] |= 1;
    refuse(&b, ERR_BAD_INPUT, "leads to byte 1");
    b = make_blob("\xc3", 1);
    refuse(&b, ERR_BAD_INPUT, "not UTF-8");
}

/* Fault: a character becomes a text without bounds. */
static void long_replacements_are_refused(void **state)
{
    (void)state;
    char put[400];
    memset(put, 'x', sizeof put);
    struct blob b = make_blob(put, CHARSMAP_MAX_PUT + 1);
    refuse(&b, ERR_TOO_LARGE, "more than 256 bytes");
    b.put_len--;
    put[CHARSMAP_MAX_PUT] = 0;
    expect(&b, "A", put);
}

static void texts_that_are_no_charsmap_are_refused(void **state)
{
    (void)state;
    static const char *const text[] = {"", "AAA", "AA=A", "====", "AAA*", "AAAAAAAA", "A\n=="};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct err e = ERR_INIT;
        assert_null(charsmap_new(text[i], strlen(text[i]), &e));
        assert_int_equal(e.code, ERR_BAD_INPUT);
    }
    size_t n = (size_t)CHARSMAP_MAX_BYTES * 4 / 3 + 8;
    char *huge = malloc(n);
    struct err e = ERR_INIT;
    memset(huge, 'A', n);
    assert_null(charsmap_new(huge, n, &e));
    assert_int_equal(e.code, ERR_TOO_LARGE);
    free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clusters_and_characters_are_replaced),
        cmocka_unit_test(arrays_that_lie_are_refused),
        cmocka_unit_test(long_replacements_are_refused),
        cmocka_unit_test(texts_that_are_no_charsmap_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
