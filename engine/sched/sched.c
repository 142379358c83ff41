/* SPDX-License-Identifier: Apache-2.0
 *
 * From submission to the end: who comes in, what a step leaves behind, who goes.
 */
#include "engine/sched/sched.h"

#include <stdlib.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/sched/inner.h"
#include "kernels/types.h"

enum { AHEAD_MAX = 16, AHEAD_SHARE = 512, AGE_STEPS = 64 };

/* ---- the scheduler -------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int make_arrays(struct sched *s, struct err *e)
{
    const struct sched_options *o = &s->opt;
    struct kv_options kv = {.n_cell = o->n_cell,
                            .cell_tok = o->cell_tok,
                            .n_snapshot = o->has_states && o->keeps_prefixes ? o->n_snapshot : 0,
                            .keeps_prefixes = o->keeps_prefixes,
                            .hash = o->hash};
    s->pool = kv_pool_new(&kv, e);
    if (!s->pool)
        return -1;
    s->mark = try_alloc((size_t)o->n_cell, sizeof *s->mark, "the marks of K/V cells", e);
    if (!s->mark)
        return -1;
    s->run = xcalloc((size_t)(s->n_seat + s->n_own), 2 * sizeof *s->run);
    s->part = xcalloc((size_t)o->cap_seq, 2 * sizeof *s->part);
    return sched_states_init(s, e);
}

struct sched *sched_new(const struct sched_options *o, struct err *e)
{
    if (o->cap_tok < 1 || o->cap_seq < 1 || o->cap_out < 1 || o->max_wait < 0) {
        err_set(e, ERR_BAD_INPUT,
                "a step of %lld tokens, %lld sequences, %lld answers: each is 1 "
                "or more",
                (long long)o->cap_tok, (long long)o->cap_seq, (long long)o->cap_out);
        return NULL;
    }
    struct sched *s = xcalloc(1, sizeof *s);
    *s = (struct sched){.opt = *o, .n_seat = least(o->cap_seq, least(o->cap_tok, o->cap_out))};
    s->idle_rows = o->cap_tok;
    if (o->idle_every && !o->has_states) /* a seat with a state is not for nothing */
        s->n_own = s->n_seat / 2 > PACE_FLOOR ? s->n_seat / 2 : PACE_FLOOR;
    s->opt.cell_tok = o->cell_tok ? o->cell_tok : K_CELL;
    s->opt.age_tok = o->age_tok ? o->age_tok : AGE_STEPS * o->cap_tok;
    s->opt.hash = o->hash ? o->hash : map_hash;
    tenants_init(&s->tenants, o->cap_tok);
    s->ahead = least(o->n_cell / AHEAD_SHARE + 1, AHEAD_MAX);
    if (make_arrays(s, e)) {
        sched_free(s);
        return NULL;
    }
    return s;
}

void sched_free(struct sched *s)
{
    if (!s)
        return;
    ASSERT(!s->n_run && !s->n_waiting && !s->n_preempted);
    tenants_release(&s->tenants);
    kv_pool_free(s->pool);
    mem_free(s->mark);
    mem_free(s->state_free);
    free(s->run);
    free(s->part);
    free(s);
}

struct sched_stat sched_stat(const struct sched *s)
{
    struct kv_stat kv = kv_pool_stat(s->pool);
    return (struct sched_stat){.n_running = s->n_run,
                               .n_waiting = s->n_waiting,
                               .n_preempted = s->n_preempted,
                               .cell_used = kv.n_held,
                               .cell_kept = kv.n_kept,
                               .cell_all = s->opt.n_cell,
                               .preempted = s->preempted,
                               .prefix_asked = s->prefix_asked,
                               .prefix_hit = s->prefix_hit};
}

/* ---- coming in ------------------------------------------------------------------------------ */

