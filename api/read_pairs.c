/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of /v1/rerank and /v1/score: a query and documents, or two sides of pairs.
 */
#include "api/params.h"

struct side {
    const struct api_input **list;
    size_t *n;
};

static struct side first_side(struct api_reader *r)
{
    return (struct side){&r->out->input, &r->out->n_input};
}

static struct side second_side(struct api_reader *r)
{
    return (struct side){&r->out->document, &r->out->n_document};
}

static struct api_input text_of(const json_t *v)
{
    return (struct api_input){.text = json_string_value(v), .n_text = json_string_length(v)};
}

/* A document is a text, or an object that has one. */
static int read_document(struct api_reader *r, const char *name, const json_t *v,
                         struct api_input *out)
{
    const json_t *text = json_is_object(v) ? json_object_get(v, "text") : v;
    if (!json_is_string(text))
        return json_is_object(v) ? param_bad(r, name, "holds an object without a string 'text'")
                                 : param_type(r, name, "an array of strings or objects", v);
    *out = text_of(text);
    return 0;
}

static int read_text(struct api_reader *r, const char *name, const json_t *v, struct api_input *out)
{
    if (!json_is_string(v))
        return param_type(r, name, "a string or an array of strings", v);
    *out = text_of(v);
    return 0;
}

typedef int read_one_fn(struct api_reader *r, const char *name, const json_t *v,
                        struct api_input *out);

/* A list, or the single value that stands for a list of one. */
static int read_side(struct api_reader *r, const char *name, const json_t *v, struct side to,
                     read_one_fn *fn)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (*to.n)
        return param_bad(r, name, "is given under another name as well");
    if (n < 1 || n > API_INPUTS_MAX)
        return param_bad(r, name, "holds %zu entries: 1 to %d can be", n, (int)API_INPUTS_MAX);
    struct api_input *in = param_alloc(r, name, n, sizeof *in);
    for (size_t i = 0; in && i < n; i++)
        if (fn(r, name, json_is_array(v) ? json_array_get(v, i) : v, &in[i]))
            return -1;
    *to.list = in;
    *to.n = n;
    return in ? 0 : -1;
}

int param_read_query(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    return read_side(r, name, v, first_side(r), read_text);
}

int param_read_documents(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_array(v))
        return param_type(r, name, "an array of strings or objects", v);
    return read_side(r, name, v, second_side(r), read_document);
}

int param_read_first_texts(struct api_reader *r, const char *name, const json_t *v)
{
    return read_side(r, name, v, first_side(r), read_text);
}

int param_read_second_texts(struct api_reader *r, const char *name, const json_t *v)
{
    return read_side(r, name, v, second_side(r), read_text);
}
