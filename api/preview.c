/* SPDX-License-Identifier: Apache-2.0
 *
 * The row of a request is written out again as the line that it would be, so that it goes the way
 * of every row.
 */
#include "api/preview.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "api/params.h"

/* ---- asking -------------------------------------------------------------------------------- */

static void free_text(void *text)
{
    free(text);
}

static int read_row(struct api_reader *r, const char *name, const json_t *v,
                    struct preview_ask *out)
{
    if (!json_is_object(v))
        return param_type(r, name, "an object: a line of a training file", v);
    char *text = json_dumps(v, JSON_COMPACT);
    if (!text)
        return param_bad(r, name, "is too large");
    arena_defer(r->arena, free_text, text);
    out->row = text;
    out->n_row = strlen(text);
    return 0;
}

static int read_file(struct api_reader *r, const char *name, const json_t *v,
                     struct preview_ask *out)
{
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return param_type(r, name, "a string: the id of a file", v);
    out->training_file = json_string_value(v);
    return 0;
}

static int read_field(struct api_reader *r, const char *key, const json_t *v, void *to)
{
    struct preview_ask *out = to;
    if (json_is_null(v))
        return 0;
    if (strcmp(key, "row") == 0)
        return read_row(r, key, v, out);
    if (strcmp(key, "training_file") == 0)
        return read_file(r, key, v, out);
    if (strcmp(key, "example") == 0)
        return param_int(r, key, v, 1, INT64_C(1) << 53, &out->example);
    return params_ignore(r, key);
}

int preview_ask_parse(const char *body, size_t n, struct arena *a, struct preview_ask *out,
                      struct api_error *e)
{
    *out = (struct preview_ask){.example = 1};
    if (params_each(body, n, a, read_field, out, &out->ignored, e))
        return -1;
    if (!out->row == !out->training_file)
        return api_fail(e, 400, out->row ? "invalid_value" : "missing_required_parameter", "row",
                        "Give 'row', a line of a training file, or 'training_file', the id of a "
                        "file, with 'example', the number of one of its examples; not both.");
    return 0;
}

/* ---- answering ----------------------------------------------------------------------------- */

static void put_texts(struct jout *j, const struct preview *p)
{
    size_t at = 0;
    jout_key(j, "texts");
    jout_open(j, '[');
    for (int64_t i = 0; i < p->n; at = p->text_end[i++])
        jout_bytes(j, p->text + at, p->text_end[i] - at);
    jout_close(j, ']');
}

static void put_notes(struct jout *j, const struct preview *p)
{
    char text[400];
    jout_key(j, "notes");
    jout_open(j, '[');
    if (p->n_cut) {
        snprintf(text, sizeof text,
                 "A job cuts this row at %" PRId64 " tokens: %" PRId64 " are left out.", p->max_tok,
                 p->n_cut);
        jout_str(j, text);
    }
    if (p->n_learn == 0)
        jout_str(j, "This row has nothing to learn: a job leaves it out.");
    if (*p->unread) {
        snprintf(text, sizeof text, "Members of the row that nothing reads: %s.", p->unread);
        jout_str(j, text);
    }
    jout_close(j, ']');
}

void preview_write(struct jout *j, const struct preview *p)
{
    jout_open(j, '{');
    jout_put_str(j, "object", "fine_tuning.preview");
    jout_put_str(j, "model", p->model);
    jout_put_str(j, "format", p->is_chat ? "chat" : p->is_text ? "text" : "completion");
    jout_put_int(j, "total_tokens", p->n);
    jout_put_int(j, "trained_tokens", p->n_learn);
    jout_put_int(j, "cut_tokens", p->n_cut);
    jout_put_int(j, "max_tokens", p->max_tok);
    jout_key(j, "tokens");
    jout_open(j, '[');
    for (int64_t i = 0; i < p->n; i++)
        jout_int(j, p->id[i]);
    jout_close(j, ']');
    put_texts(j, p);
    jout_key(j, "weights");
    jout_open(j, '[');
    for (int64_t i = 0; i < p->n; i++)
        jout_float(j, p->is_learned[i] ? p->weight : 0);
    jout_close(j, ']');
    put_notes(j, p);
    jout_close(j, '}');
}
