/* SPDX-License-Identifier: Apache-2.0
 *
 * Each expression is built in front of what comes behind it. Counted repetitions are written out.
 */
#include "engine/grammar/nfa.h"

static uint32_t step_add(struct budget *b, struct nfa *a, struct nfa_step s)
{
    if (a->step.n >= b->max_states) {
        budget_too_many_states(b);
        return 0;
    }
    budget_tick(b, 1);
    return list_push(b, &a->step, s) ? a->step.n - 1 : 0;
}

static uint32_t set_number(struct budget *b, struct nfa *a, const struct charset *s)
{
    for (uint32_t i = 0; i < a->set.n; i++)
        if (charset_same(a->set.at[i], s))
            return i;
    list_push(b, &a->set, s);
    return a->set.n - 1;
}

static uint32_t build(struct budget *b, struct nfa *a, struct node *n, uint32_t next);

/* x{min,}: its last copy goes back to the split behind it. */
static uint32_t build_loop(struct budget *b, struct nfa *a, struct node *what, uint32_t next)
{
    uint32_t split = step_add(b, a, (struct nfa_step){.kind = NFA_SPLIT, .y = next});
    uint32_t body = build(b, a, what, split);
    if (!b->failed)
        a->step.at[split].x = body;
    return split;
}

static uint32_t build_repeat(struct budget *b, struct nfa *a, struct node *n, uint32_t next)
{
    struct node *what = n->kid.at[0];
    uint32_t at = next;
    if (n->max == NODE_NO_MAX)
        at = build_loop(b, a, what, next);
    for (uint32_t i = n->min; n->max != NODE_NO_MAX && i < n->max && !b->failed; i++) {
        uint32_t body = build(b, a, what, at);
        at = step_add(b, a, (struct nfa_step){.kind = NFA_SPLIT, .x = body, .y = next});
    }
    for (uint32_t i = 0; i < n->min && !b->failed; i++)
        at = build(b, a, what, at);
    return at;
}

static uint32_t build(struct budget *b, struct nfa *a, struct node *n, uint32_t next)
{
    uint32_t at = next;
    if (b->failed)
        return 0;
    switch (n->kind) {
    case NODE_EMPTY:
        return next;
    case NODE_SET:
        return step_add(
            b, a, (struct nfa_step){.kind = NFA_SET, .x = next, .y = set_number(b, a, &n->set)});
    case NODE_CLAIM:
        a->has_claims = true;
        return step_add(
            b, a, (struct nfa_step){.kind = NFA_CLAIM, .claim = (uint8_t)n->claim, .x = next});
    case NODE_CAT:
        for (uint32_t i = n->kid.n; i-- > 0;)
            at = build(b, a, n->kid.at[i], at);
        return at;
    case NODE_ALT:
        for (uint32_t i = n->kid.n; i-- > 0;) {
            uint32_t x = build(b, a, n->kid.at[i], next);
            at = i + 1 == n->kid.n
                     ? x
                     : step_add(b, a, (struct nfa_step){.kind = NFA_SPLIT, .x = x, .y = at});
        }
        return at;
    case NODE_REPEAT:
        return build_repeat(b, a, n, next);
    case NODE_RULE:
        break;
    }
    BUG("a rule in a regex");
}

int nfa_build(struct budget *b, struct node *n, struct nfa *out)
{
    *out = (struct nfa){0};
    uint32_t match = step_add(b, out, (struct nfa_step){.kind = NFA_MATCH});
    out->start = build(b, out, n, match);
    return b->failed ? -1 : 0;
}
