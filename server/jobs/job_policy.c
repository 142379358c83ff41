/* SPDX-License-Identifier: Apache-2.0
 *
 * Training by rewards: the job's grader, and the adapter that it samples from, which answers to its
 * owner as long as the job runs.
 */
#include <string.h>

#include "api/grader.h"
#include "api/params.h"
#include "engine/base/fs.h"
#include "engine/base/map.h"
#include "engine/base/siphash.h"
#include "engine/engine.h"
#include "server/jobs/jobs_own.h"

enum { GRADE_BYTES = 256 << 20 };

/* What stands in the store was read when the job was made. */
static int read_again(struct job_run *r, struct err *e)
{
    static const char of_format[] = "response_format";
    struct api_limits limits = {.n_vocab = 0};
    struct api_request unused = {.route = API_CHAT};
    struct api_error why = {0};
    struct api_reader reader = {.arena = r->arena,
                                .limits = &limits,
                                .out = &unused,
                                .e = &why,
                                .values = API_JSON_VALUES_MAX};
    struct constraint c = {.kind = CONSTRAINT_NONE};
    const char *text = r->job.grader ? r->job.grader : "", *format = r->job.response_format;
    const json_t *v = api_json_line(r->arena, text, strlen(text), &why);
    r->grader = v ? grader_read(&reader, "grader", v) : NULL;
    if (!r->grader)
        return err_set(e, ERR_CORRUPT, "the job's grader: %s", why.message);
    v = format ? api_json_line(r->arena, format, strlen(format), &why) : NULL;
    if (format && (!v || job_format_read(&reader, of_format, v, &c)))
        return err_set(e, ERR_CORRUPT, "the job's response_format: %s", why.message);
    if (c.kind != CONSTRAINT_NONE)
        r->format = engine_constraint(r->jobs->opt.engine, &c, 0, e);
    return c.kind == CONSTRAINT_NONE || r->format ? 0 : -1;
}

/* By its row and its text, whatever it is worth. */
static uint64_t hash_of(const struct tune_sample *s)
{
    const struct siphash_key text = {1, s->n_line}, all = {2, s->n_text};
    const uint64_t part[2] = {siphash(text, s->line, s->n_line), siphash(all, s->text, s->n_text)};
    return siphash((struct siphash_key){0, 0}, part, sizeof part);
}

/* What the server itself could not do is no grade: the job halts, and asks again. */
static int halt(struct job_run *r, const char *why, struct err *e)
{
    atomic_store(&r->is_unasked, true);
    return err_set(e, ERR_IO, "%s", why);
}

static int ask_grader(struct job_run *r, const struct tune_sample *s, struct job_grade *out,
                      struct err *e)
{
    struct grader_outside outside = r->jobs->opt.graders;
    struct api_error why = {0};
    struct arena a;
    struct grade got = {.reward = 0};
    if (r->format && !masks_hold(r->format, s->text, s->n_text)) {
        out->fault = GRADE_NO_JSON;
        job_grades_count(r->grades, out->fault, "the sample is not of the job's response_format");
        return 0;
    }
    outside.owner = r->job.owner;
    outside.ends = s->ends;
    arena_init(&a, GRADE_BYTES);
    const json_t *item = api_json_line(&a, s->line, s->n_line, &why);
    if (item)
        grader_run(r->grader, item, s->text, s->n_text, outside.ask ? &outside : NULL, &a, &got);
    out->reward = got.reward;
    out->fault = got.fault;
    int rc = 0;
    if (!item)
        rc = err_set(e, ERR_NO_MEMORY, "a row cannot be read again: %s", why.message);
    else if (got.fault == GRADE_BROKEN)
        rc = halt(r, got.why, e);
    else if (got.fault && got.fault != GRADE_ENDED)
        job_grades_count(r->grades, got.fault, got.why);
    arena_release(&a);
    return rc;
}

/* For who watches the job. A step's first prompt has the first places; each is graded once, by one
 * thread, and all are read when the step is told. */
static void show(struct job_run *r, const struct tune_sample *s, double reward)
{
    struct job_samples *shown = &r->samples;
    const int64_t group = r->job.hyper.group_size, most = group < JOB_SAMPLES ? group : JOB_SAMPLES;
    if (s->place >= most)
        return;
    job_text_set(&shown->text[s->place], s->text, s->n_text);
    shown->reward[s->place] = reward;
    if (s->place > 0)
        return;
    json_t *row = json_loadb(s->line, s->n_line, 0, NULL), *list = json_object_get(row, "messages");
    const json_t *last = json_array_get(list, json_array_size(list) - 1);
    const json_t *said = json_object_get(last, "content");
    const char *text = json_string_value(said);
    job_text_set(&shown->prompt, text ? text : "", text ? json_string_length(said) : 0);
    json_decref(row);
    shown->example = s->example;
    shown->n = (size_t)most;
}

/* What was graded before a kill is not asked again: others may say something else now. */
static int grade(void *ctx, const struct tune_sample *s, double *reward, bool *is_graded,
                 struct err *e)
{
    struct job_run *r = ctx;
    struct job_grade g = {.step = s->step, .place = s->place, .sample = hash_of(s)};
    int rc = 0;
    if (job_grades_find(r->grades, &g)) {
        if (g.fault)
            job_grades_count(r->grades, g.fault, "");
    } else {
        rc = ask_grader(r, s, &g, e);
        if (!rc && g.fault != GRADE_ENDED)
            rc = job_grades_add(r->grades, &g, e);
    }
    show(r, s, g.reward);
    *reward = g.reward;
    *is_graded = g.fault == GRADE_GOOD;
    return rc;
}

static int graded(void *ctx, struct err *e)
{
    struct job_run *r = ctx;
    return job_grades_settle(r->grades, &r->faults, e);
}

/* Where the job keeps them, of a grader that asks others. */
static int open_grades(struct job_run *r, const char *folder, struct err *e)
{
    const char *path = NULL;
    if (grader_is_outside(r->grader)) {
        path = arena_printf(r->arena, "%s/grades", folder);
        if (fs_mkdirs(folder, e))
            return -1;
    }
    r->grades = job_grades_new(path, e);
    return r->grades ? 0 : -1;
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
                                     .judge_every = h->eval_interval,
                                     .name = name,
                                     .folder = o->checkpoints,
                                     .tenant = map_hash(r->job.id, strlen(r->job.id)),
                                     .grades_at_once = 1,
                                     .grade = grade,
                                     .graded = graded};
    if (read_again(r, e) || open_grades(r, o->checkpoints, e))
        return -1;
    if (grader_is_outside(r->grader))
        o->policy.grades_at_once = r->jobs->opt.graders_at_once;
    return engine_adapter_claim(r->jobs->opt.engine, name, r->job.owner, false, e);
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
    job_grades_free(r->grades);
    r->grades = NULL;
    masks_unref(r->format);
    r->format = NULL;
    engine_adapter_disown(r->jobs->opt.engine, job_policy_name(r));
}
