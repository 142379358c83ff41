/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job takes of the memory, before it takes it: planned by the engine, told to its owner.
 */
#include <stdio.h>

#include "server/jobs/jobs_own.h"

enum { DATA_BYTES = 1024 };

static const char *data_of(const struct job_run *r, const struct train_plan *p)
{
    char text[DATA_BYTES];
    snprintf(text, sizeof text,
             "{\"memory\":{\"total\":%zu,\"limit\":%zu,\"weights\":%zu,\"values\":%zu,"
             "\"gradients\":%zu,\"moments\":%zu,\"inputs\":%zu,\"activations\":%zu,"
             "\"logits\":%zu,\"rows\":%zu,\"total_without_checkpointing\":%zu,"
             "\"total_with_checkpointing\":%zu},\"activation_checkpointing\":%s}",
             p->total, p->limit, p->weights, p->values, p->gradients, p->moments, p->inputs,
             p->activations, p->logits, p->host, p->total_plain, p->total_recomputed,
             p->recomputes ? "true" : "false");
    return arena_strdup(r->arena, text);
}

int job_plan(struct job_run *r, const struct tune_options *o, struct job_event *said, struct err *e)
{
    char text[TRAIN_PLAN_TEXT_BYTES];
    struct err why = ERR_INIT;
    r->tune = tune_new(r->jobs->opt.engine, o, &why);
    if (!r->tune) {
        if (why.code != ERR_TOO_LARGE)
            return err_set(e, why.code, "%s", why.msg);
        return job_fail(r, "not_enough_memory", NULL, arena_strdup(r->arena, why.msg), e) ? -1 : 1;
    }
    const struct train_plan *p = tune_plan(r->tune);
    r->job.hyper.activation_checkpointing = p->recomputes ? HYPER_ON : HYPER_OFF;
    job_event_init(r, said, "message", arena_strdup(r->arena, train_plan_text(p, text)));
    said->data = data_of(r, p);
    return 0;
}
