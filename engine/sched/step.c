/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens a step holds: of those that decode one each, then prompts by rank, those that run
 * and those that wait alike, as far as the step's budgets go. A step without prompts may hold
 * drafts besides.
 */
#include <string.h>

#include "engine/sched/inner.h"

/* What is left of a step. */
struct budget {
    int64_t tok, seq, out;
    int64_t prompt; /* tokens of prompts */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_decode(const struct seq_node *n)
{
    return n->seq->n_tok - n->seq->n_stand == 1;
}

/* All of it stands: it is paused, and takes no room from anybody. */
static bool is_at_rest(const struct sched *s, const struct seq_node *n)
{
    return n->seq->n_tok == n->seq->n_stand && !sched_stands(s, n);
}

int64_t sched_at_rest(const struct sched *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_run; i++)
        n += is_at_rest(s, s->run[i]);
    return n;
}

/* The tokens of n that fit; 0: none. Answers are wanted from n_answered on, so a long prompt whose
 * every answer is wanted goes in parts of as many as the step has room for. */
static int64_t fits(const struct seq_node *n, const struct budget *b, int64_t most)
{
    int64_t n_tok = n->seq->n_tok - n->seq->n_stand, quiet = n->n_answered - n->seq->n_stand;
    n_tok = n_tok < most ? n_tok : most;
    n_tok = n_tok < b->tok ? n_tok : b->tok;
    n_tok = n_tok < quiet + b->out ? n_tok : quiet + b->out;
    if (n->seq->n_stand < n->parts_at) /* a snapshot is taken there */
        n_tok = least(n_tok, n->parts_at - n->seq->n_stand);
    return b->seq && n_tok > 0 ? n_tok : 0;
}

static void add_part(struct sched *s, struct budget *b, struct seq_node *n, int64_t n_tok)
{
    struct seq *q = n->seq;
    int64_t n_out = q->n_stand + n_tok - n->n_answered;
    n_out = n_out > 0 ? n_out : 0;
    n->is_in_step = true;
    q->cell = n->table.cell;
    q->n_cell = n->table.n;
    s->part[s->n_part] =
        (struct sched_part){.seq = q, .pos = q->n_stand, .n_tok = n_tok, .n_out = n_out};
    sched_states_part(s, n, &s->part[s->n_part++]);
    b->tok -= n_tok;
    b->out -= n_out;
    b->seq--;
}

/* Who waits and may run now. */
static struct seq_node *first_waiting(const struct sched *s)
{
    struct seq_node *n = s->is_due ? tenants_first_idle(&s->tenants) : tenants_first(&s->tenants);
    return n && sched_stands(s, n) ? NULL : n;
}

/* A prompt that runs whole may be longer than what those that decode leave: then every other step
 * is its own, and the worst ranked of them pause. */
static void seat_large_whole(struct sched *s, struct budget *b)
{
    struct seq_node *n = first_waiting(s);
    bool was = s->was_whole_first;
    s->was_whole_first = false;
    if (was || !n || !n->seq->is_whole || !s->n_run)
        return;
    struct budget rest = {b->tok - s->n_run, b->seq - s->n_run, b->out - s->n_run, 0};
    if (fits(n, &rest, INT64_MAX) == n->seq->n_tok || sched_seat(s, n) != SEAT_GIVEN)
        return;
    s->was_whole_first = true;
    add_part(s, b, n, n->seq->n_tok);
}

/* Who comes waits for the end of a step that is none of its business, or for its being given up:
 * either costs less the shorter it is. */
static int64_t idle_left(const struct sched *s)
{
    int64_t rows = s->is_due ? least(PACE_FLOOR, s->idle_rows) : s->idle_rows;
    return sched_is_idle(s) ? rows - s->n_decode - s->n_draft : INT64_MAX;
}

/* Those that need a cell take it from the worst ranked, who may be themselves. */
static void add_decodes(struct sched *s, struct budget *b)
{
    for (int64_t i = 0; i < s->n_run && idle_left(s) > 0; i++) {
        struct seq_node *n = s->run[i];
        if (sched_stands(s, n) || !is_decode(n) || !fits(n, b, 1))
            continue;
        while (i < s->n_run && !sched_grow(s, n, n->seq->n_tok))
            sched_preempt(s, s->run[s->n_run - 1]);
        if (i == s->n_run)
            break;
        add_part(s, b, n, 1);
        s->n_decode++;
    }
}

