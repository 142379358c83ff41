/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer has all members of OpenAI's, also those of faults that cannot be here.
 */
#include "api/grade.h"

#include <stdlib.h>
#include <string.h>

#include "api/params.h"

static int read_grader(struct api_reader *r, const char *key, const json_t *v,
                       struct grade_ask *out)
{
    out->grader_json = v;
    out->grader = grader_read(r, key, v);
    return out->grader ? 0 : -1;
}

static int read_validate(struct api_reader *r, const char *key, const json_t *v, void *to)
{
    return strcmp(key, "grader") == 0 ? read_grader(r, key, v, to) : params_ignore(r, key);
}

static int read_run(struct api_reader *r, const char *key, const json_t *v, void *to)
{
    struct grade_ask *out = to;
    if (strcmp(key, "item") == 0) {
        out->item = json_is_null(v) ? NULL : v;
        return json_is_object(v) || json_is_null(v) ? 0 : param_type(r, key, "an object", v);
    }
    if (strcmp(key, "model_sample") != 0)
        return read_validate(r, key, v, to);
    if (!json_is_string(v))
        return param_type(r, key, "a string", v);
    out->sample = json_string_value(v);
    out->n_sample = json_string_length(v);
    return 0;
}

int grade_ask_parse(const char *body, size_t n, bool has_sample, struct arena *a,
                    struct grade_ask *out, struct api_error *e)
{
    *out = (struct grade_ask){0};
    if (params_each(body, n, a, has_sample ? read_run : read_validate, out, &out->ignored, e))
        return -1;
    if (!out->grader)
        return api_fail(e, 400, "missing_required_parameter", "grader", "'grader' is needed.");
    if (has_sample && !out->sample)
        return api_fail(e, 400, "missing_required_parameter", "model_sample",
                        "'model_sample', the text to be graded, is needed.");
    return 0;
}

static void put_errors(struct jout *j, const struct grade *g)
{
    static const char *const never[] = {"formula_parse_error", "truncated_observation_error"};
    static const struct {
        const char *name;
        enum grade_fault of;
    } details[] = {{"python_grader_server_error_type", GRADE_PYTHON_SERVER},
                   {"python_grader_runtime_error_details", GRADE_PYTHON_RUNTIME},
                   {"model_grader_server_error_details", GRADE_MODEL_SERVER}};
    jout_key(j, "errors");
    jout_open(j, '{');
    for (enum grade_fault f = GRADE_GOOD; f < GRADE_FAULT_COUNT; f++)
        if (grade_fault_name(f))
            jout_put_bool(j, grade_fault_name(f), g->fault == f);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        jout_put_bool(j, never[i], false);
    for (size_t i = 0; i < sizeof details / sizeof *details; i++)
        jout_put_str(j, details[i].name, g->fault == details[i].of ? g->why : NULL);
    jout_put_str(j, "x_details", g->fault ? g->why : NULL);
    jout_close(j, '}');
}

static void put_subs(struct jout *j, const char *key, const struct grade *g)
{
    jout_key(j, key);
    jout_open(j, '{');
    for (size_t i = 0; i < g->n_sub; i++)
        jout_put_num(j, g->sub[i].name, g->sub[i].reward);
    jout_close(j, '}');
}

static int64_t count_tokens(const struct grade *g)
{
    int64_t n = 0;
    for (size_t i = 0; i < g->n_usage; i++)
        n += g->usage[i].prompt + g->usage[i].completion;
    return n;
}

/* A model that was asked by several graders stands there once. */
static void put_usage(struct jout *j, const struct grade *g)
{
    jout_key(j, "model_grader_token_usage_per_model");
    jout_open(j, '{');
    for (size_t i = 0; i < g->n_usage; i++) {
        struct grade_usage sum = {.model = g->usage[i].model};
        bool is_first = true;
        for (size_t k = 0; k < g->n_usage; k++) {
            if (strcmp(g->usage[k].model, sum.model) != 0)
                continue;
            is_first = is_first && k >= i;
            sum.prompt += g->usage[k].prompt;
            sum.completion += g->usage[k].completion;
        }
        if (!is_first)
            continue;
        jout_key(j, sum.model);
        jout_open(j, '{');
        jout_put_int(j, "prompt_tokens", sum.prompt);
        jout_put_int(j, "completion_tokens", sum.completion);
        jout_put_int(j, "total_tokens", sum.prompt + sum.completion);
        jout_close(j, '}');
    }
    jout_close(j, '}');
}

void grade_write(struct jout *j, const struct grade *g, double seconds)
{
    jout_open(j, '{');
    jout_put_num(j, "reward", g->reward);
    put_subs(j, "sub_rewards", g);
    jout_key(j, "metadata");
    jout_open(j, '{');
    jout_put_str(j, "name", g->name);
    jout_put_str(j, "type", g->type);
    put_errors(j, g);
    jout_put_num(j, "execution_time", seconds);
    put_subs(j, "scores", g);
    if (g->n_usage)
        jout_put_int(j, "token_usage", count_tokens(g));
    else
        jout_put_null(j, "token_usage");
    jout_put_str(j, "sampled_model_name", g->n_usage == 1 ? g->usage[0].model : NULL);
    jout_close(j, '}');
    put_usage(j, g);
    jout_close(j, '}');
}

int grader_echo_write(struct jout *j, const struct grade_ask *ask, struct err *e)
{
    char *text = json_dumps(ask->grader_json, JSON_COMPACT);
    if (!text)
        return err_set(e, ERR_NO_MEMORY, "no memory for a grader");
    jout_open(j, '{');
    jout_key(j, "grader");
    jout_raw(j, text);
    jout_close(j, '}');
    free(text);
    return 0;
}
