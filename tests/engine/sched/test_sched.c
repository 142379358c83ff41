/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's rules, one by one.
 */
#include "tests/engine/sched/fake.h"

static const struct sched_options PLAIN = {.n_cell = 64,
                                           .cell_tok = 4,
                                           .cap_tok = 32,
                                           .cap_seq = 8,
                                           .cap_out = 8,
                                           .max_wait = 100,
                                           .keeps_prefixes = true};

/* Submitted, of a text of its own unless said otherwise. */
static struct fake_seq *put(struct fake *f, uint64_t text, int64_t n_prompt, int64_t n_new,
                            int32_t priority)
{
    struct fake_seq *q = fake_seq_new(text, n_prompt, n_new);
    q->q.priority = priority;
    fake_submit(f, q);
    return q;
}

static int64_t drain(struct fake *f)
{
    int64_t n = 0;
    while (fake_step(f, 0))
        n++;
    return n;
}

static void finish(struct fake_seq *q)
{
    fake_check_text(q);
    fake_seq_free(q);
}

static int64_t rows_in(const struct sched_step *step, const struct fake_seq *q)
{
    for (int64_t i = 0; i < step->n_part; i++)
        if (step->part[i].seq == &q->q)
            return step->part[i].n_tok;
    return 0;
}

static struct sched_step step_of(struct fake *f)
{
    struct sched_step step;
    assert_true(sched_next(f->s, &step));
    return step;
}

static void run(struct fake *f, const struct sched_step *step)
{
    fake_run(f, step);
    sched_ran(f->s, 0);
}

/* Fault: a long prompt that holds up who decodes, or a chunk longer than was said. */
static void decodes_go_first(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.chunk = 5;
    struct fake f = fake_begin(o);
    struct fake_seq *a = put(&f, 1, 3, 40, 0), *b = put(&f, 2, 4, 40, 0);
    struct sched_step step = step_of(&f);
    assert_int_equal(step.n_tok, 7);
    run(&f, &step);
    struct fake_seq *c = put(&f, 3, 50, 2, -9);
    for (int i = 0; i < 10; i++) {
        step = step_of(&f);
        if (!FAKE_IS_FORCED) {
            assert_int_equal(rows_in(&step, a), 1);
            assert_int_equal(rows_in(&step, b), 1);
            assert_int_equal(rows_in(&step, c), 5);
            assert_int_equal(step.n_out, i < 9 ? 2 : 3);
        }
        run(&f, &step);
    }
    drain(&f);
    finish(a), finish(b), finish(c);
    fake_end(&f);
}

/* Fault: prompts that came first wait for the last of those that came with them; a prompt that is
 * cut short by the rule; a step that stays small under short ones. */
static void begins_no_more_than_enough(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.enough = 10;
    struct fake f = fake_begin(o);
    static const int64_t len[] = {3, 4, 5, 20, 2};
    static const int64_t step_of_prompt[] = {0, 0, 0, 1, 2};
    struct fake_seq *q[5];
    for (int i = 0; i < 5; i++)
        q[i] = put(&f, (uint64_t)i + 1, len[i], 1, 0);
    for (int k = 0; k < 3 && !FAKE_IS_FORCED; k++) {
        struct sched_step step = step_of(&f);
        for (int i = 0; i < 5; i++)
            assert_int_equal(rows_in(&step, q[i]), step_of_prompt[i] == k ? len[i] : 0);
        run(&f, &step);
    }
    drain(&f);
    for (int i = 0; i < 5; i++)
        finish(q[i]);
    fake_end(&f);
}

