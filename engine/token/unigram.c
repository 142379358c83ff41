/* SPDX-License-Identifier: Apache-2.0
 *
 * Each character's beginning is an end of some way, since a character alone is a token or unknown.
 * The best way is linked from its end to its beginning; before it is given out the links are
 * turned round in place.
 */
#include "engine/token/unigram.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/token/tok_list.h"
#include "engine/token/utf8.h"

enum {
    END_NONE = -1,    /* no way has come here yet */
    END_UNKNOWN = -2, /* an unknown character */
    GIVE_BYTES = 64,  /* shorter parts are not given out alone */
};

static const double unk_penalty = 10;

void unigram_init(struct unigram *u)
{
    *u = (struct unigram){.unk = -1, .unk_score = DBL_MAX};
    trie_init(&u->trie);
    for (size_t i = 0; i < 256; i++)
        u->fallback[i] = -1;
}

void unigram_release(struct unigram *u)
{
    trie_release(&u->trie);
    mem_free(u->score);
    *u = (struct unigram){0};
}

int unigram_reserve(struct unigram *u, size_t n_id, struct err *e)
{
    u->score = try_alloc(n_id, sizeof *u->score, "scores of tokens", e);
    return u->score ? 0 : -1;
}

int unigram_add(struct unigram *u, const char *text, size_t len, int32_t id, double score,
                bool is_found, struct err *e)
{
    if (!len)
        return err_set(e, ERR_BAD_INPUT, "token %d is empty", id);
    if (len > UNIGRAM_MAX_PIECE_BYTES)
        return err_set(e, ERR_TOO_LARGE, "token %d has more than %d bytes", id,
                       UNIGRAM_MAX_PIECE_BYTES);
    u->score[id] = score;
    u->unk_score = score < u->unk_score ? score : u->unk_score;
    u->max_len = len > u->max_len ? (uint32_t)len : u->max_len;
    return is_found ? trie_add(&u->trie, text, len, id, e) : 0;
}

/* The token that these bytes are, or -1. */
static int32_t find(const struct unigram *u, const uint8_t *p, uint32_t n)
{
    uint32_t node = n && n <= u->max_len ? u->trie.first[p[0]] : 0;
    for (uint32_t i = 1; node && i < n; i++)
        node = trie_step(&u->trie, node, p[i]);
    return node ? u->trie.value[node] : -1;
}

void unigram_finish(struct unigram *u, int32_t unk)
{
    u->unk = unk;
    u->unk_score -= unk_penalty;
    for (unsigned i = 0; u->byte_fallback && i < 256; i++) {
        char name[8];
        int n = snprintf(name, sizeof name, "<0x%02X>", i);
        u->fallback[i] = find(u, (const uint8_t *)name, (uint32_t)n);
    }
}

void unigram_run_release(struct unigram_run *r)
{
    mem_free(r->end);
    *r = (struct unigram_run){0};
}

/* ---- giving out ---- */

static bool has_bytes(const struct unigram *u, const uint8_t *p, uint32_t n)
{
    if (!u->byte_fallback)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (u->fallback[p[i]] < 0)
            return false;
    return true;
}

static int give_unknown(const struct unigram *u, struct unigram_run *r, const struct piece *p,
                        struct tok_list *out, struct err *e)
{
    uint32_t lo = r->unknown.lo, hi = r->unknown.hi;
    r->unknown = (struct tok_span){0};
    int32_t id = find(u, p->p + lo, hi - lo); /* unknown one by one, but a token as a whole */
    if (id < 0 && has_bytes(u, p->p + lo, hi - lo)) {
        for (; lo < hi; lo++)
            if (tok_list_push(out, u->fallback[p->p[lo]], piece_span(p, lo, lo + 1), e))
                return -1;
        return 0;
    }
    return tok_list_push(out, id < 0 ? u->unk : id, piece_span(p, lo, hi), e);
}

static int give_token(const struct unigram *u, struct unigram_run *r, const struct piece *p,
                      uint32_t lo, uint32_t hi, int32_t id, struct tok_list *out, struct err *e)
{
    bool had = r->unknown.hi > r->unknown.lo;
    if (id == END_UNKNOWN || id == u->unk) {
        r->unknown = (struct tok_span){had ? r->unknown.lo : lo, hi};
        return 0;
    }
    if (had && give_unknown(u, r, p, out, e))
        return -1;
    return tok_list_push(out, id, piece_span(p, lo, hi), e);
}

