/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/fine_tuning/alpha/graders/run and /validate. Long texts take a part of a second to be
 * compared, and others may take a minute to answer: so grading has threads of its own.
 */
#include "api/grade.h"
#include "engine/base/clock.h"
#include "server/desk/desk.h"
#include "server/http/route.h"

static enum errand_end no_grade(const struct grade *g, struct api_error *e)
{
    if (g->fault == GRADE_BROKEN)
        api_fail(e, 503, "grader_unavailable", NULL, "%s", g->why);
    else
        api_fail(e, 503, "shutting_down", NULL, "The server is being stopped.");
    return ERRAND_FAILED;
}

static enum errand_end work_run(struct errand *t, struct api_error *e)
{
    struct grade_ask ask;
    struct grade grade;
    int64_t begin = clock_us();
    struct grader_outside outside = desk_options(t->desk)->graders;
    outside.owner = t->ask->who->name;
    outside.ends = &t->is_gone;
    outside.until_us = begin + outside.timeout_us;
    if (grade_ask_parse(t->ask->body, t->ask->n_body, true, &t->arena, &ask, e) ||
        grader_check(ask.grader, &outside, e))
        return ERRAND_FAILED;
    grader_run(ask.grader, ask.item, ask.sample, ask.n_sample, &outside, &t->arena, &grade);
    if (grade.fault == GRADE_ENDED || grade.fault == GRADE_BROKEN)
        return no_grade(&grade, e);
    t->ignored = ask.ignored;
    struct jout j = jout_on(&t->out);
    grade_write(&j, &grade, (double)(clock_us() - begin) / 1e6);
    return ERRAND_DONE;
}

static enum errand_end work_validate(struct errand *t, struct api_error *e)
{
    struct grade_ask ask;
    struct err why = ERR_INIT;
    if (grade_ask_parse(t->ask->body, t->ask->n_body, false, &t->arena, &ask, e) ||
        grader_check(ask.grader, &desk_options(t->desk)->graders, e))
        return ERRAND_FAILED;
    t->ignored = ask.ignored;
    struct jout j = jout_on(&t->out);
    return grader_echo_write(&j, &ask, &why) ? errand_fail(&why, e) : ERRAND_DONE;
}

void route_grader_run(struct call *c)
{
    struct errand *t = errand_new(c);
    if (!t)
        return;
    t->asks_others = true;
    errand_send(t, work_run);
}

void route_grader_validate(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_validate);
}
