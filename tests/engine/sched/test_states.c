/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent states, rule by rule: from where a text goes on, and what is kept of it. That each
 * state is the right one is the fake's to see (fake_states).
 */
#include "engine/kv/inner.h"
#include "tests/engine/sched/fake.h"

static const struct sched_options PLAIN = {.n_cell = 64,
                                           .cell_tok = 4,
                                           .cap_tok = 32,
                                           .cap_seq = 8,
                                           .cap_out = 8,
                                           .max_wait = 100,
                                           .keeps_prefixes = true,
                                           .has_states = true,
                                           .n_snapshot = 8};

static void drain(struct fake *f)
{
    while (fake_step(f, 0))
        kv_pool_verify(f->s->pool);
}

/* A text that begins with n_same tokens of text 1 and goes on with those of `text`, said to its
 * end; what of it was found. */
static int64_t say(struct fake *f, uint64_t text, int64_t n_same, int64_t n_prompt, int64_t n_new)
{
    struct fake_seq *q = fake_seq_new(text, n_prompt, n_new), *same = fake_seq_new(1, n_prompt, 0);
    memcpy(q->q.token, same->q.token, (size_t)n_same * sizeof *q->q.token);
    fake_seq_free(same);
    fake_submit(f, q);
    drain(f);
    fake_check_text(q);
    int64_t n_found = q->q.n_cached;
    fake_seq_free(q);
    return n_found;
}

/* Fault: the next turn of a conversation, or the same prompt again, that is computed whole. */
static void goes_on_behind_the_prompt(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    assert_int_equal(say(&f, 1, 0, 30, 5), 0);
    assert_int_equal(say(&f, 1, 30, 30, 5), 28);
    assert_int_equal(say(&f, 2, 30, 45, 5), 28);
    fake_end(&f);
}

/* Faults: texts with one beginning that never come to share it; a part that does not end there. */
static void keeps_where_texts_go_apart(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    assert_int_equal(say(&f, 1, 0, 30, 2), 0);
    assert_int_equal(say(&f, 2, 17, 30, 2), 0);  /* cells stand, a state does not */
    assert_int_equal(say(&f, 3, 17, 30, 2), 16); /* it does now */
    fake_end(&f);
}

/* Fault: a long text of which nothing is kept on the way, or all of it. */
static void keeps_some_of_a_long_text(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.snapshot_tok = 5; /* whole cells: 8 */
    o.n_snapshot = 20;
    o.cap_tok = 8;
    struct fake f = fake_begin(o);
    assert_int_equal(say(&f, 1, 0, 150, 2), 0);
    assert_int_equal(say(&f, 2, 30, 40, 2), 24);
    assert_int_equal(say(&f, 3, 122, 150, 2), 112); /* farther apart by then: 16 */
    fake_end(&f);
}

/* Fault: a plan that counts other snapshots than a text leaves. */
static void says_how_many_a_text_leaves(void **state)
{
    (void)state;
    for (int64_t n = 31; n < 12000; n = n * 3 / 2) {
        struct sched_options o = PLAIN;
        o.n_cell = 4096;
        o.cap_tok = 500;
        o.n_snapshot = 64;
        struct fake f = fake_begin(o);
        assert_int_equal(say(&f, 1, 0, n, 1), 0);
        int64_t n_kept = 0;
        for (int64_t i = 0; i < o.n_snapshot; i++)
            n_kept += f.s->pool->snapshots.at[i].cell >= 0;
        assert_true(n_kept <= sched_snapshots_of(n));
        assert_true(n_kept >=
                    sched_snapshots_of(n) - 1); /* the last part may have had two places */
        fake_end(&f);
    }
}

/* Fault: a sequence that is turned out and begins from nothing, or from its own old state. */
static void who_was_turned_out_goes_on_from_a_snapshot(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.cap_seq = 1;
    struct fake f = fake_begin(o);
    struct fake_seq *low = fake_seq_new(1, 30, 20), *high = fake_seq_new(2, 33, 4);
    struct sched_step step;
    low->q.priority = 1;
    fake_submit(&f, low);
    for (int i = 0; i < 4; i++)
        fake_step(&f, 0);
    fake_submit(&f, high);
    while (low->q.state != SEQ_PREEMPTED)
        assert_true(fake_step(&f, 0));
    while (low->q.state == SEQ_PREEMPTED) {
        assert_true(sched_next(f.s, &step));
        fake_run(&f, &step);
        sched_ran(f.s, 0);
    }
    assert_true(sched_stat(f.s).prefix_hit >= 28);
    drain(&f);
    fake_check_text(low), fake_check_text(high);
    fake_seq_free(low), fake_seq_free(high);
    fake_end(&f);
}

/* Fault: a state that a failed step has overwritten is gone on with. */
static void a_failed_step_is_begun_again(void **state)
{
    (void)state;
    struct fake f = fake_begin(PLAIN);
    struct fake_seq *q = fake_seq_new(1, 50, 5);
    struct sched_step step;
    fake_submit(&f, q);
    for (int i = 0; i < 3; i++) {
        assert_true(sched_next(f.s, &step));
        fake_spoil(&f, &step);
        sched_failed(f.s);
        kv_pool_verify(f.s->pool);
        assert_true(fake_step(&f, 0));
    }
    drain(&f);
    fake_check_text(q);
    fake_seq_free(q);
    fake_end(&f);
}

/* Fault: prefixes that are gone on with though none are to be kept. */
static void keeps_nothing_unasked(void **state)
{
    (void)state;
    struct sched_options o = PLAIN;
    o.keeps_prefixes = false;
    struct fake f = fake_begin(o);
    assert_int_equal(say(&f, 1, 0, 30, 5), 0);
    assert_int_equal(say(&f, 1, 30, 30, 5), 0);
    fake_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_behind_the_prompt),
        cmocka_unit_test(keeps_where_texts_go_apart),
        cmocka_unit_test(keeps_some_of_a_long_text),
        cmocka_unit_test(says_how_many_a_text_leaves),
        cmocka_unit_test(who_was_turned_out_goes_on_from_a_snapshot),
        cmocka_unit_test(a_failed_step_is_begun_again),
        cmocka_unit_test(keeps_nothing_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
