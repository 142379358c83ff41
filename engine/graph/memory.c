/* SPDX-License-Identifier: Apache-2.0
 *
 * Best-fit packing of intervals, in several orders.
 */
#include "engine/graph/memory.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { ALIGN_BYTES = 64 };

struct piece {
    int32_t lo, hi; /* nodes at which it is alive, both included */
    size_t bytes, at;
};

struct layout {
    struct piece *piece; /* owned */
    size_t n;
    size_t *rank; /* owned: piece indexes in the order to place */
};

static int by_size(const struct piece *a, const struct piece *b)
{
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

static int by_length(const struct piece *a, const struct piece *b)
{
    int32_t la = a->hi - a->lo, lb = b->hi - b->lo;
    return la < lb ? 1 : la > lb ? -1 : by_size(a, b);
}

static int by_area(const struct piece *a, const struct piece *b)
{
    double aa = (double)a->bytes * (a->hi - a->lo + 1), ab = (double)b->bytes * (b->hi - b->lo + 1);
    return aa < ab ? 1 : aa > ab ? -1 : 0;
}

static int by_start(const struct piece *a, const struct piece *b)
{
    return a->lo > b->lo ? 1 : a->lo < b->lo ? -1 : by_size(a, b);
}

static const struct {
    const char *name;
    int (*compare)(const struct piece *a, const struct piece *b);
} orders[] = {{"size", by_size}, {"length", by_length}, {"area", by_area}, {"start", by_start}};

/* qsort has no context: the ranks are sorted by insertion into a copy, merging runs. */
static void sort_ranks(struct layout *l, int (*compare)(const struct piece *, const struct piece *))
{
    size_t *from = l->rank, *to = xmalloc(l->n * sizeof *to), *own = to;
    for (size_t i = 0; i < l->n; i++)
        from[i] = i;
    for (size_t run = 1; run < l->n; run *= 2) {
        for (size_t lo = 0; lo < l->n; lo += 2 * run) {
            size_t mid = lo + run < l->n ? lo + run : l->n;
            size_t hi = lo + 2 * run < l->n ? lo + 2 * run : l->n;
            size_t a = lo, b = mid;
            for (size_t k = lo; k < hi; k++) {
                bool left =
                    b >= hi || (a < mid && compare(&l->piece[from[a]], &l->piece[from[b]]) <= 0);
                to[k] = from[left ? a++ : b++];
            }
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != l->rank)
        memcpy(l->rank, from, l->n * sizeof *from);
    free(own);
}

static int by_offset(const void *a, const void *b)
{
    const struct piece *x = *(const struct piece *const *)a, *y = *(const struct piece *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Puts p into the smallest hole among those alive with it that holds it; else behind them. */
static void place(struct piece *p, struct piece **placed, size_t n_placed, struct piece **alive)
{
    size_t n_alive = 0, end = 0, best = SIZE_MAX, best_bytes = SIZE_MAX;
    for (size_t i = 0; i < n_placed; i++)
        if (placed[i]->lo <= p->hi && p->lo <= placed[i]->hi)
            alive[n_alive++] = placed[i];
    qsort(alive, n_alive, sizeof(struct piece *), by_offset);
    for (size_t i = 0; i < n_alive; i++) {
        if (alive[i]->at > end) {
            size_t hole = alive[i]->at - end;
            if (hole >= p->bytes && hole < best_bytes) {
                best = end;
                best_bytes = hole;
            }
        }
        size_t after = alive[i]->at + alive[i]->bytes;
        if (after > end)
            end = after;
    }
    p->at = best != SIZE_MAX ? best : end;
}

static size_t pack(struct layout *l)
{
    struct piece **placed = xmalloc((l->n + 1) * sizeof *placed);
    struct piece **alive = xmalloc((l->n + 1) * sizeof *alive);
    size_t total = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct piece *p = &l->piece[l->rank[i]];
        place(p, placed, i, alive);
        placed[i] = p;
        if (p->at + p->bytes > total)
            total = p->at + p->bytes;
    }
    free(placed);
    free(alive);
    return total;
}

static size_t lower_bound(const struct layout *l, size_t n_node)
{
    size_t most = 0;
    for (int32_t i = 0; i < (int32_t)n_node; i++) {
        size_t sum = 0;
        for (size_t j = 0; j < l->n; j++)
            if (l->piece[j].lo <= i && i <= l->piece[j].hi)
                sum += l->piece[j].bytes;
        most = sum > most ? sum : most;
    }
    return most;
}

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* One piece per value with memory of its own, then one per node for its work space. */
static void measure(struct layout *l, const struct graph *g, const struct graph_place *at,
                    const int64_t *cap)
{
    int32_t *last = graph_last_uses(g);
    for (size_t v = 0; v < g->value.n; v++) {
        const struct graph_value *val = &g->value.at[v];
        struct piece *p = &l->piece[at[v].root];
        if (at[v].root == (int32_t)v)
            *p = (struct piece){.lo = val->def,
                                .hi = val->def,
                                .bytes = rounded(op_shape_bytes(val->shape, cap[val->shape.rows]))};
        if (last[v] > p->hi)
            p->hi = last[v];
        if (val->def > p->hi)
            p->hi = val->def;
    }
    free(last);
    for (size_t i = 0; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        const struct op_def *def = op_get(n->op);
        struct op_shape in[OP_IN_MAX];
        for (int j = 0; j < n->n_in; j++)
            in[j] = g->value.at[n->in[j]].shape;
        l->piece[g->value.n + i] =
            (struct piece){.lo = (int32_t)i,
                           .hi = (int32_t)i,
                           .bytes = def->work ? rounded(def->work(n, in, cap)) : 0};
    }
}

static void try_orders(struct graph_memory *m, struct layout *l)
{
    m->bytes = SIZE_MAX;
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        sort_ranks(l, orders[o].compare);
        size_t total = pack(l);
        if (total >= m->bytes)
            continue;
        m->bytes = total;
        m->order = orders[o].name;
        for (size_t i = 0; i < l->n; i++)
            m->value_at[i] = l->piece[i].at;
    }
}

int graph_memory_init(struct graph_memory *m, const struct graph *g, const int64_t *cap,
                      struct err *e)
{
    struct graph_place *place = graph_places(g);
    struct layout l = {.n = g->value.n + g->node.n};
    (void)e;
    l.piece = xcalloc(l.n + 1, sizeof *l.piece);
    l.rank = xcalloc(l.n + 1, sizeof *l.rank);
    *m = (struct graph_memory){.value_at = xcalloc(l.n + 1, sizeof *m->value_at)};
    m->work_at = m->value_at + g->value.n;
    measure(&l, g, place, cap);
    m->lower_bytes = lower_bound(&l, g->node.n);
    try_orders(m, &l);
    for (size_t v = 0; v < g->value.n; v++)
        m->value_at[v] = m->value_at[place[v].root] + (size_t)place[v].col * sizeof(float);
    free(place);
    free(l.piece);
    free(l.rank);
    return 0;
}

void graph_memory_release(struct graph_memory *m)
{
    free(m->value_at);
    *m = (struct graph_memory){0};
}
