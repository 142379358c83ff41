/* SPDX-License-Identifier: Apache-2.0
 *
 * Seats and cells: who gets them, who waits for another's, and who must give them back.
 */
#include <string.h>

#include "engine/sched/inner.h"

/* ---- parking ------------------------------------------------------------------------------- */

static void park(struct sched *s, struct seq_node *n, int32_t cell)
{
    struct cell_mark *m = &s->mark[cell];
    queue_del(&n->tenant->queue, n);
    n->place = NODE_PARKED;
    n->parked_at = cell;
    n->parked_prev = NULL;
    n->parked_next = m->parked;
    if (m->parked)
        m->parked->parked_prev = n;
    m->parked = n;
}

static void unpark(struct sched *s, struct seq_node *n)
{
    if (n->parked_prev)
        n->parked_prev->parked_next = n->parked_next;
    else
        s->mark[n->parked_at].parked = n->parked_next;
    if (n->parked_next)
        n->parked_next->parked_prev = n->parked_prev;
}

/* Cells [from, to) of a table are not being computed any more: who waited for one looks again. */
static void wake(struct sched *s, struct seq_node *n, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        struct cell_mark *m = &s->mark[n->table.cell[i]];
        for (struct seq_node *w; (w = m->parked);) {
            unpark(s, w);
            sched_enqueue(w);
        }
        m->maker = NULL;
    }
}

void sched_wake(struct sched *s, struct seq_node *n)
{
    wake(s, n, n->table.n_stand, n->table.n_open);
}

void sched_enqueue(struct seq_node *n)
{
    n->place = NODE_QUEUED;
    n->need_room = 0;
    queue_push(&n->tenant->queue, n);
}

/* ---- the running ---------------------------------------------------------------------------- */

static void run_insert(struct sched *s, struct seq_node *n)
{
    int64_t i = s->n_run++;
    for (; i && node_before(n, s->run[i - 1]); i--)
        s->run[i] = s->run[i - 1];
    s->run[i] = n;
    n->place = NODE_RUNS;
}

static void run_del(struct sched *s, const struct seq_node *n)
{
    int64_t i = s->n_run - 1;
    while (s->run[i] != n)
        i--;
    memmove(s->run + i, s->run + i + 1, (size_t)(--s->n_run - i) * sizeof *s->run);
}

bool sched_grow(struct sched *s, struct seq_node *n, int64_t n_tok)
{
    int64_t most = sched_cells(s, n->seq->n_max), want = sched_cells(s, n_tok);
    int64_t ahead = want + s->ahead;
    return kv_table_grow(&n->table, s->pool, want, ahead < most ? ahead : most);
}

/* Takes what stands of its text, up to the first position whose answer is wanted. True: another,
 * better ranked, is computing what follows, and n waits for it. */
static bool find_prefix(struct sched *s, struct seq_node *n)
{
    if (!s->opt.keeps_prefixes || n->seq->is_whole)
        return false;
    int32_t cell = kv_table_find(&n->table, s->pool, n->seq->token, n->n_answered);
    const struct seq_node *maker = cell < 0 ? NULL : s->mark[cell].maker;
    if (!maker || maker->tenant != n->tenant || !node_before(maker, n)) {
        sched_states_find(s, n);
        return false;
    }
    kv_table_clear(&n->table, s->pool);
    park(s, n, cell);
    return true;
}

static void announce(struct sched *s, struct seq_node *n)
{
    kv_table_announce(&n->table, s->pool, n->seq->token, n->seq->n_tok);
    for (int64_t i = n->table.n_stand; i < n->table.n_open; i++)
        s->mark[n->table.cell[i]].maker = n;
}

static void leave_queue(struct sched *s, struct seq_node *n)
{
    queue_del(&n->tenant->queue, n);
    *(n->seq->state == SEQ_PREEMPTED ? &s->n_preempted : &s->n_waiting) -= 1;
    n->n_ran = 0;
}

static void sit(struct sched *s, struct seq_node *n, int64_t n_found)
{
    struct seq *q = n->seq;
    leave_queue(s, n);
    q->n_stand = n_found * s->opt.cell_tok;
    if (s->opt.keeps_prefixes) {
        s->prefix_asked += (uint64_t)n->n_answered;
        s->prefix_hit += (uint64_t)q->n_stand;
    }
    if (q->state == SEQ_WAITING)
        q->n_cached = q->n_stand;
    q->state = SEQ_RUNNING;
    if (q->is_whole)
        return;
    run_insert(s, n);
    sched_states_sit(s, n);
    announce(s, n);
}

/* Cells to be left over beside n_run running: one for each to grow by, so that a newcomer is not
 * turned out again at once. */
static int64_t spare_beside(int64_t n_run)
{
    return n_run ? n_run + 1 : 0;
}

/* All that it holds. */
static void give_back(struct sched *s, struct seq_node *n)
{
    kv_table_clear(&n->table, s->pool);
    sched_states_leave(s, n);
}

/* Those of idle work are the last; of them as many as have seats of their own take none of others.
 */
static int64_t idle_seated(const struct sched *s)
{
    int64_t n = 0;
    while (n < s->n_run && s->run[s->n_run - 1 - n]->tenant->is_idle)
        n++;
    return n;
}

/* How many seats must fall free for it to have one. */
static int64_t seats_lacked(const struct sched *s, const struct seq_node *n)
{
    int64_t own = idle_seated(s);
    own = own < s->n_own && !n->tenant->is_idle ? own : s->n_own;
    return s->n_run + 1 - (s->n_seat + own);
}

