/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation is tokenized whole. Then, border by border, what stands before it is tokenized as
 * serving does, from the last special token on, since nothing reaches over one. Where that gives
 * other tokens the text is cut there, up to the next special token or the part's end. So each byte
 * is tokenized at most three times.
 */
#include "engine/train/row_text.h"

#include <string.h>

#include "engine/base/mem.h"

enum { TOK_MAX = 1 << 24 };

struct chat {
    const struct tokenizer *t;
    const char *text;              /* borrowed */
    const struct tok_segment *seg; /* borrowed: [n_seg] of the text */
    struct tok_segment *sub;       /* borrowed: [n_seg] room for some of them */
    const size_t *end;             /* borrowed: [n_seg] where each ends */
    size_t n_seg;
    struct tok_list *list;      /* borrowed: the tokens so far */
    struct tok_list head, tail; /* of the text before a border, and behind it */
};

int row_text_pair(const struct tokenizer *t, const struct tok_segment *prompt,
                  const struct tok_segment *completion, struct tok_list *out, struct row_part *part,
                  struct err *e)
{
    if (tokenizer_encode_segments(t, prompt, 1, true, out, e))
        return -1;
    part->lo = out->n;
    int rc = tokenizer_has_text(t, out->id, out->n)
                 ? tokenizer_encode_after(t, prompt, completion, 1, out, e)
                 : tokenizer_encode_segments(t, completion, 1, false, out, e);
    part->hi = out->n;
    return rc;
}

/* The segment that byte `at` is in; n_seg behind the last. */
static size_t segment_at(const struct chat *c, size_t at)
{
    size_t lo = 0, hi = c->n_seg;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c->end[mid] > at)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* The segments of bytes [lo, hi), in c->sub; how many. */
static size_t cut(struct chat *c, size_t lo, size_t hi)
{
    size_t n = 0;
    for (size_t i = segment_at(c, lo); i < c->n_seg; i++) {
        size_t begin = c->end[i] - c->seg[i].len, from = lo > begin ? lo : begin;
        if (from >= hi)
            break;
        c->sub[n] = c->seg[i];
        c->sub[n].text += from - begin;
        c->sub[n++].len = (c->end[i] < hi ? c->end[i] : hi) - from;
    }
    return n;
}

/* What stands before byte `at` in its segment, or in the one before; nothing: of no length. */
static struct tok_segment before_of(const struct chat *c, size_t at)
{
    if (at == 0)
        return (struct tok_segment){0};
    size_t i = segment_at(c, at - 1);
    struct tok_segment s = c->seg[i];
    s.len = at - (c->end[i] - s.len);
    return s;
}

static void shift(struct tok_list *l, size_t by)
{
    for (size_t i = 0; i < l->n; i++) {
        l->span[i].lo += (uint32_t)by;
        l->span[i].hi += (uint32_t)by;
    }
}

/* Bytes [lo, hi); goes_on: as an answer to what is before them. */
static int encode(struct chat *c, size_t lo, size_t hi, bool goes_on, struct tok_list *out,
                  struct err *e)
{
    struct tok_segment before = before_of(c, lo);
    size_t n = cut(c, lo, hi);
    out->n = 0;
    int rc = goes_on && before.len ? tokenizer_encode_after(c->t, &before, c->sub, n, out, e)
                                   : tokenizer_encode_segments(c->t, c->sub, n, false, out, e);
    if (!rc)
        shift(out, lo);
    return rc;
}

/* The first token from i on that is not wholly before byte `at`: a mark that stands for no byte
 * belongs to what it is put in front of. */
static size_t token_at(const struct tok_list *l, size_t i, size_t at)
{
    while (i < l->n && l->span[i].lo < at && l->span[i].hi <= at)
        i++;
    return i;
}

/* Tokens [lo, hi) of the list become these; hi - lo may differ from their number. */
static int splice(struct tok_list *l, size_t lo, size_t hi, const struct tok_list *by,
                  struct err *e)
{
    size_t rest = l->n - hi, n = lo + by->n + rest;
    if (n > l->cap) {
        int32_t *id = try_resize(l->id, n * sizeof *l->id, "token ids", e);
        if (!id)
            return -1;
        l->id = id;
        struct tok_span *span = try_resize(l->span, n * sizeof *l->span, "token spans", e);
        if (!span)
            return -1;
        l->span = span;
        l->cap = n;
    }
    memmove(l->id + lo + by->n, l->id + hi, rest * sizeof *l->id);
    memmove(l->span + lo + by->n, l->span + hi, rest * sizeof *l->span);
    if (by->n) {
        memcpy(l->id + lo, by->id, by->n * sizeof *l->id);
        memcpy(l->span + lo, by->span, by->n * sizeof *l->span);
    }
    l->n = n;
    return 0;
}

static bool has_at(const struct tok_list *l, size_t lo, size_t hi, const struct tok_list *want)
{
    return hi - lo == want->n &&
           (want->n == 0 || memcmp(l->id + lo, want->id, want->n * sizeof *l->id) == 0);
}

