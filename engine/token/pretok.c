/* SPDX-License-Identifier: Apache-2.0
 *
 * A step that looks for matches feeds them, and the gaps between them, to a `struct cutter`, which
 * joins or drops them as the step's behavior says. Its one pending piece is all that it keeps.
 */
#include "engine/token/pretok.h"

#include <stdlib.h>

#include "engine/token/normalize.h"
#include "engine/token/utf8.h"

struct walk {
    const struct pretok *c;
    struct pretok_run *r;
    pretok_fn *fn;
    void *ctx;
    struct err *e;
};

static int apply_from(const struct walk *w, size_t i, const struct piece *in);

/* ---- cutting by matches ---- */

struct cutter {
    const struct walk *w;
    const struct pretok_step *step;
    const struct piece *in;
    size_t next_step;
    uint32_t lo, hi; /* the pending piece */
    bool pending, was_match;
};

static int emit(const struct cutter *k, uint32_t lo, uint32_t hi)
{
    struct piece p = piece_sub(k->in, lo, hi);
    return lo < hi ? apply_from(k->w, k->next_step, &p) : 0;
}

static int emit_pending(struct cutter *k)
{
    bool had = k->pending;
    k->pending = false;
    return had ? emit(k, k->lo, k->hi) : 0;
}

/* Joins [lo, hi) to the pending piece, or emits that and keeps this. */
static int hold(struct cutter *k, uint32_t lo, uint32_t hi, bool joins)
{
    if (!joins || !k->pending) {
        if (emit_pending(k))
            return -1;
        k->lo = lo;
        k->pending = true;
    }
    k->hi = hi;
    return 0;
}

/* A match or a gap. */
static int feed(struct cutter *k, uint32_t lo, uint32_t hi, bool is_match)
{
    bool was = k->was_match, had = k->pending;
    int rc = 0;
    is_match ^= k->step->invert;
    k->was_match = is_match;
    switch (k->step->behavior) {
    case PRETOK_ISOLATED:
        return emit(k, lo, hi);
    case PRETOK_REMOVED:
        return is_match ? 0 : emit(k, lo, hi);
    case PRETOK_CONTIGUOUS:
        return hold(k, lo, hi, had && was == is_match);
    case PRETOK_MERGED_WITH_PREVIOUS:
        return hold(k, lo, hi, is_match && had && !was);
    case PRETOK_MERGED_WITH_NEXT:
        rc = hold(k, lo, hi, !is_match && had && was);
        return rc || is_match ? rc : emit_pending(k);
    }
    return rc;
}

static int cut_by_regex(struct cutter *k, struct regex_run **m)
{
    const struct regex *re = k->step->regex;
    const struct piece *in = k->in;
    size_t start = 0, lo, hi;
    uint32_t done = 0;
    int rc = 0;
    if (!*m && !(*m = regex_run_new(re, k->w->e)))
        return -1;
    while (start <= in->len &&
           (rc = regex_find(re, *m, in->p, in->len, start, &lo, &hi, k->w->e)) == 1) {
        if (lo > done && feed(k, done, (uint32_t)lo, false))
            return -1;
        if (feed(k, (uint32_t)lo, (uint32_t)hi, true))
            return -1;
        done = (uint32_t)hi;
        start = hi > lo ? hi : hi < in->len ? hi + utf8_len(in->p[hi]) : hi + 1;
    }
    if (rc < 0)
        return -1;
    return done < in->len ? feed(k, done, in->len, false) : 0;
}

static int cut_by_text(struct cutter *k)
{
    const struct piece *in = k->in;
    uint32_t n = (uint32_t)strlen(k->step->text), done = 0;
    while (n) {
        const uint8_t *at = piece_find(in->p + done, in->len - done, k->step->text, n);
        if (!at)
            break;
        uint32_t lo = (uint32_t)(at - in->p);
        if ((lo > done && feed(k, done, lo, false)) || feed(k, lo, lo + n, true))
            return -1;
        done = lo + n;
    }
    return done < in->len ? feed(k, done, in->len, false) : 0;
}

static int cut_by_class(struct cutter *k)
{
    const struct uclass *u = k->w->c->class;
    const struct piece *in = k->in;
    unsigned mask = k->step->mask, n;
    uint32_t done = 0, i = 0;
    while (i < in->len) {
        if (!(uclass_at(u, in->p + i, &n) & mask)) {
            i += n;
            continue;
        }
        if ((i > done && feed(k, done, i, false)) || feed(k, i, i + n, true))
            return -1;
        i += n;
        done = i;
    }
    return done < in->len ? feed(k, done, in->len, false) : 0;
}

static int cut(const struct walk *w, size_t i, const struct piece *in)
{
    const struct pretok_step *s = &w->c->step[i];
    struct cutter k = {.w = w, .step = s, .in = in, .next_step = i + 1};
    int rc = s->kind == PRETOK_REGEX  ? cut_by_regex(&k, &w->r->regex[i])
             : s->kind == PRETOK_TEXT ? cut_by_text(&k)
                                      : cut_by_class(&k);
    return rc ? rc : emit_pending(&k);
}

