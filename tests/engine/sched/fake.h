/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that is a hash, for tests of the scheduler. What it keeps in a cell's slot for a token
 * follows from the slot of the token before, the token and its place; the answer to a row follows
 * from every slot that the sequence's cells name up to there. So a wrong cell, one that was never
 * written, one that was given to somebody else, and a prefix of another text all give another
 * answer than the same sequence gives alone. Where the model has recurrent states, what it begins
 * from must be what stands before its first row.
 */
#ifndef TESTS_ENGINE_SCHED_FAKE_H
#define TESTS_ENGINE_SCHED_FAKE_H

#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/sched/inner.h"

enum { FAKE_VOCAB = 3 };

/* In paranoid mode each sequence is turned out once: when it runs is not what the rules say. */
#ifdef TANDEM_PARANOID
enum { FAKE_IS_FORCED = 1 };
#else
enum { FAKE_IS_FORCED = 0 };
#endif

struct fake {
    struct sched *s;
    int64_t cell_tok, n_step, n_row;
    uint64_t *slot;   /* [n_cell, cell_tok] */
    int64_t *written; /* [n_cell] the step in which each cell was last written */
    struct seq **written_by;
    uint64_t *state;        /* [n_state]; NULL: the model has none */
    bool is_late;           /* tokens are known to the scheduler's caller a step late */
    uint64_t n_guess;       /* drafts so far: what the next is drawn by */
    int64_t n_draft, n_cut; /* drafted tokens that ran; of these, those that were wrong */
    bool pauses;            /* now and then it is said later what follows from an answer */
    uint64_t n_pause_draw, n_paused;
    struct fake_seq *paused; /* the last of them */
};

/* A sequence with what it should say, and what it was told. */
struct fake_seq {
    struct seq q;
    uint64_t seed;
    int64_t n_want;   /* tokens in all when it ends */
    int32_t *expect;  /* [n_max] its text alone */
    int64_t n_answer; /* positions answered so far */
    bool was_in, is_gone;
    int32_t drawn, drawn_next; /* where the model is late: the open token, and the one behind it */
    bool has_next;
    struct fake_seq *next, *paused_next;
};

static inline uint64_t fake_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 29;
}

static inline uint64_t fake_first(const struct seq *q)
{
    return fake_mix(fake_mix(7, q->salt), q->adapter);
}

static inline int32_t fake_token(uint64_t sum, uint64_t seed)
{
    return (int32_t)(fake_mix(sum, seed) % FAKE_VOCAB);
}

/* What the sequence says when it is alone, without cells. */
static inline void fake_expect(struct fake_seq *f)
{
    struct seq *q = &f->q;
    uint64_t value = fake_first(q), sum = 0;
    f->expect = xcalloc((size_t)q->n_max + 1, sizeof *f->expect);
    memcpy(f->expect, q->token, (size_t)q->n_prompt * sizeof *f->expect);
    for (int64_t i = 0; i + 1 < q->n_max; i++) {
        value = fake_mix(fake_mix(value, (uint64_t)f->expect[i]), (uint64_t)i);
        sum = fake_mix(sum, value);
        if (i + 1 >= q->n_prompt)
            f->expect[i + 1] = fake_token(sum, f->seed);
    }
}

static inline void fake_init(struct fake *f, struct sched *s)
{
    int64_t n = s->opt.n_cell;
    *f = (struct fake){.s = s, .cell_tok = s->opt.cell_tok};
    f->slot = xcalloc((size_t)(n * f->cell_tok), sizeof *f->slot);
    f->written = xcalloc((size_t)n, sizeof *f->written);
    f->written_by = xcalloc((size_t)n, sizeof *f->written_by);
    if (s->opt.has_states)
        f->state = xcalloc((size_t)(s->n_seat + s->opt.n_snapshot), sizeof *f->state);
}

/* A scheduler of these options, and the model under it. */
static inline struct fake fake_begin(struct sched_options o)
{
    struct err e = ERR_INIT;
    struct fake f;
    struct sched *s = sched_new(&o, &e);
    assert_non_null(s);
    fake_init(&f, s);
    return f;
}

static inline void fake_release(struct fake *f)
{
    free(f->slot);
    free(f->written);
    free(f->written_by);
    free(f->state);
}

/* Whoever was let in has ended, and holds nothing. */
static inline void fake_end(struct fake *f)
{
    assert_int_equal(sched_stat(f->s).cell_used, 0);
    if (f->s->opt.has_states)
        assert_int_equal(f->s->n_state_free, f->s->n_seat);
    kv_pool_verify(f->s->pool);
    sched_free(f->s);
    fake_release(f);
}

