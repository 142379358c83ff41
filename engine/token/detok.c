/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoding chain at work; see decode.h. State that outlives a token: the bytes of a character
 * that is not complete, what Strip may still take off the beginning, how many of its characters at
 * the end are held back, and for BPE's suffix the last token, whose suffix becomes nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/token/internal.h"
#include "engine/token/utf8.h"

struct detok {
    const struct tokenizer *t; /* borrowed */
    struct buf work, spare;    /* one token on its way through the token steps */
    struct buf held;           /* BPE: the token before */
    uint8_t part[4];           /* an incomplete character */
    unsigned n_part, n_left, n_right;
    size_t begin; /* of the last token's text, in the buffer that it was pushed to */
    bool skip_special, is_first, is_left_done, has_held;
    const int32_t *shown; /* borrowed: [n_shown] special tokens that are not skipped */
    size_t n_shown;
};

static const size_t max_token_bytes = 1 << 20;

struct detok *detok_new(const struct tokenizer *t, bool skip_special)
{
    struct detok *d = xcalloc(1, sizeof *d);
    d->t = t;
    d->skip_special = skip_special;
    buf_init(&d->work, max_token_bytes);
    buf_init(&d->spare, max_token_bytes);
    buf_init(&d->held, max_token_bytes);
    detok_reset(d);
    return d;
}

void detok_free(struct detok *d)
{
    if (!d)
        return;
    buf_release(&d->work);
    buf_release(&d->spare);
    buf_release(&d->held);
    free(d);
}

void detok_reset(struct detok *d)
{
    d->n_part = d->n_left = d->n_right = 0;
    d->is_first = true;
    d->is_left_done = d->has_held = false;
}

void detok_show(struct detok *d, const int32_t *id, size_t n)
{
    d->shown = id;
    d->n_shown = n;
}

static bool is_skipped(const struct detok *d, int32_t id)
{
    for (size_t i = 0; i < d->n_shown; i++)
        if (d->shown[i] == id)
            return false;
    return d->skip_special && tokenizer_is_special(d->t, id);
}

void detok_inside(struct detok *d)
{
    d->is_first = false;
    d->is_left_done = true;
}

/* ---- the text as a whole ---- */

static void put_strip_chars(struct detok *d, struct buf *out)
{
    const struct decode_strip *s = &d->t->decode.strip;
    for (; d->n_right; d->n_right--)
        buf_add(out, s->c, s->len);
}

/* Whole characters, through Strip. */
static void put_text(struct detok *d, const uint8_t *p, size_t n, struct buf *out)
{
    const struct decode_strip *s = &d->t->decode.strip;
    if (!s->len) {
        buf_add(out, p, n);
        return;
    }
    for (size_t i = 0; i < n;) {
        unsigned len = utf8_len(p[i]);
        bool is_strip = len == s->len && !memcmp(p + i, s->c, len);
        if (!d->is_left_done && is_strip && d->n_left < s->left) {
            d->n_left++;
        } else if (is_strip && s->right) {
            d->is_left_done = true;
            if (d->n_right == s->right)
                buf_add(out, s->c, s->len);
            else
                d->n_right++;
        } else {
            d->is_left_done = true;
            put_strip_chars(d, out);
            buf_add(out, p + i, len);
        }
        i += len;
    }
}

/* ---- bytes to characters ---- */

static void put_bad(struct detok *d, unsigned n_bytes, struct buf *out)
{
    unsigned n = d->t->decode.bytes == DECODE_BYTE_FALLBACK ? n_bytes : n_bytes > 0;
    while (n--)
        put_text(d, (const uint8_t *)"\xef\xbf\xbd", 3, out);
}

static void drop_part(struct detok *d, unsigned n)
{
    d->n_part -= n;
    memmove(d->part, d->part + n, d->n_part);
}

/* Emits what is certain about d->part. */
static void settle(struct detok *d, struct buf *out)
{
    while (d->n_part) {
        unsigned len;
        enum utf8_kind kind = utf8_look(d->part, d->n_part, &len);
        if (kind == UTF8_CUT)
            return;
        if (kind == UTF8_GOOD)
            put_text(d, d->part, len, out);
        else
            put_bad(d, len, out);
        drop_part(d, len);
    }
}

static void put_byte(struct detok *d, uint8_t byte, struct buf *out)
{
    d->part[d->n_part++] = byte;
    settle(d, out);
}

static void flush_part(struct detok *d, struct buf *out)
{
    put_bad(d, d->n_part, out);
    d->n_part = 0;
}

