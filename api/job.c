/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading what a job is to be.
 */
#include "api/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/grader.h"
#include "api/json.h"
#include "api/metadata.h"
#include "api/params.h"

enum { ID_BYTES_MAX = 256, SUFFIX_MAX = 64, SEED_MAX = 2147483647 };

static const char *const states[] = {
#define STATE(name, text) text,
    JOB_STATES(STATE)
#undef STATE
};

const char *job_state_name(enum job_state state)
{
    return states[state];
}

typedef int read_fn(struct api_reader *r, const char *name, const json_t *v, struct job_ask *out);

static int read_text(struct api_reader *r, const char *name, const json_t *v, size_t max,
                     const char **out)
{
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    size_t n = json_string_length(v);
    if (n == 0 || n > max || strlen(json_string_value(v)) != n)
        return param_bad(r, name, "must have 1 to %zu bytes, none of them NUL", max);
    *out = json_string_value(v);
    return 0;
}

static int read_model(struct api_reader *r, const char *name, const json_t *v, struct job_ask *out)
{
    return read_text(r, name, v, ID_BYTES_MAX, &out->job.model);
}

static int read_training(struct api_reader *r, const char *name, const json_t *v,
                         struct job_ask *out)
{
    return read_text(r, name, v, ID_BYTES_MAX, &out->job.training_file);
}

static int read_validation(struct api_reader *r, const char *name, const json_t *v,
                           struct job_ask *out)
{
    return read_text(r, name, v, ID_BYTES_MAX, &out->job.validation_file);
}

/* It becomes a part of a model's name, between colons. */
static int read_suffix(struct api_reader *r, const char *name, const json_t *v, struct job_ask *out)
{
    static const char plain[] = "0123456789._-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (read_text(r, name, v, SUFFIX_MAX, &out->job.suffix))
        return -1;
    return strspn(out->job.suffix, plain) == strlen(out->job.suffix)
               ? 0
               : param_bad(r, name, "may have letters, digits and ._- alone");
}

static int read_seed(struct api_reader *r, const char *name, const json_t *v, struct job_ask *out)
{
    out->has_seed = true;
    return param_int(r, name, v, 0, SEED_MAX, &out->job.seed);
}

/* ---- hyperparameters ----------------------------------------------------------------------- */

static int read_hyper(struct api_reader *r, const char *name, const json_t *v, struct job_ask *out)
{
    return hyper_read(r, name, v, HYPER_SUPERVISED, &out->job.hyper);
}

int job_format_read(struct api_reader *r, const char *name, const json_t *v, struct constraint *out)
{
    r->out->constraint = (struct constraint){.kind = CONSTRAINT_NONE};
    if (param_read_response_format(r, name, v))
        return -1;
    *out = r->out->constraint;
    return 0;
}

/* As it was sent. */
static int keep(struct api_reader *r, const char *name, const json_t *v, const char **out)
{
    char *text = json_dumps(v, JSON_COMPACT);
    *out = text ? arena_strdup(r->arena, text) : NULL;
    free(text);
    return text ? 0 : param_bad(r, name, "cannot be kept");
}

static int read_rewards(struct api_reader *r, const json_t *v, struct job_ask *out)
{
    static const char where[] = "method.reinforcement.grader",
                      of_format[] = "method.reinforcement.response_format";
    const json_t *grader = json_object_get(v, "grader"),
                 *format = json_object_get(v, "response_format");
    if (!grader)
        return param_bad(r, where, "is needed: what a sample is worth");
    if (format && !json_is_null(format) &&
        (job_format_read(r, of_format, format, &out->format) ||
         keep(r, of_format, format, &out->job.response_format)))
        return -1;
    out->grader = grader_read(r, where, grader);
    if (!out->grader)
        return -1;
    return keep(r, where, grader, &out->job.grader);
}

/* Objects of other methods than the one of `type` are let be: SDKs send them all. */
static int read_method(struct api_reader *r, const char *name, const json_t *v, struct job_ask *out)
{
    struct job_hyper *h = &out->job.hyper;
    if (hyper_method_read(r, name, v, &h->method))
        return -1;
    const json_t *mine = json_object_get(v, hyper_method_name(h->method));
    if (h->method == HYPER_REINFORCEMENT && read_rewards(r, mine, out))
        return -1;
    return hyper_of_method(r, name, v, h);
}

static int refuse(const struct job_hyper *h, const char *name, const char *why, struct api_error *e)
{
    char param[64];
    snprintf(param, sizeof param, "method.%s.hyperparameters.%s", hyper_method_name(h->method),
             name);
    return api_fail(e, 400, "invalid_value", param, "%s", why);
}

