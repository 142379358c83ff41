/* SPDX-License-Identifier: Apache-2.0
 *
 * Tenants beside each other: what one asks for costs another no more than its share. Time is
 * counted in steps, and service in tokens.
 */
#include "tests/engine/sched/fake.h"

static const struct sched_options PLAIN = {.n_cell = 256,
                                           .cell_tok = 4,
                                           .cap_tok = 32,
                                           .cap_seq = 8,
                                           .cap_out = 8,
                                           .max_wait = 1000,
                                           .chunk = 24};

static void end(struct fake *f)
{
    while (fake_step(f, 0))
        ;
    fake_end(f);
}

static struct fake_seq *put(struct fake *f, uint64_t tenant, int64_t weight, int64_t n_prompt,
                            int64_t n_new)
{
    struct fake_seq *q = fake_seq_new(tenant * 1000 + (uint64_t)f->n_step, n_prompt, n_new);
    q->q.tenant = tenant;
    q->q.weight = weight;
    fake_submit(f, q);
    return q;
}

static int64_t steps_until_done(struct fake *f, const struct fake_seq *q)
{
    int64_t n = 0;
    for (; q->q.state != SEQ_DONE; n++)
        assert_true(fake_step(f, 0));
    return n;
}

/* How long one request of a tenant takes behind `n` of another, which have run for a while. */
static int64_t behind(struct sched_options o, int n, int64_t n_prompt, int64_t n_new)
{
    struct fake f = fake_begin(o);
    struct fake_seq *crowd[300];
    for (int i = 0; i < n; i++)
        crowd[i] = put(&f, 1, 1, n_prompt, n_new);
    for (int i = 0; n && i < 20; i++)
        fake_step(&f, 0);
    struct fake_seq *one = put(&f, 2, 1, n_prompt, n_new);
    int64_t steps = steps_until_done(&f, one);
    fake_check_text(one);
    end(&f);
    for (int i = 0; i < n; i++) {
        fake_check_text(crowd[i]);
        fake_seq_free(crowd[i]);
    }
    fake_seq_free(one);
    return steps;
}

/* Fault: one tenant's 300 requests, which came first and hold all seats, or all cells, make
 * another's wait longer than twice its time alone. */
static void three_hundred_do_not_starve_one(void **state)
{
    static const struct {
        int64_t n_prompt, n_new;
    } text[] = {{8, 40}, {60, 12}, {4, 120}, {120, 4}};
    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text && !FAKE_IS_FORCED; i++) {
        struct sched_options few = PLAIN;
        few.n_cell = 64;
        int64_t alone = behind(PLAIN, 0, text[i].n_prompt, text[i].n_new);
        int64_t seats = behind(PLAIN, 300, text[i].n_prompt, text[i].n_new);
        int64_t cells = behind(few, 300, text[i].n_prompt, text[i].n_new);
        print_message("%lld steps alone, %lld behind others' seats, %lld behind their cells\n",
                      (long long)alone, (long long)seats, (long long)cells);
        assert_in_range(seats, alone, 2 * alone);
        assert_in_range(cells, alone, 2 * alone);
    }
}

/* Tokens that ran of each of two tenants who both ask for more than there is. */
static void serve_two(int64_t weight, int64_t n_new, bool is_whole, int64_t ran[2])
{
    struct sched_options o = PLAIN;
    struct fake f = fake_begin(o);
    struct fake_seq *q[2][300];
    struct sched_step step;
    for (int i = 0; i < 300; i++)
        for (int t = 0; t < 2; t++) {
            q[t][i] = fake_seq_new((uint64_t)i, t ? 6 : 12, is_whole ? 0 : n_new);
            q[t][i]->q.tenant = (uint64_t)t + 1;
            q[t][i]->q.weight = t ? weight : 1;
            q[t][i]->q.is_whole = is_whole;
            fake_submit(&f, q[t][i]);
        }
    ran[0] = ran[1] = 0;
    for (int k = 0; k < 60; k++) {
        assert_true(sched_next(f.s, &step));
        for (int64_t i = 0; i < step.n_part; i++)
            ran[step.part[i].seq->tenant - 1] += step.part[i].n_tok;
        fake_run(&f, &step);
        sched_ran(f.s, 0);
    }
    end(&f);
    for (int i = 0; i < 300; i++)
        for (int t = 0; t < 2; t++)
            fake_seq_free(q[t][i]);
}