static int cut_by_rules(const struct walk *w, size_t i, const struct piece *in)
{
    const struct split_rules *rules = w->c->step[i].rules;
    for (uint32_t lo = 0; lo < in->len;) {
        uint32_t hi = (uint32_t)split_next(rules, w->c->class, in->p, in->len, lo);
        struct piece p = piece_sub(in, lo, hi);
        if (apply_from(w, i + 1, &p))
            return -1;
        lo = hi;
    }
    return 0;
}

/* ---- steps that rewrite ---- */

static void put_marks(const struct pretok_step *s, const struct piece *in, struct piece_buf *out)
{
    uint32_t n = (uint32_t)strlen(s->text), lo = 0;
    bool has_mark = in->p[0] == ' ' || (in->len >= n && !memcmp(in->p, s->text, n));
    bool wants_mark = s->prepend == PRETOK_PREPEND_ALWAYS
                          ? in->place != PIECE_AFTER
                          : s->prepend == PRETOK_PREPEND_FIRST && in->place == PIECE_START;
    if (!has_mark && wants_mark)
        piece_buf_put(out, s->text, n, piece_span(in, 0, 0));
    while (lo < in->len) {
        const uint8_t *at = memchr(in->p + lo, ' ', in->len - lo);
        uint32_t hi = at ? (uint32_t)(at - in->p) : in->len;
        piece_buf_copy(out, in, lo, hi);
        if (at)
            piece_buf_put(out, s->text, n, piece_span(in, hi, hi + 1));
        lo = hi + 1;
    }
}

static int rewrite(const struct walk *w, size_t i, const struct piece *in)
{
    const struct pretok_step *s = &w->c->step[i];
    struct piece_buf *b = &w->r->buf[i];
    b->len = 0;
    if (s->kind == PRETOK_METASPACE) {
        put_marks(s, in, b);
    } else if (s->kind == PRETOK_BYTES) {
        for (uint32_t at = 0; at < in->len; at++)
            piece_buf_put_char(b, normalize_byte_char(in->p[at]), piece_span(in, at, at + 1));
    } else {
        piece_buf_put(b, " ", 1, piece_span(in, 0, 0));
        piece_buf_copy(b, in, 0, in->len);
    }
    if (piece_buf_check(b, w->e))
        return -1;
    struct piece out = piece_buf_view(b, in->place);
    if (!s->is_split)
        return apply_from(w, i + 1, &out);
    struct cutter k = {.w = w, .step = s, .in = &out, .next_step = i + 1};
    int rc = cut_by_text(&k);
    return rc ? rc : emit_pending(&k);
}

/* ---- the chain ---- */

static int apply_from(const struct walk *w, size_t i, const struct piece *in)
{
    if (i == w->c->n)
        return w->fn(w->ctx, in, w->e);
    switch (w->c->step[i].kind) {
    case PRETOK_RULES:
        return cut_by_rules(w, i, in);
    case PRETOK_METASPACE:
    case PRETOK_BYTES:
        return rewrite(w, i, in);
    case PRETOK_PREFIX_SPACE:
        return in->p[0] == ' ' || in->place == PIECE_AFTER ? apply_from(w, i + 1, in)
                                                           : rewrite(w, i, in);
    default:
        return cut(w, i, in);
    }
}

int pretok_apply(const struct pretok *c, struct pretok_run *r, const struct piece *in,
                 pretok_fn *fn, void *ctx, struct err *e)
{
    struct walk w = {c, r, fn, ctx, e};
    return in->len ? apply_from(&w, 0, in) : 0;
}

bool pretok_marks_pieces(const struct pretok *c)
{
    for (size_t i = 1; i < c->n; i++)
        if (c->step[i].kind == PRETOK_METASPACE || c->step[i].kind == PRETOK_PREFIX_SPACE)
            return true;
    return false;
}

int pretok_give(struct pretok *c, struct pretok_step *step, struct err *e)
{
    if (c->n < PRETOK_MAX_STEPS) {
        c->step[c->n++] = *step;
        return 0;
    }
    free(step->text);
    regex_free(step->regex);
    return err_set(e, ERR_TOO_LARGE, "more than %d steps of pre-tokenizers", PRETOK_MAX_STEPS);
}

void pretok_release(struct pretok *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->step[i].text);
        regex_free(c->step[i].regex);
    }
    uclass_free(c->class);
    *c = (struct pretok){0};
}

void pretok_run_init(struct pretok_run *r, bool with_spans)
{
    *r = (struct pretok_run){0};
    for (size_t i = 0; i < PRETOK_MAX_STEPS; i++)
        piece_buf_init(&r->buf[i], with_spans);
}

void pretok_run_release(struct pretok_run *r)
{
    for (size_t i = 0; i < PRETOK_MAX_STEPS; i++) {
        piece_buf_release(&r->buf[i]);
        regex_run_free(r->regex[i]);
    }
}
