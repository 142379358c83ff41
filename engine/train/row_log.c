/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of lines, cut behind the last one that may stand.
 */
#include "engine/train/row_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"

struct row_log {
    FILE *file; /* owned */
    bool has_logprobs;
    int error; /* errno of the first line that could not be written; 0: none */
};

static const char heading[] = "step,epoch,example,tokens,trained_tokens,loss";

/* Where the lines of steps behind `step` begin, or a line that was not written to its end. */
static long end_of(FILE *f, int64_t step)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    long end = 0;
    while ((n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n') {
        if (end > 0 && strtoll(line, NULL, 10) > step)
            break;
        end += n;
    }
    free(line);
    return end;
}

static int cut(struct row_log *l, int64_t step, struct err *e)
{
    long end = step > 0 ? end_of(l->file, step) : 0;
    if (ftruncate(fileno(l->file), end) || fseek(l->file, end, SEEK_SET))
        return err_sys(e, "the file of rows");
    if (end == 0)
        fprintf(l->file, "%s%s\n", heading, l->has_logprobs ? ",logprobs" : "");
    return 0;
}

struct row_log *row_log_new(const char *path, int64_t step, bool has_logprobs, struct err *e)
{
    struct row_log *l = xcalloc(1, sizeof *l);
    l->has_logprobs = has_logprobs;
    l->file = fopen(path, "a+");
    if (l->file)
        rewind(l->file);
    if (!l->file ? err_sys(e, "%s", path) : cut(l, step, e) || fs_sync_parent(path, e)) {
        row_log_free(l);
        return NULL;
    }
    return l;
}

void row_log_free(struct row_log *l)
{
    if (l && l->file)
        fclose(l->file);
    free(l);
}

void row_log_add(struct row_log *l, int64_t step, int64_t epoch, int64_t example,
                 const struct train_row *row)
{
    double loss = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < row->n; i++) {
        if (row->label[i] >= 0)
            loss += row->loss ? (double)row->loss[i] : -(double)row->logprob[i];
        n += row->label[i] >= 0;
    }
    fprintf(l->file, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%.9g", step,
            epoch, example, row->n, n, n ? loss / (double)n : 0);
    if (l->has_logprobs) {
        const char *gap = ",";
        for (int64_t i = 0; i < row->n; i++) {
            if (row->label[i] < 0)
                continue;
            fprintf(l->file, "%s%.9g", gap, (double)row->logprob[i]);
            gap = " ";
        }
    }
    fputc('\n', l->file);
    if (ferror(l->file) && !l->error)
        l->error = errno;
}

int row_log_sync(struct row_log *l, struct err *e)
{
    int rc = fflush(l->file) || fsync(fileno(l->file)) ? -1 : 0;
    if (l->error) { /* what could not be written then is not in the buffer any more */
        errno = l->error;
        rc = -1;
    }
    return rc ? err_sys(e, "the file of rows") : 0;
}
