/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made out of automata: pairs of states, and states with a count.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/grammar/dfa.h"

struct pair {
    uint32_t x, y;
};

struct product {
    struct budget *b;
    struct map known;
    LIST(struct pair) state;
    uint32_t most;
    bool is_full;
};

/* The number of a pair, new or known. */
static uint32_t pair_number(struct product *p, struct pair s)
{
    uintptr_t known = (uintptr_t)map_get(&p->known, &s, sizeof s);
    if (known)
        return (uint32_t)(known - 1);
    p->is_full |= p->state.n >= p->most;
    if (p->is_full)
        return DFA_DEAD;
    budget_charge(p->b, 64);
    if (!list_push(p->b, &p->state, s))
        return DFA_DEAD;
    map_put(&p->known, &s, sizeof s, (void *)(uintptr_t)p->state.n);
    return p->state.n - 1;
}

/* Keeps what both leads to acceptance and is led to; numbers the rest anew. */
struct dfa *dfa_trim(struct budget *b, struct dfa *d)
{
    bool *good = budget_alloc(b, d->n_state + 1, sizeof *good);
    uint32_t *number = budget_alloc(b, d->n_state + 1, sizeof *number), n = 0;
    /* edges turned round, by their target */
    uint32_t *first = budget_alloc(b, d->n_state + 2, sizeof *first);
    size_t n_edge = (size_t)d->n_state * d->n_class;
    if (b->failed || n_edge * 4 > b->cap_bytes) {
        budget_charge(b, n_edge * 4);
        return NULL;
    }
    uint32_t *from = budget_alloc(b, n_edge + 1, sizeof *from);
    uint32_t *stack = budget_alloc(b, d->n_state + 1, sizeof *stack), n_stack = 0;
    for (size_t i = 0; i < n_edge; i++)
        if (d->next[i] != DFA_DEAD)
            first[d->next[i] + 2]++;
    for (uint32_t i = 0; i < d->n_state; i++)
        first[i + 2] += first[i + 1];
    for (size_t i = 0; i < n_edge; i++)
        if (d->next[i] != DFA_DEAD)
            from[first[d->next[i] + 1]++] = (uint32_t)(i / d->n_class);
    for (uint32_t i = 0; i < d->n_state; i++)
        if (d->accepts[i])
            good[i] = true, stack[n_stack++] = i;
    while (n_stack > 0 && budget_tick(b, 1)) {
        uint32_t at = stack[--n_stack];
        for (uint32_t i = first[at]; i < first[at + 1]; i++)
            if (!good[from[i]])
                good[from[i]] = true, stack[n_stack++] = from[i];
    }
    for (uint32_t i = 0; i < d->n_state; i++)
        number[i] = good[i] ? n++ : DFA_DEAD;
    bool is_empty = d->n_state == 0 || !good[d->start];
    for (uint32_t i = 0; i < d->n_state && !is_empty; i++) {
        if (!good[i])
            continue;
        for (uint32_t c = 0; c < d->n_class; c++) {
            uint32_t to = d->next[(size_t)i * d->n_class + c];
            d->next[(size_t)number[i] * d->n_class + c] = to == DFA_DEAD ? to : number[to];
        }
        d->accepts[number[i]] = d->accepts[i];
    }
    d->start = is_empty ? 0 : number[d->start];
    d->n_state = is_empty ? 0 : n;
    return b->failed ? NULL : d;
}

/* Numbers states by their part and those that they lead to; how many parts that makes. */
static uint32_t split(struct budget *b, const struct dfa *d, const uint32_t *part, uint32_t *finer)
{
    struct map known;
    uint32_t n = 0, *key = budget_alloc(b, d->n_class + 1, sizeof *key);
    map_init(&known);
    for (uint32_t i = 0; i < d->n_state && budget_tick(b, d->n_class); i++) {
        const uint32_t *next = d->next + (size_t)i * d->n_class;
        key[0] = part[i];
        for (uint32_t c = 0; c < d->n_class; c++)
            key[1 + c] = next[c] == DFA_DEAD ? DFA_DEAD : part[next[c]];
        size_t bytes = (d->n_class + 1) * sizeof *key;
        uintptr_t at = (uintptr_t)map_get(&known, key, bytes);
        if (!at)
            map_put(&known, key, bytes, (void *)(at = (uintptr_t)++n));
        finer[i] = (uint32_t)at - 1;
    }
    map_release(&known);
    return n;
}

struct dfa *dfa_least(struct budget *b, const struct dfa *d)
{
    uint32_t *part = budget_alloc(b, d->n_state + 1, sizeof *part);
    uint32_t *finer = budget_alloc(b, d->n_state + 1, sizeof *finer), n = 0, n_was;
    struct dfa *out = BUDGET_NEW(b, struct dfa);
    for (uint32_t i = 0; i < d->n_state; i++)
        part[i] = d->accepts[i];
    do {
        n_was = n;
        n = split(b, d, part, finer);
        memcpy(part, finer, d->n_state * sizeof *part);
    } while (n > n_was && !b->failed);
    if (b->failed)
        return NULL;
    *out = *d;
    out->n_state = n;
    out->next = budget_alloc(b, (size_t)n * d->n_class + 1, sizeof *out->next);
    out->accepts = budget_alloc(b, n + 1, sizeof *out->accepts);
    out->start = n ? part[d->start] : 0;
    for (uint32_t i = 0; i < d->n_state; i++) {
        out->accepts[part[i]] = d->accepts[i];
        for (uint32_t c = 0; c < d->n_class; c++) {
            uint32_t to = d->next[(size_t)i * d->n_class + c];
            out->next[(size_t)part[i] * d->n_class + c] = to == DFA_DEAD ? to : part[to];
        }
    }
    return out;
}

