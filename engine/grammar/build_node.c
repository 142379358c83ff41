/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions, automata over characters and lists of words as instructions.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/build.h"

enum { COUNT_AT = 8 }; /* a single character that is repeated more often is counted */

/* Each repetition is a call, so that what is repeated stands once. */
static uint32_t repeat_of(struct build *d, enum spelling how, const struct node *n, uint32_t next)
{
    const struct node *what = n->kid.at[0];
    uint32_t at = next, few = n->max == NODE_NO_MAX ? n->min : n->max;
    if (n->max == NODE_NO_MAX && n->min == 0) {
        uint32_t loop = build_loop(d);
        uint32_t target[2] = {build_node(d, how, what, loop), next};
        build_loop_is(d, loop, target, 2);
        return loop;
    }
    if (what->kind == NODE_SET && few > COUNT_AT)
        return build_repeat(d, build_set(d, how, &what->set, NULL, PROGRAM_END), n->min,
                            n->max == NODE_NO_MAX ? REPEAT_NO_MAX : n->max, next);
    bool calls = few > 1 && what->kind != NODE_SET && what->kind != NODE_RULE;
    uint32_t rule = calls ? build_rule(d, "a repeated part") : 0;
    if (calls)
        build_rule_is(d, rule, build_node(d, how, what, PROGRAM_END));
    if (n->max == NODE_NO_MAX) {
        at = build_loop(d);
        uint32_t target[2] = {calls ? build_call(d, rule, at) : build_node(d, how, what, at), next};
        build_loop_is(d, at, target, 2);
    }
    for (uint32_t i = n->min; n->max != NODE_NO_MAX && i < n->max && !d->b->failed; i++)
        at = build_either(d, calls ? build_call(d, rule, at) : build_node(d, how, what, at), next);
    for (uint32_t i = 0; i < n->min && !d->b->failed; i++)
        at = calls ? build_call(d, rule, at) : build_node(d, how, what, at);
    return at;
}

uint32_t build_node(struct build *d, enum spelling how, const struct node *n, uint32_t next)
{
    LIST(uint32_t) target = {0};
    if (d->b->failed)
        return PROGRAM_FAIL;
    switch (n->kind) {
    case NODE_EMPTY:
        return next;
    case NODE_SET:
        return build_set(d, how, &n->set, NULL, next);
    case NODE_CAT:
        for (uint32_t i = n->kid.n; i-- > 0;)
            next = build_node(d, how, n->kid.at[i], next);
        return next;
    case NODE_ALT:
        for (uint32_t i = 0; i < n->kid.n; i++)
            list_push(d->b, &target, build_node(d, how, n->kid.at[i], next));
        return build_alt(d, target.at, target.n);
    case NODE_REPEAT:
        return repeat_of(d, how, n, next);
    case NODE_RULE:
        return build_call(d, n->rule, next);
    case NODE_CLAIM:
        break;
    }
    BUG("a claim outside of an automaton");
}

/* The characters that lead from one state to another. */
struct lead {
    uint32_t to;
    struct charset set;
};

typedef LIST(struct lead) lead_list;

/* Into lists that keep their room from one state to the next: a large automaton's are many. */
static void leads_of(struct build *d, const struct dfa *a, uint32_t at, lead_list *out,
                     uint32_t *slot)
{
    const uint32_t *next = a->next + (size_t)at * a->n_class;
    out->n = 0;
    for (uint32_t i = 0; i < a->n_span && budget_tick(d->b, 1); i++) {
        uint32_t to = next[a->span[i].cls];
        if (to == DFA_DEAD)
            continue;
        if (slot[to] >= out->n || out->at[slot[to]].to != to) {
            slot[to] = out->n;
            if (!budget_grow(d->b, (void **)&out->at, &out->cap, out->n + 1, sizeof *out->at))
                return;
            struct lead *l = &out->at[out->n++];
            l->to = to;
            l->set.n = 0;
        }
        if (!d->b->failed)
            charset_add(d->b, &out->at[slot[to]].set, a->span[i].lo, a->span[i].hi);
    }
    for (uint32_t i = 0; i < out->n; i++)
        charset_tidy(&out->at[i].set);
}

