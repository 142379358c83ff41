/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a job could not begin is one sentence, the first reason that a job would meet.
 */
#include "api/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/json.h"
#include "api/params.h"

static int read_field(struct api_reader *r, const char *key, const json_t *v, void *to)
{
    struct check_ask *out = to;
    if (strcmp(key, "method") == 0)
        return json_is_null(v) ? 0 : hyper_of_method(r, key, v, &out->hyper);
    if (strcmp(key, "training_file") != 0)
        return params_ignore(r, key);
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return param_type(r, key, "a string: the id of a file", v);
    out->training_file = json_string_value(v);
    return 0;
}

int check_ask_parse(const char *body, size_t n, struct arena *a, struct check_ask *out,
                    struct api_error *e)
{
    *out = (struct check_ask){0};
    if (params_each(body, n, a, read_field, out, &out->ignored, e))
        return -1;
    if (out->training_file)
        return 0;
    return api_fail(e, 400, "missing_required_parameter", "training_file",
                    "'training_file', the id of a file, is needed.");
}

static bool say_reason(const struct check *c, char *text, size_t n)
{
    if (c->n_fault)
        snprintf(text, n,
                 "%" PRId64 " of %" PRId64 " examples cannot be used, the first in line %" PRId64
                 ".",
                 c->n_fault, c->n_example, c->fault[0].line);
    else if (c->n_example < c->min_example)
        snprintf(text, n, "The file has %" PRId64 " example%s; a job wants at least %" PRId64 ".",
                 c->n_example, c->n_example == 1 ? "" : "s", c->min_example);
    else if (c->n_learn == 0)
        snprintf(text, n, "No example has a token to learn from.");
    else
        return false;
    return true;
}

static void put_notes(struct jout *j, const struct check *c)
{
    char text[400];
    jout_key(j, "notes");
    jout_open(j, '[');
    if (c->n_cut) {
        snprintf(text, sizeof text,
                 "%" PRId64 " example(s) are longer than a row may be, and are cut.", c->n_cut);
        jout_str(j, text);
    }
    if (c->n_barren && c->n_learn) {
        snprintf(text, sizeof text,
                 "%" PRId64 " example(s) have nothing to learn, and are left out.", c->n_barren);
        jout_str(j, text);
    }
    if (*c->unread) {
        snprintf(text, sizeof text, "Members of rows that nothing reads: %s.", c->unread);
        jout_str(j, text);
    }
    jout_close(j, ']');
}

void check_write(struct jout *j, const struct check *c)
{
    char text[160];
    bool is_bad = say_reason(c, text, sizeof text);
    jout_open(j, '{');
    jout_put_str(j, "object", "fine_tuning.check");
    jout_put_str(j, "training_file", c->training_file);
    jout_key(j, "usable");
    jout_bool(j, !is_bad);
    jout_key(j, "reason");
    jout_str(j, is_bad ? text : NULL);
    jout_put_int(j, "lines", c->n_line);
    jout_put_int(j, "examples", c->n_example);
    jout_put_int(j, "min_examples", c->min_example);
    jout_put_int(j, "total_tokens", c->n_tok);
    jout_put_int(j, "trained_tokens", c->n_learn);
    jout_put_int(j, "faulty_examples", c->n_fault);
    jout_key(j, "faults");
    jout_open(j, '[');
    for (size_t i = 0; i < c->n_shown; i++) {
        jout_open(j, '{');
        jout_put_int(j, "line", c->fault[i].line);
        jout_put_int(j, "example", c->fault[i].example);
        jout_put_str(j, "message", c->fault[i].message);
        jout_close(j, '}');
    }
    jout_close(j, ']');
    put_notes(j, c);
    jout_close(j, '}');
}
