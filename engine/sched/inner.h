/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the scheduler share; for no one else.
 *
 * A sequence is in one place: in its tenant's queue (ready to run), parked (another computes the
 * cell that it could begin with), or among the running. Within a tenant the rank is fixed at
 * submission: the tokens run so far, plus age_tok for each level of priority. So a lower one is
 * passed by later and higher ones only as long as age_tok for each level between them takes to run,
 * and that order never has to be made anew. PRIORITY_MAX bounds the levels, and with them the wait.
 * Between tenants who has had less goes first (tenant.h), which changes from step to step.
 *
 * In a step nothing better ranked waits for something worse ranked: cells and seats are taken from
 * the worst ranked, and parking is behind better ranked ones of the same tenant only. So in each
 * step the best ranked gets on. No token that was taken is ever lost, whoever is turned out, so
 * everybody comes to an end.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_SCHED_INNER_H
#define ENGINE_SCHED_INNER_H

#include "engine/kv/table.h"
#include "engine/sched/pace.h"
#include "engine/sched/queue.h"
#include "engine/sched/sched.h"
#include "engine/sched/tenant.h"

enum { PRIORITY_MAX = 16 };

enum node_place { NODE_QUEUED, NODE_PARKED, NODE_RUNS };

struct seq_node {
    struct seq *seq;       /* borrowed */
    struct tenant *tenant; /* borrowed */
    struct kv_table table;
    int64_t rank;
    int64_t n_answered; /* positions whose answers were given, or are not wanted */
    int64_t need_room;  /* the room without which it was last refused */
    int64_t n_ran;      /* steps since it got its seat */
    int64_t parts_at;   /* tokens that others' cells stood for, though no snapshot did; 0: none */
    int32_t own, from;  /* states: its seat's; what its next part begins from. -1: none */
    enum node_place place;
    bool is_in_step, was_forced, gives_way;
    size_t queue_at;
    int32_t parked_at; /* the cell */
    struct seq_node *parked_next, *parked_prev;
};

/* Of a cell that is being computed. */
struct cell_mark {
    struct seq_node *maker, *parked; /* borrowed; the first who is parked for it */
};

struct sched {
    struct sched_options opt;
    struct kv_pool *pool; /* owned */
    struct tenants tenants;
    struct seq_node **run;   /* owned: [all seats], best rank first, and as much to sort with */
    struct sched_part *part; /* owned: [cap_seq], and as much to sort with */
    struct cell_mark *mark;  /* owned: [n_cell] */
    int32_t *state_free;     /* owned: [n_seat] states that no seat has; NULL: there are none */
    int64_t n_state_free;
    int64_t n_seat, n_run, n_part, n_decode, n_draft;
    int64_t n_own;     /* seats besides, for idle work that others leave none: see README.md */
    int64_t n_press;   /* prompts that a step could hold a part of */
    int64_t n_idle;    /* sequences that run only where nobody else wants to */
    int64_t idle_rows; /* the most that a step of theirs may have now */
    int64_t n_since;   /* steps of others since they had one, or came */
    bool is_busy;      /* there are others */
    bool is_due;       /* theirs is this step all the same */
    int64_t n_waiting, n_preempted; /* queued or parked: never ran; did */
    int64_t ahead;                  /* cells that a table should have room to grow by */
    int64_t clock;                  /* tokens run */
    bool was_whole_first;
    uint64_t age;
    struct pace pace;
    uint64_t preempted, prefix_asked, prefix_hit;
};

static inline bool node_before(const struct seq_node *a, const struct seq_node *b)
{
    if (a->tenant != b->tenant)
        return tenant_before(a->tenant, b->tenant);
    return a->rank != b->rank ? a->rank < b->rank : a->seq->age < b->seq->age;
}

/* It takes idle time alone, and there is none; or this step is for those that do. */
static inline bool sched_stands(const struct sched *s, const struct seq_node *n)
{
    return s->is_busy && n->tenant->is_idle != s->is_due;
}

/* The step that is made, or runs, is of idle work. */
static inline bool sched_is_idle(const struct sched *s)
{
    return s->n_idle && (!s->is_busy || s->is_due);
}

static inline int64_t sched_cells(const struct sched *s, int64_t n_tok)
{
    return (n_tok + s->opt.cell_tok - 1) / s->opt.cell_tok;
}

/* ---- seat.c: from the queue to a seat and back ---------------------------------------------- */

enum seat { SEAT_GIVEN, SEAT_PARKED, SEAT_REFUSED };

bool sched_has_seat(const struct sched *s, const struct seq_node *n); /* one is free for it */
/* The last that runs stands still, and gives its seat or cells to who waits for them. */
bool sched_may_turn_out(const struct sched *s, const struct seq_node *last, bool for_seat);
enum seat sched_seat(struct sched *s, struct seq_node *n);           /* a queue's first */
bool sched_grow(struct sched *s, struct seq_node *n, int64_t n_tok); /* cells for so many */
void sched_unseat(struct sched *s, struct seq_node *n);  /* takes its cells; it is in no place */
void sched_requeue(struct sched *s, struct seq_node *n); /* one that runs: it waits again */
void sched_preempt(struct sched *s, struct seq_node *n); /* the same, for others */
void sched_enqueue(struct seq_node *n);
void sched_settle(struct sched *s, struct seq_node *n); /* what ran stands: others may take it */
void sched_wake(struct sched *s, struct seq_node *n);   /* who is parked for any cell of its */
void sched_make_way(struct sched *s); /* for a higher priority, or a tenant with less */

/* ---- step.c: the parts of a step ------------------------------------------------------------- */

int64_t sched_at_rest(const struct sched *s); /* who runs, and waits to be gone on with */

/* ---- states.c: recurrent states; nothing where the model has none ---------------------------- */

int sched_states_init(struct sched *s, struct err *e);
void sched_states_find(struct sched *s, struct seq_node *n); /* gives back what goes too far */
void sched_states_sit(struct sched *s, struct seq_node *n);
void sched_states_leave(struct sched *s, struct seq_node *n);
void sched_states_part(struct sched *s, const struct seq_node *n, struct sched_part *p);
void sched_states_ran(struct sched *s, struct seq_node *n, const struct sched_part *p);
void sched_states_failed(struct sched *s, struct seq_node *n, const struct sched_part *p);

#endif
