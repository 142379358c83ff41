/* SPDX-License-Identifier: Apache-2.0
 *
 * The chain walks back and forth between two buffers. Steps that work on single characters share
 * one loop, which copies what the step leaves alone in runs.
 */
#include "engine/token/normalize.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "engine/base/mem.h"
#include "engine/token/uclass.h"
#include "engine/token/utf8.h"

/* ---- the byte-level alphabet ---- */

/* Bytes that are printable in Latin-1 stand for themselves, the others follow from U+0100 on. */
static bool is_printable(unsigned b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

uint32_t normalize_byte_char(uint8_t byte)
{
    if (is_printable(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte <= 0xa0 ? 0x121u + byte - 0x7f : 0x143; /* 7F..A0, AD */
}

int normalize_char_byte(uint32_t c)
{
    if (c < 0x100)
        return is_printable(c) ? (int)c : -1;
    if (c <= 0x120)
        return (int)(c - 0x100);
    if (c <= 0x142)
        return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

/* ---- steps on single characters ---- */

static bool is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* Control, format and private characters go, but for the three that count as white space. */
static unsigned clean(uint32_t c, uint32_t out[3])
{
    utf8proc_category_t cat = utf8proc_category((int32_t)c);
    bool is_control = cat == UTF8PROC_CATEGORY_CC || cat == UTF8PROC_CATEGORY_CF ||
                      cat == UTF8PROC_CATEGORY_CO || c == 0xfffd;
    if (is_control && c != '\t' && c != '\n' && c != '\r')
        return 0;
    out[0] = uclass_is_white(c) ? ' ' : c;
    return 1;
}

/* As the models of machine translation had it. */
static unsigned clean_nmt(uint32_t c, uint32_t out[3])
{
    bool is_gone = (c >= 0x1 && c <= 0x8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f ||
                   c == 0x8f || c == 0x9f;
    bool is_white = c == '\t' || c == '\n' || c == 0xc || c == '\r' || c == 0x1680 ||
                    (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                    c == 0xfeff || c == 0xfffd;
    out[0] = is_white ? ' ' : c;
    return !is_gone;
}

static unsigned lower(uint32_t c, uint32_t out[3])
{
    if (c == 0x130) { /* the one character whose small form is two */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((int32_t)c);
    return 1;
}

/* What the step makes of a character: up to three. */
static unsigned map_char(enum normalize_kind kind, uint32_t c, uint32_t out[3])
{
    utf8proc_category_t cat;
    out[0] = c;
    switch (kind) {
    case NORMALIZE_LOWERCASE:
        return lower(c, out);
    case NORMALIZE_BERT_CLEAN:
        return clean(c, out);
    case NORMALIZE_NMT:
        return clean_nmt(c, out);
    case NORMALIZE_BERT_CHINESE:
        if (!is_ideograph(c))
            return 1;
        out[0] = out[2] = ' ';
        out[1] = c;
        return 3;
    default: /* STRIP_ACCENTS takes all marks, BERT_ACCENTS the non-spacing ones */
        cat = utf8proc_category((int32_t)c);
        return !(cat == UTF8PROC_CATEGORY_MN ||
                 (kind == NORMALIZE_STRIP_ACCENTS &&
                  (cat == UTF8PROC_CATEGORY_MC || cat == UTF8PROC_CATEGORY_ME)));
    }
}

/* Does the step leave this byte alone? Only ASCII is answered with yes. */
static bool is_plain(enum normalize_kind kind, uint8_t b)
{
    switch (kind) {
    case NORMALIZE_LOWERCASE:
        return b < 0x80 && !(b >= 'A' && b <= 'Z');
    case NORMALIZE_BERT_CLEAN:
    case NORMALIZE_NMT:
        return b >= 0x20 && b < 0x7f;
    default:
        return b < 0x80;
    }
}

static bool map_chars(enum normalize_kind kind, const struct piece *in, struct piece_buf *out)
{
    bool changed = false;
    for (uint32_t i = 0, lo = 0; i < in->len || lo < i;) {
        while (i < in->len && is_plain(kind, in->p[i]))
            i++;
        if (lo == 0 && i == in->len && !changed)
            return false;
        piece_buf_copy(out, in, lo, i);
        if (i < in->len) {
            uint32_t c, to[3];
            unsigned len = utf8_get(in->p + i, &c), n = map_char(kind, c, to);
            for (unsigned k = 0; k < n; k++)
                piece_buf_put_char(out, to[k], piece_span(in, i, i + len));
            i += len;
        }
        lo = i;
        changed = true;
    }
    return changed;
}

static bool map_bytes(const struct piece *in, struct piece_buf *out)
{
    for (uint32_t i = 0; i < in->len; i++)
        piece_buf_put_char(out, normalize_byte_char(in->p[i]), piece_span(in, i, i + 1));
    return in->len > 0;
}

/* ---- steps on the text ---- */

static bool strip(const struct normalize_step *s, const struct piece *in, struct piece_buf *out)
{
    uint32_t lo = 0, hi = in->len, c;
    while (s->left && lo < hi && in->place != PIECE_AFTER) {
        unsigned len = utf8_get(in->p + lo, &c);
        if (!uclass_is_white(c))
            break;
        lo += len;
    }
    while (s->right && lo < hi) {
        const uint8_t *last = utf8_back(in->p + hi);
        utf8_get(last, &c);
        if (!uclass_is_white(c))
            break;
        hi = (uint32_t)(last - in->p);
    }
    if (lo == 0 && hi == in->len)
        return false;
    piece_buf_copy(out, in, lo, hi);
    return true;
}

static bool prepend(const struct normalize_step *s, const struct piece *in, struct piece_buf *out)
{
    if (!in->len || in->place == PIECE_AFTER)
        return false;
    piece_buf_put(out, s->text, (uint32_t)strlen(s->text), piece_span(in, 0, 0));
    piece_buf_copy(out, in, 0, in->len);
    return true;
}

static bool replace_text(const struct normalize_step *s, const struct piece *in,
                         struct piece_buf *out)
{
    uint32_t n = (uint32_t)strlen(s->text), m = (uint32_t)strlen(s->content), lo = 0;
    bool changed = false;
    while (n && lo < in->len) {
        const uint8_t *at = piece_find(in->p + lo, in->len - lo, s->text, n);
        if (!at)
            break;
        uint32_t i = (uint32_t)(at - in->p);
        piece_buf_copy(out, in, lo, i);
        piece_buf_put(out, s->content, m, piece_span(in, i, i + n));
        lo = i + n;
        changed = true;
    }
    if (changed)
        piece_buf_copy(out, in, lo, in->len);
    return changed;
}

static int replace_regex(const struct normalize_step *s, struct regex_run *m,
                         const struct piece *in, struct piece_buf *out, bool *changed,
                         struct err *e)
{
    size_t start = 0, lo, hi;
    uint32_t done = 0, n = (uint32_t)strlen(s->content);
    int rc = 0;
    *changed = false;
    while (start <= in->len &&
           (rc = regex_find(s->regex, m, in->p, in->len, start, &lo, &hi, e)) == 1) {
        piece_buf_copy(out, in, done, (uint32_t)lo);
        piece_buf_put(out, s->content, n, piece_span(in, (uint32_t)lo, (uint32_t)hi));
        done = (uint32_t)hi;
        start = hi > lo ? hi : hi < in->len ? hi + utf8_len(in->p[hi]) : hi + 1;
        *changed = true;
    }
    if (rc < 0)
        return -1;
    if (*changed)
        piece_buf_copy(out, in, done, in->len);
    return 0;
}

/* ---- the chain ---- */

static int apply_step(const struct normalize_step *s, struct regex_run **m, const struct piece *in,
                      struct piece_buf *out, bool *changed, struct err *e)
{
    switch (s->kind) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        *changed = normalize_form(s->kind, in, out);
        return 0;
    case NORMALIZE_STRIP:
        *changed = strip(s, in, out);
        return 0;
    case NORMALIZE_PREPEND:
        *changed = prepend(s, in, out);
        return 0;
    case NORMALIZE_REPLACE:
        if (!s->regex) {
            *changed = replace_text(s, in, out);
            return 0;
        }
        if (!*m && !(*m = regex_run_new(s->regex, e)))
            return -1;
        return replace_regex(s, *m, in, out, changed, e);
    case NORMALIZE_CHARSMAP:
        *changed = charsmap_apply(s->charsmap, in, out);
        return 0;
    case NORMALIZE_BYTE_LEVEL:
        *changed = map_bytes(in, out);
        return 0;
    default:
        *changed = map_chars(s->kind, in, out);
        return 0;
    }
}

int normalize_apply(const struct normalize *c, struct normalize_run *r, const struct piece *in,
                    struct piece *out, struct err *e)
{
    *out = *in;
    for (size_t i = 0, turn = 0; i < c->n; i++) {
        struct piece_buf *b = &r->buf[turn];
        bool changed;
        b->len = 0;
        if (apply_step(&c->step[i], &r->regex[i], out, b, &changed, e) || piece_buf_check(b, e))
            return -1;
        if (!changed)
            continue;
        *out = piece_buf_view(b, in->place);
        turn ^= 1;
    }
    return 0;
}

static void step_release(struct normalize_step *s)
{
    free(s->text);
    free(s->content);
    regex_free(s->regex);
    charsmap_free(s->charsmap);
}

int normalize_give(struct normalize *c, struct normalize_step *step, struct err *e)
{
    if (c->n < NORMALIZE_MAX_STEPS) {
        c->step[c->n++] = *step;
        return 0;
    }
    step_release(step);
    return err_set(e, ERR_TOO_LARGE, "more than %d normalizers", NORMALIZE_MAX_STEPS);
}

void normalize_release(struct normalize *c)
{
    for (size_t i = 0; i < c->n; i++)
        step_release(&c->step[i]);
    c->n = 0;
}

void normalize_run_init(struct normalize_run *r, bool with_spans)
{
    *r = (struct normalize_run){0};
    piece_buf_init(&r->buf[0], with_spans);
    piece_buf_init(&r->buf[1], with_spans);
}

void normalize_run_release(struct normalize_run *r)
{
    piece_buf_release(&r->buf[0]);
    piece_buf_release(&r->buf[1]);
    for (size_t i = 0; i < NORMALIZE_MAX_STEPS; i++)
        regex_run_free(r->regex[i]);
}