static inline uint64_t *fake_slot(struct fake *f, const struct seq *q, int64_t i)
{
    int64_t at = i / f->cell_tok;
    assert_true(at < q->n_cell);
    assert_in_range(q->cell[at], 0, f->s->opt.n_cell - 1);
    return &f->slot[q->cell[at] * f->cell_tok + i % f->cell_tok];
}

/* The model knows what the caller does not yet. */
static inline int32_t fake_token_at(const struct seq *q, int64_t i)
{
    const struct fake_seq *fs = q->owner;
    return q->is_open && i == q->n_tok - 1 ? fs->drawn : q->token[i];
}

/* Of a part whose rows stand: what it began from was right, and what it leaves. */
static inline void fake_states(struct fake *f, const struct sched_part *p)
{
    struct seq *q = p->seq;
    int64_t end = p->pos + p->n_tok;
    if (!f->state || q->is_whole) {
        assert_true(p->from < 0 && p->to < 0 && p->kept < 0);
        return;
    }
    assert_true((p->from < 0) == (p->pos == 0) && p->to >= 0 && p->to < f->s->n_seat);
    if (p->pos)
        assert_true(f->state[p->from] == *fake_slot(f, q, p->pos - 1));
    f->state[p->to] = *fake_slot(f, q, end - 1);
    if (p->kept < 0)
        return;
    assert_in_range(p->kept, f->s->n_seat, f->s->n_seat + f->s->opt.n_snapshot - 1);
    assert_true(p->kept_len > p->pos && p->kept_len <= end && p->kept_len % f->cell_tok == 0);
    f->state[p->kept] = *fake_slot(f, q, p->kept_len - 1);
}

/* A step that failed may have written any of its states. */
static inline void fake_spoil(struct fake *f, const struct sched_step *step)
{
    for (int64_t i = 0; f->state && i < step->n_part; i++) {
        if (step->part[i].to >= 0)
            f->state[step->part[i].to] = 1;
        if (step->part[i].kept >= 0)
            f->state[step->part[i].kept] = 1;
    }
}

static inline void fake_write(struct fake *f, const struct sched_part *p)
{
    struct seq *q = p->seq;
    for (int64_t i = p->pos; i < p->pos + p->n_tok; i++) {
        int32_t cell = q->cell[i / f->cell_tok];
        uint64_t before = i ? *fake_slot(f, q, i - 1) : fake_first(q);
        *fake_slot(f, q, i) =
            fake_mix(fake_mix(before, (uint64_t)fake_token_at(q, i)), (uint64_t)i);
        assert_true(f->written[cell] < f->n_step || f->written_by[cell] == q);
        f->written[cell] = f->n_step;
        f->written_by[cell] = q;
    }
}

/* Whether no paranoia turns any of these out any more: from here on the rules alone say when each
 * runs. */
static inline bool fake_is_settled(struct fake_seq *const *q, int64_t n)
{
    for (int64_t i = 0; i < n && FAKE_IS_FORCED; i++)
        if (!q[i]->q.node->was_forced)
            return false;
    return true;
}

/* As sched_options.draft, ctx the fake: what a sequence will say, each token right or wrong. */
static inline void fake_draft(void *ctx, const struct sched_part *part, int64_t n)
{
    struct fake *f = ctx;
    for (int64_t i = 0; i < n; i++) {
        struct seq *q = part[i].seq;
        const struct fake_seq *fs = q->owner;
        int64_t most = fs->n_want - q->n_tok - 1, k = 0;
        assert_int_equal(q->n_tok - q->n_stand, 1);
        if (f->is_late || q->is_paused || most < 1)
            continue;
        int64_t want = (int64_t)rng_below(3, 1, f->n_guess++, 8);
        for (; k < want && k < most; k++) {
            int32_t wrong = !rng_below(3, 2, f->n_guess++, 4);
            q->token[q->n_tok + k] = (fs->expect[q->n_tok + k] + wrong) % FAKE_VOCAB;
        }
        seq_draft(q, k);
    }
}

/* What a row says of the token behind it, where all that it read is right. */
static inline void fake_say(struct fake_seq *fs, int64_t i, uint64_t sum)
{
    struct seq *q = &fs->q;
    assert_int_equal(i, fs->n_answer); /* each once, in order */
    fs->n_answer++;
    if (i >= q->n_prompt - 1 && i + 1 < q->n_max)
        assert_int_equal(fake_token(sum, fs->seed), fs->expect[i + 1]);
}

