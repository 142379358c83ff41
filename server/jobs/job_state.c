/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a job, as rows: every change of state has its event in the same transaction.
 */
#include <stdio.h>
#include <time.h>

#include "server/jobs/jobs_own.h"

int job_move(struct job_run *r, enum job_state to, unsigned from, const char *level,
             const char *message, struct err *e)
{
    char id[STORE_ID_BYTES];
    struct job_event v = {.id = id,
                          .level = level,
                          .type = "message",
                          .message = message,
                          .created = (int64_t)time(NULL)};
    store_id("ftevent-", id);
    r->job.state = to;
    return store_job_move(r->jobs->opt.store, &r->job, from, message ? &v : NULL, e);
}

int job_fail(struct job_run *r, const char *code, const char *param, const char *message,
             struct err *e)
{
    char text[560];
    r->job.error_code = code;
    r->job.error_param = param;
    r->job.error_message = message;
    r->job.finished = (int64_t)time(NULL);
    snprintf(text, sizeof text, "The job failed: %s", message);
    return job_move(r, JOB_FAILED, 1u << JOB_VALIDATING | 1u << JOB_QUEUED | 1u << JOB_RUNNING,
                    "error", text, e);
}

void job_event_init(struct job_run *r, struct job_event *v, const char *type, const char *message)
{
    char id[STORE_ID_BYTES];
    store_id("ftevent-", id);
    *v = (struct job_event){.id = arena_strdup(r->arena, id),
                            .level = "info",
                            .type = type,
                            .message = message,
                            .created = (int64_t)time(NULL)};
}

int job_say(struct job_run *r, const char *type, const char *message, const char *data,
            struct err *e)
{
    char id[STORE_ID_BYTES];
    struct job_event v = {.id = id,
                          .level = "info",
                          .type = type,
                          .message = message,
                          .data = data,
                          .created = (int64_t)time(NULL)};
    store_id("ftevent-", id);
    return store_event_add(r->jobs->opt.store, r->job.id, &v, e);
}