/* A special token that was found in the text: nothing is joined over it. (A model writes one for
 * what it does not know, too.) */
static bool is_wall(const struct chat *c, size_t i)
{
    const struct tok_list *l = c->list;
    size_t n, from = l->span[i].lo;
    const char *piece = tokenizer_piece(c->t, l->id[i], &n);
    return tokenizer_is_special(c->t, l->id[i]) && n > 0 &&
           memmem(c->text + from, l->span[i].hi - from, piece, n) != NULL;
}

/* Where the tokens begin that what stands before token k decides: with the special token before it,
 * or with an earlier border. */
static size_t decided_from(const struct chat *c, size_t done, size_t k)
{
    while (k > done && !is_wall(c, k - 1))
        k--;
    return k > 0 && is_wall(c, k - 1) ? k - 1 : k;
}

/* Sees to it that a token begins at byte p->lo, and that those before it are what serving gives the
 * text there. done: tokens up to the end of an earlier part; *at: the token that begins there. */
static int settle_border(struct chat *c, const struct row_part *p, size_t done, size_t *at,
                         struct err *e)
{
    struct tok_list *l = c->list;
    size_t k = token_at(l, done, p->lo), j = decided_from(c, done, k), m = k;
    bool is_beginning = j < k && is_wall(c, j);
    size_t from = j < l->n && l->span[j].lo < p->lo ? l->span[j].lo : p->lo;
    *at = k;
    if (encode(c, from, p->lo, !is_beginning, &c->head, e))
        return -1;
    if (has_at(l, j, k, &c->head) && (k == l->n || l->span[k].lo >= p->lo))
        return 0;
    while (m < l->n && l->span[m].lo < p->hi && !is_wall(c, m))
        m++;
    if (encode(c, p->lo, m < l->n ? l->span[m].lo : SIZE_MAX, true, &c->tail, e) ||
        splice(l, k, m, &c->tail, e) || splice(l, j, k, &c->head, e))
        return -1;
    *at = j + c->head.n;
    return 0;
}

/* The part's tokens from token `at` on become those that are given. What its end parts in two is
 * tokenized from there on as what follows it. */
static int put_given(struct chat *c, const struct row_part *p, size_t at, struct err *e)
{
    struct tok_list *l = c->list;
    struct row_given *g = p->given;
    size_t k = token_at(l, at, g->lo), m = k, w;
    if (g->lo < g->hi && (k == l->n || l->span[k].lo != g->lo))
        return err_set(e, ERR_BAD_INPUT,
                       "a token of the chat template goes on into the text of 'logprobs'");
    while (m < l->n && l->span[m].lo < g->hi && l->span[m].hi <= g->hi)
        m++;
    for (w = m; w < l->n && l->span[w].lo < p->hi && !is_wall(c, w);)
        w++;
    if (m < l->n && l->span[m].lo < g->hi &&
        (encode(c, g->hi, w < l->n ? l->span[w].lo : SIZE_MAX, true, &c->tail, e) ||
         splice(l, m, w, &c->tail, e)))
        return -1;
    g->at = k;
    return splice(l, k, m, g->list, e);
}

/* Parts of bytes become parts of tokens; behind token `max` nobody looks. */
static int settle(struct chat *c, struct row_part *part, size_t n, size_t max, struct err *e)
{
    const struct tok_list *l = c->list;
    size_t done = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = done;
        if (done < max && settle_border(c, &part[i], done, &at, e))
            return -1;
        if (part[i].given)
            part[i].given->at = SIZE_MAX;
        if (part[i].given && done < max && put_given(c, &part[i], at, e))
            return -1;
        for (done = at; done < max && done < l->n && l->span[done].lo < part[i].hi;)
            done++;
        part[i].lo = at;
        part[i].hi = done;
    }
    return 0;
}

int row_text_chat(const struct tokenizer *t, const struct template_out *text, size_t max,
                  struct tok_list *out, struct row_part *part, size_t n, struct err *e)
{
    struct tok_segment *seg = try_alloc(2 * text->n_span, sizeof *seg, "a row's text", e);
    size_t *end = try_alloc(text->n_span, sizeof *end, "a row's text", e);
    struct chat c = {.t = t, .text = text->text, .seg = seg, .end = end, .list = out};
    int rc = -1;
    tok_list_init(&c.head, TOK_MAX, true);
    tok_list_init(&c.tail, TOK_MAX, true);
    if (!seg || !end)
        goto done;
    c.sub = seg + text->n_span;
    c.n_seg = template_out_segments(text, seg);
    for (size_t i = 0, at = 0; i < c.n_seg; i++)
        end[i] = at += seg[i].len;
    rc = tokenizer_encode_segments(t, seg, c.n_seg, false, out, e) || settle(&c, part, n, max, e)
             ? -1
             : 0;
done:
    tok_list_release(&c.head);
    tok_list_release(&c.tail);
    mem_free(end);
    mem_free(seg);
    return rc;
}
