/* SPDX-License-Identifier: Apache-2.0
 *
 * Training by rewards: the job's grader, and the adapter that it samples from, which answers to its
 * owner as long as the job runs.
 */
#include <string.h>

#include "api/grader.h"
#include "api/params.h"
#include "engine/base/map.h"
#include "engine/engine.h"
#include "server/jobs/jobs_own.h"

enum { GRADE_BYTES = 256 << 20 };

/* What stands in the store was read when the job was made. */
static int read_grader(struct job_run *r, struct err *e)
{
    struct api_limits limits = {.n_vocab = 0};
    struct api_request unused = {.route = API_CHAT};
    struct api_error why = {0};
    struct api_reader reader = {.arena = r->arena,
                                .limits = &limits,
                                .out = &unused,
                                .e = &why,
                                .values = API_JSON_VALUES_MAX};
    const char *text = r->job.grader ? r->job.grader : "";
    const json_t *v = api_json_line(r->arena, text, strlen(text), &why);
    r->grader = v ? grader_read(&reader, "grader", v) : NULL;
    return r->grader ? 0 : err_set(e, ERR_CORRUPT, "the job's grader: %s", why.message);
}

static int grade(void *ctx, const struct tune_sample *s, double *reward, bool *is_graded,
                 struct err *e)
{
    const struct job_run *r = ctx;
    struct api_error why = {0};
    struct arena a;
    struct grade got = {.reward = 0};
    arena_init(&a, GRADE_BYTES);
    const json_t *item = api_json_line(&a, s->line, s->n_line, &why);
    if (item)
        grader_run(r->grader, item, s->text, s->n_text, &a, &got);
    arena_release(&a);
    *reward = got.reward;
    *is_graded = got.fault == GRADE_GOOD;
    return item ? 0 : err_set(e, ERR_NO_MEMORY, "a row cannot be read again: %s", why.message);
}

int job_policy_begin(struct job_run *r, struct tune_options *o, struct err *e)
{
    static const enum train_advantage kinds[] = {TRAIN_GRPO, TRAIN_GRPO, TRAIN_DR_GRPO, TRAIN_RLOO};
    const struct job_hyper *h = &r->job.hyper;
    if (h->method != HYPER_REINFORCEMENT)
        return 0;
    const char *name = job_policy_name(r);
    o->policy = (struct tune_policy){.loss = {.is_on = true,
                                              .has_row_ratio = h->advantage == HYPER_RLOO,
                                              .clip_low = h->clip_range,
                                              .clip_high = h->clip_range,
                                              .kl = h->kl_weight},
                                     .samples = {.advantage = kinds[h->advantage],
                                                 .group = h->group_size,
                                                 .max_new = h->max_completion_tokens},
                                     .name = name,
                                     .folder = o->checkpoints,
                                     .tenant = map_hash(r->job.id, strlen(r->job.id)),
                                     .grade = grade};
    return read_grader(r, e) ||
                   engine_adapter_claim(r->jobs->opt.engine, name, r->job.owner, false, e)
               ? -1
               : 0;
}

void job_policy_retire(struct job_run *r)
{
    struct err unknown = ERR_INIT;
    if (r->job.hyper.method == HYPER_REINFORCEMENT)
        engine_adapter_drop(r->jobs->opt.engine, job_policy_name(r), &unknown);
}

void job_policy_end(struct job_run *r)
{
    if (r->job.hyper.method != HYPER_REINFORCEMENT)
        return;
    tune_free(r->tune); /* the name's last version with it */
    r->tune = NULL;
    engine_adapter_disown(r->jobs->opt.engine, job_policy_name(r));
}
