/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the tokenizer share: the tiny tokenizers of tests/golden/tokenizer, a small
 * generator of texts, and encoding in one line.
 */
#ifndef TESTS_ENGINE_TOKEN_FIXTURE_H
#define TESTS_ENGINE_TOKEN_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/json.h"
#include "engine/token/tokenizer.h"
#include "engine/token/utf8.h"
#include "tests/lib/test.h"

#define GOLDEN "tests/golden/tokenizer/"

static inline struct json_doc *golden_read(const char *name)
{
    char path[256];
    struct err e = ERR_INIT;
    snprintf(path, sizeof path, GOLDEN "%s", name);
    struct json_doc *doc = json_read(path, name, &json_rules_tokenizer, &e);
    if (!doc)
        fail_msg("%s", e.msg);
    return doc;
}

static inline struct tokenizer *golden_tokenizer(const char *kind)
{
    char path[256];
    struct err e = ERR_INIT;
    snprintf(path, sizeof path, GOLDEN "%s.json", kind);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is absent", path);
    struct buf b;
    char part[4096];
    buf_init(&b, 1 << 24);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_add(&b, part, n);
    fclose(f);
    struct tokenizer *t = tokenizer_parse(b.data, b.len, &e);
    if (!t)
        fail_msg("%s", e.msg);
    buf_release(&b);
    return t;
}

static inline struct tok_list encode(const struct tokenizer *t, const char *text, size_t len,
                                     bool is_trusted)
{
    struct tok_list l;
    struct err e = ERR_INIT;
    tok_list_init(&l, 1 << 26, true);
    assert_good(tokenizer_encode(t, text, len, is_trusted, false, &l, &e), &e);
    return l;
}

static inline bool same_list(const struct tok_list *a, const struct tok_list *b)
{
    return a->n == b->n && (!a->n || !memcmp(a->id, b->id, a->n * sizeof *a->id));
}

/* xorshift: the same texts in every run */
static inline uint32_t rnd(uint64_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 32) * below >> 32);
}

/* One character: mostly those at which splitters and normalizers take turns. */
static inline uint32_t rnd_char(uint64_t *state)
{
    static const uint32_t odd[] = {
        ' ',    ' ',    ' ',    '\n',    '\r',    '\t',   '\'',   's',    'S',    't',      'r',
        'e',    'v',    'l',    'L',     'd',     'm',    'a',    'Z',    '1',    '2',      '9',
        '_',    '-',    '!',    '.',     0x17f,   0x212a, 0xa0,   0x85,   0x3000, 0x2028,   0x180e,
        0x200b, 0x200d, 0x301,  0x316,   0x327,   0xe9,   0xbd,   0x661,  0x2167, 0x4e00,   0xac00,
        0x1100, 0x1161, 0x11a8, 0x1f600, 0x1d7d8, 0x2581, 0xfb01, 0x130,  0x345,  0x3099,   0xff9e,
        0x9be,  0x9c7,  0x958,  0xfb2c,  0x1d160, 0x1e9b, 0x323,  0xfdfa, 0xfffd, 0x10ffff, 0};
    uint32_t c;
    if (rnd(state, 4))
        return odd[rnd(state, sizeof odd / sizeof *odd)];
    do
        c = rnd(state, 3) ? rnd(state, 0x3000) : rnd(state, 0x30000);
    while (c >= 0xd800 && c < 0xe000);
    return c;
}

static inline size_t rnd_text(uint64_t *state, size_t n_chars, uint8_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_chars; i++)
        n += utf8_put(out + n, rnd_char(state));
    return n;
}

#endif
