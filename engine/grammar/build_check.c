/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program must hold before it may run: each instruction can come to the end of its rule
 * (those that cannot become CODE_FAIL, and drop out of alternatives), and no rule calls itself
 * again before a byte was read (which would grow the stack without end).
 */
#include <string.h>

#include "engine/grammar/build.h"

struct facts {
    struct build *d;
    bool *ends;  /* can come to the end of its rule */
    bool *empty; /* can do so without a byte */
};

static bool any_target(const struct facts *f, const struct code *c, const bool *is)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (is[f->d->target.at[c->a + i]])
            return true;
    return false;
}

static bool can_end(const struct facts *f, const struct code *c)
{
    const struct code_repeat *r;
    switch ((enum code_kind)c->kind) {
    case CODE_END:
        return true;
    case CODE_FAIL:
        return false;
    case CODE_BYTE:
        return f->ends[c->a];
    case CODE_RANGES:
        for (uint32_t i = 0; i < c->n; i++)
            if (f->ends[f->d->range.at[c->a + i].to])
                return true;
        return false;
    case CODE_ALT:
        return any_target(f, c, f->ends);
    case CODE_CALL:
        return f->ends[c->a] && f->ends[c->n];
    case CODE_REPEAT:
        r = &f->d->repeat.at[c->a];
        return f->ends[r->next] && (r->min == 0 || f->ends[r->body]);
    }
    return false;
}

static bool can_be_empty(const struct facts *f, const struct code *c)
{
    const struct code_repeat *r;
    switch ((enum code_kind)c->kind) {
    case CODE_END:
        return true;
    case CODE_ALT:
        return any_target(f, c, f->empty);
    case CODE_CALL:
        return f->empty[c->a] && f->empty[c->n];
    case CODE_REPEAT:
        r = &f->d->repeat.at[c->a];
        return f->empty[r->next] && r->min == 0;
    default:
        return false;
    }
}

/* Until nothing changes; what comes behind was built before, so few rounds do. */
static void settle(struct facts *f, bool *is, bool (*fn)(const struct facts *, const struct code *))
{
    bool moved = true;
    while (moved && !f->d->b->failed) {
        moved = false;
        for (uint32_t i = 0; i < f->d->code.n && budget_tick(f->d->b, 1); i++) {
            if (is[i] || !fn(f, &f->d->code.at[i]))
                continue;
            is[i] = moved = true;
        }
    }
}

static void drop_dead(struct facts *f)
{
    struct build *d = f->d;
    for (uint32_t i = 0; i < d->code.n; i++) {
        struct code *c = &d->code.at[i];
        uint32_t n = 0;
        if (!f->ends[i])
            *c = (struct code){.kind = CODE_FAIL};
        else if (c->kind == CODE_ALT) {
            for (uint32_t j = 0; j < c->n; j++)
                if (f->ends[d->target.at[c->a + j]])
                    d->target.at[c->a + n++] = d->target.at[c->a + j];
            c->n = n;
        } else if (c->kind == CODE_RANGES) {
            for (uint32_t j = 0; j < c->n; j++)
                if (f->ends[d->range.at[c->a + j].to])
                    d->range.at[c->a + n++] = d->range.at[c->a + j];
            c->n = n;
        } else if (c->kind == CODE_REPEAT) {
            struct code_repeat *r = &d->repeat.at[c->a];
            if (!f->ends[r->body])
                *r = (struct code_repeat){PROGRAM_FAIL, r->next, 0, 0};
        }
    }
}

/* ---- left recursion: strongly connected parts of the steps that read no byte ---- */

struct walk {
    uint32_t at, edge;
};

struct scc {
    struct facts *f;
    uint32_t *index, *low, *part; /* part: 0 while open */
    uint32_t *open, n_open, n_index, n_part;
    struct walk *walk;
    uint32_t n_walk;
};

