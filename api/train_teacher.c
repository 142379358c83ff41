/* SPDX-License-Identifier: Apache-2.0
 *
 * A token is its bytes; where a server tells none they are its text's.
 */
#include "api/train_teacher.h"

#include <stdio.h>
#include <string.h>

#include "api/json.h"

enum { NAME_BYTES = 64, ITEM_BYTES = NAME_BYTES + 32 };

/* A log-probability above 0 by no more than what a server's digits leave. */
static const double LOGPROB_MOST = 0.01;

static int read_bytes(struct api_reader *r, const char *name, const json_t *v,
                      struct train_token *out)
{
    size_t n = json_array_size(v);
    char *p = param_alloc(r, name, n + 1, 1);
    for (size_t i = 0; p && i < n; i++) {
        const json_t *x = json_array_get(v, i);
        if (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) > 255)
            return param_bad(r, name, "has 'bytes' that are not numbers of 0 to 255");
        p[i] = (char)json_integer_value(x);
    }
    out->p = p;
    out->n = n;
    return p ? 0 : -1;
}

static int read_token(struct api_reader *r, const char *name, const json_t *v,
                      struct train_token *out)
{
    const json_t *text = json_object_get(v, "token"), *bytes = json_object_get(v, "bytes");
    const json_t *logprob = json_object_get(v, "logprob");
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    if (!json_is_number(logprob) || json_number_value(logprob) > LOGPROB_MOST)
        return param_bad(r, name, "needs a 'logprob' that is a number of at most 0");
    out->logprob = json_number_value(logprob) < 0 ? json_number_value(logprob) : 0;
    if (json_is_array(bytes))
        return read_bytes(r, name, bytes, out);
    if (!json_is_string(text))
        return param_bad(r, name, "needs a 'token' that is a string, or 'bytes'");
    out->p = json_string_value(text);
    out->n = json_string_length(text);
    return 0;
}

static int read_taught(struct api_reader *r, const char *name, const json_t *v,
                       struct train_taught *out)
{
    const json_t *top = json_object_get(v, "top_logprobs");
    size_t n = json_array_size(top);
    if (read_token(r, name, v, &out->is))
        return -1;
    if (top && !json_is_null(top) && !json_is_array(top))
        return param_bad(r, name, "has 'top_logprobs' that are no array");
    if (n >= TRAIN_TOP_MAX)
        return param_bad(r, name, "has %zu 'top_logprobs': at most %d are read", n,
                         TRAIN_TOP_MAX - 1);
    struct train_token *at = param_alloc(r, name, n + 1, sizeof *at);
    for (size_t i = 0; at && i < n; i++)
        if (read_token(r, name, json_array_get(top, i), &at[i]))
            return -1;
    out->top = at;
    out->n_top = n;
    return at ? 0 : -1;
}

/* *is_there: a teacher said something. */
static int read_teacher(struct api_reader *r, const char *where, json_t *v, size_t message,
                        struct train_teacher *out, bool *is_there)
{
    json_t *content = json_object_get(v, "content");
    size_t n = json_array_size(content);
    char name[ITEM_BYTES];
    *is_there = false;
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_object(v))
        return param_type(r, where, "an object", v);
    if (content && !json_is_null(content) && !json_is_array(content))
        return param_bad(r, where, "has a 'content' that is no array");
    if (n == 0)
        return 0;
    struct train_taught *at = param_alloc(r, where, n, sizeof *at);
    if (!at)
        return -1;
    api_json_keep(r->arena, json_incref(content)); /* whose strings are borrowed */
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%.60s.content[%zu]", where, i);
        if (read_taught(r, name, json_array_get(content, i), &at[i]))
            return -1;
    }
    *out = (struct train_teacher){.message = message, .at = at, .n = n};
    *is_there = true;
    return 0;
}

bool train_is_assistant(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

int train_teacher(struct api_reader *r, const json_t *row, json_t *messages,
                  struct train_example *out)
{
    size_t n = json_array_size(messages);
    json_t *last = json_object_get(row, "logprobs");
    struct train_teacher *at = param_alloc(r, "messages", n + 1, sizeof *at);
    if (!at)
        return -1;
    out->teacher = at;
    for (size_t i = 0; i < n; i++) {
        json_t *message = json_array_get(messages, i), *own = json_object_get(message, "logprobs");
        char name[NAME_BYTES];
        bool is_there, is_last = i + 1 == n && last && (!own || json_is_null(own));
        snprintf(name, sizeof name, is_last ? "logprobs" : "messages[%zu].logprobs", i);
        if (read_teacher(r, name, is_last ? last : own, i, &at[out->n_teacher], &is_there))
            return -1;
        if (is_there && !train_is_assistant(message))
            return param_bad(r, name, "must be of a message of the assistant");
        out->n_teacher += is_there;
        if (own)
            json_object_del(message, "logprobs");
    }
    return 0;
}