/* Fault: prompts in another order than priority, then age. */
static void ranks_by_priority_then_age(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.cap_tok = 8;
    struct fake f = fake_begin(o);
    struct fake_seq *q[4] = {put(&f, 1, 8, 1, 1), put(&f, 2, 8, 1, 0), put(&f, 3, 8, 1, 0),
                             put(&f, 4, 8, 1, -1)};
    const int order[] = {3, 1, 2, 0};
    for (int i = 0; i < 4; i++) {
        struct sched_step step = step_of(&f);
        assert_int_equal(rows_in(&step, q[order[i]]), 8);
        run(&f, &step);
        assert_int_equal(q[order[i]]->q.state, SEQ_DONE);
    }
    for (int i = 0; i < 4; i++)
        finish(q[i]);
    fake_end(&f);
}

/* Steps until `old` is done while every step brings a new sequence of the highest priority. */
static int64_t steps_until_done(int64_t age_tok, int32_t priority, int64_t most)
{
    struct sched_options o = PLAIN;
    o.cap_tok = 8;
    o.age_tok = age_tok;
    o.keeps_prefixes = false;
    struct fake f = fake_begin(o);
    struct fake_seq *old = put(&f, 1, 8, 1, priority), *q[600];
    int64_t n = 0;
    for (; old->q.state != SEQ_DONE && n < most; n++) {
        q[n] = put(&f, (uint64_t)n + 2, 8, 1, 0);
        fake_step(&f, 0);
    }
    drain(&f);
    for (int64_t i = 0; i < n; i++)
        finish(q[i]);
    finish(old);
    fake_end(&f);
    return n;
}

/* Fault: a low priority that never runs, or priorities that count for nothing. */
static void age_makes_up_for_priority(void **state)
{
    (void)state;
    assert_in_range(steps_until_done(80, 2, 500), 20, 22);
    assert_in_range(steps_until_done(80, 0, 500), 1, 1);
    assert_int_equal(steps_until_done(1000000, 2, 100), 100);
    assert_in_range(steps_until_done(80, INT32_MAX, 500), 160, 162); /* as 16 */
}

/* Fault: part of a group left behind, or a full queue that takes more. */
static void groups_come_whole_or_not_at_all(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.max_wait = 3;
    o.cap_seq = 2;
    struct fake f = fake_begin(o);
    struct fake_seq *q[6];
    struct seq *group[6];
    struct err e = ERR_INIT;
    for (int i = 0; i < 6; i++) {
        q[i] = fake_seq_new((uint64_t)i, 8, 4);
        fake_seq_ready(q[i]);
        group[i] = &q[i]->q;
    }
    group[3]->n_max = 64 * 4 + 1;
    assert_err(sched_submit(f.s, group, 6, &e), &e, ERR_TOO_LARGE, "257 tokens");
    group[3]->n_max = 12;
    assert_err(sched_submit(f.s, group, 6, &e), &e, ERR_BUSY, "waiting");
    assert_int_equal(sched_stat(f.s).n_waiting, 0);
    for (int i = 0; i < 6; i++)
        assert_true(!group[i]->node && group[i]->state == SEQ_NEW);
    assert_good(sched_submit(f.s, group, 5, &e), &e); /* two can sit down, three may wait */
    assert_err(sched_submit(f.s, group + 5, 1, &e), &e, ERR_BUSY, "3 may");
    drain(&f);
    assert_good(sched_submit(f.s, group + 5, 1, &e), &e);
    drain(&f);
    for (int i = 0; i < 6; i++)
        finish(q[i]);
    fake_end(&f);
}

/* Fault: n choices that compute their prompt n times, or say something else for sharing it. */
static void choices_compute_their_prompt_once(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    struct fake_seq *q[6];
    struct seq *group[6];
    struct err e = ERR_INIT;
    for (int i = 0; i < 6; i++) {
        q[i] = fake_seq_new(1, 30, 3);
        q[i]->seed = (uint64_t)i;
        fake_seq_ready(q[i]);
        group[i] = &q[i]->q;
    }
    assert_good(sched_submit(f.s, group, 6, &e), &e);
    drain(&f);
    /* 7 cells are common; 2 tokens of the prompt are left to each, and 2 of the answer */
    if (!FAKE_IS_FORCED)
        assert_int_equal(f.n_row, 28 + 6 * (2 + 2));
    for (int i = 1; i < 6; i++)
        assert_int_equal(q[i]->q.n_cached, 28);
    for (int i = 0; i < 6; i++)
        finish(q[i]);
    fake_end(&f);
}