uint32_t build_dfa(struct build *d, enum spelling how, const struct dfa *a, uint32_t next)
{
    uint32_t *pc = budget_alloc(d->b, a->n_state + 1, sizeof *pc);
    uint32_t *slot = budget_alloc(d->b, a->n_state + 1, sizeof *slot);
    lead_list lead = {0};
    struct fan f = {0};
    LIST(uint32_t) target = {0};
    if (a->n_state == 0)
        return PROGRAM_FAIL;
    for (uint32_t i = 0; i < a->n_state && !d->b->failed; i++)
        pc[i] = build_loop(d);
    for (uint32_t i = 0; i < a->n_state && !d->b->failed; i++) {
        f.range.n = target.n = 0;
        leads_of(d, a, i, &lead, slot);
        for (uint32_t k = 0; k < lead.n && !d->b->failed; k++) {
            uint32_t rest = build_set(d, how, &lead.at[k].set, &f, pc[lead.at[k].to]);
            if (rest != PROGRAM_FAIL)
                list_push(d->b, &target, rest);
        }
        if (f.range.n)
            list_push(d->b, &target, fan_end(d, &f));
        if (a->accepts[i])
            list_push(d->b, &target, next);
        build_loop_is(d, pc[i], target.at, target.n);
    }
    return pc[a->start];
}

/* ---- words ---- */

static int by_text(const void *x, const void *y)
{
    const struct build_word *a = x, *b = y;
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->text, b->text, n);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

static size_t shared(const struct build_word *x, const struct build_word *y)
{
    size_t n = 0;
    while (n < x->len && n < y->len && x->text[n] == y->text[n])
        n++;
    return n;
}

/* A trie, made from the last word to the first: `open[i]` is what may follow the first i bytes of
 * the word that was looked at last. */
uint32_t build_words(struct build *d, struct build_word *word, uint32_t n, uint32_t next)
{
    size_t longest = 0;
    if (n == 0)
        return PROGRAM_FAIL;
    qsort(word, n, sizeof *word, by_text);
    for (uint32_t i = 0; i < n; i++)
        longest = word[i].len > longest ? word[i].len : longest;
    if (longest + 1 > d->b->max_states) {
        budget_too_many_states(d->b);
        return PROGRAM_FAIL;
    }
    struct fan *open = budget_alloc(d->b, longest + 1, sizeof *open);
    bool *ends = budget_alloc(d->b, longest + 1, sizeof *ends);
    uint32_t at = PROGRAM_FAIL;
    for (uint32_t i = n; i-- > 0 && !d->b->failed;) {
        size_t keep = i > 0 ? shared(&word[i], &word[i - 1]) : 0;
        if (i > 0 && keep == word[i].len && word[i - 1].len == keep)
            continue; /* twice the same */
        ends[word[i].len] = true;
        for (size_t k = word[i].len;; k--) {
            if (k == keep && i > 0)
                break;
            at = open[k].range.n ? fan_end(d, &open[k]) : PROGRAM_FAIL;
            if (ends[k])
                at = build_either(d, next, at);
            open[k] = (struct fan){0};
            ends[k] = false;
            if (k == 0)
                break;
            uint8_t c = (uint8_t)word[i].text[k - 1];
            fan_add(d, &open[k - 1], c, c, at);
        }
    }
    return at;
}

uint32_t build_spelt(struct build *d, enum spelling how, const char *text, size_t len,
                     uint32_t next)
{
    static const char letter[] = "\b\f\n\r\t\"\\", name[] = "bfnrt\"\\";
    if (how == SPELL_PLAIN)
        return build_text(d, text, len, next);
    for (size_t i = len; i-- > 0 && !d->b->failed;) {
        uint8_t c = (uint8_t)text[i];
        const char *at = c ? strchr(letter, c) : NULL;
        char hex[] = {
            '\\', 'u', '0', '0', "0123456789abcdef"[c >> 4 & 15], "0123456789abcdef"[c & 15]};
        char pair[] = {'\\', at ? name[at - letter] : 0};
        next = at         ? build_text(d, pair, 2, next)
               : c < 0x20 ? build_text(d, hex, 6, next)
                          : build_byte(d, c, c, next);
    }
    return next;
}
