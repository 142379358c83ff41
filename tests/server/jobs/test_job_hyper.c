/* SPDX-License-Identifier: Apache-2.0
 *
 * What is chosen of the epochs and the rows of a step, where a job leaves them to the server.
 */
#include "tests/lib/test.h"

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
 * many; more rows that come to fewer steps by more than whole numbers take; a number out of what a
 * job may be told. */
static void steps_grow_with_rows(void **state)
{
    (void)state;
    static const struct {
        struct job_hyper asked;
        int64_t least, most_epochs;
    } of[] = {
        {{.method = HYPER_SUPERVISED}, 1, 16},
        {{.method = HYPER_CLASSIFICATION}, 1, 5},
        {{.method = HYPER_DPO}, 1, 5},
        {{.method = HYPER_REINFORCEMENT}, 1, 5},
        {{.method = HYPER_DPO, .loss = HYPER_KTO}, 4, 3},
        {{.method = HYPER_EMBEDDING}, 16, 3},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int64_t before = 0, most = 0;
        for (int64_t n = 1; n <= 20000; n++) {
            struct job_hyper h = chosen(&of[i].asked, n);
            int64_t now = steps_of(&h, n);
            assert_in_range(h.n_epochs, 3, of[i].most_epochs);
            assert_in_range(h.batch_size, of[i].least, 16);
            most = now > most ? now : most;
            assert_true(now * 5 >= most * 4);
            if (n > 20 && of[i].least == 1) /* of few steps each is many */
                assert_true(now * 4 <= before * 5);
            before = now;
        }
    }
}

/* Fault: what is written in docs/tuning.md is not what is chosen; sixty rows, whose sixteen epochs
 * the facts of the bundled model want, that have fewer. */
static void as_it_is_written(void **state)
{
    (void)state;
    static const struct {
        int64_t n_row, n_epochs, batch_size, n_step;
    } want[] = {{10, 16, 1, 160},   {50, 16, 1, 800},  {60, 16, 1, 960},   {99, 10, 1, 990},
                {100, 10, 1, 1000}, {200, 5, 1, 1000}, {1000, 3, 3, 1002}, {10000, 3, 16, 1875}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct job_hyper h = chosen(&(struct job_hyper){.method = HYPER_SUPERVISED}, want[i].n_row);
        assert_int_equal(h.n_epochs, want[i].n_epochs);
        assert_int_equal(h.batch_size, want[i].batch_size);
        assert_int_equal(steps_of(&h, want[i].n_row), want[i].n_step);
    }
}

/* Fault: what a client says is changed, or one of the two undoes the other: more epochs in larger
 * batches are no more steps. */
static void what_is_said_stays(void **state)
{
    (void)state;
    struct job_hyper h = chosen(&(struct job_hyper){.n_epochs = 40}, 1000);
    assert_int_equal(h.n_epochs, 40);
    assert_int_equal(h.batch_size, chosen(&(struct job_hyper){.n_epochs = 1}, 1000).batch_size);
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
