/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job leaves to read: the numbers of each step, and the losses of each row in each step. The
 * files are named after the job, so that a kill before they are entered in the store makes the same
 * files again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/aside.h"
#include "engine/base/mem.h"
#include "engine/base/sha256.h"
#include "server/jobs/jobs_own.h"

enum { CSV_BYTES_MAX = 64 << 20, PIECE_BYTES = 1 << 18, PAGE = 1000 };

/* A file on its way. */
struct making {
    struct aside aside;
    struct sha256 sha;
};

static void describe(const struct job_run *r, const char *kind, const char *name,
                     struct file_row *f)
{
    const char *tail = strchr(r->job.id, '-');
    *f = (struct file_row){
        .id = arena_printf(r->arena, "file-%s%.24s", kind, tail ? tail + 1 : r->job.id),
        .owner = r->job.owner,
        .purpose = "fine-tune-results",
        .name = name,
        .created = (int64_t)time(NULL)};
}

static int begin(struct making *m, const struct job_run *r, const char *id, struct err *e)
{
    char *path = jobs_path(r->jobs->opt.dir, "files", id);
    int rc = aside_init(&m->aside, path, e);
    sha256_init(&m->sha);
    free(path);
    return rc;
}

static int put(struct making *m, const void *p, size_t n, struct err *e)
{
    sha256_add(&m->sha, p, n);
    return aside_write(&m->aside, p, n, e);
}

static int end(struct making *m, const struct job_run *r, struct file_row *f, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    sha256_end(&m->sha, digest);
    sha256_text(digest, text);
    f->sha256 = arena_strdup(r->arena, text);
    f->bytes = m->aside.n_bytes;
    return aside_commit(&m->aside, e);
}

/* ---- the steps ----------------------------------------------------------------------------- */

static int collect(struct job_run *r, struct buf *csv, struct err *e)
{
    struct store_page page = {.limit = PAGE, .ascending = true};
    struct arena a;
    char last[STORE_ID_BYTES];
    struct job_event *list;
    size_t n;
    bool more = true;
    int rc = 0;
    arena_init(&a, 0);
    job_csv_heading(r->job.hyper.method, csv);
    while (more && !rc) {
        rc = store_event_list(r->jobs->opt.store, r->job.id, &page, &a, &list, &n, &more, e);
        for (size_t i = 0; !rc && i < n; i++)
            job_csv_line(list[i].data, csv);
        if (!rc && n) {
            snprintf(last, sizeof last, "%s", list[n - 1].id);
            page.after = last;
        }
        arena_reset(&a); /* of many steps one page at a time */
    }
    arena_release(&a);
    return rc ? -1 : buf_check(csv, "the result file", e);
}

static int write_steps(struct job_run *r, struct file_row *f, struct err *e)
{
    struct making m;
    struct buf csv;
    describe(r, "", "step_metrics.csv", f);
    buf_init(&csv, CSV_BYTES_MAX);
    int rc = collect(r, &csv, e) || begin(&m, r, f->id, e);
    if (!rc) {
        rc = put(&m, csv.data, csv.len, e) || end(&m, r, f, e);
        aside_release(&m.aside);
    }
    buf_release(&csv);
    return rc ? -1 : 0;
}

/* ---- the rows ------------------------------------------------------------------------------ */

char *job_row_log_path(const struct job_run *r)
{
    char *dir = jobs_path(r->jobs->opt.dir, "checkpoints", r->job.id);
    size_t n = strlen(dir) + sizeof "/rows.csv";
    char *path = xmalloc(n);
    snprintf(path, n, "%s/rows.csv", dir);
    free(dir);
    return path;
}

static int copy(struct making *m, FILE *from, struct err *e)
{
    char *piece = xmalloc(PIECE_BYTES);
    size_t n;
    int rc = 0;
    while (!rc && (n = fread(piece, 1, PIECE_BYTES, from)) > 0)
        rc = put(m, piece, n, e);
    if (!rc && ferror(from))
        rc = err_sys(e, "the file of rows");
    free(piece);
    return rc;
}

static int write_rows(struct job_run *r, struct file_row *f, struct err *e)
{
    struct making m;
    char *path = job_row_log_path(r);
    FILE *from = fopen(path, "rb");
    describe(r, "rows-", "row_losses.csv", f);
    int rc = from ? begin(&m, r, f->id, e) : err_sys(e, "the file of rows");
    if (!rc) {
        rc = copy(&m, from, e) || end(&m, r, f, e);
        aside_release(&m.aside);
    }
    if (from)
        fclose(from);
    free(path);
    return rc ? -1 : 0;
}

int job_write_results(struct job_run *r, struct file_row file[JOB_RESULT_FILES], struct err *e)
{
    return write_steps(r, &file[0], e) || write_rows(r, &file[1], e) ? -1 : 0;
}