/* The spans of both, cut where either is; the classes are pairs of theirs. */
static void join_spans(struct product *p, struct dfa *out, const struct dfa *x, const struct dfa *y,
                       struct pair **cls)
{
    LIST(struct dfa_span) span = {0};
    for (uint32_t i = 0, j = 0; i < x->n_span && j < y->n_span && budget_tick(p->b, 1);) {
        const struct dfa_span *a = &x->span[i], *c = &y->span[j];
        uint32_t lo = a->lo > c->lo ? a->lo : c->lo, hi = a->hi < c->hi ? a->hi : c->hi;
        uint32_t number = pair_number(p, (struct pair){a->cls, c->cls});
        list_push(p->b, &span, (struct dfa_span){lo, hi, number});
        i += a->hi == hi;
        j += c->hi == hi;
    }
    out->span = span.at;
    out->n_span = span.n;
    out->n_class = p->state.n;
    *cls = p->state.at;
}

static uint32_t go(const struct dfa *d, uint32_t at, uint32_t cls)
{
    return at == DFA_DEAD ? at : d->next[(size_t)at * d->n_class + cls];
}

/* Of both: *is_full where that takes more pairs than `most`, and NULL. */
static struct dfa *combine(struct budget *b, enum dfa_op op, const struct dfa *x,
                           const struct dfa *y, uint32_t most, bool *is_full)
{
    struct product classes = {.b = b, .most = UINT32_MAX}, p = {.b = b, .most = most};
    struct pair *cls = NULL;
    LIST(uint32_t) next = {0};
    LIST(bool) accepts = {0};
    struct dfa *d = BUDGET_NEW(b, struct dfa);
    map_init(&classes.known);
    map_init(&p.known);
    join_spans(&classes, d, x, y, &cls);
    if (!dfa_is_empty(x) && !b->failed)
        pair_number(&p, (struct pair){x->start, dfa_is_empty(y) ? DFA_DEAD : y->start});
    for (uint32_t i = 0; i < p.state.n && !p.is_full && budget_tick(b, d->n_class); i++) {
        struct pair s = p.state.at[i];
        bool in_y = s.y != DFA_DEAD && y->accepts[s.y];
        list_push(b, &accepts, x->accepts[s.x] && in_y == (op == DFA_AND));
        for (uint32_t c = 0; c < d->n_class && !b->failed; c++) {
            struct pair to = {go(x, s.x, cls[c].x), go(y, s.y, cls[c].y)};
            bool is_dead = to.x == DFA_DEAD || (op == DFA_AND && to.y == DFA_DEAD);
            uint32_t number = is_dead ? DFA_DEAD : pair_number(&p, to);
            list_push(b, &next, number);
        }
    }
    map_release(&classes.known);
    map_release(&p.known);
    *is_full = p.is_full;
    d->n_state = p.state.n;
    d->next = next.at;
    d->accepts = accepts.at;
    return b->failed || p.is_full ? NULL : dfa_trim(b, d);
}

struct dfa *dfa_combine(struct budget *b, enum dfa_op op, const struct dfa *x, const struct dfa *y)
{
    bool is_full;
    struct dfa *d = combine(b, op, x, y, b->max_states, &is_full);
    if (is_full)
        budget_too_many_states(b);
    return d;
}

struct dfa *dfa_both_within(struct budget *b, const struct dfa *x, const struct dfa *y,
                            uint32_t most, bool *is_full)
{
    return combine(b, DFA_AND, x, y, most, is_full);
}

struct dfa *dfa_lengths(struct budget *b, const struct dfa *x, uint32_t min, uint32_t max)
{
    struct product p = {.b = b, .most = b->max_states};
    LIST(uint32_t) next = {0};
    LIST(bool) accepts = {0};
    uint32_t top = max == UINT32_MAX ? min : max + 1; /* counts from here on are alike */
    struct dfa *d = BUDGET_NEW(b, struct dfa);
    *d = *x;
    map_init(&p.known);
    if (!dfa_is_empty(x))
        pair_number(&p, (struct pair){x->start, 0});
    for (uint32_t i = 0; i < p.state.n && !p.is_full && budget_tick(b, d->n_class); i++) {
        struct pair s = p.state.at[i];
        uint32_t more = s.y < top ? s.y + 1 : top;
        list_push(b, &accepts, x->accepts[s.x] && s.y >= min && s.y <= max);
        for (uint32_t c = 0; c < d->n_class && !b->failed; c++) {
            uint32_t to = go(x, s.x, c);
            bool is_dead = to == DFA_DEAD || more > max;
            uint32_t number = is_dead ? DFA_DEAD : pair_number(&p, (struct pair){to, more});
            list_push(b, &next, number);
        }
    }
    map_release(&p.known);
    if (p.is_full)
        budget_too_many_states(b);
    d->n_state = p.state.n;
    d->start = 0;
    d->next = next.at;
    d->accepts = accepts.at;
    return b->failed ? NULL : dfa_trim(b, d);
}

struct dfa *dfa_any(struct budget *b)
{
    return dfa_of(b, node_repeat(b, node_set(b, charset_any(b)), 0, NODE_NO_MAX), true);
}
