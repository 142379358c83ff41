/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs, events and files as OpenAI's objects.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/job.h"
#include "api/json.h"

static void put_hyper(struct jout *j, const struct job_hyper *h)
{
    jout_key(j, "hyperparameters");
    jout_open(j, '{');
    hyper_write(j, h);
    jout_close(j, '}');
}

static void put_method(struct jout *j, const struct job *job)
{
    const struct job_hyper *h = &job->hyper;
    jout_key(j, "method");
    jout_open(j, '{');
    jout_put_str(j, "type", hyper_method_name(h->method));
    jout_key(j, hyper_method_name(h->method));
    jout_open(j, '{');
    if (job->grader) {
        jout_key(j, "grader");
        jout_raw(j, job->grader);
    }
    if (job->response_format) {
        jout_key(j, "response_format");
        jout_raw(j, job->response_format);
    }
    put_hyper(j, h);
    jout_close(j, '}');
    jout_close(j, '}');
}

static void put_error(struct jout *j, const struct job *job)
{
    if (!job->error_code || job->state != JOB_FAILED) {
        jout_put_null(j, "error");
        return;
    }
    jout_key(j, "error");
    jout_open(j, '{');
    jout_put_str(j, "code", job->error_code);
    jout_put_str(j, "message", job->error_message);
    jout_put_str(j, "param", job->error_param);
    jout_close(j, '}');
}

void job_write(struct jout *j, const struct job *job)
{
    jout_open(j, '{');
    jout_put_str(j, "object", "fine_tuning.job");
    jout_put_str(j, "id", job->id);
    jout_put_str(j, "model", job->ancestor ? job->ancestor : job->model);
    jout_put_int(j, "created_at", job->created);
    jout_put_time(j, "finished_at", job->finished);
    jout_put_str(j, "fine_tuned_model", job->tuned_model);
    jout_put_str(j, "organization_id", "org-tandem");
    jout_key(j, "result_files");
    jout_raw(j, job->result_files);
    jout_put_str(j, "status", job_state_name(job->state));
    jout_put_str(j, "validation_file", job->validation_file);
    jout_put_str(j, "training_file", job->training_file);
    put_hyper(j, &job->hyper);
    put_method(j, job);
    if (job->trained_tokens >= 0)
        jout_put_int(j, "trained_tokens", job->trained_tokens);
    else
        jout_put_null(j, "trained_tokens");
    put_error(j, job);
    jout_put_str(j, "user_provided_suffix", job->suffix);
    jout_put_int(j, "seed", job->seed);
    jout_put_bool(j, "shared", job->is_shared);
    jout_put_time(j, "estimated_finish", job->finished ? 0 : job->estimated_finish);
    jout_key(j, "integrations");
    jout_raw(j, "[]");
    jout_key(j, "metadata");
    jout_raw(j, job->metadata ? job->metadata : "null");
    jout_close(j, '}');
}

void job_event_write(struct jout *j, const struct job_event *v)
{
    jout_open(j, '{');
    jout_put_str(j, "object", "fine_tuning.job.event");
    jout_put_str(j, "id", v->id);
    jout_put_int(j, "created_at", v->created);
    jout_put_str(j, "level", v->level);
    jout_put_str(j, "message", v->message);
    jout_put_str(j, "type", v->type);
    jout_key(j, "data");
    jout_raw(j, v->data ? v->data : "null");
    jout_close(j, '}');
}

void job_tuned_write(struct jout *j, const struct job_tuned *t)
{
    jout_open(j, '{');
    jout_put_str(j, "object", "fine_tuning.job.checkpoint");
    jout_put_str(j, "id", t->id);
    jout_put_int(j, "created_at", t->created);
    jout_put_str(j, "fine_tuned_model_checkpoint", t->name);
    jout_put_str(j, "fine_tuning_job_id", t->job);
    jout_put_int(j, "step_number", t->step);
    jout_key(j, "metrics");
    jout_raw(j, t->metrics ? t->metrics : "{}");
    jout_close(j, '}');
}

void file_row_write(struct jout *j, const struct file_row *f)
{
    jout_open(j, '{');
    jout_put_str(j, "object", "file");
    jout_put_str(j, "id", f->id);
    jout_put_str(j, "purpose", f->purpose);
    jout_put_str(j, "filename", f->name);
    jout_put_int(j, "bytes", f->bytes);
    jout_put_int(j, "created_at", f->created);
    jout_put_time(j, "expires_at", f->expires);
    jout_put_str(j, "status", "processed");
    jout_put_null(j, "status_details");
    jout_close(j, '}');
}