/* Fault: shares by the number or the length of requests, not by weight. */
static void shares_follow_the_weights(void **state)
{
    static const int64_t weight[] = {1, 3};
    (void)state;
    for (int i = 0; i < 2 && !FAKE_IS_FORCED; i++)
        for (int whole = 0; whole < 2; whole++) {
            int64_t ran[2];
            serve_two(weight[i], 10, whole, ran);
            print_message("weight %lld: %lld and %lld tokens\n", (long long)weight[i],
                          (long long)ran[0], (long long)ran[1]);
            assert_in_range(ran[1] * 100 / ran[0], weight[i] * 100 - weight[i] * 30,
                            weight[i] * 100 + weight[i] * 30);
        }
}

/* Fault: who was away comes back with all that it did not use, and the other stands still. */
static void nobody_saves_up(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    struct fake_seq *a[200], *b[100];
    int64_t n_before_a = 0;
    for (int i = 0; i < 100; i++)
        a[i] = put(&f, 1, 1, 30, 2);
    for (int i = 0; i < 99; i++)
        steps_until_done(&f, a[i]);
    for (int i = 100; i < 200; i++)
        a[i] = put(&f, 1, 1, 30, 2);
    for (int i = 0; i < 100; i++)
        b[i] = put(&f, 2, 1, 30, 2);
    steps_until_done(&f, a[110]);
    for (int i = 0; i < 100; i++)
        n_before_a += b[i]->q.state == SEQ_DONE;
    assert_in_range(n_before_a, 5, 11 + TENANT_LAG_STEPS * 32 / 30 + 8);
    end(&f);
    for (int i = 0; i < 200; i++)
        fake_seq_free(a[i]);
    for (int i = 0; i < 100; i++)
        fake_seq_free(b[i]);
}

