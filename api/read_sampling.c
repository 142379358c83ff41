/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields about sampling that are more than one number: lists, ids, words.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/params.h"
#include "engine/base/num.h"

enum { BREAKERS_MAX = 64, BREAKER_BYTES_MAX = 40 };

/* ---- where to stop ------------------------------------------------------------------------- */

static int add_stop(struct api_reader *r, const char *name, const json_t *v)
{
    struct gen_params *g = &r->out->gen;
    if (!json_is_string(v))
        return param_type(r, name, "a string or an array of strings", v);
    size_t n = json_string_length(v);
    if (!n || n > GEN_STOP_BYTES_MAX)
        return param_bad(r, name, "holds a string of %zu bytes: 1 to %d can be looked for", n,
                         GEN_STOP_BYTES_MAX);
    g->stop[g->n_stop++] = (struct gen_text){.p = json_string_value(v), .n = (uint32_t)n};
    return 0;
}

int param_read_stop(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_array(v))
        return add_stop(r, name, v);
    if (json_array_size(v) > GEN_STOP_MAX)
        return param_bad(r, name, "holds %zu strings: the limit is %d", json_array_size(v),
                         GEN_STOP_MAX);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (add_stop(r, name, json_array_get(v, i)))
            return -1;
    return 0;
}

int param_read_stop_ids(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_array(v))
        return param_type(r, name, "an array of token ids", v);
    size_t n = json_array_size(v);
    if (n > GEN_STOP_ID_MAX)
        return param_bad(r, name, "holds %zu ids: the limit is %d", n, GEN_STOP_ID_MAX);
    r->out->gen.n_stop_id = (int32_t)n;
    return param_ids(r, name, v, &r->out->gen.stop_id);
}

int param_read_skip_special(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_boolean(v))
        return param_type(r, name, "a boolean", v);
    r->out->gen.special_shown = json_is_false(v);
    return 0;
}

/* ---- beams --------------------------------------------------------------------------------- */

/* How many follows from what is asked for besides. */
int param_read_beams(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_boolean(v))
        return param_type(r, name, "a boolean", v);
    r->out->gen.beams.width = json_is_true(v);
    return 0;
}

int param_read_early_stopping(struct api_reader *r, const char *name, const json_t *v)
{
    bool is_never = json_is_string(v) && !strcmp(json_string_value(v), "never");
    if (!json_is_boolean(v) && !is_never)
        return param_type(r, name, "a boolean or \"never\"", v);
    r->out->gen.beams.ends = is_never          ? BEAMS_NEVER_EARLY
                             : json_is_true(v) ? BEAMS_EARLY
                                               : BEAMS_HOPEFUL;
    return 0;
}

/* ---- how much ------------------------------------------------------------------------------ */

/* Both names go to one place; the newer one counts where both are given. A chat answers with one
 * token at least; a completion of none has its use with echo. */
int param_read_max_tokens(struct api_reader *r, const char *name, const json_t *v)
{
    int64_t n, min = (r->out->route & API_CHATS) != 0;
    bool is_newer = strcmp(name, "max_completion_tokens") == 0;
    if (param_int(r, name, v, min, INT32_MAX, &n))
        return -1;
    if (is_newer || !r->has_max)
        r->out->gen.max_new = n;
    r->has_max |= is_newer;
    return 0;
}

/* ---- which tokens -------------------------------------------------------------------------- */

int param_read_seed(struct api_reader *r, const char *name, const json_t *v)
{
    if (param_int(r, name, v, INT64_MIN, INT64_MAX, &r->out->seed))
        return -1;
    r->out->has_seed = true;
    return 0;
}

