/* SPDX-License-Identifier: Apache-2.0
 *
 * From an NFA by subsets. A state is the steps that are reached before claims (^, $, \b) are looked
 * at, with what is known of the character before; which claims hold is decided when the character
 * behind is known, so they cost nothing where there are none.
 */
#include "engine/grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/grammar/nfa.h"
#include "engine/token/utf8.h"

enum { AT_BEGIN = 1, AFTER_WORD = 2, AFTER_LINE = 4 };
enum { NEXT_OTHER, NEXT_WORD, NEXT_LINE, NEXT_END, NEXT_KINDS };

struct subset {
    uint32_t *seed; /* sorted */
    uint32_t n, flags;
};

struct maker {
    struct budget *b;
    const struct nfa *nfa;
    struct map known; /* a subset's seeds and flags to its number + 1 */
    LIST(struct subset) state;
    LIST(uint32_t) next;
    LIST(bool) accepts;
    LIST(struct dfa_span) span;
    uint32_t n_class;
    bool *in_set;  /* [n_set, n_class] */
    uint8_t *kind; /* of a class: NEXT_... */
    uint32_t *stack, *mark, n_mark;
    LIST(uint32_t) live; /* the NFA_SETs of a closure */
    LIST(uint32_t) * to; /* by class */
    bool matched;
};

/* ---- classes of characters ---- */

/* Cuts the spans at the borders of the set; those inside it change class. */
static void refine(struct maker *m, const struct charset *s)
{
    LIST(struct dfa_span) out = {0};
    uint32_t j = 0, n_old = m->n_class;
    uint32_t *moved = budget_alloc(m->b, n_old, sizeof *moved);
    for (uint32_t i = 0; i < m->span.n && budget_tick(m->b, 1); i++) {
        struct dfa_span d = m->span.at[i];
        while (d.lo <= d.hi) {
            while (j < s->n && s->at[j].hi < d.lo)
                j++;
            bool inside = j < s->n && s->at[j].lo <= d.lo;
            uint32_t end = j == s->n ? d.hi : inside ? s->at[j].hi : s->at[j].lo - 1;
            end = end > d.hi ? d.hi : end;
            uint32_t cls = d.cls;
            if (inside) {
                if (!moved[cls])
                    moved[cls] = ++m->n_class;
                cls = moved[cls] - 1;
            }
            if (!list_push(m->b, &out, (struct dfa_span){d.lo, end, cls}))
                return;
            d.lo = end + 1;
        }
    }
    m->span.at = out.at;
    m->span.n = out.n;
    m->span.cap = out.cap;
}

/* Numbers without gaps: a class may have moved as a whole. */
static void number_classes(struct maker *m)
{
    uint32_t *number = budget_alloc(m->b, m->n_class, sizeof *number), n = 0;
    for (uint32_t i = 0; i < m->span.n; i++) {
        if (!number[m->span.at[i].cls])
            number[m->span.at[i].cls] = ++n;
        m->span.at[i].cls = number[m->span.at[i].cls] - 1;
    }
    m->n_class = n;
}

static struct charset ascii_set(struct budget *b, const char *pairs)
{
    struct charset s = {0};
    for (; *pairs; pairs += 2)
        charset_add(b, &s, (uint8_t)pairs[0], (uint8_t)pairs[1]);
    charset_tidy(&s);
    return s;
}