static inline void fake_answer(struct fake *f, const struct sched_part *p)
{
    struct fake_seq *fs = p->seq->owner;
    struct seq *q = p->seq;
    uint64_t sum = 0;
    int64_t end = p->pos + p->n_tok - p->n_draft, n_tok = q->n_tok;
    for (int64_t i = 0; i < end; i++) {
        int32_t cell = q->cell[i / f->cell_tok];
        assert_true(f->written[cell] < f->n_step || f->written_by[cell] == q);
        sum = fake_mix(sum, *fake_slot(f, q, i));
        if (i >= end + p->n_draft - p->n_out)
            fake_say(fs, i, sum);
    }
    if (end < n_tok || q->is_paused) /* or it was turned out since, and is computed again */
        return;
    assert_int_equal(p->n_out >= 1, 1);
    if (f->pauses && !p->n_draft && !q->is_whole && !rng_below(3, 4, f->n_pause_draw++, 6)) {
        seq_pause(q);
        fs->paused_next = f->paused;
        f->paused = fs;
        f->n_paused++;
        return;
    }
    if (f->is_late) {
        fs->drawn_next = fake_token(sum, fs->seed);
        fs->has_next = true;
        return;
    }
    if (q->n_tok < fs->n_want)
        seq_push(q, fake_token(sum, fs->seed));
    for (int64_t k = 1; k <= p->n_draft && q->n_agreed == k; k++) {
        sum = fake_mix(sum, *fake_slot(f, q, end + k - 1));
        fake_say(fs, end + k - 1, sum);
        seq_push(q, fake_token(sum, fs->seed));
    }
    f->n_draft += p->n_draft;
    f->n_cut += p->n_draft - q->n_agreed;
    if (q->n_tok >= fs->n_want || q->is_whole)
        seq_finish(q);
}

/* Runs what the step says: all write before any reads. */
static inline void fake_run(struct fake *f, const struct sched_step *step)
{
    f->n_step++;
    f->n_row += step->n_tok;
    for (int64_t i = 0; i < step->n_part; i++)
        fake_write(f, &step->part[i]);
    for (int64_t i = 0; i < step->n_part; i++)
        fake_states(f, &step->part[i]);
    for (int64_t i = 0; i < step->n_part; i++)
        fake_answer(f, &step->part[i]);
}

/* Between two steps: what follows of texts that were paused, some of them or all. */
static inline void fake_go_on(struct fake *f, bool all)
{
    for (struct fake_seq **at = &f->paused, *fs; (fs = *at) != NULL;) {
        struct seq *q = &fs->q;
        bool is_gone = q->state == SEQ_DONE;
        if (!all && !is_gone && rng_below(3, 5, f->n_pause_draw++, 2)) {
            at = &fs->paused_next;
            continue;
        }
        *at = fs->paused_next;
        if (!is_gone && q->n_tok < fs->n_want)
            seq_push(q, fs->expect[q->n_tok]);
        if (!is_gone && q->n_tok == fs->n_want)
            sched_remove(f->s, q);
    }
}

static inline bool fake_next(struct fake *f, struct sched_step *step)
{
    fake_go_on(f, false);
    while (!sched_next(f->s, step)) {
        if (!f->paused)
            return false;
        fake_go_on(f, true);
    }
    return true;
}

/* One step, in us of made-up time; false: nothing to do. */
static inline bool fake_step(struct fake *f, int64_t us)
{
    struct sched_step step;
    if (!fake_next(f, &step))
        return false;
    fake_run(f, &step);
    sched_ran(f->s, us);
    return true;
}

/* A sequence of n_prompt tokens of the text `text`, which says n_new more. */
static inline struct fake_seq *fake_seq_new(uint64_t text, int64_t n_prompt, int64_t n_new)
{
    struct fake_seq *f = xcalloc(1, sizeof *f);
    f->q = (struct seq){.n_prompt = n_prompt, .n_max = n_prompt + n_new, .owner = f};
    f->q.token = xcalloc((size_t)f->q.n_max + 1, sizeof *f->q.token);
    f->n_want = f->q.n_max;
    f->n_answer = n_prompt - 1;
    for (int64_t i = 0; i < n_prompt; i++)
        f->q.token[i] = (int32_t)rng_below(1, text, (uint64_t)i, FAKE_VOCAB);
    return f;
}

/* After the fields of f->q are as they should be. */
static inline void fake_seq_ready(struct fake_seq *f)
{
    if (f->q.wants_prompt)
        f->n_answer = 0;
    fake_expect(f);
}

static inline void fake_seq_free(struct fake_seq *f)
{
    free(f->expect);
    free(f->q.token);
    free(f);
}

static inline void fake_submit(struct fake *f, struct fake_seq *q)
{
    struct err e = ERR_INIT;
    struct seq *one = &q->q;
    if (!q->expect)
        fake_seq_ready(q);
    assert_good(sched_submit(f->s, &one, 1, &e), &e);
}

static inline void fake_check_text(const struct fake_seq *f)
{
    assert_int_equal(f->q.state, SEQ_DONE);
    assert_int_equal(f->q.n_tok, f->n_want);
    assert_memory_equal(f->q.token, f->expect, (size_t)f->q.n_tok * sizeof *f->expect);
}

#endif