/* A maker whose first step failed, and two who wait for its cells. */
static struct fake parked_behind(struct fake_seq **q)
{
    struct fake f = fake_begin(PLAIN);
    for (int i = 0; i < 3; i++)
        q[i] = put(&f, 1, 30, 2, 0);
    step_of(&f);
    sched_failed(f.s);
    assert_int_equal(q[0]->q.state, SEQ_RUNNING);
    for (int i = 1; i < 3; i++)
        assert_int_equal(q[i]->q.node->place, NODE_PARKED);
    return f;
}

/* Fault: a sequence that waits for ever for one that left. */
static void who_waits_goes_on_when_the_maker_leaves(void **state)
{
    (void)state;
    struct fake_seq *q[3];
    struct fake f = parked_behind(q);
    sched_remove(f.s, &q[1]->q); /* from its parking place */
    sched_remove(f.s, &q[0]->q);
    drain(&f);
    finish(q[2]);
    fake_seq_free(q[0]), fake_seq_free(q[1]);
    fake_end(&f);
}

/* Fault: one that waits for cells that will not be found any more. */
static void who_waits_goes_on_when_the_adapter_is_forgotten(void **state)
{
    (void)state;
    struct fake_seq *q[3];
    struct fake f = parked_behind(q);
    sched_forget(f.s, 0);
    for (int i = 1; i < 3; i++)
        assert_int_equal(q[i]->q.node->place, NODE_QUEUED);
    drain(&f);
    for (int i = 0; i < 3; i++)
        finish(q[i]);
    fake_end(&f);
}

/* Fault: a high priority that waits for what a low one computes when it is its turn. */
static void nobody_waits_for_a_worse_ranked_maker(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    struct fake_seq *low = put(&f, 1, 100, 2, 1);
    fake_step(&f, 0);
    struct fake_seq *high = put(&f, 1, 100, 2, 0);
    struct sched_step step = step_of(&f);
    if (!FAKE_IS_FORCED)
        assert_int_equal(rows_in(&step, high), 32);
    run(&f, &step);
    drain(&f);
    finish(low), finish(high);
    fake_end(&f);
}

/* Fault: more answers in a step than there is room for; a prefix taken where answers are wanted. */
static void prompts_with_answers_go_in_parts(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    struct fake_seq *a = put(&f, 1, 30, 1, 0);
    drain(&f);
    struct fake_seq *b = fake_seq_new(1, 30, 1);
    b->q.wants_prompt = true;
    fake_submit(&f, b);
    for (int64_t at = 0; at < 30; at += 8) {
        struct sched_step step = step_of(&f);
        assert_int_equal(step.n_tok, at + 8 < 30 ? 8 : 30 - at);
        assert_int_equal(step.n_out, step.n_tok);
        run(&f, &step);
    }
    assert_int_equal(b->n_answer, 30);
    assert_int_equal(b->q.n_cached, 0);
    finish(a), finish(b);
    fake_end(&f);
}

