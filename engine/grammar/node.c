/* SPDX-License-Identifier: Apache-2.0
 *
 * Makers of expressions.
 */
#include "engine/grammar/node.h"

#include "engine/token/utf8.h"

struct node *node_new(struct budget *b, enum node_kind kind)
{
    struct node *n = BUDGET_NEW(b, struct node);
    n->kind = kind;
    return n;
}

struct node *node_set(struct budget *b, struct charset set)
{
    struct node *n = node_new(b, NODE_SET);
    n->set = set;
    return n;
}

struct node *node_char(struct budget *b, uint32_t c)
{
    struct charset s = {0};
    charset_add(b, &s, c, c);
    return node_set(b, s);
}

struct node *node_text(struct budget *b, const char *text, size_t len)
{
    struct node *n = node_new(b, NODE_CAT);
    for (size_t i = 0; i < len && !b->failed;) {
        uint32_t c;
        i += utf8_get((const uint8_t *)text + i, &c);
        list_push(b, &n->kid, node_char(b, c));
    }
    return n;
}

struct node *node_repeat(struct budget *b, struct node *what, uint32_t min, uint32_t max)
{
    struct node *n = node_new(b, NODE_REPEAT);
    n->min = min;
    n->max = max;
    list_push(b, &n->kid, what);
    return n;
}

struct node *node_pair(struct budget *b, enum node_kind kind, struct node *x, struct node *y)
{
    struct node *n = node_new(b, kind);
    list_push(b, &n->kid, x);
    list_push(b, &n->kid, y);
    return n;
}

struct node_counts node_count(const struct node *n)
{
    struct node_counts c = {.nested = 1, .claims = n->kind == NODE_CLAIM};
    for (uint32_t i = 0; i < n->kid.n; i++) {
        struct node_counts kid = node_count(n->kid.at[i]);
        c.nested = kid.nested > c.nested ? kid.nested : c.nested;
        c.longest = kid.longest > c.longest ? kid.longest : c.longest;
        c.claims |= kid.claims;
    }
    uint32_t own = n->kind != NODE_REPEAT ? 1 : n->max == NODE_NO_MAX ? n->min : n->max;
    if (n->kind == NODE_REPEAT && n->kid.at[0]->kind == NODE_SET && own > c.longest)
        c.longest = own;
    if (own > 1 && c.nested <= UINT32_MAX)
        c.nested *= own;
    return c;
}

static bool claims(const struct node *n, enum claim what)
{
    return n->kind == NODE_CLAIM && n->claim == what;
}

struct node *node_unclaimed(struct budget *b, struct node *n)
{
    if (n->kind != NODE_CAT || n->kid.n < 2 || !claims(n->kid.at[0], CLAIM_TEXT_BEGIN) ||
        !claims(n->kid.at[n->kid.n - 1], CLAIM_TEXT_END))
        return NULL;
    struct node *inner = node_new(b, NODE_CAT);
    for (uint32_t i = 1; i + 1 < n->kid.n; i++)
        list_push(b, &inner->kid, n->kid.at[i]);
    return node_count(inner).claims ? NULL : inner;
}
