/* SPDX-License-Identifier: Apache-2.0
 *
 * The pace of prompts beside sequences that decode, in made-up time on made-up machines.
 */
#include "tests/lib/test.h"

#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/sched/pace.h"

/* A step reads the weights, or computes its rows, whichever is longer, and attends. */
struct machine {
    double weights_us, row_us, depth_us; /* depth: for each token that a row sees */
    double chunk_us;                     /* for any row of a prompt at all, at 8192 deep */
    double noise;                        /* a share of the time */
    double odd;                          /* how often the system takes five times as long */
};

static double step_us(const struct machine *m, int64_t n_decode, int64_t n_row, int64_t depth,
                      uint64_t n)
{
    double rows = m->row_us * (double)(n_decode + n_row);
    double us = rows > m->weights_us ? rows : m->weights_us;
    us += m->depth_us * (500 * (double)n_decode + (double)(depth * n_row));
    us += n_row ? m->chunk_us * (double)depth / 8192 : 0;
    us *= 1 + m->noise * rng_unit(1, 1, n);
    return rng_unit(1, 2, n) < m->odd ? 5 * us : us;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct ride {
    double p99, share; /* of the quiet time; of the time, what prompts got */
    int64_t n_step, rows_most;
};

/* n_decode sequences decode quietly, and then beside one prompt until it is done. */
static struct ride take(const struct machine *m, int64_t n_decode, int64_t n_prompt, int64_t crowd)
{
    enum { N_MAX = 3000, BEFORE = 20 };
    static double us[N_MAX];
    struct machine calm = {m->weights_us, m->row_us, m->depth_us, 0, 0, 0};
    double all = 0, quiet = step_us(&calm, n_decode, 0, 0, 0);
    struct pace p = {0};
    struct ride r = {0};
    for (int i = 0; i < BEFORE; i++)
        pace_saw(&p, (int64_t)step_us(m, n_decode, 0, 0, (uint64_t)i), n_decode, 0);
    for (int64_t at = 0, rows; at < n_prompt; at += rows, r.n_step++) {
        assert_true(r.n_step < N_MAX);
        rows = pace_rows(&p, n_decode, crowd);
        rows = rows < n_prompt - at ? rows : n_prompt - at;
        us[r.n_step] = step_us(m, n_decode, rows, at, (uint64_t)(BEFORE + r.n_step));
        pace_saw(&p, (int64_t)us[r.n_step], n_decode, rows);
        all += us[r.n_step];
        r.rows_most = rows > r.rows_most ? rows : r.rows_most;
    }
    qsort(us, (size_t)r.n_step, sizeof *us, by_size);
    r.p99 = us[r.n_step * 99 / 100] / quiet;
    r.share = 1 - quiet * (double)r.n_step / all;
    print_message("%ld decode: %ld steps, p99 %.2f of quiet, %.0f%% of the time for the prompt\n",
                  (long)n_decode, (long)r.n_step, r.p99, 100 * r.share);
    return r;
}

/* Fault: a prompt of 8192 among 16 streams that doubles the time between tokens; or crawls. */
static void a_long_prompt_leaves_half(void **state)
{
    (void)state;
    const struct machine m[] = {
        {10000, 1000, 0, 0, 0.1, 0},        /* products alone */
        {10000, 1000, 0.25, 0, 0.1, 0},     /* attention three times as dear at the end */
        {10000, 1000, 0.1, 5000, 0.1, 0},   /* and the cells' reading for the first row alone */
        {1000, 10, 0.01, 0, 0.1, 0},        /* a GPU: rows are nearly free */
        {10000, 1000, 0.25, 0, 0.1, 0.005}, /* a busy system */
    };
    for (size_t i = 0; i < sizeof m / sizeof *m; i++) {
        struct ride r = take(&m[i], 16, 8192, 1);
        assert_true(r.p99 < 2);
        assert_true(r.share > 0.25);
    }
}

/* Fault: odd steps that make rows seem dear, so that the prompt crawls. */
static void a_busy_system_does_not_starve_prompts(void **state)
{
    (void)state;
    struct machine m = {10000, 1000, 0.1, 5000, 0.1, 0.03};
    struct ride calm = take(&(struct machine){10000, 1000, 0.1, 5000, 0.1, 0}, 16, 8192, 1);
    struct ride busy = take(&m, 16, 8192, 1);
    assert_true(busy.n_step < calm.n_step * 5 / 4);
}

/* Fault: rows that cost nothing left unused, or so many taken at once that the step doubles. */
static void free_rows_are_found(void **state)
{
    (void)state;
    struct machine m = {10000, 100, 0, 0, 0.02, 0};
    struct ride r = take(&m, 1, 20000, 1);
    assert_true(r.p99 < 2);
    assert_true(r.rows_most > 120);
}

/* Fault: many prompts that wait behind one stream; one prompt that presses like many. */
static void a_crowd_weighs_more(void **state)
{
    (void)state;
    struct machine m = {10000, 1000, 0, 0, 0, 0};
    struct ride one = take(&m, 4, 2000, 1), many = take(&m, 4, 2000, 16);
    assert_true(many.n_step * 3 < one.n_step);
    struct ride two = take(&m, 16, 2000, 2), few = take(&m, 16, 2000, 8);
    assert_true(two.p99 < 2); /* nor two among sixteen */
    assert_true(few.n_step * 2 < two.n_step && few.p99 < 4);
}

/* Fault: a division by nothing, or no rows at all, before anything is known. */
static void begins_with_a_row_for_each(void **state)
{
    (void)state;
    struct pace p = {0};
    assert_int_equal(pace_rows(&p, 1, 1), PACE_FLOOR);
    assert_int_equal(pace_rows(&p, 40, 1), 40);
    assert_int_equal(pace_rows(&p, 4, 8), 4 * PACE_FLOOR);
    pace_saw(&p, 0, 4, 16); /* no time was told */
    pace_saw(&p, 100, 0, 16);
    assert_int_equal(pace_rows(&p, 1, 1), PACE_FLOOR);
}

/* Fault: one odd step that changes what is believed of all. */
static void one_odd_step_is_not_believed(void **state)
{
    (void)state;
    struct pace p = {0};
    for (int i = 0; i < 10; i++) {
        pace_saw(&p, 1000, 8, 0);
        pace_saw(&p, 1700, 8, 16);
    }
    int64_t rows = pace_rows(&p, 8, 1);
    struct pace q = p;
    pace_saw(&q, 100000, 8, 0);
    assert_true(q.quiet_us < 1.2 * p.quiet_us);
    q = p;
    pace_saw(&q, 100000, 8, 16);
    assert_true(pace_rows(&q, 8, 1) >= rows / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_prompt_leaves_half),
        cmocka_unit_test(a_busy_system_does_not_starve_prompts),
        cmocka_unit_test(free_rows_are_found),
        cmocka_unit_test(a_crowd_weighs_more),
        cmocka_unit_test(begins_with_a_row_for_each),
        cmocka_unit_test(one_odd_step_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
