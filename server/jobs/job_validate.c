/* SPDX-License-Identifier: Apache-2.0
 *
 * The first stage of a job: its files are read, and told of.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/train_row.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "server/jobs/jobs_own.h"

enum {
    TEXT_BYTES = 256,
    ODD_TEXT = 10,   /* examples that a message names */
    ODD_DATA = 1000, /* and its data */
    ODD_BYTES = 64 << 10,
    LOOK_US = 1000 * 1000
};

/* What is wrong with a file, in the job's words. */
static int refuse_file(struct job_run *r, const struct tune_rows *d, const char *param,
                       const struct err *why, struct err *e)
{
    enum train_fault fault = tune_rows_info(d).fault;
    struct api_error said;
    api_fail_err(&said, why, param);
    const char *code = d == r->valid                 ? "invalid_validation_file"
                       : fault == TRAIN_FAULT_FORMAT ? "invalid_file_format"
                       : fault == TRAIN_FAULT_ROW    ? "invalid_training_file"
                       : said.code                   ? said.code
                                                     : "invalid_training_file";
    return job_fail(r, code, param, arena_strdup(r->arena, said.message), e) ? -1 : 1;
}

/* A file that is read: it may be long, and is left where nobody waits for it any more. */
struct reading {
    const struct job_run *run; /* borrowed */
    struct train_said said;
    int64_t look_us; /* when the store is asked next */
    bool is_left;
};

static int read_row(void *ctx, struct arena *a, const char *line, size_t n,
                    struct train_wants wants, struct train_example *out, struct err *e)
{
    struct reading *g = ctx;
    int64_t now = clock_us();
    g->is_left = atomic_load(&g->run->jobs->stops);
    if (!g->is_left && now >= g->look_us) {
        g->look_us = now + LOOK_US;
        g->is_left = job_is_over(g->run, false);
    }
    return g->is_left ? err_set(e, ERR_BUSY, "its job is over")
                      : api_train_read(&g->said, a, line, n, wants, out, e);
}

static struct tune_rows *rows_new(struct job_run *r, bool is_valid, struct reading *g)
{
    job_choose_samples(r);
    const struct job_hyper *h = &r->job.hyper;
    bool judges = h->method == HYPER_DPO && h->loss == HYPER_KTO;
    const struct tune_rows_options o = {.created_s = r->job.created,
                                        .max_tok = h->max_length,
                                        .refuses_longer = h->long_rows == HYPER_REFUSE,
                                        .has_pairs = h->method == HYPER_DPO && !judges,
                                        .has_verdicts = judges,
                                        .has_anchors = h->method == HYPER_EMBEDDING,
                                        .has_labels = h->method == HYPER_CLASSIFICATION,
                                        .n_sample = is_valid ? h->eval_samples : h->group_size,
                                        .max_new = h->max_completion_tokens,
                                        .reader = {.fn = read_row, .ctx = g}};
    return tune_rows_new(r->jobs->opt.engine, &o);
}

/* Reads one file; 1: it cannot be used, and the job has failed, or it was left. */
static int read_file(struct job_run *r, const char *id, const char *param, struct tune_rows **rows,
                     struct err *e)
{
    struct err why = ERR_INIT;
    struct reading g = {.run = r, .said = {.unread = ""}, .look_us = clock_us() + LOOK_US};
    struct file_row row;
    char text[TEXT_BYTES];
    if (store_file_get_held(r->jobs->opt.store, r->job.owner, id, r->arena, &row, e)) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        snprintf(text, sizeof text, "The file %s is not there any more.", id);
        return job_fail(r, "file_not_found", param, text, e) ? -1 : 1;
    }
    int fd = store_file_open(r->jobs->opt.store, &row, e);
    if (fd < 0 && e->code != ERR_CORRUPT)
        return -1;
    if (fd < 0)
        return job_fail(r, "file_altered", param, arena_strdup(r->arena, e->msg), e) ? -1 : 1;
    *rows = rows_new(r, rows == &r->valid, &g);
    int rc = tune_rows_read(*rows, fd, &why);
    if (g.is_left)
        return 1;
    if (*g.said.unread)
        r->unread = arena_strdup(r->arena, g.said.unread);
    return rc ? refuse_file(r, *rows, param, &why, e) : 0;
}

static int check_counts(struct job_run *r, struct err *e)
{
    char text[TEXT_BYTES];
    const struct tune_rows_info rows = tune_rows_info(r->data);
    int64_t least = r->jobs->opt.min_examples;
    if (rows.n_example < least) {
        snprintf(text, sizeof text,
                 "Training file has %" PRId64 " example(s), but must have at least %" PRId64
                 " examples",
                 rows.n_example, least);
        return job_fail(r, "invalid_n_examples", "training_file", text, e) ? -1 : 1;
    }
    if (rows.n_learn == 0)
        return job_fail(r, "no_trainable_tokens", "training_file",
                        r->job.hyper.method == HYPER_DPO
                            ? "No example has two outputs to choose between: they are empty, cut "
                              "off, or the same."
                            : "No example has a token to learn from: every message of the "
                              "assistant is empty, cut off, or has the weight 0.",
                        e)
                   ? -1
                   : 1;
    return 0;
}