static void make_classes(struct maker *m)
{
    struct charset word = ascii_set(m->b, "09AZ__az"), line = ascii_set(m->b, "\n\n");
    struct charset any = charset_any(m->b);
    for (uint32_t i = 0; i < any.n; i++)
        list_push(m->b, &m->span, (struct dfa_span){any.at[i].lo, any.at[i].hi, 0});
    m->n_class = 1;
    for (uint32_t i = 0; i < m->nfa->set.n && !m->b->failed; i++)
        refine(m, m->nfa->set.at[i]);
    if (m->nfa->has_claims) {
        refine(m, &word);
        refine(m, &line);
    }
    number_classes(m);
    m->in_set = budget_alloc(m->b, (size_t)m->nfa->set.n * m->n_class, sizeof *m->in_set);
    m->kind = budget_alloc(m->b, m->n_class, sizeof *m->kind);
    for (uint32_t i = 0; i < m->span.n && !m->b->failed; i++) {
        struct dfa_span d = m->span.at[i];
        for (uint32_t s = 0; s < m->nfa->set.n; s++)
            m->in_set[(size_t)s * m->n_class + d.cls] = charset_has(m->nfa->set.at[s], d.lo);
        if (m->nfa->has_claims)
            m->kind[d.cls] = charset_has(&word, d.lo)   ? NEXT_WORD
                             : charset_has(&line, d.lo) ? NEXT_LINE
                                                        : NEXT_OTHER;
    }
}

/* ---- subsets ---- */

static bool holds(uint8_t claim, uint32_t flags, int next)
{
    bool edge = !!(flags & AFTER_WORD) != (next == NEXT_WORD);
    switch ((enum claim)claim) {
    case CLAIM_TEXT_BEGIN:
        return flags & AT_BEGIN;
    case CLAIM_TEXT_END:
        return next == NEXT_END;
    case CLAIM_LINE_BEGIN:
        return flags & (AT_BEGIN | AFTER_LINE);
    case CLAIM_LINE_END:
        return next == NEXT_END || next == NEXT_LINE;
    case CLAIM_WORD_EDGE:
        return edge;
    case CLAIM_NO_WORD_EDGE:
        return !edge;
    }
    return false;
}

/* What can be done from the subset when a character of kind `next` follows: live, matched. */
static void closure(struct maker *m, const struct subset *s, int next)
{
    uint32_t n = 0;
    m->n_mark++;
    m->live.n = 0;
    m->matched = false;
    for (uint32_t i = 0; i < s->n; i++)
        m->stack[n++] = s->seed[i];
    while (n > 0 && budget_tick(m->b, 1)) {
        uint32_t at = m->stack[--n];
        const struct nfa_step *step = &m->nfa->step.at[at];
        if (m->mark[at] == m->n_mark)
            continue;
        m->mark[at] = m->n_mark;
        switch ((enum nfa_kind)step->kind) {
        case NFA_SET:
            list_push(m->b, &m->live, at);
            break;
        case NFA_MATCH:
            m->matched = true;
            break;
        case NFA_SPLIT:
            m->stack[n++] = step->y;
            m->stack[n++] = step->x;
            break;
        case NFA_CLAIM:
            if (holds(step->claim, s->flags, next))
                m->stack[n++] = step->x;
            break;
        }
    }
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

/* The state of these seeds, in any order and more than once; they are moved out of the list. */
static uint32_t state_of(struct maker *m, uint32_t *seed, uint32_t n, uint32_t flags)
{
    uint32_t n_own = 0;
    if (n == 0)
        return DFA_DEAD;
    qsort(seed, n, sizeof *seed, by_number);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || seed[i] != seed[i - 1])
            seed[n_own++] = seed[i];
    seed[n_own] = flags; /* there is room for one more */
    size_t bytes = (n_own + 1) * sizeof *seed;
    uintptr_t known = (uintptr_t)map_get(&m->known, seed, bytes);
    if (known)
        return (uint32_t)(known - 1);
    if (m->state.n >= m->b->max_states) {
        budget_too_many_states(m->b);
        return DFA_DEAD;
    }
    struct subset s = {budget_alloc(m->b, n_own + 1, sizeof *seed), n_own, flags};
    memcpy(s.seed, seed, bytes);
    budget_charge(m->b, bytes + 64);
    list_push(m->b, &m->state, s);
    map_put(&m->known, seed, bytes, (void *)(uintptr_t)m->state.n);
    return m->state.n - 1;
}