static int check(const struct sched *s, const struct seq *q, struct err *e)
{
    ASSERT(q->token && q->n_prompt >= 1 && q->n_max >= q->n_prompt);
    ASSERT(q->state == SEQ_NEW || q->state == SEQ_DONE);
    if (q->n_max > s->opt.n_cell * s->opt.cell_tok)
        return err_set(e, ERR_TOO_LARGE,
                       "%lld tokens: there is memory for the keys and values of "
                       "%lld",
                       (long long)q->n_max, (long long)(s->opt.n_cell * s->opt.cell_tok));
    int64_t n_out = q->wants_prompt ? q->n_prompt : 1;
    if (q->is_whole && (q->n_prompt > s->opt.cap_tok || n_out > s->opt.cap_out))
        return err_set(e, ERR_TOO_LARGE, "%lld tokens at once: a step has room for %lld",
                       (long long)q->n_prompt, (long long)least(s->opt.cap_tok, s->opt.cap_out));
    return 0;
}

static struct seq_node *node_new(const struct sched *s, struct seq *q, struct err *e)
{
    struct seq_node *n = xcalloc(1, sizeof *n);
    int64_t level = q->priority < -PRIORITY_MAX  ? -PRIORITY_MAX
                    : q->priority > PRIORITY_MAX ? PRIORITY_MAX
                                                 : q->priority;
    *n = (struct seq_node){.seq = q,
                           .rank = s->clock + level * s->opt.age_tok,
                           .n_answered = q->wants_prompt ? 0 : q->n_prompt - 1,
                           .own = -1,
                           .from = -1};
    if (kv_table_init(&n->table, sched_cells(s, q->n_max), q->salt, q->adapter, e)) {
        free(n);
        return NULL;
    }
    return n;
}

static void node_free(struct sched *s, struct seq_node *n)
{
    kv_table_release(&n->table, s->pool);
    free(n);
}

static void enter(struct sched *s, struct seq *q)
{
    q->state = SEQ_WAITING;
    q->n_tok = q->n_prompt;
    q->n_stand = q->n_cached = q->n_cell = 0;
    q->cell = NULL;
    q->is_finished = q->is_open = q->is_paused = false;
    q->n_draft = q->n_agreed = 0;
    q->age = ++s->age;
    s->n_waiting++;
    q->node->tenant = tenant_enter(&s->tenants, q->tenant, q->is_idle, q->weight);
    sched_enqueue(q->node);
}

int sched_submit(struct sched *s, struct seq *const *seq, int64_t n, struct err *e)
{
    int64_t n_free = s->n_seat - s->n_run - s->n_preempted, i = 0;
    for (int64_t j = 0; j < n; j++)
        if (check(s, seq[j], e))
            return -1;
    if (s->n_waiting + n > s->opt.max_wait + (n_free > 0 ? n_free : 0))
        return err_set(e, ERR_BUSY, "%lld sequences are waiting already; %lld may",
                       (long long)s->n_waiting, (long long)s->opt.max_wait);
    for (; i < n; i++) {
        seq[i]->node = node_new(s, seq[i], e);
        if (!seq[i]->node)
            goto fail;
    }
    for (i = 0; i < n; i++)
        enter(s, seq[i]);
    return 0;
fail:
    while (i--) {
        node_free(s, seq[i]->node);
        seq[i]->node = NULL;
    }
    return -1;
}

/* ---- going ---------------------------------------------------------------------------------- */

/* It is in no place, and holds cells at most. */
static void leave(struct sched *s, struct seq_node *n)
{
    struct seq *q = n->seq;
    tenant_leave(&s->tenants, n->tenant);
    q->state = SEQ_DONE;
    q->node = NULL;
    q->cell = NULL;
    q->n_cell = 0;
    node_free(s, n);
}

void sched_rewrite(struct sched *s, struct seq *q, int64_t n_tok)
{
    struct seq_node *n = q->node;
    ASSERT(!s->n_part && !q->is_open && n_tok >= 1 && n_tok <= q->n_max);
    if (n->place == NODE_RUNS) {
        sched_requeue(s, n);
    } else {
        sched_unseat(s, n);
        sched_enqueue(n);
    }
    q->n_tok = n_tok;
    q->is_paused = false;
    n->n_answered = n_tok - 1;
}

void sched_remove(struct sched *s, struct seq *q)
{
    ASSERT(!s->n_part);
    s->n_waiting -= q->state == SEQ_WAITING;
    s->n_preempted -= q->state == SEQ_PREEMPTED;
    sched_unseat(s, q->node);
    leave(s, q->node);
}

