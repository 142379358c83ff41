/* SPDX-License-Identifier: Apache-2.0
 *
 * What is chosen of the epochs and the rows of a step, where a job leaves them to the server.
 */
#include "tests/lib/test.h"

#include <math.h>

#include "server/jobs/jobs_own.h"

static int64_t steps_of(const struct job_hyper *h, int64_t n_row)
{
    return (n_row + h->batch_size - 1) / h->batch_size * h->n_epochs;
}

static struct job_hyper chosen(const struct job_hyper *asked, int64_t n_row)
{
    struct job_hyper h = *asked;
    job_choose_epochs(&h, n_row);
    return h;
}

/* Faults: a file of a row more that is trained by a fraction of the steps, or by many times as
 * many; more rows that come to fewer steps; a number out of what a job may be told. */
static void steps_grow_with_rows(void **state)
{
    (void)state;
    static const struct job_hyper asked[] = {
        {.method = HYPER_SUPERVISED},
        {.method = HYPER_CLASSIFICATION},
        {.method = HYPER_DPO},
        {.method = HYPER_REINFORCEMENT},
        {.method = HYPER_DPO, .loss = HYPER_KTO},
        {.method = HYPER_EMBEDDING},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        int64_t before = 0, most = 0;
        for (int64_t n = 1; n <= 5000; n++) {
            struct job_hyper h = chosen(&asked[i], n);
            int64_t now = steps_of(&h, n);
            assert_in_range(h.n_epochs, 3, 24);
            assert_in_range(h.batch_size, 1, 16);
            most = now > most ? now : most;
            if (n > 10 && h.method != HYPER_EMBEDDING) { /* few batches of a size that is given */
                assert_true(fmax((double)now / (double)before, (double)before / (double)now) < 1.4);
                assert_true((double)now > (double)most / 1.4);
            }
            before = now;
        }
    }
}

/* Fault: what is written in docs/tuning.md is not what is chosen. */
static void as_it_is_written(void **state)
{
    (void)state;
    static const struct {
        int64_t n_row, n_epochs, batch_size;
    } want[] = {{10, 21, 2}, {20, 19, 3}, {50, 13, 4},  {99, 10, 5},
                {100, 9, 5}, {200, 7, 6}, {1000, 3, 9}, {5000, 3, 16}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct job_hyper h = chosen(&(struct job_hyper){.method = HYPER_SUPERVISED}, want[i].n_row);
        assert_int_equal(h.n_epochs, want[i].n_epochs);
        assert_int_equal(h.batch_size, want[i].batch_size);
    }
}

/* Fault: what a client says is changed, or one of the two undoes the other: more epochs in larger
 * batches are no more steps. */
static void what_is_said_stays(void **state)
{
    (void)state;
    struct job_hyper h = chosen(&(struct job_hyper){.n_epochs = 40}, 100);
    assert_int_equal(h.n_epochs, 40);
    assert_int_equal(h.batch_size, chosen(&(struct job_hyper){.n_epochs = 1}, 100).batch_size);
    h = chosen(&(struct job_hyper){.batch_size = 200}, 100);
    assert_int_equal(h.batch_size, 200);
    assert_int_equal(h.n_epochs, chosen(&(struct job_hyper){.batch_size = 1}, 100).n_epochs);
    struct job_hyper again = h;
    job_choose_epochs(&again, 5000); /* once chosen they are the job's */
    assert_int_equal(again.n_epochs, h.n_epochs);
    assert_int_equal(again.batch_size, h.batch_size);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(steps_grow_with_rows),
        cmocka_unit_test(as_it_is_written),
        cmocka_unit_test(what_is_said_stays),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