/* What the fields say together. Preferences and samples are compared with the model without its
 * adapter. */
static int check_method(const struct job *job, struct api_error *e)
{
    const struct job_hyper *h = &job->hyper;
    if (h->learning_rate != 0 && h->lr_multiplier != 0)
        return refuse(h, "learning_rate",
                      "Give 'learning_rate' or 'learning_rate_multiplier', not both.", e);
    if (h->warmup_steps != 0 && h->warmup_ratio != 0)
        return refuse(h, "warmup_ratio", "Give 'warmup_ratio' or 'warmup_steps', not both.", e);
    if ((h->method == HYPER_DPO || h->method == HYPER_REINFORCEMENT) &&
        h->training_type == HYPER_FULL)
        return refuse(h, "training_type",
                      "'training_type' must be \"lora\" for \"dpo\" and \"reinforcement\": they "
                      "compare with the model without its adapter.",
                      e);
    if (h->result == HYPER_BEST && !job->validation_file)
        return refuse(h, "result", "'result' of \"best\" needs a 'validation_file'.", e);
    if (h->early_stopping && !job->validation_file)
        return refuse(h, "early_stopping", "'early_stopping' needs a 'validation_file'.", e);
    if (h->group_size != 0 && h->compute_multiplier != 0)
        return refuse(h, "compute_multiplier",
                      "Give 'group_size' or 'compute_multiplier', not both.", e);
    if (h->method == HYPER_EMBEDDING && h->batch_size == 1)
        return refuse(h, "batch_size",
                      "'batch_size' must be 2 or more for \"x_embedding\": a step's other examples "
                      "are what an anchor is told apart from.",
                      e);
    if (h->gamma != 0 && h->loss != HYPER_SIMPO)
        return refuse(h, "gamma", "'gamma' is of the loss \"x_simpo\" alone.", e);
    if ((h->desirable_weight != 0 || h->undesirable_weight != 0) && h->loss != HYPER_KTO)
        return refuse(
            h, h->desirable_weight != 0 ? "desirable_weight" : "undesirable_weight",
            "'desirable_weight' and 'undesirable_weight' are of the loss \"x_kto\" alone.", e);
    if (h->loss == HYPER_KTO && h->batch_size == 1)
        return refuse(h, "batch_size",
                      "'batch_size' must be at least 2 for \"x_kto\": a row is held against others "
                      "of its step.",
                      e);
    if ((h->eval_interval || h->eval_samples) && !job->validation_file)
        return refuse(h, h->eval_interval ? "eval_interval" : "eval_samples",
                      "'eval_interval' and 'eval_samples' need a 'validation_file'.", e);
    return 0;
}

/* ---- the rest ------------------------------------------------------------------------------ */

static int read_metadata(struct api_reader *r, const char *name, const json_t *v,
                         struct job_ask *out)
{
    return metadata_read(r, name, v, &out->job.metadata);
}

static int read_integrations(struct api_reader *r, const char *name, const json_t *v,
                             struct job_ask *out)
{
    (void)out;
    if (!json_is_array(v))
        return param_type(r, name, "an array", v);
    return json_array_size(v) == 0 ? 0 : param_bad(r, name, "must be empty: none is supported");
}

static int read_shared(struct api_reader *r, const char *name, const json_t *v, struct job_ask *out)
{
    if (!json_is_boolean(v))
        return param_type(r, name, "true or false", v);
    out->job.is_shared = json_is_true(v);
    return 0;
}

static const struct {
    const char *name;
    read_fn *read;
} fields[] = {{"model", read_model},
              {"training_file", read_training},
              {"validation_file", read_validation},
              {"suffix", read_suffix},
              {"seed", read_seed},
              {"hyperparameters", read_hyper},
              {"method", read_method},
              {"integrations", read_integrations},
              {"metadata", read_metadata},
              {"shared", read_shared}};

static int read_field(struct api_reader *r, const char *key, const json_t *v, void *out)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, key) == 0)
            return json_is_null(v) ? 0 : fields[i].read(r, key, v, out);
    return params_ignore(r, key);
}

int job_ask_parse(const char *body, size_t n, struct arena *a, struct job_ask *out,
                  struct api_error *e)
{
    *out = (struct job_ask){.job = {.result_files = "[]", .trained_tokens = -1}};
    if (params_each(body, n, a, read_field, out, &out->ignored, e))
        return -1;
    if (!out->job.model)
        return api_fail(e, 400, "missing_required_parameter", "model", "'model' is needed.");
    if (!out->job.training_file)
        return api_fail(e, 400, "missing_required_parameter", "training_file",
                        "'training_file' is needed: the id of an uploaded file.");
    return check_method(&out->job, e);
}
