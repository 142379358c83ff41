/* SPDX-License-Identifier: Apache-2.0
 *
 * What a sample is worth. Of a multi all graders run, one after the other, so that each is shown.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/grader_own.h"

enum operation { EQ, NE, LIKE, ILIKE };

static struct similarity_text lower(struct similarity_text t, struct arena *a)
{
    char *to = arena_alloc(a, t.n + 1);
    for (size_t i = 0; i < t.n; i++)
        to[i] = (char)tolower((unsigned char)t.p[i]);
    return (struct similarity_text){.p = to, .n = t.n};
}

static bool check_string(enum operation o, struct similarity_text t, struct similarity_text ref,
                         struct arena *a)
{
    bool is_same = t.n == ref.n && !memcmp(t.p, ref.p, t.n);
    if (o == EQ || o == NE)
        return is_same == (o == EQ);
    if (o == ILIKE) {
        t = lower(t, a);
        ref = lower(ref, a);
    }
    return memmem(t.p, t.n, ref.p, ref.n) != NULL;
}

static enum grade_fault compare(const struct grader *g, const struct grader_sample *s, double *out,
                                struct err *e)
{
    struct similarity_text t, ref;
    enum grade_fault fault = grade_text_fill(g->input, &s->of, s->arena, &t.p, &t.n, e);
    if (!fault)
        fault = grade_text_fill(g->reference, &s->of, s->arena, &ref.p, &ref.n, e);
    if (fault)
        return fault;
    if (g->kind == GRADER_STRING_CHECK) {
        *out = check_string((enum operation)g->operation, t, ref, s->arena);
        return GRADE_GOOD;
    }
    return similarity_of(g->metric, t, ref, s->arena, out, e) ? GRADE_OTHER : GRADE_GOOD;
}

static enum grade_fault run_single(const struct grader *g, const struct grader_sample *s,
                                   struct grade *grade, double *out, struct err *e)
{
    switch (g->kind) {
    case GRADER_SCORE_MODEL:
    case GRADER_LABEL_MODEL:
        return grader_ask_judge(g, s, grade, out, e);
    case GRADER_ENDPOINT:
    case GRADER_PROGRAM:
        return grader_ask_service(g, s, out, e);
    default:
        return compare(g, s, out, e);
    }
}

enum grade_fault grader_unanswered(const struct grader_outside *o, const struct err *e,
                                   enum grade_fault own)
{
    if (o->ends && atomic_load(o->ends))
        return GRADE_ENDED;
    return e->code == ERR_IO ? GRADE_BROKEN : own;
}

static bool is_no_grade(enum grade_fault fault)
{
    return fault == GRADE_ENDED || fault == GRADE_BROKEN;
}

/* The first fault is the grader's; one that was given up is all that counts. */
static enum grade_fault run_multi(const struct grader *g, const struct grader_sample *s,
                                  struct grade *out, struct err *e)
{
    double value[GRADER_SUB_MAX] = {0};
    enum grade_fault first = GRADE_GOOD;
    for (size_t i = 0; i < g->n_sub && !is_no_grade(first); i++) {
        struct err why = ERR_INIT;
        enum grade_fault fault = run_single(g->sub[i], s, out, &value[i], &why);
        if (fault && (!first || is_no_grade(fault))) {
            first = fault;
            err_set(e, why.code, "%s: %s", g->sub_name[i], why.msg);
        }
        out->sub[i].name = g->sub_name[i];
        out->sub[i].reward = fault ? 0 : value[i];
    }
    out->n_sub = g->n_sub;
    out->reward = first ? 0 : formula_value(g->formula, value);
    return first;
}

void grader_run(const struct grader *g, const json_t *item, const char *text, size_t n,
                const struct grader_outside *outside, struct arena *a, struct grade *out)
{
    struct err e = ERR_INIT;
    int values = API_JSON_VALUES_MAX;
    struct grader_sample s = {
        .of = {.item = item, .text = text, .n = n}, .arena = a, .outside = outside};
    *out = (struct grade){.name = g->name, .type = grader_kind_name(g->kind)};
    struct err unused = ERR_INIT;
    s.of.json = api_json_inner(a, text, n, &values, &unused);
    out->fault = g->kind == GRADER_MULTI ? run_multi(g, &s, out, &e)
                                         : run_single(g, &s, out, &out->reward, &e);
    if (!out->fault && !isfinite(out->reward)) {
        out->fault = GRADE_OTHER;
        err_set(&e, ERR_BAD_INPUT, "the grader gives no finite number");
    }
    if (!out->fault)
        return;
    out->reward = 0;
    snprintf(out->why, sizeof out->why, "%s", e.msg);
}

/* ---- what it asks of others ----------------------------------------------------------------- */

static bool asks(const struct grader *g, enum grader_place *to, const char **url)
{
    switch (g->kind) {
    case GRADER_SCORE_MODEL:
    case GRADER_LABEL_MODEL:
        *url = grader_judge_url(g);
        *to = *url ? GRADER_URL : GRADER_MODEL_HERE;
        return true;
    case GRADER_ENDPOINT:
        *url = grader_service_url(g);
        *to = GRADER_URL;
        return true;
    case GRADER_PROGRAM:
        *url = NULL;
        *to = GRADER_PYTHON;
        return true;
    default:
        return false;
    }
}

bool grader_is_outside(const struct grader *g)
{
    enum grader_place to;
    const char *url;
    for (size_t i = 0; i < g->n_sub; i++)
        if (asks(g->sub[i], &to, &url))
            return true;
    return asks(g, &to, &url);
}

static int check_one(const struct grader *g, const struct grader_outside *o, struct api_error *e)
{
    struct err why = ERR_INIT;
    enum grader_place to;
    const char *url;
    char param[sizeof e->param];
    if (!asks(g, &to, &url) || !o->allows(o->ctx, to, url, &why))
        return 0;
    snprintf(param, sizeof param, "%s.%s", g->where,
             to != GRADER_URL             ? "type"
             : g->kind == GRADER_ENDPOINT ? "url"
                                          : "base_url");
    return api_fail(e, 400, "invalid_value", param, "%s", why.msg);
}

int grader_check(const struct grader *g, const struct grader_outside *o, struct api_error *e)
{
    for (size_t i = 0; i < g->n_sub; i++)
        if (check_one(g->sub[i], o, e))
            return -1;
    return check_one(g, o, e);
}