/* Fault: a tenant's highest priority turns out another tenant's texts. */
static void priority_is_a_tenants_own(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    struct fake_seq *b[4], *a[40];
    for (int i = 0; i < 4; i++)
        b[i] = put(&f, 2, 1, 4, 60);
    for (int i = 0; i < 40; i++) {
        a[i] = fake_seq_new((uint64_t)i, 4, 60);
        a[i]->q.tenant = 1;
        a[i]->q.priority = -16;
        fake_submit(&f, a[i]);
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(steps_until_done(&f, b[i]), 0, FAKE_IS_FORCED ? 200 : 64);
    end(&f);
    for (int i = 0; i < 4; i++)
        fake_seq_free(b[i]);
    for (int i = 0; i < 40; i++)
        fake_seq_free(a[i]);
}

/* Fault: a scheduler that keeps a record of each key that ever asked. */
static void who_is_gone_is_forgotten(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    for (uint64_t t = 0; t < 2000; t++) {
        struct fake_seq *q = put(&f, t, 1, 30, 2);
        steps_until_done(&f, q);
        fake_seq_free(q);
    }
    assert_in_range(f.s->tenants.by_id.n_live, 1, 20);
    end(&f);
}

static struct fake_seq *put_idle(struct fake *f, uint64_t tenant, int64_t n_prompt, int64_t n_new)
{
    struct fake_seq *q = fake_seq_new(tenant * 1000 + (uint64_t)f->n_step, n_prompt, n_new);
    q->q.tenant = tenant;
    q->q.is_idle = true;
    fake_submit(f, q);
    return q;
}

/* Fault: what takes idle time alone runs beside others, keeps a seat or cells from them, also of
 * its own key, or does not go on once they are gone. */
static void idle_stands_still_beside_others(void **state)
{
    static const int64_t n_cell[] = {256, 16};
    (void)state;
    for (int i = 0; i < 2 && !FAKE_IS_FORCED; i++)
        for (uint64_t tenant = 1; tenant <= 2; tenant++) {
            struct sched_options o = PLAIN;
            o.n_cell = n_cell[i];
            struct fake alone = fake_begin(o), f = fake_begin(o);
            struct fake_seq *idle[12], *one = put(&alone, tenant, 1, 30, 20), *same;
            int64_t want = steps_until_done(&alone, one);
            for (int k = 0; k < 12; k++)
                idle[k] = put_idle(&f, 1, 12, 20);
            for (int k = 0; k < 5; k++)
                assert_true(fake_step(&f, 0));
            int64_t before = f.n_row;
            same = put(&f, tenant, 1, 30, 20);
            assert_int_equal(steps_until_done(&f, same), want);
            assert_int_equal(f.n_row - before, alone.n_row);
            fake_check_text(same);
            for (int k = 0; k < 12; k++)
                assert_true(idle[k]->q.state != SEQ_DONE);
            end(&alone);
            end(&f);
            for (int k = 0; k < 12; k++) {
                fake_check_text(idle[k]);
                fake_seq_free(idle[k]);
            }
            fake_seq_free(one);
            fake_seq_free(same);
        }
}

/* Fault: a prompt that runs whole, and leaves the others no room in its step, waits for cells that
 * stand still as long as these decode. */
static void idle_work_gives_way_to_large_prompts(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.n_cell = 16;
    if (FAKE_IS_FORCED)
        return;
    struct fake f = fake_begin(o);
    struct fake_seq *idle = put_idle(&f, 1, 12, 20);
    assert_true(fake_step(&f, 0) && fake_step(&f, 0));
    struct fake_seq *busy = put(&f, 2, 1, 12, 40);
    assert_true(fake_step(&f, 0) && fake_step(&f, 0));
    struct fake_seq *whole = fake_seq_new(7, o.cap_tok, 0);
    whole->q.tenant = 3;
    whole->q.weight = 1;
    whole->q.is_whole = true;
    fake_submit(&f, whole);
    assert_in_range(steps_until_done(&f, whole), 1, 2);
    assert_true(busy->q.state != SEQ_DONE && idle->q.state != SEQ_DONE);
    end(&f);
    fake_check_text(idle);
    fake_check_text(busy);
    fake_seq_free(idle);
    fake_seq_free(busy);
    fake_seq_free(whole);
}

enum { EVERY = 10 };

/* Runs a step; whether it was idle work's. */
static bool step_beside(struct fake *f)
{
    struct sched_step step;
    assert_true(sched_next(f->s, &step));
    assert_true(!step.is_idle || step.is_due);
    assert_in_range(step.is_due ? step.n_tok : 1, 1, PACE_FLOOR);
    fake_run(f, &step);
    sched_ran(f->s, 0);
    return step.is_due;
}

/* Faults: idle work that stands as long as others come, however many wait for seats; that has more
 * than its part of the steps, or turns somebody out for it. */
static void idle_work_has_a_part(void **state)
{
    (void)state;
    for (int64_t crowd = 1; crowd <= 40 && !FAKE_IS_FORCED; crowd += 13) {
        struct sched_options o = PLAIN;
        struct fake_seq *busy[40], *ended[2000];
        int64_t n_step = 0, n_due = 0, n_ended = 0;
        o.idle_every = EVERY;
        o.max_wait = 100;
        struct fake f = fake_begin(o);
        struct fake_seq *idle = put_idle(&f, 1, 12, 20);
        for (int64_t k = 0; k < crowd; k++)
            busy[k] = put(&f, 2, 1, 10, 7);
        for (; idle->q.state != SEQ_DONE; n_step++) {
            assert_in_range(n_step, 0, EVERY * 25);
            n_due += step_beside(&f);
            for (int64_t k = 0; k < crowd; k++)
                if (busy[k]->q.state == SEQ_DONE) {
                    ended[n_ended++] = busy[k];
                    busy[k] = put(&f, 2, 1, 10, 7);
                }
        }
        assert_in_range(n_due, 1, n_step / EVERY + 1);
        assert_int_equal(sched_stat(f.s).preempted, 0);
        fake_check_text(idle);
        end(&f);
        for (int64_t k = 0; k < crowd; k++)
            ended[n_ended++] = busy[k];
        while (n_ended) {
            fake_check_text(ended[--n_ended]);
            fake_seq_free(ended[n_ended]);
        }
        fake_seq_free(idle);
    }
}

/* Fault: texts that go on together, of which some have no seat: none goes on, and what has a seat
 * keeps it from those behind it. */
static void idle_texts_wait_for_each_other(void **state)
{
    (void)state;
    enum { TOGETHER = 8 }; /* PLAIN.cap_seq */
    struct sched_options o = PLAIN;
    struct fake_seq *idle[TOGETHER], *busy[40];
    int64_t n_begun = 0;
    o.idle_every = EVERY;
    o.n_cell = 4096; /* seats alone are scarce */
    struct fake f = fake_begin(o);
    for (int k = 0; k < 40; k++)
        busy[k] = put(&f, 2, 1, 10, 200);
    for (int k = 0; k < TOGETHER; k++)
        idle[k] = put_idle(&f, 1, 12, 200);
    for (int n = 0; n_begun < TOGETHER && !FAKE_IS_FORCED; n++) {
        assert_in_range(n, 0, EVERY * TOGETHER * 2);
        step_beside(&f);
        n_begun = 0;
        for (int k = 0; k < TOGETHER; k++)
            n_begun += idle[k]->q.n_tok > idle[k]->q.n_prompt;
    }
    end(&f);
    for (int k = 0; k < 40; k++) {
        fake_check_text(busy[k]);
        fake_seq_free(busy[k]);
    }
    for (int k = 0; k < TOGETHER; k++) {
        fake_check_text(idle[k]);
        fake_seq_free(idle[k]);
    }
}

/* Fault: steps that are given up each time, since somebody comes more often than one takes. */
static void steps_that_are_given_up_end(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    struct sched_step step;
    o.idle_every = EVERY;
    struct fake f = fake_begin(o);
    struct fake_seq *idle = put_idle(&f, 1, 12, 5);
    for (int64_t n = 0; idle->q.state != SEQ_DONE; n++) {
        assert_in_range(n, 0, EVERY * 10);
        assert_true(sched_next(f.s, &step) && step.is_idle);
        if (step.is_due) {
            fake_run(&f, &step);
            sched_ran(f.s, 0);
        } else {
            sched_failed(f.s);
            sched_hurry(f.s, &step);
        }
        struct fake_seq *one = put(&f, 2, 1, 10, 1);
        steps_until_done(&f, one);
        fake_seq_free(one);
    }
    fake_check_text(idle);
    end(&f);
    fake_seq_free(idle);
}

/* Fault: a step that is not given up, and is long since nobody is there yet: who comes waits for
 * its end. */
static void its_part_is_short_though_nobody_is_there(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    struct sched_step step;
    o.idle_every = EVERY;
    struct fake f = fake_begin(o);
    struct fake_seq *idle = put_idle(&f, 1, 60, 1), *one = put(&f, 2, 1, 10, EVERY - 1);
    int64_t n = steps_until_done(&f, one);
    assert_true(FAKE_IS_FORCED || n == EVERY - 1);
    while (idle->q.state != SEQ_DONE) {
        assert_true(sched_next(f.s, &step) && step.is_idle);
        assert_in_range(step.n_tok, 1, step.is_due ? PACE_FLOOR : o.cap_tok);
        fake_run(&f, &step);
        sched_ran(f.s, 0);
    }
    fake_check_text(idle);
    end(&f);
    fake_seq_free(idle);
    fake_seq_free(one);
}

/* Fault: a step of idle work that is longer than what computes well, for which who comes waits. */
static void idle_steps_are_short(void **state)
{
    struct sched_options o = PLAIN;
    struct sched_step step;
    struct fake_seq *idle[4];
    (void)state;
    o.enough = 8;
    struct fake f = fake_begin(o);
    for (int k = 0; k < 4; k++)
        idle[k] = put_idle(&f, 1, 40, 2);
    for (int k = 0; k < 10; k++) {
        assert_true(sched_next(f.s, &step));
        assert_in_range(step.n_tok - step.n_decode, 0, 8);
        fake_run(&f, &step);
        sched_ran(f.s, 0);
    }
    end(&f);
    for (int k = 0; k < 4; k++)
        fake_seq_free(idle[k]);
}

/* Runs a step, in which somebody came or not, and says how many rows it had. */
static int64_t idle_step(struct fake *f, bool is_hurried, bool is_given_up)
{
    struct sched_step step;
    assert_true(sched_next(f->s, &step));
    assert_true(step.is_idle);
    if (is_given_up) {
        sched_failed(f->s);
    } else {
        fake_run(f, &step);
        sched_ran(f->s, 0);
    }
    if (is_hurried)
        sched_hurry(f->s, &step);
    return step.n_tok;
}

/* Faults: steps of idle work that stay long though somebody waits for each, that shrink to nothing,
 * that stay short once nobody comes; a text that such a step was of. */
static void idle_steps_shorten_where_somebody_comes(void **state)
{
    struct sched_options o = PLAIN;
    struct fake_seq *idle[40];
    (void)state;
    o.n_cell = 1024; /* room for all */
    o.cap_tok = 128;
    o.cap_seq = o.cap_out = 40;
    o.chunk = 0;
    o.enough = 64;
    struct fake f = fake_begin(o);
    for (int k = 0; k < 40; k++)
        idle[k] = put_idle(&f, 1, 9, 90);
    int64_t rows = idle_step(&f, false, false);
    while (!fake_is_settled(idle, 40))
        rows = idle_step(&f, false, false);
    for (int k = 0; k < 12; k++)
        rows = idle_step(&f, false, false);
    assert_int_equal(rows, 40);
    for (int k = 0; k < 6; k++) { /* also those that run to their end */
        int64_t now = idle_step(&f, true, k % 2);
        assert_in_range(now, 1, rows);
        rows = now / 2 > PACE_FLOOR ? now / 2 : PACE_FLOOR;
    }
    assert_int_equal(idle_step(&f, false, false), PACE_FLOOR);
    assert_int_equal(idle_step(&f, false, false), 2 * PACE_FLOOR);
    assert_int_equal(idle_step(&f, false, false), 40);
    end(&f);
    for (int k = 0; k < 40; k++) {
        fake_check_text(idle[k]);
        fake_seq_free(idle[k]);
    }
}

/* Fault: what a step of idle work takes is held for what others' steps take. */
static void idle_steps_teach_no_pace(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.chunk = 0;
    struct fake f = fake_begin(o);
    struct fake_seq *idle = put_idle(&f, 1, 12, 20), *one;
    for (int k = 0; k < 10; k++)
        assert_true(fake_step(&f, 1000000));
    assert_false(f.s->pace.is_timed);
    one = put(&f, 2, 1, 12, 20);
    assert_true(fake_step(&f, 10) && fake_step(&f, 10));
    assert_true(f.s->pace.is_timed && f.s->pace.quiet_us <= 10);
    end(&f);
    fake_seq_free(idle);
    fake_seq_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(idle_stands_still_beside_others),
                                       cmocka_unit_test(idle_work_gives_way_to_large_prompts),
                                       cmocka_unit_test(idle_work_has_a_part),
                                       cmocka_unit_test(idle_texts_wait_for_each_other),
                                       cmocka_unit_test(steps_that_are_given_up_end),
                                       cmocka_unit_test(its_part_is_short_though_nobody_is_there),
                                       cmocka_unit_test(idle_steps_are_short),
                                       cmocka_unit_test(idle_steps_shorten_where_somebody_comes),
                                       cmocka_unit_test(idle_steps_teach_no_pace),
                                       cmocka_unit_test(three_hundred_do_not_starve_one),
                                       cmocka_unit_test(shares_follow_the_weights),
                                       cmocka_unit_test(nobody_saves_up),
                                       cmocka_unit_test(priority_is_a_tenants_own),
                                       cmocka_unit_test(who_is_gone_is_forgotten)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