static void ran_part(struct sched *s, const struct sched_part *part)
{
    struct seq *q = part->seq;
    struct seq_node *n = q->node;
    q->n_stand = part->pos + part->n_tok - (part->n_draft - q->n_agreed);
    q->n_draft = q->n_agreed = 0;
    n->n_answered = n->n_answered > q->n_stand ? n->n_answered : q->n_stand;
    n->n_ran++;
    n->is_in_step = false;
    s->clock += part->n_tok - part->n_draft;
    tenant_charge(&s->tenants, n->tenant, part->n_tok - part->n_draft);
    ASSERT(q->is_finished || q->is_paused || (q->n_tok > q->n_stand && !q->is_whole));
    if (q->is_whole) {
        leave(s, n);
        return;
    }
    sched_settle(s, n);
    sched_states_ran(s, n, part);
    if (part->n_draft) /* nobody keeps a cell for what was only guessed */
        kv_table_cut(&n->table, s->pool, sched_cells(s, q->n_tok));
}

/* The pace is that of steps without drafts, and of those who mind it. */
static void saw(struct sched *s, const struct sched_step *step, int64_t us)
{
    if (!step->n_draft && !step->is_idle)
        pace_saw(&s->pace, us, step->n_decode, step->n_tok - step->n_decode);
}

void sched_ran(struct sched *s, int64_t us)
{
    struct sched_step step = {.n_decode = s->n_decode,
                              .n_draft = s->n_draft,
                              .is_idle = sched_is_idle(s),
                              .is_due = s->is_due};
    int64_t n_left = 0;
    for (int64_t i = 0; i < s->n_part; i++) {
        step.n_tok += s->part[i].n_tok;
        ran_part(s, &s->part[i]);
    }
    saw(s, &step, us);
    if (step.is_idle && !step.is_due)
        s->idle_rows = least(2 * s->idle_rows, s->opt.cap_tok);
    s->n_since = step.is_idle || !s->n_idle ? 0 : s->n_since + 1;
    tenants_settle(&s->tenants);
    s->n_part = 0;
    for (int64_t i = 0; i < s->n_run; i++)
        n_left += s->run[i]->seq->is_finished;
    for (int64_t i = s->n_run - 1; n_left; i--)
        if (s->run[i]->seq->is_finished) {
            struct seq_node *n = s->run[i];
            sched_unseat(s, n);
            leave(s, n);
            n_left--;
        }
#ifdef TANDEM_PARANOID
    kv_pool_verify(s->pool);
#endif
}

void sched_timed(struct sched *s, const struct sched_step *step, int64_t us)
{
    saw(s, step, us);
}

void sched_failed(struct sched *s)
{
    for (int64_t i = 0; i < s->n_part; i++) {
        struct seq_node *n = s->part[i].seq->node;
        n->is_in_step = false;
        n->seq->n_draft = n->seq->n_agreed = 0;
        sched_states_failed(s, n, &s->part[i]);
        if (!n->seq->is_whole)
            continue;
        kv_table_clear(&n->table, s->pool);
        n->seq->state = SEQ_WAITING;
        s->n_waiting++;
        sched_enqueue(n);
    }
    s->n_part = 0;
}

void sched_hurry(struct sched *s, const struct sched_step *step)
{
    int64_t half = step->n_tok / 2;
    s->idle_rows = half > PACE_FLOOR ? half : least(PACE_FLOOR, s->opt.cap_tok);
}

void sched_forget_all(struct sched *s)
{
    ASSERT(!s->n_part);
    kv_pool_forget_all(s->pool);
    for (int64_t i = 0; i < s->n_run; i++)
        sched_wake(s, s->run[i]);
    while (s->opt.has_states && s->n_run) /* what theirs are is not known */
        sched_preempt(s, s->run[s->n_run - 1]);
}

void sched_forget(struct sched *s, uint64_t adapter)
{
    ASSERT(!s->n_part);
    kv_pool_forget(s->pool, adapter);
    for (int64_t i = 0; i < s->n_run; i++)
        if (s->run[i]->seq->adapter == adapter)
            sched_wake(s, s->run[i]);
}
