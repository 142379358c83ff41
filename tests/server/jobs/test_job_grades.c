/* SPDX-License-Identifier: Apache-2.0
 *
 * Grades on the disk. Faults these can catch: a reward that loses a bit, a grade of another sample
 * that is taken, one that a kill cut off and counts, or that takes the others with it.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/jobs/jobs_own.h"

static char *dir;

static struct job_grades *open_at(const char *path)
{
    struct err e = ERR_INIT;
    struct job_grades *g = job_grades_new(path, &e);
    if (!g)
        fail_msg("%s", e.msg);
    return g;
}

static void add(struct job_grades *g, int64_t step, int64_t place, double reward,
                enum grade_fault fault)
{
    struct err e = ERR_INIT;
    const struct job_grade grade = {step, place, (uint64_t)(step * 100 + place), reward, fault};
    assert_int_equal(job_grades_add(g, &grade, &e), 0);
}

static bool find(const struct job_grades *g, int64_t step, int64_t place, struct job_grade *out)
{
    *out =
        (struct job_grade){.step = step, .place = place, .sample = (uint64_t)(step * 100 + place)};
    return job_grades_find(g, out);
}

static void keeps_every_bit(void **state)
{
    (void)state;
    static const double rewards[] = {0.1, -1.0 / 3, 0, -0.0, 1e300, 5e-324, 7};
    const char *path = test_path(dir, "bits");
    struct job_grade got;
    struct job_faults faults;
    struct err e = ERR_INIT;
    struct job_grades *g = open_at(path);
    for (int64_t i = 7; i-- > 0;) /* in no order */
        add(g, i % 3, i, rewards[i], i == 2 ? GRADE_UNRESPONSIVE : GRADE_GOOD);
    assert_int_equal(job_grades_settle(g, &faults, &e), 0);
    assert_false(find(g, 0, 0, &got)); /* this run's own are not asked for */
    job_grades_free(g);
    g = open_at(path);
    for (int64_t i = 0; i < 7; i++) {
        assert_true(find(g, i % 3, i, &got));
        assert_memory_equal(&got.reward, &rewards[i], sizeof got.reward);
        assert_int_equal(got.fault, i == 2 ? GRADE_UNRESPONSIVE : GRADE_GOOD);
    }
    assert_false(find(g, 0, 1, &got));
    got = (struct job_grade){.step = 0, .place = 0, .sample = 1};
    assert_false(job_grades_find(g, &got)); /* another text */
    job_grades_free(g);
}

/* Cut at every byte: what stood whole before is there, the rest is not, and it goes on. */
static void survives_a_cut(void **state)
{
    (void)state;
    const char *path = test_path(dir, "cut");
    struct job_grade got;
    struct job_grades *g = open_at(path);
    add(g, 0, 0, 0.25, GRADE_GOOD);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long first = ftell(f);
    add(g, 0, 1, 0.5, GRADE_GOOD);
    fseek(f, 0, SEEK_END);
    long both = ftell(f);
    fclose(f);
    job_grades_free(g);
    for (long at = both - 1; at >= first; at--) {
        assert_int_equal(truncate(path, at), 0);
        g = open_at(path);
        assert_true(find(g, 0, 0, &got));
        assert_false(find(g, 0, 1, &got));
        add(g, 0, 2, 0.75, GRADE_GOOD);
        job_grades_free(g);
        g = open_at(path);
        assert_true(find(g, 0, 0, &got) && find(g, 0, 2, &got) && got.reward == 0.75);
        job_grades_free(g);
    }
}

static void cuts_what_is_altered(void **state)
{
    (void)state;
    const char *path = test_path(dir, "altered");
    struct job_grade got;
    struct job_grades *g = open_at(path);
    add(g, 0, 0, 1, GRADE_GOOD);
    add(g, 0, 1, 2, GRADE_GOOD);
    job_grades_free(g);
    FILE *f = fopen(path, "r+e");
    assert_non_null(f);
    fputc('9', f); /* of the first line */
    fclose(f);
    g = open_at(path);
    assert_false(find(g, 0, 0, &got) || find(g, 9, 0, &got) || find(g, 0, 1, &got));
    job_grades_free(g);
}

static void counts_faults_of_a_step(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct job_faults faults;
    struct job_grades *g = open_at(NULL);
    job_grades_count(g, GRADE_NO_JSON, "");
    job_grades_count(g, GRADE_NO_JSON, "first");
    job_grades_count(g, GRADE_OTHER, "second");
    assert_int_equal(job_grades_settle(g, &faults, &e), 0);
    assert_int_equal(faults.n[GRADE_NO_JSON], 2);
    assert_int_equal(faults.n[GRADE_OTHER], 1);
    assert_string_equal(faults.why, "first");
    assert_int_equal(job_grades_settle(g, &faults, &e), 0);
    assert_int_equal(faults.n[GRADE_NO_JSON] + faults.n[GRADE_OTHER], 0);
    job_grades_free(g);
}

static int begin(void **state)
{
    (void)state;
    dir = test_dir_new();
    return 0;
}

static int end(void **state)
{
    (void)state;
    test_dir_free(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_every_bit),
        cmocka_unit_test(survives_a_cut),
        cmocka_unit_test(cuts_what_is_altered),
        cmocka_unit_test(counts_faults_of_a_step),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
