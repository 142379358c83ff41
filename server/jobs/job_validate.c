/* SPDX-License-Identifier: Apache-2.0
 *
 * The first stage of a job: its files are read, and the numbers that were left to us chosen.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/buf.h"
#include "engine/base/vec.h"
#include "engine/engine.h"
#include "server/jobs/jobs_own.h"
#include "server/jobs/train_file.h"

enum {
    TEXT_BYTES = 256,
    ROWS_PER_STEP = 32,
    BATCH_AUTO_MAX = 16,
    RANK_AUTO = 16,
    WIDTH_OF_LR = 2048, /* columns of a model whose multiplier is 1 */
    LR_AUTO_MAX = 10,
    ODD_KINDS = 3,
    ODD_TEXT = 10,   /* examples that a message names */
    ODD_DATA = 1000, /* and its data */
    ODD_BYTES = 64 << 10
};

/* Reads one file; 1: it cannot be used, and the job has failed. */
static int read_file(struct job_run *r, const char *id, const char *param, struct dataset *d,
                     struct train_file *f, struct err *e)
{
    struct api_error why = {0};
    struct file_row row;
    char text[TEXT_BYTES];
    struct dataset_options o =
        train_file_options(engine_resident(r->jobs->opt.engine), r->job.created);
    const struct job_hyper *h = &r->job.hyper;
    if (h->max_length > 0 && h->max_length < o.max_tok)
        o.max_tok = h->max_length;
    o.longer = h->long_rows == HYPER_REFUSE ? DATASET_REFUSE : DATASET_CUT;
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

/* The step that suits a model falls with its width: what is a good one for thousands of columns
 * teaches a small model nothing in the few steps of a small file. */
static double lr_multiplier_of(int64_t d_model)
{
    double x = d_model > 0 ? (double)WIDTH_OF_LR / (double)d_model : 1;
    return x < 1 ? 1 : x > LR_AUTO_MAX ? LR_AUTO_MAX : x;
}

/* What was left to us: enough steps for a small file, batches for a large one. */
void job_choose(struct job_run *r)
{
    struct job_hyper *h = &r->job.hyper;
    int64_t most = engine_info(r->jobs->opt.engine)->max_lora_rank;
    int64_t n_row = (int64_t)r->data.row.n - r->data.n_barren, batch = n_row / ROWS_PER_STEP;
    if (h->n_epochs == 0)
        h->n_epochs = n_row < 100 ? 16 : 3;
    if (h->batch_size == 0)
        h->batch_size = batch < 1 ? 1 : batch > BATCH_AUTO_MAX ? BATCH_AUTO_MAX : batch;
    if (h->lr_multiplier == 0)
        h->lr_multiplier = lr_multiplier_of(engine_info(r->jobs->opt.engine)->d_model);
    if (h->training_type == 0)
        h->training_type = HYPER_LORA;
    if (h->lora_rank == 0 && h->training_type == HYPER_LORA)
        h->lora_rank = most < RANK_AUTO ? most : RANK_AUTO;
    if (h->lora_alpha == 0 && h->training_type == HYPER_LORA)
        h->lora_alpha = 2 * (double)h->lora_rank;
    if (h->schedule == 0)
        h->schedule = HYPER_LINEAR;
    if (h->max_grad_norm == 0)
        h->max_grad_norm = 1;
    if (h->long_rows == 0)
        h->long_rows = HYPER_CUT;
    h->max_length = r->data.opt.max_tok;
}

/* ---- what is told of the rows -------------------------------------------------------------- */

/* One kind of example that deserves a word: how many, and which. */
struct odd {
    const char *what, *reason; /* "have nothing to learn", "nothing_to_learn" */
    VEC(int64_t) example;
};

static void odd_tell(struct job_run *r, const struct odd *o, struct job_event *v)
{
    struct buf text, data;
    buf_init(&text, ODD_BYTES);
    buf_init(&data, ODD_BYTES);
    buf_printf(&text, "%zu example(s) %s:", o->example.n, o->what);
    buf_printf(&data, "{\"reason\":\"%s\",\"count\":%zu,\"examples\":[", o->reason, o->example.n);
    for (size_t i = 0; i < o->example.n && i < ODD_DATA; i++) {
        if (i < ODD_TEXT)
            buf_printf(&text, "%s %" PRId64, i ? "," : "", o->example.at[i]);
        buf_printf(&data, "%s%" PRId64, i ? "," : "", o->example.at[i]);
    }
    buf_str(&text, o->example.n > ODD_TEXT ? " and others" : "");
    buf_str(&data, "]}");
    job_event_init(r, v, "message", arena_strdup(r->arena, text.data));
    v->data = arena_strdup(r->arena, data.data);
    v->level = "warn";
    buf_release(&text);
    buf_release(&data);
}

/* Fills v with what there is to tell of a file's rows; how many events. */
static size_t tell_rows(struct job_run *r, const struct dataset *d, struct job_event v[ODD_KINDS])
{
    const char *cut = arena_printf(r->arena, "were cut at %" PRId64 " tokens", d->opt.max_tok);
    const char *out =
        arena_printf(r->arena, "are left out: more than %" PRId64 " tokens", d->opt.max_tok);
    struct odd odd[ODD_KINDS] = {{cut, "cut", {0}},
                                 {out, "left_out", {0}},
                                 {"have nothing to learn", "nothing_to_learn", {0}}};
    size_t n = 0;
    for (size_t i = 0; i < d->row.n; i++) {
        if (d->row.at[i].is_cut)
            vec_push(&odd[0].example, d->row.at[i].example);
        if (d->row.at[i].n_learn == 0)
            vec_push(&odd[2].example, d->row.at[i].example);
    }
    for (size_t i = 0; i < d->left_out.n; i++)
        vec_push(&odd[1].example, d->left_out.at[i]);
    for (int k = 0; k < ODD_KINDS; k++) {
        if (odd[k].example.n)
            odd_tell(r, &odd[k], &v[n++]);
        vec_release(&odd[k].example);
    }
    return n;
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
    job_choose(r);
    struct job_event v[ODD_KINDS + 1];
    size_t n = tell_rows(r, &r->data, v);
    job_event_init(r, &v[n++], "message", "Files validated, moving job to queued state");
    r->job.state = JOB_QUEUED;
    return store_job_change(
        r->jobs->opt.store,
        &(struct store_change){
            .job = &r->job, .from = 1u << JOB_VALIDATING, .event = v, .n_event = n},
        e);
}
