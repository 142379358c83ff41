/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent states of models that have them: what a part begins from, where it leaves its own, and
 * where a snapshot is taken for others with the same text.
 *
 * A state has a number: those of seats come first, and then the snapshots. Each seat has one, which
 * its parts read and overwrite; so a prefix is found as far as its last snapshot, whose state the
 * first part reads and does not touch. Of each part at most one snapshot is taken, at the end of a
 * cell: where texts were seen to go apart, else behind the prompt's last whole cell, from which the
 * next turn of a conversation goes on, else every so often, or in each cell of a text that others
 * go on from (beams).
 *
 * A text that somebody else's cells hold further than any snapshot reaches is computed again. Where
 * those cells end is where the texts go apart: whoever comes third finds a snapshot there.
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/kv/snapshots.h"
#include "engine/sched/inner.h"

/* Snapshots of a long text are so many tokens apart, and from EVERY_GROWS times as many on twice as
 * far, and so on: a text takes few of them, however long it is. */
enum { EVERY_TOK = 512, EVERY_GROWS = 8 };

int sched_states_init(struct sched *s, struct err *e)
{
    if (!s->opt.has_states)
        return 0;
    s->state_free = try_alloc((size_t)s->n_seat, sizeof *s->state_free, "the states of seats", e);
    if (!s->state_free)
        return -1;
    for (int64_t i = s->n_seat; i-- > 0;)
        s->state_free[s->n_state_free++] = (int32_t)i;
    return 0;
}

void sched_states_find(struct sched *s, struct seq_node *n)
{
    int64_t n_seen = n->table.n;
    if (!s->opt.has_states)
        return;
    int32_t snapshot = kv_snapshot_find(s->pool, &n->table);
    n->from = snapshot < 0 ? -1 : (int32_t)s->n_seat + snapshot;
    n->parts_at = n->table.n < n_seen ? n_seen * s->opt.cell_tok : 0;
}

void sched_states_sit(struct sched *s, struct seq_node *n)
{
    if (!s->opt.has_states)
        return;
    ASSERT(s->n_state_free > 0 && n->own < 0);
    n->own = s->state_free[--s->n_state_free];
}

static void drop_from(struct sched *s, struct seq_node *n)
{
    if (n->from >= s->n_seat)
        kv_snapshot_give(s->pool, n->from - (int32_t)s->n_seat);
    n->from = -1;
}

void sched_states_leave(struct sched *s, struct seq_node *n)
{
    drop_from(s, n);
    if (n->own >= 0)
        s->state_free[s->n_state_free++] = n->own;
    n->own = -1;
}

static bool is_within(int64_t at, int64_t lo, int64_t hi)
{
    return lo < at && at <= hi;
}

/* Tokens between two snapshots of a text that has come to n_tok, where they begin `every` apart. */
static int64_t apart(int64_t every, int64_t n_tok)
{
    while (every * EVERY_GROWS <= n_tok)
        every *= 2;
    return every;
}

int64_t sched_snapshots_of(int64_t n_tok)
{
    int64_t n = n_tok > 1; /* behind the last whole cell */
    for (int64_t at = EVERY_TOK, every = EVERY_TOK; at < n_tok; at += every, n++)
        every = apart(every, at);
    return n;
}

/* The place in (lo, hi] behind which a snapshot is worth most; 0: none. */
static int64_t place_to_keep(const struct sched *s, const struct seq_node *n, int64_t lo,
                             int64_t hi)
{
    int64_t cell = s->opt.cell_tok, last = (n->seq->n_prompt - 1) / cell * cell;
    int64_t every = sched_cells(s, s->opt.snapshot_tok ? s->opt.snapshot_tok : EVERY_TOK) * cell;
    if (is_within(n->parts_at, lo, hi))
        return n->parts_at;
    if (is_within(last, lo, hi))
        return last;
    if (n->seq->forks)
        return hi / cell * cell > lo ? hi / cell * cell : 0;
    every = apart(every, hi);
    return hi / every * every > lo ? hi / every * every : 0;
}

void sched_states_part(struct sched *s, const struct seq_node *n, struct sched_part *p)
{
    int64_t at = 0;
    p->from = p->to = p->kept = -1;
    if (!s->opt.has_states || n->seq->is_whole)
        return;
    ASSERT((n->from < 0) == (p->pos == 0));
    p->from = n->from;
    p->to = n->own;
    if (s->opt.keeps_prefixes)
        at = place_to_keep(s, n, p->pos, p->pos + p->n_tok);
    int32_t snapshot = at ? kv_snapshot_take(s->pool) : -1;
    if (snapshot < 0)
        return;
    p->kept = (int32_t)s->n_seat + snapshot;
    p->kept_len = at;
}

void sched_states_ran(struct sched *s, struct seq_node *n, const struct sched_part *p)
{
    if (p->kept >= 0)
        kv_snapshot_keep(s->pool, p->kept - (int32_t)s->n_seat, &n->table,
                         p->kept_len / s->opt.cell_tok - 1);
    if (p->to < 0)
        return;
    drop_from(s, n);
    n->from = n->own;
}

/* What it began from may be overwritten in part. */
void sched_states_failed(struct sched *s, struct seq_node *n, const struct sched_part *p)
{
    if (p->kept >= 0)
        kv_snapshot_give(s->pool, p->kept - (int32_t)s->n_seat);
    if (p->to >= 0)
        sched_preempt(s, n);
}
