/* SPDX-License-Identifier: Apache-2.0
 *
 * At each place the trie is walked as far as the text goes along; nearly all walks end at the first
 * byte. A walk is at most ADDED_MAX_BYTES long, which bounds the work per byte.
 */
#include "engine/token/added.h"

#include <stdlib.h>

#include "engine/base/mem.h"

void added_init(struct added *a)
{
    *a = (struct added){0};
    trie_init(&a->raw);
    trie_init(&a->normal);
    map_init(&a->by_content);
}

void added_release(struct added *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->token[i].content);
    free(a->token);
    free(a->is_special);
    trie_release(&a->raw);
    trie_release(&a->normal);
    map_release(&a->by_content);
    uclass_free(a->class);
    *a = (struct added){0};
}

static int check(const struct added *a, const struct added_token *t, struct err *e)
{
    if (t->len == 0 || t->len > ADDED_MAX_BYTES)
        return err_set(e, ERR_BAD_INPUT, "added token %d has %u bytes; 1 to %d are possible", t->id,
                       t->len, ADDED_MAX_BYTES);
    if (a->n >= ADDED_MAX_TOKENS)
        return err_set(e, ERR_TOO_LARGE, "more than %d added tokens", ADDED_MAX_TOKENS);
    if (added_find(a, t->content, t->len))
        return err_set(e, ERR_BAD_INPUT, "added token %d has the text of another", t->id);
    return 0;
}

int added_give(struct added *a, struct added_token t, struct err *e)
{
    if (check(a, &t, e)) {
        free(t.content);
        return -1;
    }
    if (a->n == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 16;
        a->token = xrealloc(a->token, a->cap * sizeof *a->token);
    }
    a->token[a->n++] = t;
    map_put(&a->by_content, t.content, t.len, (void *)(uintptr_t)a->n);
    return 0;
}

const struct added_token *added_find(const struct added *a, const char *content, size_t len)
{
    uintptr_t at = (uintptr_t)map_get(&a->by_content, content, len);
    return at ? &a->token[at - 1] : NULL;
}

static void mark_special(struct added *a, int32_t id)
{
    if ((size_t)id >= a->n_special) {
        size_t n = (size_t)id + 1;
        a->is_special = xrealloc(a->is_special, n);
        memset(a->is_special + a->n_special, 0, n - a->n_special);
        a->n_special = n;
    }
    a->is_special[id] = 1;
}

static int add_normal(struct added *a, size_t i, const struct normalize *chain,
                      struct normalize_run *run, struct err *e)
{
    struct piece in = {.p = (const uint8_t *)a->token[i].content,
                       .len = a->token[i].len,
                       .place = PIECE_START},
                 out;
    if (normalize_apply(chain, run, &in, &out, e))
        return -1;
    a->has_normal_special |= a->token[i].is_special;
    return out.len ? trie_add(&a->normal, out.p, out.len, (int32_t)i, e) : 0;
}

int added_finish(struct added *a, const struct normalize *chain, struct err *e)
{
    struct normalize_run run;
    bool has_word = false;
    int rc = 0;
    normalize_run_init(&run, false);
    for (size_t i = 0; i < a->n && !rc; i++) {
        const struct added_token *t = &a->token[i];
        has_word |= t->is_word;
        if (t->is_special)
            mark_special(a, t->id);
        rc = t->is_normalized ? add_normal(a, i, chain, &run, e)
                              : trie_add(&a->raw, t->content, t->len, (int32_t)i, e);
    }
    if (!rc && has_word && !(a->class = uclass_new(UC_WORD, e)))
        rc = -1;
    normalize_run_release(&run);
    return rc;
}

static bool is_alone(const struct added *a, const struct piece *in, uint32_t lo, uint32_t hi)
{
    unsigned n;
    if (lo > 0 && (uclass_at(a->class, utf8_back(in->p + lo), &n) & UC_WORD))
        return false;
    return hi >= in->len || !(uclass_at(a->class, in->p + hi, &n) & UC_WORD);
}

/* The longest token that may stand at lo, or NULL. */
static const struct added_token *longest(const struct added *a, const struct trie *t,
                                         const struct piece *in, uint32_t lo, added_trust_fn *trust,
                                         const void *ctx, uint32_t *hi)
{
    const struct added_token *found = NULL;
    uint32_t node = t->first[in->p[lo]];
    for (uint32_t i = lo + 1; node; i++) {
        if (t->value[node] >= 0) {
            const struct added_token *k = &a->token[t->value[node]];
            if (!k->is_special || trust(ctx, piece_span(in, lo, i))) {
                found = k;
                *hi = i;
            }
        }
        node = i < in->len ? trie_step(t, node, in->p[i]) : 0;
    }
    return found;
}

static void take_blanks(const struct piece *in, uint32_t start, struct added_match *m)
{
    uint32_t c;
    while (m->token->takes_left && m->lo > start) {
        const uint8_t *p = utf8_back(in->p + m->lo);
        utf8_get(p, &c);
        if (!uclass_is_white(c))
            break;
        m->lo = (uint32_t)(p - in->p);
    }
    while (m->token->takes_right && m->hi < in->len) {
        unsigned n = utf8_get(in->p + m->hi, &c);
        if (!uclass_is_white(c))
            break;
        m->hi += n;
    }
}

bool added_next(const struct added *a, const struct trie *which, const struct piece *in,
                uint32_t start, added_trust_fn *trust, const void *ctx, struct added_match *m)
{
    for (uint32_t lo = start, hi = 0; lo < in->len; lo++) {
        if (!which->first[in->p[lo]])
            continue;
        m->token = longest(a, which, in, lo, trust, ctx, &hi);
        if (!m->token)
            continue;
        if (m->token->is_word && !is_alone(a, in, lo, hi)) {
            lo = hi - 1;
            continue;
        }
        m->lo = lo;
        m->hi = hi;
        take_blanks(in, start, m);
        return true;
    }
    return false;
}
