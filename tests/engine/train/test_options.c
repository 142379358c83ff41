/* SPDX-License-Identifier: Apache-2.0
 *
 * The learning rate of each step beside transformers 4.57.3's: get_scheduler("linear" | "cosine" |
 * "constant_with_warmup") with 3 steps of warm-up of 10.
 */
#include "tests/lib/test.h"

#include <math.h>

#include "engine/train/options.h"

enum { STEPS = 10 };

/* Faults: a warm-up that begins a step early or late, a fall that ends at another place. */
static void schedules(void **state)
{
    static const struct {
        enum train_schedule schedule;
        double lr[STEPS];
    } theirs[] = {
        {TRAIN_LINEAR,
         {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.8571428571428571, 0.7142857142857143,
          0.5714285714285714, 0.42857142857142855, 0.2857142857142857, 0.14285714285714285}},
        {TRAIN_COSINE,
         {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.9504844339512095, 0.8117449009293668,
          0.6112604669781572, 0.38873953302184283, 0.18825509907063326, 0.04951556604879048}},
        {TRAIN_CONSTANT, {0.0, 0.3333333333333333, 0.6666666666666666, 1, 1, 1, 1, 1, 1, 1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        struct train_options o;
        train_options_default(&o);
        o.lr = 1;
        o.schedule = theirs[i].schedule;
        o.warmup = 3;
        o.n_step = STEPS;
        for (int s = 0; s < STEPS; s++)
            assert_true(fabs(train_lr(&o, s) - theirs[i].lr[s]) < 1e-15);
        o.warmup = 0;
        assert_true(train_lr(&o, 0) == 1);
    }
}

/* Fault: a share that is cut where transformers' TrainingArguments round it up. */
static void shares(void **state)
{
    (void)state;
    assert_int_equal(train_warmup(0, 100), 0);
    assert_int_equal(train_warmup(0.03, 100), 3);
    assert_int_equal(train_warmup(0.03, 101), 4);
    assert_int_equal(train_warmup(1, 7), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules), cmocka_unit_test(shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
