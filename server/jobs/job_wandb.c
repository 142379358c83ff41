/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as a run of Weights & Biases (--wandb): begun with its first numbers, ended with the job.
 * A job that halts leaves its run open, and goes on with it.
 */
#include "server/jobs/jobs_own.h"
#include "server/wandb/wandb.h"

enum { CONFIG_BYTES_MAX = 64 << 10 };

static void put(struct jout *j, const char *name, const char *value)
{
    jout_key(j, name);
    jout_open(j, '{');
    jout_put_str(j, "value", value);
    jout_close(j, '}');
}

static void write_config(const struct job *job, struct buf *out)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    put(&j, "model", job->model);
    put(&j, "method", hyper_method_name(job->hyper.method));
    put(&j, "training_file", job->training_file);
    put(&j, "validation_file", job->validation_file);
    jout_key(&j, "seed");
    jout_open(&j, '{');
    jout_put_int(&j, "value", job->seed);
    jout_close(&j, '}');
    jout_key(&j, "hyperparameters");
    jout_open(&j, '{');
    jout_key(&j, "value");
    jout_open(&j, '{');
    hyper_write(&j, &job->hyper);
    jout_close(&j, '}');
    jout_close(&j, '}');
    jout_close(&j, '}');
}

void job_wandb_add(struct job_run *r, int64_t step, const char *data)
{
    const struct job *job = &r->job;
    if (r->jobs->opt.wandb && !r->wandb) {
        struct buf config;
        buf_init(&config, CONFIG_BYTES_MAX);
        write_config(job, &config);
        r->wandb = wandb_open(r->jobs->opt.wandb, job->id,
                              job->suffix && *job->suffix ? job->suffix : job->id, config.data);
        buf_release(&config);
    }
    if (r->wandb)
        wandb_add(r->wandb, step, data);
}

void job_wandb_end(struct job_run *r)
{
    enum job_state is = r->job.state;
    bool is_bad = is == JOB_FAILED || is == JOB_CANCELLED;
    if (r->wandb)
        wandb_close(r->wandb, is == JOB_SUCCEEDED ? WANDB_SUCCEEDED
                              : is_bad            ? WANDB_FAILED
                                                  : WANDB_HALTED);
    r->wandb = NULL;
}
