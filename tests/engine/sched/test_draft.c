/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of k tokens a sequence: drafts that are right, that are wrong, and what they may take.
 */
#include "tests/engine/sched/fake.h"

/* The model, and what the next drafts are like. */
struct world {
    struct fake fake;
    int64_t n, wrong_at; /* tokens of a draft; the first that is wrong */
};

static void draft(void *ctx, const struct sched_part *part, int64_t n)
{
    struct world *w = ctx;
    for (int64_t i = 0; i < n; i++) {
        struct seq *q = part[i].seq;
        const struct fake_seq *fs = q->owner;
        int64_t most = q->n_max - q->n_tok - 1, k = w->n < most ? w->n : most;
        for (int64_t j = 0; j < k; j++)
            q->token[q->n_tok + j] = (fs->expect[q->n_tok + j] + (j == w->wrong_at)) % FAKE_VOCAB;
        if (k > 0)
            seq_draft(q, k);
    }
}

static void begin(struct world *w, int64_t n_cell)
{
    struct sched_options o = {.n_cell = n_cell,
                              .cell_tok = 4,
                              .cap_tok = 32,
                              .cap_seq = 8,
                              .cap_out = 8,
                              .max_wait = 100,
                              .keeps_prefixes = true,
                              .draft = draft,
                              .draft_ctx = w};
    *w = (struct world){.wrong_at = -1, .fake = fake_begin(o)};
}

static struct fake_seq *put(struct world *w, uint64_t text, int64_t n_prompt, int64_t n_new)
{
    struct fake_seq *q = fake_seq_new(text, n_prompt, n_new);
    fake_submit(&w->fake, q);
    return q;
}

static void end(struct world *w, struct fake_seq *a, struct fake_seq *b)
{
    while (fake_step(&w->fake, 0))
        ;
    fake_check_text(a);
    fake_seq_free(a);
    if (b) {
        fake_check_text(b);
        fake_seq_free(b);
    }
    fake_end(&w->fake);
}

static struct sched_step step_of(struct world *w)
{
    struct sched_step step;
    assert_true(sched_next(w->fake.s, &step));
    fake_run(&w->fake, &step);
    return step;
}

/* Faults: a draft whose rows are not all answered; one right token lost, or one wrong token kept;
 * keys and values of a wrong one that are taken for standing. */
static void a_draft_stands_as_far_as_it_is_right(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 64);
    struct fake_seq *q = put(&w, 1, 5, 40);
    fake_step(&w.fake, 0);
    for (int64_t wrong = 0; wrong < 6 && !FAKE_IS_FORCED; wrong++) {
        int64_t had = q->q.n_tok;
        w.n = 5;
        w.wrong_at = wrong;
        struct sched_step step = step_of(&w);
        assert_int_equal(step.n_tok, 6);
        assert_int_equal(step.n_out, 6);
        assert_int_equal(step.n_draft, 5);
        assert_int_equal(step.part[0].pos, had - 1);
        sched_ran(w.fake.s, 0);
        assert_int_equal(q->q.n_tok, had + 1 + (wrong < 5 ? wrong : 5));
        assert_int_equal(q->q.n_stand, q->q.n_tok - 1);
    }
    end(&w, q, NULL);
}

/* Faults: a cell that only guesses needed and that stays taken; one with a wrong key that others
 * find, or that is published too early. */
static void what_is_cut_is_given_back_and_never_found(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 64);
    struct fake_seq *a = put(&w, 1, 6, 30);
    fake_step(&w.fake, 0);
    w.n = 6;
    w.wrong_at = 0;
    step_of(&w);
    assert_int_equal(sched_stat(w.fake.s).cell_used, 4);
    sched_ran(w.fake.s, 0);
    assert_int_equal(sched_stat(w.fake.s).cell_used, 2);
    struct fake_seq *b = fake_seq_new(1, 6, 30); /* the same text, and what was guessed behind it */
    w.n = 0;
    fake_submit(&w.fake, b);
    end(&w, a, b);
}

/* Faults: a sequence that is turned out for a guess; a draft given up whole where some of it fits.
 */
static void drafts_take_cells_that_are_free(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 4);
    struct fake_seq *a = put(&w, 1, 4, 9), *b = put(&w, 2, 4, 4);
    fake_step(&w.fake, 0);
    w.n = 5;
    struct sched_step step = step_of(&w); /* each has a cell of four, and one with a token in it */
    if (!FAKE_IS_FORCED) {
        assert_int_equal(step.n_part, 2);
        assert_int_equal(step.part[0].n_draft, 3);
        assert_int_equal(step.part[1].n_draft, 2);
        assert_int_equal(sched_stat(w.fake.s).preempted, 0);
    }
    sched_ran(w.fake.s, 0);
    end(&w, a, b);
}

/* Faults: guesses that stretch a step which a prompt waits for, or that keep it from being
 * measured. */
static void no_drafts_beside_prompts(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 64);
    struct fake_seq *a = put(&w, 1, 3, 40);
    fake_step(&w.fake, 0);
    w.n = 3;
    struct sched_step step = step_of(&w);
    assert_int_equal(step.n_draft, FAKE_IS_FORCED ? step.n_draft : 3);
    sched_ran(w.fake.s, 0);
    struct fake_seq *b = put(&w, 2, 60, 40);
    do {
        step = step_of(&w);
        assert_int_equal(step.n_draft, 0);
        sched_ran(w.fake.s, 0);
    } while (b->q.n_tok == 60);
    end(&w, a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_draft_stands_as_far_as_it_is_right),
        cmocka_unit_test(what_is_cut_is_given_back_and_never_found),
        cmocka_unit_test(drafts_take_cells_that_are_free),
        cmocka_unit_test(no_drafts_beside_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