/* Of a step of idle work, where nobody minds how smoothly texts grow. */
static int64_t prompt_tokens_idle(const struct sched *s, int64_t most)
{
    most = s->opt.enough ? least(most, s->opt.enough) : most;
    return least(most, idle_left(s));
}

/* Tokens of prompts beside those that decode. Prompts that no seat is left for do not press. */
static int64_t prompt_tokens(struct sched *s)
{
    int64_t n_prompt = s->n_run - s->n_decode + s->n_waiting + s->n_preempted;
    n_prompt -= sched_at_rest(s) + (s->is_busy && !s->is_due ? s->n_idle : 0);
    int64_t n_seat = s->n_seat - s->n_decode;
    s->n_press = n_prompt < n_seat ? n_prompt : n_seat;
    int64_t most = s->n_decode && n_prompt && s->opt.chunk ? s->opt.chunk : s->opt.cap_tok;
    if (sched_is_idle(s))
        return prompt_tokens_idle(s, most);
    if (!s->n_decode || !n_prompt || s->opt.chunk)
        return most;
    return pace_rows(&s->pace, s->n_decode, s->n_press);
}

static void add_prompt(struct sched *s, struct budget *b, struct seq_node *n)
{
    int64_t n_tok = fits(n, b, n->seq->is_whole ? INT64_MAX : b->prompt);
    if (!n_tok)
        return;
    add_part(s, b, n, n_tok);
    b->prompt -= n_tok;
}

/* Seats and cells of those that stand still are there for who waits. */
static enum seat give_seat(struct sched *s, struct seq_node *n)
{
    for (;;) {
        bool has_seat = n->seq->is_whole || sched_has_seat(s, n);
        enum seat seat = has_seat ? sched_seat(s, n) : SEAT_REFUSED;
        struct seq_node *last = s->n_run ? s->run[s->n_run - 1] : NULL;
        if (seat != SEAT_REFUSED || n->seq->is_open || !sched_may_turn_out(s, last, !has_seat))
            return seat;
        sched_preempt(s, last);
    }
}

/* The queue's first gets a seat and its part, or shows that nobody gets one now. */
static bool admit(struct sched *s, struct budget *b, struct seq_node *n)
{
    bool fits_in = n->seq->is_whole ? fits(n, b, INT64_MAX) == n->seq->n_tok : b->out && b->seq;
    enum seat seat = fits_in ? give_seat(s, n) : SEAT_REFUSED;
    if (seat == SEAT_GIVEN)
        add_prompt(s, b, n);
    return seat != SEAT_REFUSED;
}

static void add_prompts(struct sched *s, struct budget *b)
{
    bool may_admit = true;
    int64_t i = 0;
    int64_t had = b->tok;
    b->prompt = prompt_tokens(s);
    while (b->tok && b->prompt > 0 && !(s->opt.enough && had - b->tok >= s->opt.enough)) {
        struct seq_node *first = may_admit ? first_waiting(s) : NULL;
        struct seq_node *n = i < s->n_run ? s->run[i] : NULL;
        if (n && (n->is_in_step || sched_stands(s, n))) {
            i++;
        } else if (first && (!n || node_before(first, n))) {
            may_admit = admit(s, b, first);
        } else if (n) {
            add_prompt(s, b, n);
            i++;
        } else {
            break;
        }
    }
}

/* As much of a part's draft as there is room for. It takes no cell from anybody. */
static void add_draft(struct sched *s, struct budget *b, struct sched_part *p)
{
    struct seq *q = p->seq;
    int64_t n = q->n_draft < b->tok ? q->n_draft : b->tok;
    n = n < b->out ? n : b->out;
    n = least(n, idle_left(s));
    if (n && !sched_grow(s, q->node, q->n_tok + n)) {
        int64_t left = q->node->table.n * s->opt.cell_tok - q->n_tok;
        n = n < left ? n : left;
    }
    q->n_draft = p->n_draft = n;
    q->n_cell = q->node->table.n;
    p->n_tok += n;
    p->n_out += n;
    b->tok -= n;
    b->out -= n;
    s->n_draft += n;
}

static void add_drafts(struct sched *s, struct budget *b)
{
    if (!s->opt.draft || s->opt.has_states || s->n_press > 0 || s->n_part != s->n_decode)
        return;
    s->opt.draft(s->opt.draft_ctx, s->part, s->n_part);
    for (int64_t i = 0; i < s->n_part; i++)
        add_draft(s, b, &s->part[i]);
}

