/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/token/normal_form against utf8proc's own normal forms (whose ordering of marks is
 * quadratic, which is why it is not used), BERT's ideographs and the byte-level alphabet. Catches a
 * cluster cut where something combines across, marks out of order, and a copy that loses its
 * origin.
 */
#include <utf8proc.h>

#include "engine/token/normalize.h"
#include "tests/engine/token/fixture.h"

static const enum normalize_kind form[] = {NORMALIZE_NFC, NORMALIZE_NFD, NORMALIZE_NFKC,
                                           NORMALIZE_NFKD};

static uint8_t *reference(enum normalize_kind kind, const uint8_t *text, size_t n)
{
    static const int option[] = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE,
                                 UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                 UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    uint8_t *out = NULL;
    utf8proc_ssize_t rc = utf8proc_map(text, (utf8proc_ssize_t)n, &out,
                                       (utf8proc_option_t)(UTF8PROC_STABLE | option[kind]));
    assert_true(rc >= 0);
    return out;
}

static void compare(enum normalize_kind kind, const uint8_t *text, size_t n)
{
    struct piece in = {.p = text, .len = (uint32_t)n};
    struct piece_buf out;
    uint8_t *want = reference(kind, text, n);
    size_t len = strlen((char *)want);
    piece_buf_init(&out, true);
    if (normalize_form(kind, &in, &out)) {
        if (out.len != len || memcmp(out.p, want, len) != 0)
            fail_msg("form %d of \"%.*s\": \"%.*s\", not \"%s\"", kind, (int)n, (const char *)text,
                     (int)out.len, (char *)out.p, (char *)want);
        for (size_t i = 0; i < out.len; i++) { /* spans grow, and stay inside */
            assert_true(out.from[i].lo < out.from[i].hi && out.from[i].hi <= n);
            assert_true(!i || out.from[i].lo >= out.from[i - 1].lo);
        }
    } else {
        assert_int_equal(len, n);
        assert_memory_equal(text, want, n);
    }
    piece_buf_release(&out);
    free(want);
}

static void normal_forms_agree_with_utf8proc(void **state)
{
    (void)state;
    uint64_t seed = 4711;
    for (int round = 0; round < 6000; round++) {
        uint8_t text[4 * 40];
        size_t n = rnd_text(&seed, 1 + rnd(&seed, 40), text);
        for (size_t i = 0; i < n; i++)
            text[i] = text[i] ? text[i] : 'x'; /* utf8proc_map's result ends at a NUL */
        for (size_t k = 0; k < sizeof form / sizeof *form; k++)
            compare(form[k], text, n);
    }
}

static void each_character_has_its_normal_form(void **state)
{
    (void)state;
    for (uint32_t c = 1; c < 0x30000; c++) {
        uint8_t text[16];
        size_t n = 0;
        if (c >= 0xd800 && c < 0xe000)
            continue;
        text[n++] = 'a';
        n += utf8_put(text + n, c);
        n += utf8_put(text + n, 0x301);
        for (size_t k = 0; k < sizeof form / sizeof *form; k++)
            compare(form[k], text, n);
    }
}

/* The text of one character behind BERT's spaces. */
static bool gets_spaces(uint32_t c)
{
    struct normalize chain = {.n = 0};
    struct normalize_step step = {.kind = NORMALIZE_BERT_CHINESE};
    struct normalize_run run;
    struct piece out;
    struct err e = ERR_INIT;
    uint8_t text[4], want[6] = " ";
    size_t n = utf8_put(text, c);
    const struct piece in = {.p = text, .len = (uint32_t)n};
    assert_good(normalize_give(&chain, &step, &e), &e);
    normalize_run_init(&run, false);
    assert_good(normalize_apply(&chain, &run, &in, &out, &e), &e);
    memcpy(want + 1, text, n);
    want[n + 1] = ' ';
    bool has = out.len == n + 2 && !memcmp(out.p, want, n + 2);
    assert_true(has || (out.len == n && !memcmp(out.p, text, n)));
    normalize_run_release(&run);
    normalize_release(&chain);
    return has;
}

/* Fault: the first or the last ideograph of a block that is none, or what stands beside it that is
 * one. The blocks are those of Hugging Face's tokenizers, which leave some of Unicode's out. */
static void ideographs_end_where_their_blocks_do(void **state)
{
    static const uint32_t block[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                        {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                        {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    enum { N = sizeof block / sizeof *block };
    (void)state;
    for (int i = 0; i < N; i++) {
        assert_true(gets_spaces(block[i][0]) && gets_spaces(block[i][1]));
        assert_true(gets_spaces(block[i][0] + 1) && gets_spaces(block[i][1] - 1));
        if (!i || block[i - 1][1] + 1 < block[i][0])
            assert_false(gets_spaces(block[i][0] - 1));
        if (i + 1 == N || block[i][1] + 1 < block[i + 1][0])
            assert_false(gets_spaces(block[i][1] + 1));
    }
}

static void byte_level_alphabet_is_reversible(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++)
        assert_int_equal(normalize_char_byte(normalize_byte_char((uint8_t)i)), i);
    assert_int_equal(normalize_byte_char(' '), 0x120);
    assert_int_equal(normalize_byte_char('\n'), 0x10a);
    assert_int_equal(normalize_byte_char(0xad), 0x143);
    assert_int_equal(normalize_char_byte(' '), -1);
    assert_int_equal(normalize_char_byte(0x144), -1);
    assert_int_equal(normalize_char_byte(0x2581), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(normal_forms_agree_with_utf8proc),
                                       cmocka_unit_test(each_character_has_its_normal_form),
                                       cmocka_unit_test(ideographs_end_where_their_blocks_do),
                                       cmocka_unit_test(byte_level_alphabet_is_reversible)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
