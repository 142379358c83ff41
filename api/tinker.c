/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of JSON: every member is known, or refused by name.
 */
#include "api/tinker.h"

#include <math.h>
#include <string.h>

#include "api/jout.h"
#include "api/json.h"
#include "api/value.h"

/* Of eps: a weight without a gradient would be 0 / 0 with less. */
#define EPS_LEAST 1e-30

enum { ARG_TOK_MAX = 1 << 24, TTL_LEAST = 3600, TTL_MOST = 10 * 366 * 86400, RANK_MOST = 256 };

/* ---- members --------------------------------------------------------------------------------- */

static int bad(struct api_error *e, const char *key, const char *what)
{
    return api_fail(e, 400, "invalid_value", key, "'%.64s' must be %.200s.", key, what);
}

/* names: "a b c ", those that there may be. */
static int only(const json_t *o, const char *names, struct api_error *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)o, key, value)
    {
        size_t n = strlen(key);
        bool is_known = false;
        for (const char *p = names; !is_known && *p; p += strcspn(p, " ") + 1)
            is_known = strcspn(p, " ") == n && memcmp(p, key, n) == 0;
        if (!is_known && !json_is_null(value))
            return api_fail(e, 400, "unknown_field", NULL, "There is no field '%.64s' here.", key);
    }
    return 0;
}

static int get_int(const json_t *o, const char *key, int64_t lo, int64_t hi, int64_t *out,
                   struct api_error *e)
{
    const json_t *v = value_member(o, key);
    if (!v)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi)
        return api_fail(e, 400, "invalid_value", key,
                        "'%.64s' must be an integer from %lld to %lld.", key, (long long)lo,
                        (long long)hi);
    *out = json_integer_value(v);
    return 0;
}

static int get_num(const json_t *o, const char *key, double lo, double hi, double *out,
                   struct api_error *e)
{
    const json_t *v = value_member(o, key);
    if (!v)
        return 0;
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= lo && x <= hi))
        return api_fail(e, 400, "invalid_value", key, "'%.64s' must be a number from %g to %g.",
                        key, lo, hi);
    *out = x;
    return 0;
}

static int get_bool(const json_t *o, const char *key, bool *out, struct api_error *e)
{
    const json_t *v = value_member(o, key);
    if (v && !json_is_boolean(v))
        return bad(e, key, "true or false");
    if (v)
        *out = json_is_true(v);
    return 0;
}

/* Without control bytes. */
static int get_text(const json_t *o, const char *key, size_t most, const char **out,
                    struct api_error *e)
{
    const json_t *v = value_member(o, key);
    if (!v)
        return 0;
    const char *s = json_string_value(v);
    if (!s || !*s || json_string_length(v) > most || strlen(s) != json_string_length(v))
        return api_fail(e, 400, "invalid_value", key,
                        "'%.64s' must be a string of at most %zu bytes.", key, most);
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return bad(e, key, "a string without control bytes");
    *out = s;
    return 0;
}

