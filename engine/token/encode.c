/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a text: join the segments, mend what is not UTF-8, find added tokens, normalize what
 * lies between, find added tokens of the normalized kind, cut into pieces, and let the model make
 * tokens of each piece, which land in the caller's list at once.
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/token/internal.h"
#include "engine/token/tok_list.h"
#include "engine/token/utf8.h"

enum { NEAR_BYTES = 256 }; /* of a border: no word that a model knows is longer */

struct segments {
    const struct tok_segment *seg; /* borrowed */
    size_t *end;                   /* owned: where each ends in the joined text */
    size_t n;
    bool all_trusted, none_trusted;
};

struct encode {
    const struct tokenizer *t;
    struct tok_list *out;
    struct segments segments;
    struct piece_buf mended;
    struct normalize_run normalize;
    struct pretok_run pretok;
    struct bpe_run *bpe; /* owned */
    struct unigram_run unigram;
    enum piece_place place; /* of the text */
    uint32_t border;        /* not 0: only whether a word stands over it is asked */
    bool is_crossed;
};

/* ---- segments ---- */

static int segments_init(struct segments *s, const struct tok_segment *seg, size_t n, struct err *e)
{
    size_t at = 0;
    *s = (struct segments){.seg = seg, .n = n, .all_trusted = true, .none_trusted = true};
    s->end = try_alloc(n, sizeof *s->end, "segments of a text", e);
    if (!s->end)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (seg[i].len > TOKENIZER_MAX_TEXT - at)
            return err_set(e, ERR_TOO_LARGE, "the text has more than %u bytes", TOKENIZER_MAX_TEXT);
        at += seg[i].len;
        s->end[i] = at;
        s->all_trusted &= seg[i].is_trusted || !seg[i].len;
        s->none_trusted &= !seg[i].is_trusted;
    }
    return 0;
}

/* Does [at.lo, at.hi) lie in trusted segments alone? */
static bool is_trusted(const void *ctx, struct tok_span at)
{
    const struct segments *s = ctx;
    if (s->all_trusted || s->none_trusted)
        return s->all_trusted;
    size_t lo = 0, hi = s->n;
    while (lo < hi) { /* the first segment that ends behind at.lo */
        size_t mid = lo + (hi - lo) / 2;
        if (s->end[mid] > at.lo)
            hi = mid;
        else
            lo = mid + 1;
    }
    for (; lo < s->n; lo++) {
        if (!s->seg[lo].is_trusted && s->seg[lo].len)
            return false;
        if (s->end[lo] >= at.hi)
            return true;
    }
    return false;
}

/* One text of all segments: borrowed when there is one, else to be freed by mem_free(*owned). */
static const char *join(const struct segments *s, char **owned, struct err *e)
{
    *owned = NULL;
    if (s->n == 0 || s->end[s->n - 1] == 0)
        return "";
    if (s->n == 1)
        return s->seg[0].text;
    size_t total = s->end[s->n - 1], at = 0;
    char *text = *owned = try_alloc(total, 1, "text", e);
    for (size_t i = 0; text && i < s->n; i++) {
        if (s->seg[i].len)
            memcpy(text + at, s->seg[i].text, s->seg[i].len);
        at = s->end[i];
    }
    return text;
}

/* ---- the text ---- */

static int on_piece(void *ctx, const struct piece *p, struct err *e)
{
    struct encode *x = ctx;
    const struct tokenizer *t = x->t;
    if (x->border) {
        struct tok_span s = piece_span(p, 0, p->len);
        x->is_crossed |= s.lo < x->border && s.hi > x->border;
        return 0;
    }
    if (t->model == MODEL_BPE)
        return bpe_encode(&t->bpe, x->bpe, p, x->out, e);
    if (t->model == MODEL_WORDPIECE)
        return wordpiece_encode(&t->wordpiece, p, x->out, e);
    if (t->model == MODEL_UNIGRAM)
        return unigram_encode(&t->unigram, &x->unigram, p, x->out, e);
    int32_t id = vocab_find(&t->word, p->p, p->len);
    if (id < 0 && t->unk < 0)
        return err_set(e, ERR_BAD_INPUT,
                       "a word is not in the vocabulary, which has no token for "
                       "unknown words");
    return tok_list_push(x->out, id < 0 ? t->unk : id, piece_span(p, 0, p->len), e);
}