/* The i-th step without a byte from an instruction; false: there is none. *grows: a frame more. */
static bool edge_of(const struct facts *f, uint32_t at, uint32_t i, uint32_t *to, bool *grows)
{
    const struct code *c = &f->d->code.at[at];
    *grows = false;
    if (c->kind == CODE_ALT && i < c->n) {
        *to = f->d->target.at[c->a + i];
        return true;
    }
    if (c->kind == CODE_CALL && i < 2) {
        *grows = i == 0 && c->n != PROGRAM_END;
        *to = i == 0 ? c->a : f->empty[c->a] ? c->n : PROGRAM_FAIL;
        return true;
    }
    if (c->kind == CODE_REPEAT && i < 2) {
        const struct code_repeat *r = &f->d->repeat.at[c->a];
        *grows = i == 0;
        *to = i == 0 ? r->body : r->min == 0 ? r->next : PROGRAM_FAIL;
        return true;
    }
    return false;
}

static void visit(struct scc *s, uint32_t at)
{
    s->index[at] = s->low[at] = ++s->n_index;
    s->open[s->n_open++] = at;
    s->walk[s->n_walk++] = (struct walk){at, 0};
}

static void close_part(struct scc *s, uint32_t at)
{
    if (s->low[at] != s->index[at])
        return;
    s->n_part++;
    uint32_t top;
    do {
        top = s->open[--s->n_open];
        s->part[top] = s->n_part;
    } while (top != at);
}

static void find_parts(struct scc *s, uint32_t from)
{
    bool grows;
    uint32_t to;
    visit(s, from);
    while (s->n_walk > 0 && budget_tick(s->f->d->b, 1)) {
        struct walk *w = &s->walk[s->n_walk - 1];
        uint32_t at = w->at;
        if (edge_of(s->f, at, w->edge, &to, &grows)) {
            w->edge++;
            if (!s->index[to])
                visit(s, to);
            else if (!s->part[to] && s->index[to] < s->low[at])
                s->low[at] = s->index[to];
            continue;
        }
        close_part(s, at);
        s->n_walk--;
        if (s->n_walk > 0) {
            uint32_t up = s->walk[s->n_walk - 1].at;
            s->low[up] = s->low[at] < s->low[up] ? s->low[at] : s->low[up];
        }
    }
}

static const char *name_of(const struct build *d, uint32_t entry)
{
    for (uint32_t i = 0; i < d->rule.n; i++)
        if (d->rule.at[i].entry == entry && d->rule.at[i].name)
            return d->rule.at[i].name;
    return "?";
}

static int find_left_recursion(struct facts *f)
{
    struct build *d = f->d;
    uint32_t n = d->code.n, to;
    bool grows;
    struct scc s = {.f = f};
    s.index = budget_alloc(d->b, n, sizeof *s.index);
    s.low = budget_alloc(d->b, n, sizeof *s.low);
    s.part = budget_alloc(d->b, n, sizeof *s.part);
    s.open = budget_alloc(d->b, n, sizeof *s.open);
    s.walk = budget_alloc(d->b, n, sizeof *s.walk);
    for (uint32_t i = 0; i < n && !d->b->failed; i++)
        if (!s.index[i])
            find_parts(&s, i);
    for (uint32_t i = 0; i < n && !d->b->failed; i++)
        for (uint32_t k = 0; edge_of(f, i, k, &to, &grows); k++)
            if (grows && s.part[i] == s.part[to])
                return budget_fail(d->b, ERR_BAD_INPUT,
                                   "%s comes to itself again before any character (left "
                                   "recursion): the rule must begin with something else",
                                   name_of(d, to));
    return d->b->failed ? -1 : 0;
}

int build_check(struct build *d, uint32_t start)
{
    struct facts f = {.d = d};
    f.ends = budget_alloc(d->b, d->code.n, sizeof *f.ends);
    f.empty = budget_alloc(d->b, d->code.n, sizeof *f.empty);
    settle(&f, f.ends, can_end);
    if (d->b->failed)
        return -1;
    if (!f.ends[start])
        return budget_fail(d->b, ERR_BAD_INPUT, "no text can satisfy the constraint");
    drop_dead(&f);
    settle(&f, f.empty, can_be_empty);
    return d->b->failed ? -1 : find_left_recursion(&f);
}