/* Fault: an encoder's text in two steps, or with cells left; or never, beside those that decode. */
static void whole_prompts_run_in_one_step(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    struct fake_seq *a = put(&f, 1, 4, 30, 0), *w[3];
    fake_step(&f, 0);
    for (int i = 0; i < 3; i++) {
        w[i] = fake_seq_new((uint64_t)i + 5, 32, 0); /* as long as a step */
        w[i]->q.is_whole = true;
        fake_submit(&f, w[i]);
    }
    for (int i = 0; i < 6; i++) {
        struct sched_step step = step_of(&f);
        if (!FAKE_IS_FORCED) { /* every other step is its own */
            assert_int_equal(rows_in(&step, a), i % 2);
            assert_int_equal(rows_in(&step, w[i / 2]), i % 2 ? 0 : 32);
        }
        run(&f, &step);
        assert_true(sched_stat(f.s).cell_used <= 3);
    }
    struct fake_seq *large = fake_seq_new(9, 33, 0);
    struct seq *one = &large->q;
    struct err e = ERR_INIT;
    large->q.is_whole = true;
    assert_err(sched_submit(f.s, &one, 1, &e), &e, ERR_TOO_LARGE, "33 tokens");
    drain(&f);
    finish(a), finish(w[0]), finish(w[1]), finish(w[2]);
    fake_seq_free(large);
    fake_end(&f);
}

/* Fault: another than the youngest of the lowest priority turned out when cells run out. */
static void the_youngest_of_the_lowest_gives_way(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.n_cell = 12;
    struct fake f = fake_begin(o);
    struct fake_seq *a = put(&f, 1, 8, 30, 1), *b = put(&f, 2, 8, 30, 0), *c = put(&f, 3, 8, 30, 1);
    while (!sched_stat(f.s).n_preempted)
        assert_true(fake_step(&f, 0));
    if (!FAKE_IS_FORCED) {
        assert_int_equal(c->q.state, SEQ_PREEMPTED);
        assert_int_equal(c->q.n_stand, 0);
        while (sched_stat(f.s).n_preempted < 2 && b->q.state == SEQ_RUNNING)
            assert_true(fake_step(&f, 0));
        assert_int_equal(a->q.state, SEQ_PREEMPTED);
        assert_int_equal(b->q.state, SEQ_RUNNING);
    }
    drain(&f);
    finish(a), finish(b), finish(c);
    fake_end(&f);
}

/* Fault: a high priority that waits for a seat behind low ones; an equal one that turns out. */
static void a_higher_priority_turns_lower_ones_out(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.cap_seq = 2;
    struct fake f = fake_begin(o);
    struct fake_seq *a = put(&f, 1, 4, 20, 0), *b = put(&f, 2, 4, 20, 0);
    fake_step(&f, 0);
    struct fake_seq *c = put(&f, 3, 4, 20, 0);
    fake_step(&f, 0);
    assert_int_equal(c->q.state, SEQ_WAITING);
    struct fake_seq *d = put(&f, 4, 4, 20, -1);
    fake_step(&f, 0);
    assert_int_equal(d->q.state, SEQ_RUNNING);
    assert_int_equal(b->q.state, SEQ_PREEMPTED);
    drain(&f);
    finish(a), finish(b), finish(c), finish(d);
    fake_end(&f);
}

/* Fault: an older sequence that turns out a younger one rather than take the next seat. */
static void age_turns_nobody_out(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.cap_seq = 2;
    struct fake f = fake_begin(o);
    struct fake_seq *a = put(&f, 1, 8, 20, 0), *b = put(&f, 1, 8, 20, 0), *c = put(&f, 2, 8, 20, 0);
    fake_step(&f, 0); /* b waited for a's cells, so c got the second seat */
    assert_int_equal(c->q.state, SEQ_RUNNING);
    assert_ptr_equal(tenants_first(&f.s->tenants), b->q.node);
    fake_step(&f, 0);
    assert_int_equal(c->q.state, SEQ_RUNNING);
    assert_int_equal(b->q.state, SEQ_WAITING);
    drain(&f);
    finish(a), finish(b), finish(c);
    fake_end(&f);
}

/* Fault: newcomers that get their last cells, and are turned out again at the next step. */
static void newcomers_leave_room_to_grow(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.n_cell = 16;
    o.keeps_prefixes = false;
    struct fake f = fake_begin(o);
    struct fake_seq *q[40];
    for (int i = 0; i < 40; i++)
        q[i] = put(&f, (uint64_t)i, 11, 13, 0); /* three cells, and six in the end */
    drain(&f);
    print_message("turned out: %ld of 40\n", (long)sched_stat(f.s).preempted);
    assert_true(sched_stat(f.s).preempted <= (FAKE_IS_FORCED ? 80 : 14));
    for (int i = 0; i < 40; i++)
        finish(q[i]);
    fake_end(&f);
}

