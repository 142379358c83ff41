/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays: items that have a place of their own one by one, the rest by a count.
 */
#include "engine/grammar/schema.h"

/* The goal of the item at i; false: there can be none. */
static bool item_goal(struct schema *s, const struct facts *f, size_t i, struct goal *g)
{
    *g = (struct goal){0};
    for (uint32_t k = 0; k < f->array.n; k++) {
        const struct array_fact *a = &f->array.at[k];
        if (a->prefix && i < a->prefix->l->n)
            goal_add(s, g, &a->prefix->l->at[i], schema_path_at(s, a->path, "prefixItems", i));
        else if (a->items)
            goal_add(s, g, a->items, schema_path(s, a->path, "items", 5));
    }
    return !goal_is_never(g);
}

static size_t n_placed(const struct facts *f)
{
    size_t n = 0;
    for (uint32_t k = 0; k < f->array.n; k++)
        if (f->array.at[k].prefix && f->array.at[k].prefix->l->n > n)
            n = f->array.at[k].prefix->l->n;
    return n;
}

/* All items alike: the first has no comma before it. */
static uint32_t run_of_items(struct schema *s, const struct facts *f, uint32_t item, uint32_t next)
{
    struct build *d = s->d;
    uint32_t close = json_text_close(&s->text, ']', next), max = f->max_items;
    uint32_t body = json_text_comma(&s->text, build_call(d, item, PROGRAM_END));
    uint32_t min = f->min_items > 0 ? f->min_items - 1 : 0;
    uint32_t more = build_repeat(d, body, min, max == UINT32_MAX ? REPEAT_NO_MAX : max - 1, close);
    uint32_t first = json_text_space(&s->text, build_call(d, item, more));
    return f->min_items > 0 ? first : build_either(d, first, close);
}

/* What may come once i items stand, from the last place to the first. */
static uint32_t placed_items(struct schema *s, const struct facts *f, size_t n, uint32_t next)
{
    struct build *d = s->d;
    struct goal g;
    uint32_t close = json_text_close(&s->text, ']', next), at = close, first = PROGRAM_FAIL;
    uint32_t max = f->max_items;
    if (max > n && item_goal(s, f, n, &g)) {
        uint32_t item = build_call(d, schema_rule(s, &g), PROGRAM_END);
        uint32_t left = max == UINT32_MAX ? REPEAT_NO_MAX : max - (uint32_t)n;
        at = build_repeat(d, json_text_comma(&s->text, item),
                          f->min_items > n ? f->min_items - (uint32_t)n : 0, left, close);
    } else if (f->min_items > n) {
        at = PROGRAM_FAIL;
    }
    for (size_t i = n; i-- > 0 && !s->b->failed;) {
        uint32_t end = f->min_items > i ? PROGRAM_FAIL : close, here = PROGRAM_FAIL;
        if (i < max && item_goal(s, f, i, &g)) {
            uint32_t item = build_call(d, schema_rule(s, &g), at);
            here = i > 0 ? json_text_comma(&s->text, item) : json_text_space(&s->text, item);
        }
        at = build_either(d, here, end);
        first = at;
    }
    return first;
}

/* Different items out of a list of values: each at most once, in the order of the list. */
static uint32_t different_items(struct schema *s, const struct facts *f, const struct facts *of,
                                uint32_t next)
{
    struct build *d = s->d;
    uint32_t n = of->has_values ? of->value.n : 0, close = json_text_close(&s->text, ']', next);
    uint32_t top = f->max_items < n ? f->max_items : n;
    /* can[c]: c items stand and those from i on may follow; must[c]: one of them has to */
    uint32_t *can = budget_alloc(s->b, n + 2, sizeof *can), *must = budget_alloc(s->b, n + 2, 4);
    if (top < f->min_items)
        return PROGRAM_FAIL;
    for (uint32_t c = 0; c <= n; c++) {
        can[c] = c >= f->min_items && c <= top ? close : PROGRAM_FAIL;
        must[c] = PROGRAM_FAIL;
    }
    for (uint32_t i = n; i-- > 0 && !s->b->failed;) {
        struct facts one = *of;
        one.value.at = of->value.at + i;
        one.value.n = one.value.cap = 1;
        for (uint32_t c = 0; c < top && c <= i && budget_tick(s->b, 8); c++) {
            uint32_t take = schema_values(s, &one, can[c + 1]);
            must[c] = build_either(d, take, must[c]);
            uint32_t more =
                c > 0 ? json_text_comma(&s->text, must[c]) : json_text_space(&s->text, must[c]);
            can[c] = build_either(d, must[c] == PROGRAM_FAIL ? must[c] : more,
                                  c >= f->min_items ? close : PROGRAM_FAIL);
        }
    }
    return can[0];
}

/* An enum may list a value twice, as 1 and 1.0. */
static void drop_twins(struct schema *s, struct facts *f)
{
    LIST(const struct jvalue *) left = {0};
    for (uint32_t i = 0; i < f->value.n; i++) {
        bool is_new = true;
        for (uint32_t k = 0; k < left.n && is_new && budget_tick(s->b, 1); k++)
            is_new = !json_text_same(left.at[k], f->value.at[i]);
        if (is_new)
            list_push(s->b, &left, f->value.at[i]);
    }
    f->value.at = left.at;
    f->value.n = f->value.cap = left.n;
}

/* Booleans and null are as few as those of an enum. */
static bool list_few(struct schema *s, struct facts *f)
{
    static const struct jvalue few[] = {
        {.type = JT_BOOL, .b = true}, {.type = JT_BOOL, .b = false}, {.type = JT_NONE}};
    if (f->has_values)
        return f->value.n <= SCHEMA_MAX_COUNTED;
    if (f->types & ~(uint32_t)(TYPE_BOOL | TYPE_NULL))
        return false;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        if (f->types & schema_type_of(&few[i]))
            list_push(s->b, &f->value, &few[i]);
    return f->has_values = true;
}

static uint32_t unique_items(struct schema *s, const struct facts *f, uint32_t next)
{
    struct goal g;
    facts_list way = {0};
    if (item_goal(s, f, 0, &g) && schema_facts(s, &g, &way))
        return PROGRAM_FAIL;
    if (n_placed(f) == 0 && way.n == 1 && list_few(s, &way.at[0])) {
        drop_twins(s, &way.at[0]);
        return different_items(s, f, &way.at[0], next);
    }
    schema_no(s, f->path, "uniqueItems",
              "it can be honoured where the items are of an enum, or there is one at most");
    return PROGRAM_FAIL;
}

uint32_t schema_array(struct schema *s, const struct facts *f, uint32_t next)
{
    struct goal g;
    size_t n = n_placed(f);
    uint32_t inside = PROGRAM_FAIL;
    if (f->min_items > f->max_items)
        return PROGRAM_FAIL;
    if (f->array.n == 0 && f->min_items == 0 && f->max_items == UINT32_MAX && !f->is_unique)
        return json_text_any_array(&s->text, next);
    if (f->max_items == 0)
        inside = json_text_close(&s->text, ']', next);
    else if (f->is_unique && f->max_items > 1)
        inside = unique_items(s, f, next);
    else if (n > 0)
        inside = placed_items(s, f, n, next);
    else if (item_goal(s, f, 0, &g))
        inside = run_of_items(s, f, schema_rule(s, &g), next);
    else if (f->min_items == 0)
        inside = json_text_close(&s->text, ']', next);
    return inside == PROGRAM_FAIL ? inside : build_byte(s->d, '[', '[', inside);
}
