/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer has all members of OpenAI's, also those of graders that are not here.
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
    static const char *const never[] = {
        "formula_parse_error",        "truncated_observation_error", "unresponsive_reward_error",
        "python_grader_server_error", "python_grader_runtime_error", "model_grader_server_error",
        "model_grader_refusal_error", "model_grader_parse_error"};
    static const char *const details[] = {"python_grader_server_error_type",
                                          "python_grader_runtime_error_details",
                                          "model_grader_server_error_details"};
    jout_key(j, "errors");
    jout_open(j, '{');
    jout_put_bool(j, "sample_parse_error", g->fault == GRADE_NO_JSON);
    jout_put_bool(j, "invalid_variable_error", g->fault == GRADE_NO_VARIABLE);
    jout_put_bool(j, "other_error", g->fault == GRADE_OTHER);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        jout_put_bool(j, never[i], false);
    for (size_t i = 0; i < sizeof details / sizeof *details; i++)
        jout_put_null(j, details[i]);
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
    jout_put_null(j, "token_usage");
    jout_put_null(j, "sampled_model_name");
    jout_close(j, '}');
    jout_key(j, "model_grader_token_usage_per_model");
    jout_open(j, '{');
    jout_close(j, '}');
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
