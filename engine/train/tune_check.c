/* SPDX-License-Identifier: Apache-2.0
 *
 * A check of a whole file: each line goes the way of a job's, into rows that are let go of again at
 * the end of a turn.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/train/tune_rows.h"

enum { LINE_BYTES_MAX = 512 << 20 };

struct tune_check {
    const struct engine *engine; /* borrowed */
    struct tune_rows_options opt;
    struct train_scan *scan; /* owned */
    struct tune_check_info info;
    int64_t n_each; /* rows of an example of anchors, as the file's first one had */
    struct {
        int64_t line, example;
        char *message; /* owned */
    } fault[TUNE_FAULTS_MAX];
};

struct tune_check *tune_check_new(const struct engine *g, const struct tune_rows_options *o, int fd,
                                  struct err *e)
{
    struct tune_check *c = xcalloc(1, sizeof *c);
    c->engine = g;
    c->opt = *o;
    c->scan = train_scan_new(fd, e);
    if (c->scan)
        return c;
    tune_check_free(c);
    return NULL;
}

void tune_check_free(struct tune_check *c)
{
    if (!c)
        return;
    for (int i = 0; i < TUNE_FAULTS_MAX; i++)
        free(c->fault[i].message);
    train_scan_free(c->scan);
    free(c);
}

static void keep_fault(struct tune_check *c, const struct train_file *at, const struct err *why)
{
    int64_t i = c->info.n_fault++;
    if (i >= TUNE_FAULTS_MAX)
        return;
    c->fault[i].line = at->n_line;
    c->fault[i].example = at->n_example;
    c->fault[i].message = xstrdup(why->msg);
}

/* Whether the error is the line's, and the next one may be better. */
static bool is_of_line(const struct err *e)
{
    return e->code == ERR_BAD_INPUT || e->code == ERR_TOO_LARGE || e->code == ERR_UNSUPPORTED;
}

/* 1: a line was looked at; 0: there is none. */
static int look(struct tune_check *c, struct tune_rows *rows, struct arena *a, struct err *e)
{
    struct err why = ERR_INIT;
    struct train_file at;
    const char *line;
    size_t n;
    int rc = train_scan_next(c->scan, &at, &line, &n, &why);
    c->info.n_line = at.n_line;
    c->info.n_example = at.n_example;
    if (rc < 0 && at.fault == TRAIN_FAULT_NONE) {
        *e = why;
        return -1;
    }
    if (rc == 0)
        return 0;
    rows->file = (struct train_file){0}; /* the message is without a place: that is a field */
    if (rc == 1)
        rc = tune_rows_add(rows, line, n, a, &why);
    if (rc && !is_of_line(&why)) {
        *e = why;
        return -1;
    }
    if (rc)
        keep_fault(c, &at, &why);
    return 1;
}

static void count(struct tune_check *c, const struct tune_rows *rows)
{
    const struct dataset *d = &rows->data;
    c->info.n_tok += (int64_t)d->id.n;
    c->info.n_learn += d->n_learn;
    c->info.n_cut += (int64_t)(tune_rows_odd(rows, TUNE_ODD_CUT, NULL, 0) + d->left_out.n);
    c->info.n_barren += (int64_t)tune_rows_odd(rows, TUNE_ODD_NOTHING_TO_LEARN, NULL, 0);
}

int tune_check_some(struct tune_check *c, int64_t us, bool *is_done, struct err *e)
{
    int64_t end = clock_us() + us;
    struct tune_rows *rows = tune_rows_new(c->engine, &c->opt);
    struct arena arena;
    int rc;
    rows->data.n_each = c->n_each;
    arena_init(&arena, LINE_BYTES_MAX);
    do {
        rc = look(c, rows, &arena, e);
        arena_reset(&arena);
    } while (rc == 1 && clock_us() < end);
    c->n_each = rows->data.n_each;
    count(c, rows);
    tune_rows_free(rows);
    arena_release(&arena);
    *is_done = rc == 0;
    return rc < 0 ? -1 : 0;
}

struct tune_check_info tune_check_info(const struct tune_check *c)
{
    return c->info;
}

struct tune_fault tune_check_fault(const struct tune_check *c, size_t i)
{
    ASSERT(i < TUNE_FAULTS_MAX && c->fault[i].message);
    return (struct tune_fault){c->fault[i].line, c->fault[i].example, c->fault[i].message};
}