static int want(const void *p, const char *key, struct api_error *e)
{
    return p ? 0 : api_fail(e, 400, "missing_field", key, "'%.64s' is missing.", key);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* "SESSION:train:N" of a session and a number. */
static const char *line_of(struct arena *a, const char *session, int64_t seq)
{
    return arena_printf(a, "%s:train:%lld", session, (long long)seq);
}

int tinker_address_read(enum tinker_kind kind, const char *body, size_t n, struct arena *a,
                        struct tinker_address *out, struct api_error *e)
{
    int64_t model_seq = -1;
    const char *name = kind == TINKER_SAMPLE ? "sampling_session_id" : "model_id";
    *out = (struct tinker_address){.seq = kind == TINKER_CREATE ? 0 : -1};
    if (kind == TINKER_PASS)
        return tinker_pass_address(body, n, a, out, e);
    const json_t *o = api_json_object(a, body, n, e);
    if (!o || get_text(o, name, TINKER_ID_BYTES, &out->line, e) ||
        get_text(o, "session_id", TINKER_ID_BYTES, &out->session, e) ||
        get_int(o, "model_seq_id", 0, INT32_MAX, &model_seq, e) ||
        (kind != TINKER_CREATE && get_int(o, "seq_id", 0, INT64_MAX, &out->seq, e)))
        return -1;
    if (kind == TINKER_CREATE || (kind == TINKER_LOAD && !out->line)) {
        if (want(out->session, "session_id", e) ||
            want(model_seq < 0 ? NULL : out, "model_seq_id", e))
            return -1;
        out->line = line_of(a, out->session, model_seq);
        out->seq = 0;
        return 0;
    }
    out->session = NULL;
    return want(out->line, name, e) || want(out->seq < 0 ? NULL : out, "seq_id", e) ? -1 : 0;
}

int tinker_path_read(const char *path, struct arena *a, const char **model, bool *is_sampler,
                     const char **name)
{
    static const char scheme[] = "tinker://", state[] = "weights", sampler[] = "sampler_weights";
    if (strncmp(path, scheme, sizeof scheme - 1) != 0)
        return -1;
    const char *at = path + sizeof scheme - 1, *kind = strchr(at, '/');
    const char *last = kind ? strchr(kind + 1, '/') : NULL;
    if (!last || !last[1] || strchr(last + 1, '/') || kind == at)
        return -1;
    size_t n = (size_t)(last - kind - 1);
    *is_sampler = n == sizeof sampler - 1 && memcmp(kind + 1, sampler, n) == 0;
    if (!*is_sampler && (n != sizeof state - 1 || memcmp(kind + 1, state, n) != 0))
        return -1;
    *model = arena_strndup(a, at, (size_t)(kind - at));
    *name = last + 1;
    return 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

int tinker_create_read(const char *body, size_t n, struct arena *a, struct tinker_create *out,
                       struct api_error *e)
{
    bool attention = true, others = true, lm_head = true;
    int64_t seed = -1;
    *out = (struct tinker_create){.rank = TINKER_RANK};
    const json_t *o = api_json_object(a, body, n, e), *lora, *optimizer;
    if (!o ||
        only(o,
             "session_id model_seq_id base_model user_metadata lora_config "
             "optimizer_config type ",
             e) ||
        get_text(o, "base_model", 256, &out->base_model, e) ||
        want(out->base_model, "base_model", e))
        return -1;
    optimizer = value_member(o, "optimizer_config");
    if (optimizer && !value_is_word(json_object_get(optimizer, "type"), "adamw"))
        return bad(e, "optimizer_config", "of type 'adamw': there is no other optimizer here");
    lora = value_member(o, "lora_config");
    if (lora && !json_is_object(lora))
        return bad(e, "lora_config", "an object");
    if (lora &&
        (only(lora, "rank seed train_unembed train_mlp train_attn ", e) ||
         get_int(lora, "rank", 1, RANK_MOST, &out->rank, e) ||
         get_int(lora, "seed", 0, INT64_MAX, &seed, e) ||
         get_bool(lora, "train_unembed", &lm_head, e) || get_bool(lora, "train_mlp", &others, e) ||
         get_bool(lora, "train_attn", &attention, e)))
        return -1;
    if (!attention && !others)
        return bad(e, "lora_config",
                   "one that trains attention or feed-forwards: the lm_head takes no adapter here");
    out->has_seed = seed >= 0;
    out->seed = (uint64_t)seed;
    out->has_attention = attention;
    out->has_others = others;
    return 0;
}

int tinker_step_read(const char *body, size_t n, struct arena *a, struct tinker_step *out,
                     struct api_error *e)
{
    *out = (struct tinker_step){.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-12};
    const json_t *o = api_json_object(a, body, n, e), *p;
    if (!o || only(o, "model_id seq_id adam_params type ", e))
        return -1;
    p = value_member(o, "adam_params");
    if (!p)
        return 0;
    if (!json_is_object(p))
        return bad(e, "adam_params", "an object");
    return only(p, "learning_rate beta1 beta2 eps weight_decay grad_clip_norm ", e) ||
                   get_num(p, "learning_rate", 0, 1e3, &out->lr, e) ||
                   get_num(p, "beta1", 0, 1 - 1e-9, &out->beta1, e) ||
                   get_num(p, "beta2", 0, 1 - 1e-9, &out->beta2, e) ||
                   get_num(p, "eps", EPS_LEAST, 1, &out->eps, e) ||
                   get_num(p, "weight_decay", 0, 1e3, &out->decay, e) ||
                   get_num(p, "grad_clip_norm", 0, 1e30, &out->max_norm, e)
               ? -1
               : 0;
}

/* Letters, digits, and -_.: they are parts of paths. */
static int check_name(const char *name, struct api_error *e)
{
    for (const char *p = name; p && *p; p++)
        if (!strchr("-_.", *p) && !(*p >= '0' && *p <= '9') && !(*p >= 'a' && *p <= 'z') &&
            !(*p >= 'A' && *p <= 'Z'))
            return bad(e, "path", "a name of letters, digits and -_.");
    return 0;
}

int tinker_save_read(const char *body, size_t n, struct arena *a, struct tinker_save *out,
                     struct api_error *e)
{
    *out = (struct tinker_save){.sampler_seq = -1};
    const json_t *o = api_json_object(a, body, n, e);
    if (!o ||
        only(o,
             "model_id path seq_id ttl_seconds overwrite user_metadata "
             "sampling_session_seq_id kind type ",
             e) ||
        get_text(o, "path", TINKER_NAME_BYTES - 1, &out->name, e) || check_name(out->name, e) ||
        get_int(o, "ttl_seconds", TTL_LEAST, TTL_MOST, &out->ttl_s, e) ||
        get_int(o, "sampling_session_seq_id", 0, INT32_MAX, &out->sampler_seq, e) ||
        get_bool(o, "overwrite", &out->overwrites, e))
        return -1;
    const json_t *kind = value_member(o, "kind");
    return kind && !value_is_word(kind, "snapshot")
               ? bad(e, "kind", "'snapshot': weights that change under a sampler are not served")
               : 0;
}

int tinker_load_read(const char *body, size_t n, struct arena *a, struct tinker_load *out,
                     struct api_error *e)
{
    *out = (struct tinker_load){.has_optimizer = false};
    const json_t *o = api_json_object(a, body, n, e), *optimizer;
    if (!o ||
        only(o,
             "model_id seq_id session_id model_seq_id base_model user_metadata path "
             "optimizer optimizer_config type ",
             e) ||
        get_text(o, "path", 512, &out->path, e) || want(out->path, "path", e) ||
        get_text(o, "base_model", 256, &out->base_model, e) ||
        get_bool(o, "optimizer", &out->has_optimizer, e))
        return -1;
    optimizer = value_member(o, "optimizer_config");
    return optimizer && !value_is_word(json_object_get(optimizer, "type"), "adamw")
               ? bad(e, "optimizer_config", "of type 'adamw': there is no other optimizer here")
               : 0;
}

/* ---- samples --------------------------------------------------------------------------------- */

static int get_ids(const json_t *list, const char *key, int32_t *out, struct api_error *e)
{
    size_t i;
    const json_t *v;
    json_array_foreach(list, i, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
            return bad(e, key, "token ids");
        out[i] = (int32_t)json_integer_value(v);
    }
    return 0;
}

static int read_prompt(const json_t *o, struct arena *a, struct tinker_sample *out,
                       struct api_error *e)
{
    const json_t *chunks = json_object_get(value_member(o, "prompt"), "chunks"), *c;
    size_t i, n = 0;
    if (!json_is_array(chunks))
        return bad(e, "prompt", "an object with 'chunks'");
    json_array_foreach(chunks, i, c)
    {
        if (!value_is_word(json_object_get(c, "type"), "encoded_text") ||
            !json_is_array(json_object_get(c, "tokens")))
            return bad(e, "prompt", "of chunks of type 'encoded_text', each with 'tokens'");
        n += json_array_size(json_object_get(c, "tokens"));
    }
    if (n == 0 || n > ARG_TOK_MAX)
        return bad(e, "prompt", "one token or more");
    out->id = ARENA_ARRAY(a, int32_t, n);
    json_array_foreach(chunks, i, c)
    {
        const json_t *t = json_object_get(c, "tokens");
        if (get_ids(t, "prompt", out->id + out->n, e))
            return -1;
        out->n += (int64_t)json_array_size(t);
    }
    return 0;
}

static int add_stop(const json_t *v, struct gen_params *p, struct api_error *e)
{
    if (!json_is_string(v) || json_string_length(v) == 0 ||
        json_string_length(v) > GEN_STOP_BYTES_MAX || p->n_stop == GEN_STOP_MAX)
        return bad(e, "stop", "at most 16 strings, or token ids");
    p->stop[p->n_stop++] =
        (struct gen_text){.p = json_string_value(v), .n = (uint32_t)json_string_length(v)};
    return 0;
}

/* Texts or ids; an empty list: nothing ends it. */
static int read_stop(const json_t *v, struct arena *a, struct gen_params *p, struct api_error *e)
{
    size_t i, n = json_array_size(v);
    const json_t *x;
    if (json_is_string(v))
        return add_stop(v, p, e);
    if (!json_is_array(v))
        return bad(e, "stop", "a string, or a list of strings or of token ids");
    p->ignore_eos = n == 0;
    if (n && json_is_integer(json_array_get(v, 0))) {
        if (n > GEN_STOP_ID_MAX)
            return bad(e, "stop", "at most 128 token ids");
        int32_t *id = ARENA_ARRAY(a, int32_t, n);
        p->stop_id = id;
        p->n_stop_id = (int32_t)n;
        return get_ids(v, "stop", id, e);
    }
    json_array_foreach(v, i, x)
    {
        if (add_stop(x, p, e))
            return -1;
    }
    return 0;
}

static int read_params(const json_t *v, struct arena *a, struct tinker_sample *out,
                       struct api_error *e)
{
    struct gen_params *p = &out->params;
    int64_t seed = -1, top_k = -1;
    *p = (struct gen_params){.sample = SAMPLE_PARAMS_INIT, .max_new = -1, .wants_logprob = true};
    p->special_shown = true;
    p->stop_is_shown = true;
    p->sample.temperature = 1;
    if (!v)
        return 0;
    const json_t *stop = value_member(v, "stop");
    if (!json_is_object(v))
        return bad(e, "sampling_params", "an object");
    if (only(v, "max_tokens seed stop temperature top_k top_p ", e) ||
        get_int(v, "max_tokens", 1, ARG_TOK_MAX, &p->max_new, e) ||
        get_int(v, "seed", 0, INT64_MAX, &seed, e) || get_int(v, "top_k", -1, 1 << 20, &top_k, e) ||
        get_num(v, "temperature", 0, 100, &p->sample.temperature, e) ||
        get_num(v, "top_p", 1e-9, 1, &p->sample.top_p, e) || (stop && read_stop(stop, a, p, e)))
        return -1;
    out->has_seed = seed >= 0;
    p->sample.seed = (uint64_t)seed;
    p->sample.top_k = top_k > 0 ? top_k : 0;
    return 0;
}

/* What is asked for with more than this is refused by name. */
static int refuse_more(const json_t *o, struct api_error *e)
{
    int64_t zero = 0;
    return get_int(o, "topk_prompt_logprobs", 0, 0, &zero, e) ||
                   get_int(o, "topk_sample_logprobs", 0, 0, &zero, e) ||
                   get_int(o, "prompt_alt_tokens_k", 0, 0, &zero, e) ||
                   (value_member(o, "target_prompt_logprobs") &&
                    bad(e, "target_prompt_logprobs", "left out: it is not supported"))
               ? -1
               : 0;
}

int tinker_sample_read(const char *body, size_t n, struct arena *a, struct tinker_sample *out,
                       struct api_error *e)
{
    *out = (struct tinker_sample){.n_sample = 1};
    const json_t *o = api_json_object(a, body, n, e);
    bool records = false;
    if (!o ||
        only(o,
             "num_samples prompt sampling_params base_model model_path "
             "sampling_session_id seq_id prompt_logprobs topk_prompt_logprobs "
             "topk_sample_logprobs target_prompt_logprobs prompt_alt_tokens_k "
             "prompt_logprobs_last_n record_stability_info type ",
             e) ||
        get_int(o, "num_samples", 1, TINKER_SAMPLES_MAX, &out->n_sample, e) ||
        get_bool(o, "prompt_logprobs", &out->wants_prompt, e) || refuse_more(o, e) ||
        get_bool(o, "record_stability_info", &records, e) || read_prompt(o, a, out, e) ||
        read_params(value_member(o, "sampling_params"), a, out, e) ||
        get_int(o, "prompt_logprobs_last_n", 1, out->n > 1 ? out->n - 1 : 1, &out->last_n, e))
        return -1;
    return records ? bad(e, "record_stability_info", "false: it is not supported") : 0;
}

int64_t tinker_sample_count(const char *body, size_t n, struct arena *a)
{
    struct api_error unused;
    int64_t count = 1;
    const json_t *o = api_json_object(a, body, n, &unused);
    if (o)
        get_int(o, "num_samples", 1, TINKER_SAMPLES_MAX, &count, &unused);
    return count;
}

/* ---- what is told ---------------------------------------------------------------------------- */

void tinker_failed_write(struct buf *out, const char *why, bool is_users)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "error", why);
    jout_put_str(&j, "category", is_users ? "user" : "server");
    jout_close(&j, '}');
}