static void explore(struct maker *m, uint32_t at)
{
    struct subset s = m->state.at[at];
    bool has_claims = m->nfa->has_claims;
    closure(m, &s, NEXT_END);
    list_push(m->b, &m->accepts, m->matched);
    for (uint32_t c = 0; c < m->n_class; c++)
        m->to[c].n = 0;
    for (int next = NEXT_OTHER; next < (has_claims ? NEXT_END : NEXT_WORD); next++) {
        if (has_claims)
            closure(m, &s, next);
        for (uint32_t i = 0; i < m->live.n && budget_tick(m->b, m->n_class); i++) {
            const struct nfa_step *step = &m->nfa->step.at[m->live.at[i]];
            const bool *in = m->in_set + (size_t)step->y * m->n_class;
            for (uint32_t c = 0; c < m->n_class; c++)
                if (in[c] && m->kind[c] == next)
                    list_push(m->b, &m->to[c], step->x);
        }
    }
    for (uint32_t c = 0; c < m->n_class && budget_tick(m->b, 1); c++) {
        uint32_t flags = !has_claims               ? 0
                         : m->kind[c] == NEXT_WORD ? AFTER_WORD
                         : m->kind[c] == NEXT_LINE ? AFTER_LINE
                                                   : 0;
        list_push(m->b, &m->to[c], 0); /* room for the flags */
        if (!m->b->failed)
            list_push(m->b, &m->next, state_of(m, m->to[c].at, m->to[c].n - 1, flags));
    }
}

static struct dfa *make(struct budget *b, const struct nfa *a)
{
    struct maker m = {.b = b, .nfa = a};
    uint32_t first[2] = {a->start, 0};
    map_init(&m.known);
    make_classes(&m);
    m.stack = budget_alloc(b, 3 * (size_t)a->step.n + 2, sizeof *m.stack);
    m.mark = budget_alloc(b, a->step.n, sizeof *m.mark);
    m.to = budget_alloc(b, m.n_class, sizeof *m.to);
    if (!b->failed)
        state_of(&m, first, 1, a->has_claims ? AT_BEGIN : 0);
    for (uint32_t i = 0; i < m.state.n && !b->failed; i++)
        explore(&m, i);
    map_release(&m.known);
    if (b->failed)
        return NULL;
    struct dfa *d = BUDGET_NEW(b, struct dfa);
    *d = (struct dfa){.n_state = m.state.n,
                      .n_class = m.n_class,
                      .next = m.next.at,
                      .accepts = m.accepts.at,
                      .span = m.span.at,
                      .n_span = m.span.n};
    return dfa_trim(b, d);
}

struct dfa *dfa_of(struct budget *b, struct node *n, bool whole)
{
    struct nfa a;
    if (!whole) {
        struct node *around = node_new(b, NODE_CAT), *any = node_set(b, charset_any(b));
        list_push(b, &around->kid, node_repeat(b, any, 0, NODE_NO_MAX));
        list_push(b, &around->kid, n);
        list_push(b, &around->kid, node_repeat(b, any, 0, NODE_NO_MAX));
        n = around;
    }
    return b->failed || nfa_build(b, n, &a) ? NULL : make(b, &a);
}

bool dfa_is_empty(const struct dfa *d)
{
    return d->n_state == 0;
}

static uint32_t class_of(const struct dfa *d, uint32_t c)
{
    uint32_t lo = 0, hi = d->n_span - 1;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (d->span[mid].hi < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return d->span[lo].cls;
}

bool dfa_accepts(const struct dfa *d, const char *text, size_t len)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + len;
    uint32_t at = dfa_is_empty(d) ? DFA_DEAD : d->start;
    while (p < end && at != DFA_DEAD) {
        uint32_t c;
        p += utf8_get(p, &c);
        at = d->next[(size_t)at * d->n_class + class_of(d, c)];
    }
    return at != DFA_DEAD && d->accepts[at];
}
