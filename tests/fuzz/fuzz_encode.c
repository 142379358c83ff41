/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts through the tiny tokenizers of tests/golden/tokenizer. The first byte of the input chooses
 * the tokenizer, the second where the text is cut into segments. Whatever the text: the cut does
 * not change the ids, no special token comes from a text that is not trusted, spans lie in the
 * text, the decoded text is UTF-8 and the same when streamed, and a byte-level tokenizer gives
 * back what it was given.
 *
 * The tokenizers are loaded once; they are immutable.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/token/tokenizer.h"
#include "engine/token/utf8.h"
#include "tests/fuzz/fuzz.h"

static const char *const kinds[] = {"gpt2",    "llama3", "deepseek",     "qwen2", "llama2",
                                    "mistral", "gemma",  "metaspace",    "bert",  "bert_cased",
                                    "clip",    "added",  "falcon",       "words", "roberta",
                                    "xlmr",    "t5",     "unigram_bytes"};

enum {
    N_KIND = sizeof kinds / sizeof *kinds,
    N_EXACT = 3 /* give back every text */,
    LONGEST = 1024
};

static struct tokenizer *load(const char *kind)
{
    char path[256];
    struct err e = ERR_INIT;
    struct buf b;
    int c;
    snprintf(path, sizeof path, "tests/golden/tokenizer/%s.json", kind);
    FILE *f = fopen(path, "rb");
    ASSERT(f);
    buf_init(&b, 1 << 20);
    while ((c = fgetc(f)) != EOF)
        buf_char(&b, (char)c);
    fclose(f);
    struct tokenizer *t = tokenizer_parse(b.data, b.len, &e);
    ASSERT(t);
    buf_release(&b);
    return t;
}

static const struct tokenizer *get(unsigned kind)
{
    static struct tokenizer *loaded[N_KIND];
    if (!loaded[kind])
        loaded[kind] = load(kinds[kind]);
    return loaded[kind];
}

static struct tok_list encode(const struct tokenizer *t, const struct tok_segment *seg, size_t n)
{
    struct tok_list l;
    struct err e = ERR_INIT;
    tok_list_init(&l, 1 << 22, true);
    ASSERT(tokenizer_encode_segments(t, seg, n, false, &l, &e) == 0);
    return l;
}

static void mended(const uint8_t *p, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n;) {
        unsigned len;
        if (utf8_look(p + i, n - i, &len) == UTF8_GOOD)
            buf_add(out, p + i, len);
        else
            buf_str(out, "\xef\xbf\xbd");
        i += len;
    }
}

static void check_text(const struct tokenizer *t, const struct tok_list *l, const struct buf *want)
{
    struct buf whole, part;
    struct err e = ERR_INIT;
    struct detok *d = detok_new(t, false);
    buf_init(&whole, 1 << 24);
    buf_init(&part, 1 << 24);
    ASSERT(tokenizer_decode(t, l->id, l->n, false, &whole, &e) == 0);
    for (size_t i = 0; i < l->n; i++) {
        size_t before = part.len;
        ASSERT(detok_push(d, l->id[i], &part, &e) == 0);
        ASSERT(part.len == before ||
               utf8_valid((uint8_t *)part.data + before, part.len - before) == part.len - before);
    }
    ASSERT(detok_finish(d, &part, &e) == 0);
    ASSERT(part.len == whole.len && (!part.len || !memcmp(part.data, whole.data, part.len)));
    if (want)
        ASSERT(whole.len == want->len &&
               (!whole.len || !memcmp(whole.data, want->data, whole.len)));
    detok_free(d);
    buf_release(&whole);
    buf_release(&part);
}

static void check_list(const struct tokenizer *t, const struct tok_list *l, size_t len)
{
    for (size_t i = 0; i < l->n; i++) {
        ASSERT(l->id[i] >= 0 && (size_t)l->id[i] < tokenizer_size(t));
        ASSERT(l->span[i].lo <= l->span[i].hi && l->span[i].hi <= len);
        ASSERT(!tokenizer_is_special(t, l->id[i]) || l->id[i] == tokenizer_unk(t));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > LONGEST)
        return 0;
    unsigned kind = data[0] % N_KIND;
    const struct tokenizer *t = get(kind);
    const char *text = (const char *)data + 2;
    size_t len = size - 2, cut = len ? data[1] % len : 0;
    struct tok_segment whole = {text, len, false};
    struct tok_segment parts[] = {{text, cut, false}, {text + cut, len - cut, false}};
    struct tok_segment mixed[] = {{text, cut, true}, {text + cut, len - cut, false}};
    struct tok_list l = encode(t, &whole, 1), m = encode(t, parts, 2), x = encode(t, mixed, 2);
    struct buf want;
    buf_init(&want, 1 << 24);
    mended(data + 2, len, &want);
    check_list(t, &l, len);
    ASSERT(l.n == m.n && (!l.n || !memcmp(l.id, m.id, l.n * sizeof *l.id)));
    check_text(t, &l, kind < N_EXACT ? &want : NULL);
    check_text(t, &x, kind < N_EXACT ? &want : NULL);
    buf_release(&want);
    tok_list_release(&l);
    tok_list_release(&m);
    tok_list_release(&x);
    return 0;
}