/* From here on `start` of a token's beginning is its end. */
static void turn_links(struct unigram_end *end, uint32_t hi)
{
    for (uint32_t lo = end[hi].start; hi;) {
        uint32_t before = end[lo].start;
        end[lo].start = hi;
        hi = lo;
        lo = before;
    }
}

/* Gives the best way from base to the furthest end, and begins anew there. */
static int give(const struct unigram *u, struct unigram_run *r, const struct piece *p,
                struct tok_list *out, struct err *e)
{
    struct unigram_end *end = r->end;
    double score = end[r->reach].score;
    turn_links(end, r->reach);
    for (uint32_t lo = 0, hi; lo < r->reach; lo = hi) {
        hi = end[lo].start;
        if (give_token(u, r, p, r->base + lo, r->base + hi, end[hi].id, out, e))
            return -1;
    }
    for (uint32_t i = 0; i <= r->reach; i++)
        end[i].id = END_NONE;
    end[0] = (struct unigram_end){.score = score, .id = END_NONE};
    r->base += r->reach;
    r->reach = 0;
    return 0;
}

/* ---- the best way ---- */

/* Room for what begins at `at`. */
static int reserve(const struct unigram *u, struct unigram_run *r, uint32_t at, struct err *e)
{
    size_t want = (size_t)at + (u->max_len < 4 ? 4 : u->max_len) + 1, cap = r->cap;
    if (want <= cap)
        return 0;
    cap = 2 * want > 256 ? 2 * want : 256;
    struct unigram_end *end = try_alloc(cap, sizeof *end, "ways of a text", e);
    if (!end)
        return -1;
    if (r->cap)
        memcpy(end, r->end, r->cap * sizeof *end);
    for (size_t i = r->cap; i < cap; i++)
        end[i].id = END_NONE;
    mem_free(r->end);
    r->end = end;
    r->cap = cap;
    return 0;
}

/* Whether a way to `hi` with this score is better than what is there; if so it is taken. */
static bool offer(struct unigram_run *r, uint32_t lo, uint32_t hi, int32_t id, double score)
{
    struct unigram_end *to = &r->end[hi];
    if (to->id != END_NONE && !(score > to->score))
        return false;
    *to = (struct unigram_end){score, id, lo};
    r->reach = hi > r->reach ? hi : r->reach;
    return true;
}

/* Every token that begins at byte lo of the piece. */
static int go_on(const struct unigram *u, struct unigram_run *r, const struct piece *p, uint32_t lo,
                 unsigned n_char, struct err *e)
{
    const struct trie *t = &u->trie;
    const uint8_t *text = p->p + lo;
    uint32_t at = lo - r->base, n = p->len - lo, node = t->first[text[0]];
    double here = r->end[at].score;
    bool has_char = false;
    for (uint32_t i = 1; node; i++) {
        int32_t id = t->value[node];
        if (id >= 0) {
            offer(r, at, at + i, id, u->score[id] + here);
            has_char |= i == n_char;
        }
        node = i < n ? trie_step(t, node, text[i]) : 0;
    }
    if (!has_char && offer(r, at, at + n_char, END_UNKNOWN, u->unk_score + here) && u->unk < 0)
        return err_set(e, ERR_BAD_INPUT,
                       "a character is not in the vocabulary, which has no token for unknown ones");
    return 0;
}

static void begin(struct unigram_run *r)
{
    if (r->cap)
        for (uint32_t i = 0; i <= r->reach; i++)
            r->end[i].id = END_NONE;
    r->base = r->reach = 0;
    r->unknown = (struct tok_span){0};
}

int unigram_encode(const struct unigram *u, struct unigram_run *r, const struct piece *p,
                   struct tok_list *out, struct err *e)
{
    unsigned n_char;
    begin(r);
    if (reserve(u, r, 0, e))
        return -1;
    r->end[0] = (struct unigram_end){.id = END_NONE};
    for (uint32_t lo = 0; lo < p->len; lo += n_char) {
        n_char = utf8_len(p->p[lo]);
        if (lo - r->base == r->reach && r->reach >= GIVE_BYTES && give(u, r, p, out, e))
            return -1;
        if (reserve(u, r, lo - r->base, e) || go_on(u, r, p, lo, n_char, e))
            return -1;
    }
    if (give(u, r, p, out, e))
        return -1;
    return r->unknown.hi > r->unknown.lo ? give_unknown(u, r, p, out, e) : 0;
}