int param_read_logit_bias(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_object(v))
        return param_type(r, name, "an object of token ids", v);
    size_t n = json_object_size(v);
    if (n > SAMPLE_BIAS_MAX)
        return param_bad(r, name, "holds %zu ids: the limit is %d", n, SAMPLE_BIAS_MAX);
    struct sample_bias *bias = param_alloc(r, name, n, sizeof *bias);
    const char *key;
    json_t *value;
    size_t i = 0;
    if (!bias)
        return -1;
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        int64_t id;
        double add;
        if (num_int(key, 0, r->limits->n_vocab - 1, &id, NULL))
            return param_bad(r, name, "has a key that is no token id from 0 to %lld",
                             (long long)r->limits->n_vocab - 1);
        if (param_num(r, name, value, -100, 100, &add))
            return -1;
        bias[i++] = (struct sample_bias){.id = (int32_t)id, .add = (float)add};
    }
    r->out->gen.sample.bias = bias;
    r->out->gen.sample.n_bias = (int32_t)n;
    return 0;
}

static int by_id(const void *x, const void *y)
{
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

/* Each once, in order. */
int param_read_allowed_ids(struct api_reader *r, const char *name, const json_t *v)
{
    const int32_t *id;
    size_t n = json_array_size(v), n_kept = 0;
    if (!json_is_array(v))
        return param_type(r, name, "an array of token ids", v);
    if (!n || n > SAMPLE_ALLOW_MAX)
        return param_bad(r, name, "holds %zu ids: 1 to %d can be allowed", n, SAMPLE_ALLOW_MAX);
    int32_t *sorted = param_alloc(r, name, n, sizeof *sorted);
    if (!sorted || param_ids(r, name, v, &id))
        return -1;
    memcpy(sorted, id, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_id);
    for (size_t i = 0; i < n; i++)
        if (!i || sorted[i] != sorted[i - 1])
            sorted[n_kept++] = sorted[i];
    r->out->gen.sample.allow = sorted;
    r->out->gen.sample.n_allow = (int32_t)n_kept;
    return 0;
}

/* At most n_max strings of at most bytes_max. */
static int read_texts(struct api_reader *r, const char *name, const json_t *v, size_t n_max,
                      size_t bytes_max, const struct gen_text **out, size_t *n_out)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return param_type(r, name, "an array of strings", v);
    if (n > n_max)
        return param_bad(r, name, "holds %zu strings: the limit is %zu", n, n_max);
    struct gen_text *word = param_alloc(r, name, n + 1, sizeof *word);
    for (size_t i = 0; word && i < n; i++) {
        const json_t *text = json_array_get(v, i);
        size_t len = json_string_length(text);
        if (!json_is_string(text) || !len || len > bytes_max)
            return param_bad(r, name, "must hold strings of 1 to %zu bytes", bytes_max);
        word[i] = (struct gen_text){.p = json_string_value(text), .n = (uint32_t)len};
    }
    *out = word;
    *n_out = n;
    return word ? 0 : -1;
}

int param_read_bad_words(struct api_reader *r, const char *name, const json_t *v)
{
    return read_texts(r, name, v, API_BAD_WORDS_MAX, GEN_STOP_BYTES_MAX, &r->out->bad_word,
                      &r->out->n_bad_word);
}

int param_read_breakers(struct api_reader *r, const char *name, const json_t *v)
{
    return read_texts(r, name, v, BREAKERS_MAX, BREAKER_BYTES_MAX, &r->out->breaker,
                      &r->out->n_breaker);
}

int param_read_mirostat(struct api_reader *r, const char *name, const json_t *v)
{
    int64_t *to = &r->out->gen.sample.mirostat;
    if (param_int(r, name, v, 0, 2, to))
        return -1;
    return *to == 1 ? param_bad(r, name, "must be 0 or 2: the first version is not supported") : 0;
}

/* A flag in a chat, a count in a completion. */
int param_read_logprobs(struct api_reader *r, const char *name, const json_t *v)
{
    if (r->out->route == API_CHAT) {
        if (!json_is_boolean(v))
            return param_type(r, name, "a boolean (how many: top_logprobs)", v);
        r->out->wants_logprobs = json_is_true(v);
        return 0;
    }
    if (param_int(r, name, v, 0, GEN_TOP_MAX, &r->out->top_logprobs))
        return -1;
    r->out->wants_logprobs = true;
    return 0;
}