static void put_bytes(struct detok *d, const uint8_t *p, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n;) {
        size_t good = d->n_part ? 0 : utf8_valid(p + i, n - i);
        if (good)
            put_text(d, p + i, good, out);
        else
            put_byte(d, p[i], out);
        i += good ? good : 1;
    }
}

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of "<0x41>", or -1. */
static int byte_token(const uint8_t *p, size_t n)
{
    if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>' || hex(p[3]) < 0 || hex(p[4]) < 0)
        return -1;
    return hex(p[3]) << 4 | hex(p[4]);
}

/* The bytes of a token in the byte-level alphabet, in d->spare; false where it has any other
 * character and is text as it is. */
static bool spell_bytes(struct detok *d, const uint8_t *p, size_t n)
{
    uint32_t c;
    buf_clear(&d->spare);
    for (size_t i = 0; i < n;) {
        i += utf8_get(p + i, &c);
        int byte = normalize_char_byte(c);
        if (byte < 0)
            return false;
        buf_char(&d->spare, (char)byte);
    }
    return true;
}

/* What was put may begin with what was left over from tokens before: bytes that came to nothing, or
 * characters that Strip held back. The token's own text is the end of it, where that is whole. */
static void note_begin(struct detok *d, const uint8_t *p, size_t n, const struct buf *out)
{
    bool is_end = !d->n_part && n && out->len - d->begin > n &&
                  !memcmp(out->data + out->len - n, p, n) && utf8_valid(p, n) == n;
    if (is_end)
        d->begin = out->len - n;
}

static void put_token(struct detok *d, const struct buf *b, struct buf *out)
{
    const uint8_t *p = (const uint8_t *)b->data;
    size_t n = b->len;
    enum decode_bytes bytes = d->t->decode.bytes;
    int byte = bytes == DECODE_BYTE_FALLBACK ? byte_token(p, n) : -1;
    if (bytes == DECODE_BYTE_LEVEL && spell_bytes(d, p, n)) {
        p = (const uint8_t *)d->spare.data;
        n = d->spare.len;
    }
    if (bytes == DECODE_BYTE_LEVEL) {
        put_bytes(d, p, n, out);
    } else if (byte >= 0) {
        put_byte(d, (uint8_t)byte, out);
        return;
    } else {
        flush_part(d, out);
        put_text(d, p, n, out);
    }
    note_begin(d, p, n, out);
}

/* ---- one token ---- */

static void swap(struct detok *d)
{
    struct buf b = d->work;
    d->work = d->spare;
    d->spare = b;
    buf_clear(&d->spare);
}

/* Every `what` in d->work becomes `to`. */
static void replace(struct detok *d, const char *what, const char *to)
{
    size_t n = strlen(what), lo = 0;
    const char *p = d->work.data, *at;
    if (!n || !memmem(p, d->work.len, what, n))
        return;
    buf_clear(&d->spare);
    while ((at = memmem(p + lo, d->work.len - lo, what, n))) {
        buf_add(&d->spare, p + lo, (size_t)(at - p) - lo);
        buf_str(&d->spare, to);
        lo = (size_t)(at - p) + n;
    }
    buf_add(&d->spare, p + lo, d->work.len - lo);
    swap(d);
}

static int replace_regex(struct detok *d, const struct decode_step *s, struct err *e)
{
    struct regex_run *m = regex_run_new(s->regex, e);
    size_t start = 0, done = 0, lo, hi;
    int rc = m ? 0 : -1;
    buf_clear(&d->spare);
    while (m && start <= d->work.len &&
           (rc = regex_find(s->regex, m, (const uint8_t *)d->work.data, d->work.len, start, &lo,
                            &hi, e)) == 1) {
        buf_add(&d->spare, d->work.data + done, lo - done);
        buf_str(&d->spare, s->content);
        done = hi;
        start = hi > lo ? hi : hi < d->work.len ? hi + utf8_len((uint8_t)d->work.data[hi]) : hi + 1;
    }
    regex_run_free(m);
    if (rc < 0)
        return -1;
    buf_add(&d->spare, d->work.data + done, d->work.len - done);
    swap(d);
    return 0;
}

static void strip_token(struct detok *d, const struct decode_strip *s)
{
    const char *p = d->work.data;
    size_t lo = 0, hi = d->work.len;
    for (unsigned i = 0; i < s->left && hi - lo >= s->len && !memcmp(p + lo, s->c, s->len); i++)
        lo += s->len;
    for (unsigned i = 0;
         i < s->right && hi - lo >= s->len && !memcmp(p + hi - s->len, s->c, s->len); i++)
        hi -= s->len;
    buf_clear(&d->spare);
    buf_add(&d->spare, p + lo, hi - lo);
    swap(d);
}

static void prepend_space(struct detok *d)
{
    buf_clear(&d->spare);
    buf_char(&d->spare, ' ');
    buf_add(&d->spare, d->work.data, d->work.len);
    swap(d);
}

