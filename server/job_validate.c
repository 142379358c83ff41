/* SPDX-License-Identifier: Apache-2.0
 *
 * The first stage of a job: its files are read, and the numbers that were left to us chosen.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"
#include "server/jobs_own.h"
#include "server/train_file.h"

enum { TEXT_BYTES = 256, ROWS_PER_STEP = 32, BATCH_AUTO_MAX = 16, RANK_AUTO = 16 };

/* Reads one file; 1: it cannot be used, and the job has failed. */
static int read_file(struct job_run *r, const char *id, const char *param, struct dataset *d,
                     struct train_file *f, struct err *e)
{
    struct api_error why = {0};
    struct file_row row;
    char text[TEXT_BYTES];
    struct dataset_options o =
        train_file_options(engine_resident(r->jobs->opt.engine), r->job.created);
    dataset_init(d, &o);
    if (store_file_get(r->jobs->opt.store, r->job.owner, id, r->arena, &row, e)) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        snprintf(text, sizeof text, "The file %s is not there any more.", id);
        return job_fail(r, "file_not_found", param, text, e) ? -1 : 1;
    }
    char *path = jobs_path(r->jobs->opt.dir, "files", id);
    int rc = train_file_read(path, d, f, &why);
    free(path);
    if (!rc)
        return 0;
    snprintf(text, sizeof text, "%.250s", why.message);
    return job_fail(r, why.code ? why.code : "invalid_training_file", param,
                    arena_strdup(r->arena, why.message), e)
               ? -1
               : 1;
}

static int check_counts(struct job_run *r, const struct train_file *f, struct err *e)
{
    char text[TEXT_BYTES];
    int64_t least = r->jobs->opt.min_examples;
    if (f->n_example < least) {
        snprintf(text, sizeof text,
                 "Training file has %" PRId64 " example(s), but must have at least %" PRId64
                 " examples",
                 f->n_example, least);
        return job_fail(r, "invalid_n_examples", "training_file", text, e) ? -1 : 1;
    }
    if (r->data.n_learn == 0)
        return job_fail(r, "no_trainable_tokens", "training_file",
                        "No example has a token to learn from: every message of the assistant is "
                        "empty, cut off, or has the weight 0.",
                        e)
                   ? -1
                   : 1;
    return 0;
}

int job_read_files(struct job_run *r, struct err *e)
{
    struct train_file f;
    int rc = read_file(r, r->job.training_file, "training_file", &r->data, &f, e);
    if (!rc)
        rc = check_counts(r, &f, e);
    if (!rc && r->job.validation_file)
        rc = read_file(r, r->job.validation_file, "validation_file", &r->valid, &f, e);
    return rc;
}

/* What was left to us: enough steps for a small file, batches for a large one. */
static void choose(struct job_hyper *h, int64_t n_row)
{
    int64_t batch = n_row / ROWS_PER_STEP;
    if (h->n_epochs == 0)
        h->n_epochs = n_row < 100 ? 10 : 3;
    if (h->batch_size == 0)
        h->batch_size = batch < 1 ? 1 : batch > BATCH_AUTO_MAX ? BATCH_AUTO_MAX : batch;
    if (h->lr_multiplier == 0)
        h->lr_multiplier = 1;
    if (h->lora_rank == 0)
        h->lora_rank = RANK_AUTO;
    if (h->lora_alpha == 0)
        h->lora_alpha = 2 * (double)h->lora_rank;
}

static int say_counts(struct job_run *r, struct err *e)
{
    char text[TEXT_BYTES];
    const struct dataset *d = &r->data;
    if (d->n_cut == 0 && d->n_barren == 0)
        return 0;
    snprintf(text, sizeof text,
             "Of %zu examples %" PRId64 " were cut at %" PRId64 " tokens, %" PRId64
             " have nothing to learn",
             d->row.n, d->n_cut, d->opt.max_tok, d->n_barren);
    return job_say(r, "message", text, NULL, e);
}

int job_validate(struct job_run *r, struct err *e)
{
    char text[TEXT_BYTES];
    const char *valid = r->job.validation_file;
    snprintf(text, sizeof text, "Validating training file: %s%s%s", r->job.training_file,
             valid ? " and validation file: " : "", valid ? valid : "");
    if (job_say(r, "message", text, NULL, e))
        return -1;
    int rc = job_read_files(r, e);
    if (rc)
        return rc < 0 ? -1 : 0;
    choose(&r->job.hyper, (int64_t)r->data.row.n - r->data.n_barren);
    if (say_counts(r, e))
        return -1;
    return job_move(r, JOB_QUEUED, 1u << JOB_VALIDATING, "info",
                    "Files validated, moving job to queued state", e);
}
