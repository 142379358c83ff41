/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of rows alone: what a training that goes on finds in it, and a disk that is full between
 * two checkpoints.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/fs.h"
#include "engine/load/path.h"
#include "engine/train/row_log.h"

enum { N_TOK = 64 };

static const char head[] = "step,epoch,example,tokens,trained_tokens,loss";

static void add(struct row_log *l, int64_t step)
{
    static int32_t id[N_TOK], label[N_TOK];
    static float logprob[N_TOK];
    struct train_row row = {.id = id, .label = label, .logprob = logprob, .n = N_TOK};
    for (int i = 0; i < N_TOK; i++)
        logprob[i] = -1.0f / 3;
    row_log_add(l, step, 1, step, &row);
}

static struct row_log *begin(const char *path, int64_t step, bool has_logprobs)
{
    struct err e = ERR_INIT;
    struct row_log *l = row_log_new(path, step, has_logprobs, &e);
    assert_good(l ? 0 : -1, &e);
    return l;
}

/* Faults: a step that stands there twice, or not, or a torn line that stays, when a killed training
 * goes on. */
static void goes_on(void **state)
{
    static const char line[] = ",64,64,0.333333343\n";
    char *dir = test_dir_new(), *path = path_join(dir, "rows.csv"), want[512];
    struct err e = ERR_INIT;
    struct row_log *l = begin(path, 0, false);
    (void)state;
    for (int64_t step = 1; step <= 4; step++)
        add(l, step);
    assert_good(row_log_sync(l, &e), &e);
    row_log_free(l);
    FILE *f = fopen(path, "a");
    fputs("5,1,", f);
    fclose(f);
    l = begin(path, 2, false);
    add(l, 3);
    assert_good(row_log_sync(l, &e), &e);
    row_log_free(l);
    struct buf b;
    buf_init(&b, 1 << 16);
    assert_good(fs_read(path, &b, &e), &e);
    snprintf(want, sizeof want, "%s\n1,1,1%s2,1,2%s3,1,3%s", head, line, line, line);
    buf_char(&b, 0);
    assert_string_equal(b.data, want);
    buf_release(&b);
    free(path);
    test_dir_free(dir);
}

/* Faults: lines that were lost on a full disk, and nobody says so since there is room again at the
 * checkpoint; that it is said as another fault, and the job fails where it would have waited. */
static void full_for_a_while(void **state)
{
    char *dir = test_dir_new(), *path = path_join(dir, "rows.csv");
    struct err e = ERR_INIT;
    struct rlimit was, small;
    struct row_log *l = begin(path, 0, true);
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int64_t step = 1; step <= 100; step++)
        add(l, step);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    errno = EIO; /* of something else, meanwhile */
    assert_err(row_log_sync(l, &e), &e, ERR_NO_SPACE, "the file of rows");
    row_log_free(l);
    free(path);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on),
        cmocka_unit_test(full_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
