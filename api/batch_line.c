/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a batch's file, and of its answers.
 */
#include <stdlib.h>
#include <string.h>

#include "api/batch.h"
#include "api/json.h"
#include "api/value.h"

enum { CUSTOM_ID_MAX = 512 };

/* ---- of the input ---------------------------------------------------------------------------- */

static int wrong(struct api_error *e, const char *param, const char *why)
{
    return api_fail(e, 400, "invalid_request", param, "%s", why);
}

static int read_custom_id(const json_t *line, struct batch_line *out, struct api_error *e)
{
    const json_t *v = json_object_get(line, "custom_id");
    size_t n = json_is_string(v) ? json_string_length(v) : 0;
    if (n == 0 || n > CUSTOM_ID_MAX || strlen(json_string_value(v)) != n)
        return api_fail(e, 400, "invalid_custom_id", "custom_id",
                        "'custom_id' must be a string of 1 to %d bytes.", CUSTOM_ID_MAX);
    out->custom_id = json_string_value(v);
    return 0;
}

/* How a body is answered is the batch's business: an answer is one line. */
static int read_body(const json_t *line, struct arena *a, struct batch_line *out,
                     struct api_error *e)
{
    struct err why = ERR_INIT;
    const json_t *body = json_object_get(line, "body"), *model = json_object_get(body, "model");
    if (!json_is_object(body))
        return wrong(e, "body", "'body' must be an object.");
    if (json_is_true(json_object_get(body, "stream")))
        return wrong(e, "body.stream", "'stream' must not be true in a batch.");
    if (json_is_true(json_object_get(body, "background")))
        return wrong(e, "body.background", "'background' must not be true in a batch.");
    out->model = json_is_string(model) ? json_string_value(model) : NULL;
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text) {
        err_set(&why, ERR_NO_MEMORY, "a line of a batch");
        return api_fail_err(e, &why, "body");
    }
    out->n_body = strlen(text);
    out->body = arena_strndup(a, text, out->n_body);
    free(text);
    return 0;
}

int batch_line_parse(const char *text, size_t n, const char *endpoint, struct arena *a,
                     struct batch_line *out, struct api_error *e)
{
    *out = (struct batch_line){.custom_id = NULL};
    const json_t *line = api_json_line(a, text, n, e);
    if (!line)
        return -1;
    if (read_custom_id(line, out, e))
        return -1;
    if (!value_is_word(json_object_get(line, "method"), "POST"))
        return api_fail(e, 400, "invalid_method", "method", "'method' must be \"POST\".");
    if (!value_is_word(json_object_get(line, "url"), endpoint))
        return api_fail(e, 400, "mismatched_endpoint", "url",
                        "'url' must be the batch's endpoint, \"%s\".", endpoint);
    return read_body(line, a, out, e);
}

void batch_error_write(struct jout *j, int64_t line, const struct api_error *e)
{
    jout_open(j, '{');
    jout_put_str(j, "code", e->code ? e->code : "invalid_request");
    jout_put_str(j, "message", e->message);
    jout_put_str(j, "param", *e->param ? e->param : NULL);
    jout_key(j, "line");
    if (line)
        jout_int(j, line);
    else
        jout_null(j);
    jout_close(j, '}');
}

/* ---- of the answers -------------------------------------------------------------------------- */

static struct jout begin(struct buf *out, const char *id, const char *custom_id)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "id", id);
    jout_put_str(&j, "custom_id", custom_id);
    return j;
}

/* The bytes of an end of a line stand in JSON between values alone. */
static void put_in_line(struct jout *j, const char *body, size_t n)
{
    size_t at = j->out->len;
    jout_json(j, body, n);
    for (; !j->out->failed && at < j->out->len; at++)
        if (j->out->data[at] == '\n' || j->out->data[at] == '\r')
            j->out->data[at] = ' ';
}

void batch_answer_write(struct buf *out, const char *id, const char *custom_id, int status,
                        const char *request_id, const char *body, size_t n_body)
{
    struct jout j = begin(out, id, custom_id);
    jout_key(&j, "response");
    jout_open(&j, '{');
    jout_put_int(&j, "status_code", status);
    jout_put_str(&j, "request_id", request_id);
    jout_key(&j, "body");
    put_in_line(&j, body, n_body);
    jout_close(&j, '}');
    jout_put_null(&j, "error");
    jout_close(&j, '}');
}

void batch_missed_write(struct buf *out, const char *id, const char *custom_id, const char *code,
                        const char *message)
{
    struct jout j = begin(out, id, custom_id);
    jout_put_null(&j, "response");
    jout_key(&j, "error");
    jout_open(&j, '{');
    jout_put_str(&j, "code", code);
    jout_put_str(&j, "message", message);
    jout_close(&j, '}');
    jout_close(&j, '}');
}

/* The member that the one or the other face has. */
static int64_t number(const json_t *of, const char *one, const char *other)
{
    const json_t *v = json_object_get(of, one);
    return json_integer_value(v ? v : json_object_get(of, other));
}

static const json_t *detail(const json_t *of, const char *one, const char *other)
{
    const json_t *v = json_object_get(of, one);
    return v ? v : json_object_get(of, other);
}

int batch_usage_add(const char *line, size_t n, struct batch_usage *u)
{
    json_t *v = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
    const json_t *body = json_object_get(json_object_get(v, "response"), "body"),
                 *usage = json_object_get(body, "usage");
    int rc = json_is_object(v) ? 0 : -1;
    u->in += number(usage, "prompt_tokens", "input_tokens");
    u->out += number(usage, "completion_tokens", "output_tokens");
    u->cached += number(detail(usage, "prompt_tokens_details", "input_tokens_details"),
                        "cached_tokens", "cached_tokens");
    u->thoughts += number(detail(usage, "completion_tokens_details", "output_tokens_details"),
                          "reasoning_tokens", "reasoning_tokens");
    json_decref(v);
    return rc;
}