/* Fault: prompts that no seat is left for stretch the steps of those that decode. */
static void who_has_no_seat_does_not_press(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.cap_seq = 3;
    struct fake f = fake_begin(o);
    struct fake_seq *q[12];
    for (int i = 0; i < 2; i++)
        q[i] = put(&f, (uint64_t)i + 1, 4, 20, 0);
    fake_step(&f, 0);
    for (int i = 2; i < 12; i++)
        q[i] = put(&f, (uint64_t)i + 1, 4, 20, 0);
    if (!FAKE_IS_FORCED) {
        struct sched_step step = step_of(&f);
        assert_int_equal(step.n_decode, 2);
        assert_int_equal(f.s->n_press, 1); /* ten wait, one seat is free */
        run(&f, &step);
        step = step_of(&f);
        assert_int_equal(step.n_decode, 3);
        assert_int_equal(f.s->n_press, 0);
        run(&f, &step);
    }
    drain(&f);
    for (int i = 0; i < 12; i++)
        finish(q[i]);
    fake_end(&f);
}

static int64_t found_by(struct fake *f, uint64_t salt, uint64_t adapter)
{
    struct fake_seq *q = fake_seq_new(1, 30, 1);
    q->q.salt = salt;
    q->q.adapter = adapter;
    fake_submit(f, q);
    drain(f);
    int64_t n = q->q.n_cached;
    finish(q);
    return n;
}

/* Fault: one tenant's prefix found by another, one adapter's by another, or a forgotten one. */
static void prefixes_belong_to_tenant_and_adapter(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    assert_int_equal(found_by(&f, 1, 1), 0);
    assert_int_equal(found_by(&f, 1, 1), 28);
    assert_int_equal(found_by(&f, 2, 1), 0);
    assert_int_equal(found_by(&f, 1, 2), 0);
    int64_t kept = sched_stat(f.s).cell_kept;
    sched_forget(f.s, 1);
    assert_true(sched_stat(f.s).cell_kept < kept);
    assert_int_equal(found_by(&f, 1, 1), 0);
    assert_int_equal(found_by(&f, 1, 2), 28);
    fake_end(&f);
    struct sched_options o = PLAIN;
    o.keeps_prefixes = false;
    f = fake_begin(o);
    assert_int_equal(found_by(&f, 1, 1), 0);
    assert_int_equal(found_by(&f, 1, 1), 0);
    assert_int_equal(sched_stat(f.s).cell_kept, 0);
    fake_end(&f);
}

/* Fault: adapters in a step not side by side, or out of the order of their submission. */
static void parts_are_sorted_by_adapter(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.cap_seq = o.cap_out = 32;
    struct fake f = fake_begin(o);
    struct fake_seq *q[32];
    for (int i = 0; i < 32; i++) {
        q[i] = fake_seq_new((uint64_t)i, 1, 3);
        q[i]->q.adapter = (uint64_t)(i * 7 % 5);
        fake_submit(&f, q[i]);
    }
    struct sched_step step = step_of(&f);
    assert_int_equal(step.n_part, 32);
    for (int64_t i = 1; i < 32; i++) {
        const struct seq *a = step.part[i - 1].seq, *b = step.part[i].seq;
        assert_true(a->adapter < b->adapter || (a->adapter == b->adapter && a->age < b->age));
    }
    run(&f, &step);
    drain(&f);
    for (int i = 0; i < 32; i++)
        finish(q[i]);
    fake_end(&f);
}

