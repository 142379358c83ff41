/* SPDX-License-Identifier: Apache-2.0
 *
 * How rows come to be: what they do where memory is refused.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/train/dataset.h"

static const char model_dir[] = "tests/golden/models/llama_tied";

enum outcome { GOOD, NOT_MADE, NO_ROW, WRONG };

enum { TRIES_MAX = 20000 };

/* ---- memory that is refused ---------------------------------------------------------------- */

static int add_all(struct dataset *d, struct err *e)
{
    char text[400];
    for (int i = 0; i < 4; i++) {
        size_t n = (size_t)snprintf(text, sizeof text, "%0*d", 100 * (i + 1) - 20, i);
        if (dataset_add_text(d, text, n / 2, text + n / 2, n - n / 2, e) ||
            dataset_leave_out(d, i, e))
            return -1;
    }
    return 0;
}

static bool is_whole(const struct dataset *d)
{
    size_t at = 0;
    int64_t n_learn = 0;
    for (size_t i = 0; i < d->row.n; i++) {
        if (d->row.at[i].at != at)
            return false;
        at += (size_t)d->row.at[i].n;
        n_learn += d->row.at[i].n_learn;
    }
    return d->id.n == at && d->is_learned.n == at && d->n_learn == n_learn;
}

static enum outcome try_rows(void)
{
    struct err e = ERR_INIT;
    struct dataset d;
    struct tokenizer *tok = tokenizer_load(model_dir, &e);
    enum outcome got = GOOD;
    if (!tok)
        return e.code == ERR_NO_MEMORY ? NOT_MADE : WRONG;
    dataset_init(&d, &(struct dataset_options){.tokenizer = tok, .max_tok = 1000});
    if (add_all(&d, &e)) {
        got = e.code == ERR_NO_MEMORY && is_whole(&d) ? NO_ROW : WRONG;
        dataset_release(&d);
        dataset_init(&d, &(struct dataset_options){.tokenizer = tok, .max_tok = 1000});
        if (add_all(&d, &e)) /* one allocation fails, not two */
            got = WRONG;
    }
    if (!is_whole(&d) || d.row.n != 4)
        got = WRONG;
    dataset_release(&d);
    tokenizer_free(tok);
    return got;
}

static enum outcome in_a_process(unsigned long n)
{
    int status;
    fflush(NULL);
    pid_t id = fork();
    assert_true(id >= 0);
    if (id == 0) {
        char text[32];
        snprintf(text, sizeof text, "%lu", n);
        setenv("TANDEM_FAIL_ALLOC", text, 1);
        _exit((int)try_rows());
    }
    assert_int_equal(waitpid(id, &status, 0), id);
    if (!WIFEXITED(status) || WEXITSTATUS(status) >= WRONG)
        fail_msg("allocation %lu refused: %s %d", n, WIFEXITED(status) ? "exit" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return (enum outcome)WEXITSTATUS(status);
}

/* Faults: rows that end the process where there is no memory for them, a row that is there in part,
 * ids without their marks. */
static void memory_is_refused(void **state)
{
    int seen[WRONG] = {0};
    (void)state;
    assert_int_equal(try_rows(), GOOD);
#ifdef TANDEM_PARANOID
    unsigned long n = 1;
    while (n < TRIES_MAX) {
        enum outcome got = in_a_process(n++);
        seen[got]++;
        if (got == GOOD && seen[NO_ROW] > 0)
            break; /* past the last of them */
    }
    print_message("%lu allocations, %d of them of rows\n", n - 1, seen[NO_ROW]);
    assert_true(seen[NO_ROW] >= 8);
#else
    (void)in_a_process;
    (void)seen;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