static void wordpiece(struct detok *d, const struct decode_step *s)
{
    static const char *const clean[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                           {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                           {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    size_t n = strlen(s->text);
    if (!d->is_first && d->work.len >= n && !memcmp(d->work.data, s->text, n)) {
        buf_clear(&d->spare);
        buf_add(&d->spare, d->work.data + n, d->work.len - n);
        swap(d);
    } else if (!d->is_first) {
        prepend_space(d);
    }
    for (size_t i = 0; s->flag && i < sizeof clean / sizeof *clean; i++)
        replace(d, clean[i][0], clean[i][1]);
}

static int apply_step(struct detok *d, const struct decode_step *s, bool is_last, struct err *e)
{
    switch (s->kind) {
    case DECODE_REPLACE:
        if (s->regex)
            return replace_regex(d, s, e);
        replace(d, s->text, s->content);
        return 0;
    case DECODE_STRIP:
        strip_token(d, &s->strip);
        return 0;
    case DECODE_METASPACE:
        replace(d, s->text, d->is_first && s->flag ? "" : " ");
        return 0;
    case DECODE_WORDPIECE:
        wordpiece(d, s);
        return 0;
    case DECODE_BPE:
        replace(d, s->text, is_last ? "" : " ");
        return 0;
    case DECODE_JOIN:
        if (!d->is_first)
            prepend_space(d);
        return 0;
    }
    return 0;
}

/* The token through its steps, into d->work. */
static int rewrite(struct detok *d, const char *p, size_t n, bool is_last, struct err *e)
{
    const struct decode *c = &d->t->decode;
    buf_clear(&d->work);
    buf_add(&d->work, p, n);
    for (size_t i = 0; i < c->n; i++)
        if (apply_step(d, &c->step[i], is_last, e))
            return -1;
    d->is_first = false;
    return buf_check(&d->work, "token", e);
}

static int push_piece(struct detok *d, const char *p, size_t n, bool is_last, struct buf *out,
                      struct err *e)
{
    if (rewrite(d, p, n, is_last, e))
        return -1;
    d->begin = out->len;
    put_token(d, &d->work, out);
    return buf_check(out, "text", e);
}

static bool holds_last(const struct detok *d)
{
    bool holds = false;
    for (size_t i = 0; i < d->t->decode.n; i++)
        holds |= d->t->decode.step[i].kind == DECODE_BPE;
    return holds;
}

static int push_held(struct detok *d, bool is_last, struct buf *out, struct err *e)
{
    if (!d->has_held)
        return 0;
    d->has_held = false;
    return push_piece(d, d->held.data, d->held.len, is_last, out, e);
}

int detok_push(struct detok *d, int32_t id, struct buf *out, struct err *e)
{
    uint32_t len;
    const uint8_t *p = id < 0 ? NULL : vocab_text(&d->t->piece, (uint32_t)id, &len);
    d->begin = out->len;
    if (!p || is_skipped(d, id))
        return 0;
    if (!holds_last(d))
        return push_piece(d, (const char *)p, len, false, out, e);
    if (push_held(d, false, out, e))
        return -1;
    d->begin = out->len;
    buf_clear(&d->held);
    buf_add(&d->held, p, len);
    d->has_held = true;
    return buf_check(&d->held, "token", e);
}

size_t detok_begin(const struct detok *d)
{
    return d->begin;
}

int detok_finish(struct detok *d, struct buf *out, struct err *e)
{
    if (push_held(d, true, out, e))
        return -1;
    flush_part(d, out);
    detok_reset(d);
    return buf_check(out, "text", e);
}

int detok_bytes(struct detok *d, int32_t id, struct buf *out, struct err *e)
{
    uint32_t len;
    const uint8_t *p = id < 0 ? NULL : vocab_text(&d->t->piece, (uint32_t)id, &len);
    detok_reset(d);
    d->is_first = false;
    int rc = p ? rewrite(d, (const char *)p, len, false, e) : 0;
    detok_reset(d);
    if (!p || rc)
        return rc;
    p = (const uint8_t *)d->work.data;
    enum decode_bytes bytes = d->t->decode.bytes;
    int byte = bytes == DECODE_BYTE_FALLBACK ? byte_token(p, d->work.len) : -1;
    if (byte >= 0)
        buf_char(out, (char)byte);
    else if (bytes == DECODE_BYTE_LEVEL && spell_bytes(d, p, d->work.len))
        buf_add(out, d->spare.data, d->spare.len);
    else
        buf_add(out, p, d->work.len);
    return buf_check(out, "text", e);
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *id, size_t n, bool skip_special,
                     struct buf *out, struct err *e)
{
    struct detok *d = detok_new(t, skip_special);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = detok_push(d, id[i], out, e);
    if (!rc)
        rc = detok_finish(d, out, e);
    detok_free(d);
    return rc;
}