/* From here on b's text is what a's is, as far as that has come. */
static void follow(struct fake *f, struct fake_seq *b, const struct fake_seq *a)
{
    int64_t n = a->q.n_tok;
    assert_int_equal(a->q.n_max, b->q.n_max);
    memcpy(b->q.token, a->q.token, (size_t)n * sizeof *a->q.token);
    memcpy(b->expect, a->expect, (size_t)a->q.n_max * sizeof *a->expect);
    b->n_answer = n - 1;
    sched_rewrite(f->s, &b->q, n);
}

/* Faults: a text that goes on from another's with its own keys or states; one that computes what
 * stands already; one that waits, or is rewritten over and over, and loses its place. */
static void a_text_goes_on_from_anothers(void **state)
{
    (void)state;
    for (int states = 0; states < 2; states++) {
        struct sched_options o = PLAIN;
        o.cap_seq = o.cap_out = 3; /* the last one waits */
        o.has_states = states;
        o.n_snapshot = 4;
        struct fake f = fake_begin(o);
        struct fake_seq *q[4];
        for (int i = 0; i < 4; i++)
            q[i] = put(&f, (uint64_t)i + 1, 9, 30, 0), q[i]->q.forks = true;
        for (int i = 0; i < 12 || !fake_is_settled(q, 3); i++)
            assert_true(fake_step(&f, 0));
        int64_t n = q[0]->q.n_tok;
        uint64_t hit = sched_stat(f.s).prefix_hit, preempted = sched_stat(f.s).preempted;
        follow(&f, q[1], q[0]);
        follow(&f, q[3], q[0]);
        assert_int_equal(q[1]->q.n_tok, n);
        assert_true(fake_step(&f, 0));
        assert_int_equal(sched_stat(f.s).prefix_hit - hit, (n - 1) / 4 * 4);
        assert_int_equal(sched_stat(f.s).preempted, preempted);
        for (int i = 0; i < 3; i++) {
            follow(&f, q[1], q[0]);
            assert_true(fake_step(&f, 0));
        }
        drain(&f);
        for (int i = 0; i < 4; i++)
            finish(q[i]);
        fake_end(&f);
    }
}

/* Faults: a text that runs though nobody says what follows, or that is lost; an answer that is told
 * twice. */
static void a_text_is_paused(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    struct fake_seq *a = put(&f, 1, 6, 10, 0), *b = put(&f, 2, 6, 10, 0);
    f.pauses = true;
    while (fake_step(&f, 0))
        ;
    assert_true(f.n_paused > 2 && (FAKE_IS_FORCED || f.n_row == 2 * (6 + 9)));
    finish(a);
    finish(b);
    fake_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_goes_on_from_anothers),
        cmocka_unit_test(a_text_is_paused),
        cmocka_unit_test(decodes_go_first),
        cmocka_unit_test(begins_no_more_than_enough),
        cmocka_unit_test(ranks_by_priority_then_age),
        cmocka_unit_test(age_makes_up_for_priority),
        cmocka_unit_test(groups_come_whole_or_not_at_all),
        cmocka_unit_test(choices_compute_their_prompt_once),
        cmocka_unit_test(who_waits_goes_on_when_the_maker_leaves),
        cmocka_unit_test(who_waits_goes_on_when_the_adapter_is_forgotten),
        cmocka_unit_test(nobody_waits_for_a_worse_ranked_maker),
        cmocka_unit_test(prompts_with_answers_go_in_parts),
        cmocka_unit_test(whole_prompts_run_in_one_step),
        cmocka_unit_test(the_youngest_of_the_lowest_gives_way),
        cmocka_unit_test(a_higher_priority_turns_lower_ones_out),
        cmocka_unit_test(age_turns_nobody_out),
        cmocka_unit_test(newcomers_leave_room_to_grow),
        cmocka_unit_test(who_has_no_seat_does_not_press),
        cmocka_unit_test(prefixes_belong_to_tenant_and_adapter),
        cmocka_unit_test(parts_are_sorted_by_adapter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
