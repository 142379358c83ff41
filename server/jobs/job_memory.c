/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job takes of the memory, before it takes it. Keys and values may yet come to fill all of
 * theirs, so what is free now is not all a job's. Where ranks share the model the plan is of one of
 * them.
 */
#include <stdio.h>

#include "engine/engine.h"
#include "engine/run/ranks.h"
#include "server/jobs/jobs_own.h"

enum { LEAST_SHARE = 4, DATA_BYTES = 1024 };

int job_copy_type(const struct resident *on)
{
    int type = (int)on->model->type;
    struct err e = ERR_INIT;
    return type == K_INT8 && model_stored_type(&on->dir, &type, &e) ? K_BF16 : type;
}

static size_t limit_of(const struct job_run *r)
{
    const struct jobs_options *o = &r->jobs->opt;
    size_t total, left, kept = (size_t)engine_info(o->engine)->kv_bytes;
    if (o->train_memory > 0)
        return (size_t)o->train_memory;
    const struct resident *on = engine_resident(o->engine);
    if (device_get_kind(on->device) == DEVICE_CUDA) { /* what was kept at the start; 1: nothing */
        int64_t ours = engine_info(o->engine)->train_bytes;
        return ours > 0 ? (size_t)ours : 1;
    }
    device_memory(on->device, &total, &left);
    if (on->crew)
        left /= (size_t)crew_memory(on->crew).n_sharer;
    return left > kept && left - kept > left / LEAST_SHARE ? left - kept : left / LEAST_SHARE;
}

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

/* A model of the copy's shape at one rank, without weights. */
static struct model *copy_shape(const struct resident *on, struct model_share *share, struct err *e)
{
    struct model_options mo = {
        .type = job_copy_type(on), .kv_type = (int)on->model->kv_type, .ctx = on->model->ctx};
    struct op_ranks at = {.rank = on->model->ranks.rank, .size = on->model->ranks.size};
    if (on->model->part && ranks_share_for(share, &on->model->cfg, &mo, &at, MODEL_LOSS, e))
        return NULL;
    mo.share = on->model->part ? share : NULL;
    return model_new(&on->model->cfg, &mo, NULL, e);
}

static int plan(struct job_run *r, const struct tuning_options *o, struct train_plan *p,
                struct err *e)
{
    static const enum train_recompute how[] = {RECOMPUTE_AUTO, RECOMPUTE_AUTO, RECOMPUTE_ON,
                                               RECOMPUTE_OFF};
    const struct resident *on = engine_resident(r->jobs->opt.engine);
    const struct job_hyper *h = &r->job.hyper;
    bool copies = h->training_type == HYPER_FULL;
    struct model_share share = {0};
    struct model *copy = copies ? copy_shape(on, &share, e) : NULL;
    const struct model *m = copies ? copy : on->model;
    int rc = m ? train_plan(m, on->device, o, how[h->activation_checkpointing], copies, limit_of(r),
                            p, e)
               : -1;
    model_free(copy);
    ranks_share_release(&share);
    return rc;
}

int job_plan(struct job_run *r, struct tuning_options *o, struct job_event *said, struct err *e)
{
    char text[TRAIN_PLAN_TEXT_BYTES];
    struct train_plan p;
    struct err why = ERR_INIT;
    if (plan(r, o, &p, &why)) {
        if (why.code != ERR_TOO_LARGE)
            return err_set(e, why.code, "%s", why.msg);
        return job_fail(r, "not_enough_memory", NULL, arena_strdup(r->arena, why.msg), e) ? -1 : 1;
    }
    o->train.checkpoints_blocks = p.recomputes;
    o->train.value_bytes = p.value_bytes;
    r->job.hyper.activation_checkpointing = p.recomputes ? HYPER_ON : HYPER_OFF;
    job_event_init(r, said, "message", arena_strdup(r->arena, train_plan_text(&p, text)));
    said->data = data_of(r, &p);
    return 0;
}