bool sched_has_seat(const struct sched *s, const struct seq_node *n)
{
    return seats_lacked(s, n) <= 0;
}

bool sched_may_turn_out(const struct sched *s, const struct seq_node *last, bool for_seat)
{
    return last && last->tenant->is_idle && sched_stands(s, last) &&
           !(for_seat && idle_seated(s) <= s->n_own);
}

enum seat sched_seat(struct sched *s, struct seq_node *n)
{
    int64_t room = kv_pool_room(s->pool);
    if (n->seq->is_open) /* its cells are looked for by its tokens */
        return SEAT_REFUSED;
    if (s->n_run > sched_at_rest(s) && room < n->need_room) /* somebody else will give some back */
        return SEAT_REFUSED;
    if (find_prefix(s, n))
        return SEAT_PARKED;
    int64_t n_found = n->table.n, found_kept = room - kv_pool_room(s->pool);
    int64_t more = sched_cells(s, n->seq->n_tok) - n_found;
    int64_t need = found_kept + more + spare_beside(s->n_run);
    if (room < need || !sched_grow(s, n, n->seq->n_tok)) {
        give_back(s, n);
        n->need_room = need;
        return SEAT_REFUSED;
    }
    sit(s, n, n_found);
    return SEAT_GIVEN;
}

void sched_settle(struct sched *s, struct seq_node *n)
{
    int64_t from = n->table.n_stand, open = n->table.n_open;
    kv_table_stood(&n->table, s->pool, n->seq->token, n->seq->n_stand);
    wake(s, n, from, n->table.n_stand < open ? n->table.n_stand : open);
}

void sched_unseat(struct sched *s, struct seq_node *n)
{
    switch (n->place) {
    case NODE_QUEUED:
        queue_del(&n->tenant->queue, n);
        break;
    case NODE_PARKED:
        unpark(s, n);
        break;
    case NODE_RUNS:
        sched_wake(s, n);
        run_del(s, n);
        break;
    }
    give_back(s, n);
}

void sched_requeue(struct sched *s, struct seq_node *n)
{
    sched_unseat(s, n);
    n->seq->n_stand = 0;
    n->seq->state = SEQ_PREEMPTED;
    s->n_preempted++;
    sched_enqueue(n);
}

void sched_preempt(struct sched *s, struct seq_node *n)
{
    s->preempted++;
    sched_requeue(s, n);
}

/* ---- making way ----------------------------------------------------------------------------- */

/* What there is too little of, seats or cells, and how much of it each tenant holds. */
struct scarce {
    bool is_seats;
    int64_t want;
};

static int64_t held_by(const struct scarce *what, const struct seq_node *n)
{
    return what->is_seats ? 1 : n->table.n;
}

static struct scarce see_scarce(struct sched *s, const struct seq_node *n, int64_t need)
{
    struct scarce what = {.is_seats = !sched_has_seat(s, n)};
    what.want = what.is_seats ? 1 : need;
    n->tenant->n_held = 0;
    for (int64_t i = 0; i < s->n_run; i++)
        s->run[i]->tenant->n_held = 0;
    for (int64_t i = 0; i < s->n_run; i++)
        s->run[i]->tenant->n_held += held_by(&what, s->run[i]);
    return what;
}

/* Of another tenant, which takes idle time alone, or keeps as much for its weight as n's then has:
 * so they never turn each other out by turns. */
static bool has_too_much(const struct scarce *what, const struct seq_node *n,
                         const struct seq_node *last)
{
    const struct tenant *to = n->tenant, *from = last->tenant;
    if (from->is_idle && !to->is_idle)
        return true;
    return node_before(n, last) && (to->n_held + what->want) * from->weight <=
                                       (from->n_held - held_by(what, last)) * to->weight;
}

/* For one that waits the worst ranked give way: of its tenant those whose rank and priority are
 * both worse, for mere age takes the next seat that falls free; of other tenants those who have
 * more than their share. Nobody does if that is not enough. */
void sched_make_way(struct sched *s)
{
    const struct seq_node *n = tenants_first(&s->tenants);
    int64_t room = kv_pool_room(s->pool), left = s->n_run, i = s->n_run;
    int64_t need = n ? sched_cells(s, n->seq->n_tok) : 0, lack = n ? seats_lacked(s, n) : 0;
    if (!n || sched_stands(s, n) || n->seq->is_open ||
        (lack <= 0 && room >= need + spare_beside(left)))
        return;
    struct scarce what = see_scarce(s, n, need);
    int64_t n_kept = n->tenant->is_idle || !what.is_seats ? 0 : s->n_own, n_idle = idle_seated(s);
    while (i && left && (lack > 0 || room < need + spare_beside(left))) {
        struct seq_node *last = s->run[--i];
        bool is_own = last->tenant == n->tenant, keeps = last->tenant->is_idle && n_idle <= n_kept;
        last->gives_way = is_own ? node_before(n, last) && n->seq->priority < last->seq->priority
                                 : !keeps && has_too_much(&what, n, last);
        if (is_own && !last->gives_way)
            break;
        if (!last->gives_way)
            continue;
        last->tenant->n_held -= held_by(&what, last);
        room += last->table.n;
        left--;
        lack--;
        n_idle -= last->tenant->is_idle;
    }
    bool is_enough = !left || (lack <= 0 && room >= need + spare_beside(left));
    for (int64_t k = s->n_run - 1; k >= i; k--) {
        struct seq_node *last = s->run[k];
        bool goes = last->gives_way && is_enough;
        last->gives_way = false;
        if (goes)
            sched_preempt(s, last);
    }
}