/* Sorts the parts by adapter, each adapter's in the order they were given. Merges runs of doubling
 * length, from one half of the array into the other. */
static void sort_parts(struct sched *s)
{
    struct sched_part *from = s->part, *to = s->part + s->opt.cap_seq;
    int64_t n = s->n_part;
    bool is_sorted = true;
    for (int64_t i = 1; i < n && is_sorted; i++)
        is_sorted = from[i - 1].seq->adapter <= from[i].seq->adapter;
    if (is_sorted)
        return;
    for (int64_t w = 1; w < n; w *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * w) {
            int64_t mid = lo + w < n ? lo + w : n, end = mid + w < n ? mid + w : n;
            for (int64_t a = lo, b = mid, k = lo; k < end; k++)
                to[k] = b == end || (a < mid && from[a].seq->adapter <= from[b].seq->adapter)
                            ? from[a++]
                            : from[b++];
        }
        struct sched_part *t = from;
        from = to;
        to = t;
    }
    if (from != s->part)
        memcpy(s->part, from, (size_t)n * sizeof *from);
}

/* Of a tenant they are in order; which tenant goes first has changed since. */
static void order_run(struct sched *s)
{
    struct seq_node **to = s->run + s->n_seat + s->n_own;
    int64_t at = 0;
    if (s->tenants.live.n < 2)
        return;
    tenants_sort(&s->tenants);
    for (size_t i = 0; i < s->tenants.live.n; i++)
        s->tenants.live.at[i]->n_held = 0;
    for (int64_t i = 0; i < s->n_run; i++)
        s->run[i]->tenant->n_held++;
    for (size_t i = 0; i < s->tenants.live.n; i++) {
        int64_t n = s->tenants.live.at[i]->n_held;
        s->tenants.live.at[i]->n_held = at;
        at += n;
    }
    for (int64_t i = 0; i < s->n_run; i++)
        to[s->run[i]->tenant->n_held++] = s->run[i];
    memcpy(s->run, to, (size_t)s->n_run * sizeof *to);
}

#ifdef TANDEM_PARANOID
/* Each sequence computes its text twice. */
static void force_preemption(struct sched *s)
{
    enum { AFTER = 3 };
    for (int64_t i = s->n_run - 1; i >= 0; i--) {
        struct seq_node *n = s->run[i];
        if (n->was_forced || n->n_ran < AFTER)
            continue;
        n->was_forced = true;
        sched_preempt(s, n);
        return;
    }
}
#endif

static void see_idle(struct sched *s)
{
    s->n_idle = 0;
    s->is_busy = false;
    for (size_t i = 0; i < s->tenants.live.n; i++) {
        const struct tenant *t = s->tenants.live.at[i];
        s->n_idle += t->is_idle ? t->n_live : 0;
        s->is_busy |= !t->is_idle;
    }
    s->is_due = s->opt.idle_every && s->n_idle && s->n_since + 1 >= s->opt.idle_every;
}

/* It waits for its own token alone. */
static bool is_open(const struct seq_node *n)
{
    return n && n->seq->is_open;
}

/* The parts of a step, and what is left of it. */
static struct budget fill(struct sched *s)
{
    struct budget b = {.tok = s->opt.cap_tok, .seq = s->opt.cap_seq, .out = s->opt.cap_out};
    s->n_decode = s->n_draft = 0;
    sched_make_way(s);
    seat_large_whole(s, &b);
    add_decodes(s, &b);
    add_prompts(s, &b);
    add_drafts(s, &b);
    sort_parts(s);
    return b;
}

bool sched_next(struct sched *s, struct sched_step *step)
{
    ASSERT(!s->n_part);
    order_run(s);
#ifdef TANDEM_PARANOID
    force_preemption(s);
#endif
    see_idle(s);
    struct budget b = fill(s);
    if (!s->n_part && s->is_due && s->is_busy) { /* there is no room for those whose turn it is */
        s->is_due = false;
        b = fill(s);
    }
    ASSERT(s->n_part || is_open(tenants_first(&s->tenants)) || sched_at_rest(s) ||
           (!s->n_run && !s->n_waiting && !s->n_preempted));
    *step = (struct sched_step){.part = s->part,
                                .n_part = s->n_part,
                                .n_tok = s->opt.cap_tok - b.tok,
                                .n_out = s->opt.cap_out - b.out,
                                .n_decode = s->n_decode,
                                .n_draft = s->n_draft,
                                .is_idle = sched_is_idle(s),
                                .is_due = s->is_due};
    return s->n_part > 0;
}
