/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop over the nodes of a branch. See walk.h.
 */
#include "engine/grammar/walk.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { WALK_UNKNOWN, WALK_DEAD, WALK_FIRST };
#define WALK_NOT_KEPT UINT32_MAX

int walk_init(struct walk *w, const struct grammar *g, const struct token_trie *t, struct err *e)
{
    *w = (struct walk){.t = t};
    stack_init(&w->stack, g);
    w->kept = xcalloc(WALK_KEPT_SETS, sizeof *w->kept);
    w->row = try_alloc(WALK_KEPT_SETS, sizeof *w->row, "mask of tokens", e);
    w->path = try_alloc(t->max_len + 1, sizeof *w->path, "mask of tokens", e);
    w->here = try_alloc(t->max_len + 1, sizeof *w->here, "mask of tokens", e);
    w->kept_at = try_alloc(t->max_len + 1, sizeof *w->kept_at, "mask of tokens", e);
    if (w->row && w->path && w->here && w->kept_at)
        return 0;
    walk_release(w);
    return -1;
}

void walk_release(struct walk *w)
{
    for (uint32_t i = 0; i < w->n_kept; i++)
        place_set_release(&w->kept[i]);
    for (uint32_t i = 0; w->path && i <= w->t->max_len; i++)
        place_set_release(&w->path[i]);
    stack_release(&w->stack);
    free(w->kept);
    mem_free(w->row);
    mem_free(w->path);
    mem_free(w->here);
    mem_free(w->kept_at);
}

static bool same(const struct place_set *x, const struct place_set *y)
{
    return x->place.n == y->place.n && x->ends == y->ends &&
           !memcmp(x->place.at, y->place.at, x->place.n * sizeof *x->place.at);
}

/* The number under which the set is kept; it is copied when it is new and there is room. */
static uint32_t keep(struct walk *w, const struct place_set *s)
{
    if (s->place.n == 0) {
        for (uint32_t i = 0; i < w->n_kept; i++)
            if (w->kept[i].place.n == 0 && w->kept[i].ends == s->ends)
                return i;
    } else {
        for (uint32_t i = 0; i < w->n_kept; i++)
            if (w->kept[i].place.n && same(&w->kept[i], s))
                return i;
    }
    if (w->n_kept == WALK_KEPT_SETS)
        return WALK_NOT_KEPT;
    place_set_copy(&w->kept[w->n_kept], s);
    return w->n_kept++;
}

/* The set behind `byte` from the one above it, to w->here[depth]; false: there is none. */
static bool step(struct walk *w, uint32_t depth, uint8_t byte)
{
    uint32_t above = w->kept_at[depth - 1];
    uint32_t known = above == WALK_NOT_KEPT ? WALK_UNKNOWN : w->row[above][byte];
    if (known == WALK_UNKNOWN) {
        struct place_set *out = &w->path[depth];
        stack_step(&w->stack, w->here[depth - 1], byte, out);
        w->work += w->here[depth - 1]->place.n + w->stack.found.n;
        w->overflowed |= out->overflowed || w->work > WALK_MAX_WORK;
        uint32_t at = WALK_NOT_KEPT;
        if (!out->place.n && !out->ends)
            known = WALK_DEAD;
        else if ((at = keep(w, out)) != WALK_NOT_KEPT)
            known = WALK_FIRST + at;
        if (above != WALK_NOT_KEPT)
            w->row[above][byte] = known;
        if (known == WALK_UNKNOWN) {
            w->here[depth] = out;
            w->kept_at[depth] = WALK_NOT_KEPT;
            return true;
        }
    }
    if (known == WALK_DEAD)
        return false;
    w->here[depth] = &w->kept[known - WALK_FIRST];
    w->kept_at[depth] = known - WALK_FIRST;
    return true;
}

void walk_branch(struct walk *w, uint32_t node, const struct place_set *from, uint32_t *bits,
                 walk_nodes *exits)
{
    const struct token_trie *t = w->t;
    uint32_t top = t->depth[node];
    w->kept_at[top] = keep(w, from);
    w->here[top] = w->kept_at[top] == WALK_NOT_KEPT ? from : &w->kept[w->kept_at[top]];
    for (uint32_t n = node + 1; n < t->end[node] && !w->overflowed;) {
        if (!step(w, t->depth[n], t->byte[n])) {
            n = t->end[n];
            continue;
        }
        for (uint32_t i = t->first[n]; i < t->first[n + 1]; i++)
            bits[t->id[i] / 32] |= 1u << t->id[i] % 32;
        if (exits && w->here[t->depth[n]]->ends && t->end[n] > n + 1)
            vec_push(exits, n);
        n++;
    }
}