static int encode_gap(struct encode *x, const struct piece *p, bool is_normal, struct err *e);

/* Tokens of one trie, and what lies between them. */
static int encode_between(struct encode *x, const struct trie *which, const struct piece *in,
                          bool is_normal, struct err *e)
{
    const struct added *a = &x->t->added;
    struct added_match m;
    uint32_t done = 0;
    while (added_next(a, which, in, done, is_trusted, &x->segments, &m)) {
        struct piece gap = piece_sub(in, done, m.lo);
        if (encode_gap(x, &gap, is_normal, e) ||
            tok_list_push(x->out, m.token->id, piece_span(in, m.lo, m.hi), e))
            return -1;
        done = m.hi;
    }
    struct piece rest = piece_sub(in, done, in->len);
    return encode_gap(x, &rest, is_normal, e);
}

static int encode_gap(struct encode *x, const struct piece *p, bool is_normal, struct err *e)
{
    const struct tokenizer *t = x->t;
    struct piece normal;
    if (!p->len)
        return 0;
    if (is_normal)
        return pretok_apply(&t->pretok, &x->pretok, p, on_piece, x, e);
    if (normalize_apply(&t->normalize, &x->normalize, p, &normal, e))
        return -1;
    return encode_between(x, &t->added.normal, &normal, true, e);
}

/* The text with U+FFFD for what is not UTF-8. */
static void mend(const uint8_t *text, size_t len, struct piece_buf *out)
{
    struct piece in = {.p = text, .len = (uint32_t)len};
    for (uint32_t i = 0; i < in.len;) {
        uint32_t good = (uint32_t)utf8_valid(text + i, len - i);
        unsigned bad;
        piece_buf_copy(out, &in, i, i + good);
        i += good;
        if (i == in.len)
            break;
        utf8_look(text + i, len - i, &bad);
        piece_buf_put(out, "\xef\xbf\xbd", 3, (struct tok_span){i, i + bad});
        i += bad;
    }
}

static int encode_text(struct encode *x, const char *text, size_t len, struct err *e)
{
    const struct tokenizer *t = x->t;
    struct piece in = {.p = (const uint8_t *)text, .len = (uint32_t)len, .place = x->place};
    bool is_valid = utf8_valid(in.p, len) == len;
    bool is_mixed = !x->segments.all_trusted && !x->segments.none_trusted;
    bool with_spans =
        x->out->with_spans || (is_mixed && (!is_valid || t->added.has_normal_special));
    piece_buf_init(&x->mended, with_spans);
    normalize_run_init(&x->normalize, with_spans);
    pretok_run_init(&x->pretok, x->out->with_spans);
    x->bpe = t->model == MODEL_BPE ? bpe_run_new(&t->bpe, len, e) : NULL;
    int rc = t->model == MODEL_BPE && !x->bpe ? -1 : 0;
    if (!rc && !is_valid) {
        mend(in.p, len, &x->mended);
        rc = piece_buf_check(&x->mended, e);
        in = piece_buf_view(&x->mended, x->place);
    }
    if (!rc)
        rc = encode_between(x, &t->added.raw, &in, false, e);
    bpe_run_free(x->bpe);
    unigram_run_release(&x->unigram);
    pretok_run_release(&x->pretok);
    normalize_run_release(&x->normalize);
    piece_buf_release(&x->mended);
    return rc;
}

static int push_affix(const struct tokenizer_affix *a, size_t at, struct tok_list *out,
                      struct err *e)
{
    for (size_t i = 0; i < a->n; i++)
        if (tok_list_push(out, a->id[i], (struct tok_span){(uint32_t)at, (uint32_t)at}, e))
            return -1;
    return 0;
}