/* What is asked of teachers is for rows that have one. */
static int check_taught(struct job_run *r, struct err *e)
{
    if (r->job.hyper.distill == 0 || tune_rows_info(r->data).n_taught > 0)
        return 0;
    return job_fail(r, "invalid_training_file", "training_file",
                    "No example has 'logprobs' of a teacher, which 'distill_weight' is for.", e)
               ? -1
               : 1;
}

/* One that measures nothing is a mistake, told before hours of training. */
static int check_valid(struct job_run *r, struct err *e)
{
    if (tune_rows_info(r->valid).n_learn > 0)
        return 0;
    return job_fail(r, "invalid_validation_file", "validation_file",
                    r->job.hyper.method == HYPER_DPO
                        ? "No example of the validation file has two outputs to choose between: "
                          "they are empty, cut off, or the same."
                        : "No example of the validation file has a token to measure: every "
                          "message of the assistant is empty, cut off, or has the weight 0.",
                    e)
               ? -1
               : 1;
}

int job_read_files(struct job_run *r, struct err *e)
{
    int rc = read_file(r, r->job.training_file, "training_file", &r->data, e);
    if (!rc)
        rc = check_counts(r, e);
    if (!rc)
        rc = check_taught(r, e);
    if (!rc && r->job.validation_file)
        rc = read_file(r, r->job.validation_file, "validation_file", &r->valid, e);
    if (!rc && r->job.validation_file)
        rc = check_valid(r, e);
    return rc;
}

/* ---- what is told of the rows -------------------------------------------------------------- */

static void odd_tell(struct job_run *r, const char *what, const char *reason,
                     const int64_t *example, size_t n, struct job_event *v)
{
    struct buf text, data;
    buf_init(&text, ODD_BYTES);
    buf_init(&data, ODD_BYTES);
    buf_printf(&text, "%zu example(s) %s:", n, what);
    buf_printf(&data, "{\"reason\":\"%s\",\"count\":%zu,\"examples\":[", reason, n);
    for (size_t i = 0; i < n && i < ODD_DATA; i++) {
        if (i < ODD_TEXT)
            buf_printf(&text, "%s %" PRId64, i ? "," : "", example[i]);
        buf_printf(&data, "%s%" PRId64, i ? "," : "", example[i]);
    }
    buf_str(&text, n > ODD_TEXT ? " and others" : "");
    buf_str(&data, "]}");
    job_event_init(r, v, "message", arena_strdup(r->arena, text.data));
    v->data = arena_strdup(r->arena, data.data);
    v->level = "warn";
    buf_release(&text);
    buf_release(&data);
}

static void unread_tell(struct job_run *r, struct job_event *v)
{
    job_event_init(r, v, "message",
                   arena_printf(r->arena, "Members of rows that nothing reads: %s", r->unread));
    v->data = arena_printf(r->arena, "{\"reason\":\"unread\",\"members\":\"%s\"}", r->unread);
    v->level = "warn";
}

/* Fills v with what there is to tell of the files' rows; how many events. */
enum { TOLD_OF_ROWS = TUNE_ODD_COUNT + 1 };
static size_t tell_rows(struct job_run *r, struct job_event v[TOLD_OF_ROWS])
{
    int64_t max_tok = tune_rows_info(r->data).max_tok, example[ODD_DATA];
    const struct {
        const char *what, *reason;
    } odd[TUNE_ODD_COUNT] = {
        [TUNE_ODD_CUT] = {arena_printf(r->arena, "were cut at %" PRId64 " tokens", max_tok), "cut"},
        [TUNE_ODD_LEFT_OUT] = {arena_printf(r->arena, "are left out: more than %" PRId64 " tokens",
                                            max_tok),
                               "left_out"},
        [TUNE_ODD_NOTHING_TO_LEARN] = {"have nothing to learn", "nothing_to_learn"}};
    size_t n = 0;
    for (enum tune_odd k = 0; k < TUNE_ODD_COUNT; k++) {
        size_t count = tune_rows_odd(r->data, k, example, ODD_DATA);
        if (count)
            odd_tell(r, odd[k].what, odd[k].reason, example, count, &v[n++]);
    }
    if (r->unread)
        unread_tell(r, &v[n++]);
    return n;
}

int job_validate(struct job_run *r, struct err *e)
{
    char text[TEXT_BYTES];
    const char *valid = r->job.validation_file;
    snprintf(text, sizeof text, "Validating training file: %s%s%s", r->job.training_file,
             valid ? " and validation file: " : "", valid ? valid : "");
    /* nothing is said behind the end of a job that was cancelled since it was taken */
    if (job_move(r, JOB_VALIDATING, 1u << JOB_VALIDATING, "info", text, e))
        return -1;
    int rc = job_read_files(r, e);
    if (rc)
        return rc < 0 ? -1 : 0;
    job_choose(r);
    struct job_event v[TOLD_OF_ROWS + 2];
    size_t n = tell_rows(r, v);
    if (r->job.ancestor)
        job_event_init(r, &v[n++], "message",
                       arena_printf(r->arena, "The training goes on from %s", r->job.ancestor));
    job_event_init(r, &v[n++], "message", "Files validated, moving job to queued state");
    r->job.state = JOB_QUEUED;
    job_keep_rows(r); /* before its training may look for them */
    return store_job_change(
        r->jobs->opt.store,
        &(struct store_change){
            .job = &r->job, .from = 1u << JOB_VALIDATING, .event = v, .n_event = n},
        e);
}
