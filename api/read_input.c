/* SPDX-License-Identifier: Apache-2.0
 *
 * What completions and embeddings go on from: a string, several, a list of token ids, or several.
 * Ids are of the served model's own vocabulary. And the single text or list of the token routes.
 */
#include "api/params.h"

static int read_ids(struct api_reader *r, const char *name, const json_t *v, struct api_input *out)
{
    size_t n = json_array_size(v);
    if (!n)
        return param_bad(r, name, "holds an empty list of token ids");
    *out = (struct api_input){.n_id = n};
    return param_ids(r, name, v, &out->id);
}

static int read_one(struct api_reader *r, const char *name, const json_t *v, struct api_input *out)
{
    if (json_is_array(v))
        return read_ids(r, name, v, out);
    if (!json_is_string(v))
        return param_type(r, name, "a string, token ids, or an array of either", v);
    *out = (struct api_input){.text = json_string_value(v), .n_text = json_string_length(v)};
    return 0;
}

int param_read_input(struct api_reader *r, const char *name, const json_t *v)
{
    size_t max = r->out->route == API_COMPLETIONS ? API_PROMPTS_MAX : API_INPUTS_MAX;
    const json_t *first = json_array_get(v, 0);
    bool is_list = json_is_array(v) && !json_is_number(first);
    size_t n = is_list ? json_array_size(v) : 1;
    if (!n || n > max)
        return param_bad(r, name, "holds %zu entries: 1 to %zu can be", n, max);
    struct api_input *in = param_alloc(r, name, n, sizeof *in);
    for (size_t i = 0; in && i < n; i++) {
        const json_t *x = is_list ? json_array_get(v, i) : v;
        if (json_typeof(x) != json_typeof(is_list ? first : v))
            return param_bad(r, name, "mixes strings and token ids");
        if (read_one(r, name, x, &in[i]))
            return -1;
    }
    r->out->input = in;
    r->out->n_input = n;
    return in ? 0 : -1;
}

static int one_input(struct api_reader *r, const char *name, struct api_input in)
{
    struct api_input *at = param_alloc(r, name, 1, sizeof *at);
    if (!at)
        return -1;
    *at = in;
    r->out->input = at;
    r->out->n_input = 1;
    return 0;
}

int param_read_text(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    return one_input(
        r, name, (struct api_input){.text = json_string_value(v), .n_text = json_string_length(v)});
}

int param_read_ids(struct api_reader *r, const char *name, const json_t *v)
{
    struct api_input in;
    if (!json_is_array(v))
        return param_type(r, name, "an array of token ids", v);
    if (!json_array_size(v))
        return one_input(r, name, (struct api_input){.n_id = 0});
    return read_ids(r, name, v, &in) ? -1 : one_input(r, name, in);
}

/* What stands behind a gap. An empty one asks for none, but where a request is about nothing else:
 * there the gap is there from the start. */
int param_read_suffix(struct api_reader *r, const char *name, const json_t *v)
{
    struct api_gap *gap = &r->out->gap;
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    gap->is_there |= json_string_length(v) > 0;
    gap->behind = json_string_value(v);
    gap->n_behind = json_string_length(v);
    return 0;
}

int param_read_begun(struct api_reader *r, const char *name, const json_t *v)
{
    r->out->gap.begun = json_string_value(v);
    r->out->gap.n_begun = json_string_length(v);
    return json_is_string(v) ? 0 : param_type(r, name, "a string", v);
}