/* All but t, place and border of x is filled here. */
static int encode_segments(struct encode *x, const struct tok_segment *seg, size_t n_seg,
                           bool add_special, struct tok_list *out, struct err *e)
{
    const struct tokenizer *t = x->t;
    size_t n_before = out->n;
    char *owned = NULL;
    x->out = out;
    int rc = segments_init(&x->segments, seg, n_seg, e);
    const char *text = rc ? NULL : join(&x->segments, &owned, e);
    if (text) {
        size_t len = n_seg ? x->segments.end[n_seg - 1] : 0;
        rc = (add_special && push_affix(&t->before, 0, out, e)) || encode_text(x, text, len, e) ||
             (add_special && push_affix(&t->after, len, out, e));
    }
    if (!text || rc) {
        out->n = n_before;
        rc = -1;
    }
    mem_free(owned);
    mem_free(x->segments.end);
    return rc;
}

int tokenizer_encode_segments(const struct tokenizer *t, const struct tok_segment *seg,
                              size_t n_seg, bool add_special, struct tok_list *out, struct err *e)
{
    struct encode x = {.t = t, .place = PIECE_START};
    return encode_segments(&x, seg, n_seg, add_special, out, e);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool trusted,
                     bool add_special, struct tok_list *out, struct err *e)
{
    struct tok_segment seg = {text, len, trusted};
    return tokenizer_encode_segments(t, &seg, 1, add_special, out, e);
}

/* ---- a text that goes on ---- */

/* Up to so many bytes of the text's end, from a character's beginning on. */
static struct tok_segment end_of(const struct tok_segment *s)
{
    size_t lo = s->len > NEAR_BYTES ? s->len - NEAR_BYTES : 0;
    while (lo > 0 && lo < s->len && ((uint8_t)s->text[lo] & 0xc0) == 0x80)
        lo++;
    return (struct tok_segment){s->text + lo, s->len - lo, s->is_trusted};
}

static struct tok_segment beginning_of(const struct tok_segment *s)
{
    size_t hi = s->len < NEAR_BYTES ? s->len : NEAR_BYTES;
    while (hi > 0 && hi < s->len && ((uint8_t)s->text[hi] & 0xc0) == 0x80)
        hi--;
    return (struct tok_segment){s->text, hi, s->is_trusted};
}

/* Does a piece that the model is given, or that gets a mark in front, stand over the border? Asked
 * of the texts joined, near it. */
static int find_word(const struct tokenizer *t, const struct tok_segment *before,
                     const struct tok_segment *seg, size_t n_seg, bool *is_there, struct err *e)
{
    struct tok_segment near[2] = {end_of(before), {0}};
    struct encode x = {.t = t, .place = PIECE_WITHIN, .border = (uint32_t)near[0].len};
    struct tok_list unused;
    for (size_t i = 0; i < n_seg && !near[1].len; i++)
        near[1] = beginning_of(&seg[i]);
    *is_there = false;
    if (!near[0].len || !near[1].len)
        return 0;
    tok_list_init(&unused, 2 * NEAR_BYTES, true);
    int rc = encode_segments(&x, near, 2, false, &unused, e);
    tok_list_release(&unused);
    *is_there = x.is_crossed;
    return rc;
}

int tokenizer_encode_after(const struct tokenizer *t, const struct tok_segment *before,
                           const struct tok_segment *seg, size_t n_seg, struct tok_list *out,
                           struct err *e)
{
    struct encode x = {.t = t, .place = PIECE_AFTER};
    bool has_words = t->model != MODEL_BPE || t->bpe.prefix || pretok_marks_pieces(&t->pretok);
    bool goes_on = true;
    if (has_words && find_word(t, before, seg, n_seg, &goes_on, e))
        return -1;
    x.place = goes_on ? PIECE_AFTER : PIECE_WITHIN;
    return encode_segments(&x, seg, n_seg, false, out, e);
}

size_t tokenizer_n_after(const struct tokenizer *t)
{
    return t->after.n;
}

void tokenizer_cut(const struct tokenizer *t, struct tok_list *l, size_t most, bool has_special)
{
    size_t after = has_special ? t->after.n : 0;
    if (!most || l->n <= most)
        return;
    after = after < most ? after : most;
    memmove(l->id + most - after, l->id + l->n - after, after * sizeof *l->id);
    l->n = most;
}
