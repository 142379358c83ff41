/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields about the form of the answer, and those that OpenAI's service has around it.
 */
#include <string.h>

#include "api/metadata.h"
#include "api/params.h"
#include "api/value.h"

static int option(struct api_reader *r, const char *name, const char *key, const json_t *v,
                  bool *out)
{
    const json_t *x = json_object_get(v, key);
    if (!x || json_is_null(x))
        return 0;
    if (!json_is_boolean(x))
        return param_bad(r, name, "holds a '%s' that is not a boolean", key);
    *out = json_is_true(x);
    return 0;
}

static const char *const stream_option[] = {"include_usage", "continuous_usage_stats",
                                            "include_obfuscation"};

/* Named, as fields of the body are. */
static int ignore_others(struct api_reader *r, const char *name, const json_t *v)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        size_t i = 0, n = sizeof stream_option / sizeof *stream_option;
        while (i < n && strcmp(key, stream_option[i]) != 0)
            i++;
        if (i == n && params_ignore(r, arena_printf(r->arena, "%s.%.64s", name, key)))
            return -1;
    }
    return 0;
}

int param_read_stream_options(struct api_reader *r, const char *name, const json_t *v)
{
    bool obscures = false;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    if (ignore_others(r, name, v))
        return -1;
    r->has_stream_options = true;
    if (option(r, name, stream_option[0], v, &r->out->sends_usage) ||
        option(r, name, stream_option[1], v, &r->out->sends_usage_always) ||
        option(r, name, stream_option[2], v, &obscures))
        return -1;
    return obscures ? param_bad(r, name, "asks for include_obfuscation, which is not supported")
                    : 0;
}

int param_read_modalities(struct api_reader *r, const char *name, const json_t *v)
{
    if (json_is_array(v) && json_array_size(v) == 1 && value_is_word(json_array_get(v, 0), "text"))
        return 0;
    return api_fail(r->e, 400, "unsupported_parameter", name,
                    "'%s' can only be [\"text\"]: the models here write text alone.", name);
}

/* Stored answers have them; here they are checked, and named among what is ignored. */
/* A chat that is not kept has no use for it. */
int param_read_metadata(struct api_reader *r, const char *name, const json_t *v)
{
    return metadata_read(r, name, v, &r->out->metadata);
}

int param_read_encoding(struct api_reader *r, const char *name, const json_t *v)
{
    r->out->as_base64 = value_is_word(v, "base64");
    return r->out->as_base64 || value_is_word(v, "float")
               ? 0
               : param_bad(r, name, "must be \"float\" or \"base64\"");
}

/* Whether the model thinks before it answers is a variable of its template. */
int param_read_enable_thinking(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_boolean(v))
        return param_type(r, name, "a boolean", v);
    r->out->sets_thinking = true;
    r->out->wants_thinking = json_is_true(v);
    return 0;
}

/* -1: they have no limit. */
int param_read_think_budget(struct api_reader *r, const char *name, const json_t *v)
{
    int64_t n;
    if (param_int(r, name, v, -1, INT32_MAX, &n))
        return -1;
    if (n >= 0 && !r->limits->may_limit)
        return param_bad(r, name,
                         "cannot be kept to: this model has no thoughts, or their marks "
                         "are not tokens of its vocabulary");
    r->out->gen.thoughts = (struct gen_thoughts){.is_limited = n >= 0, .most = n};
    return 0;
}

int param_read_effort(struct api_reader *r, const char *name, const json_t *v)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (value_is_word(v, words[i])) {
            r->out->reasoning_effort = words[i];
            return 0;
        }
    return param_bad(r, name, "must be one of none, minimal, low, medium, high, xhigh, max");
}

/* It becomes a part of the answer's id. */
int param_read_request_id(struct api_reader *r, const char *name, const json_t *v)
{
    static const char plain[] = "0123456789-_."
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    const char *s = json_string_value(v);
    size_t n = json_string_length(v);
    if (!n || n > 64 || strspn(s, plain) != n)
        return param_bad(r, name, "must be 1 to 64 letters, digits and any of -_.");
    r->out->request_id = s;
    return 0;
}
