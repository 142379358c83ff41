/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that a schema's masks let through, drawn at random token by token with a tokenizer of the
 * tests, for an independent validator.
 *
 *     grammar_sample TOKENIZER.json N SEED <schemas >texts
 *
 * Reads a schema a line; lines "?TEXT" behind one are texts that it is asked about. Writes a line
 * "schema", then "error TEXT" when it is refused, else up to N lines "text JSON", and for each text
 * that was asked about "held yes" or "held no".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/grammar/matcher.h"
#include "tests/lib/jvalue_json.h"

enum { MAX_LINE = 4 << 20, HURRY_AFTER = 25, MAX_TOKENS = 3000 };

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * below >> 32);
}

static struct tokenizer *tokenizer_of(const char *path)
{
    struct err e = ERR_INIT;
    struct buf b;
    char part[4096];
    FILE *f = fopen(path, "rb");
    buf_init(&b, 1 << 26);
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_add(&b, part, n);
    if (f)
        fclose(f);
    struct tokenizer *t = tokenizer_parse(b.data ? b.data : "", b.len, &e);
    if (!t)
        fprintf(stderr, "%s: %s\n", path, e.msg);
    buf_release(&b);
    return t;
}

static bool is_allowed(const uint32_t *bits, int32_t id)
{
    return id >= 0 && (bits[id / 32] >> id % 32 & 1);
}

static int32_t any(const uint32_t *bits, size_t n_bit)
{
    size_t from = draw((uint32_t)n_bit);
    for (size_t i = 0; i < n_bit; i++)
        if (is_allowed(bits, (int32_t)((from + i) % n_bit)))
            return (int32_t)((from + i) % n_bit);
    return -1;
}

/* Long texts are brought to their end: what closes is taken where it may stand. */
static int32_t pick(const struct tokenizer *t, const uint32_t *bits, size_t n_bit, int n)
{
    static const char *const closer[] = {"}", "]", "\"", ",", "1", "0"};
    if (n > HURRY_AFTER && draw(8) > 0)
        for (size_t i = 0; i < sizeof closer / sizeof *closer; i++) {
            int32_t id = tokenizer_id(t, closer[i], 1);
            if (is_allowed(bits, id))
                return id;
        }
    return any(bits, n_bit);
}

/* 1: a whole text; 0: it did not end; -1. */
static int sample(const struct tokenizer *t, const struct token_trie *trie, struct masks *masks,
                  struct buf *out, struct err *e)
{
    struct matcher *m = matcher_new(masks, 0);
    size_t n_word = masks_words(masks), len;
    uint32_t *bits = calloc(n_word, sizeof *bits);
    int rc = 0;
    buf_clear(out);
    for (int n = 0; n < MAX_TOKENS && rc == 0; n++) {
        int32_t only, id;
        if (matcher_must_end(m) || (matcher_may_end(m) && draw(4) == 0)) {
            rc = 1;
        } else if (matcher_mask(m, bits, &only, e)) {
            rc = -1;
        } else {
            id = pick(t, bits, n_word * 32, n);
            rc = matcher_accept(m, id, e);
            const char *p = token_trie_bytes(trie, id, &len);
            buf_add(out, p, len);
        }
    }
    free(bits);
    matcher_free(m);
    return rc;
}

static void write_text(const struct buf *text)
{
    fputs("text ", stdout);
    for (size_t i = 0; i < text->len; i++) /* white space between the tokens of JSON is all alike */
        putchar(text->data[i] == '\n' ? ' ' : text->data[i]);
    putchar('\n');
}

static struct masks *compiled(struct token_trie *trie, const char *line, size_t len)
{
    struct err e = ERR_INIT;
    struct arena a;
    struct jvalue v;
    struct masks *m = NULL;
    struct grammar *g = NULL;
    arena_init(&a, 1 << 28);
    if (test_jvalue_parse(&a, line, len, &v, &e) == 0)
        g = grammar_schema(&v, draw(2), NULL, &e);
    if (g)
        m = masks_new(g, trie, 16 << 20);
    else
        printf("error %s\n", e.msg);
    grammar_unref(g);
    arena_release(&a);
    return m;
}

static void draw_texts(const struct tokenizer *t, const struct token_trie *trie, struct masks *m,
                       int n)
{
    struct err e = ERR_INIT;
    struct buf text;
    int rc = 0;
    buf_init(&text, 1 << 24);
    for (int i = 0; i < n && rc >= 0; i++)
        if ((rc = sample(t, trie, m, &text, &e)) == 1)
            write_text(&text);
    if (rc < 0)
        printf("error while sampling: %s\n", e.msg);
    buf_release(&text);
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    struct masks *m = NULL;
    if (argc != 4)
        return 2;
    struct tokenizer *t = tokenizer_of(argv[1]);
    struct token_trie *trie = t ? token_trie_new(t, tokenizer_size(t), &e) : NULL;
    char *line = malloc(MAX_LINE);
    seed = strtoull(argv[3], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    while (trie && fgets(line, MAX_LINE, stdin)) {
        size_t len = strcspn(line, "\n");
        if (*line == '?') {
            printf("held %s\n", m && masks_hold(m, line + 1, len - 1) ? "yes" : "no");
            continue;
        }
        masks_unref(m);
        puts("schema");
        if ((m = compiled(trie, line, len)))
            draw_texts(t, trie, m, (int)strtol(argv[2], NULL, 10));
    }
    masks_unref(m);
    free(line);
    token_trie_unref(trie);
    tokenizer_free(t);
    return trie ? 0 : 1;
}
