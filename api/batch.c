/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches as clients ask for them and see them.
 */
#include "api/batch.h"

#include <stdlib.h>
#include <string.h>

#include "api/file_ask.h"
#include "api/json.h"
#include "api/metadata.h"
#include "api/params.h"
#include "api/value.h"

enum { KEEP_DEFAULT_S = 30 * 24 * 3600 };

static const char *const endpoints[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                        "/v1/responses"};

/* ---- asked for ------------------------------------------------------------------------------- */

static int read_endpoint(struct api_reader *r, const char *name, const json_t *v,
                         const char **endpoint)
{
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++)
        if (value_is_word(v, endpoints[i])) {
            *endpoint = endpoints[i];
            return 0;
        }
    return param_bad(r, name,
                     "must be /v1/chat/completions, /v1/completions, /v1/embeddings or "
                     "/v1/responses");
}

/* What was read of a creation. */
struct asking {
    struct batch *batch;
    bool has_window;
};

static int read_field(struct api_reader *r, const char *key, const json_t *v, void *to)
{
    struct asking *ask = to;
    struct batch *out = ask->batch;
    if (strcmp(key, "completion_window") == 0) {
        ask->has_window = true;
        return value_is_word(v, "24h") ? 0 : param_bad(r, key, "must be \"24h\"");
    }
    if (json_is_null(v))
        return 0;
    if (strcmp(key, "endpoint") == 0)
        return read_endpoint(r, key, v, &out->endpoint);
    if (strcmp(key, "metadata") == 0)
        return metadata_read(r, key, v, &out->metadata);
    if (strcmp(key, "output_expires_after") == 0)
        return file_ask_keep(r, key, v, &out->keep_s);
    if (strcmp(key, "input_file_id") != 0)
        return params_ignore(r, key);
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return param_type(r, key, "a string: the id of a file", v);
    out->input_file = json_string_value(v);
    return 0;
}

static int missing(const char *name, struct api_error *e)
{
    return api_fail(e, 400, "missing_required_parameter", name, "'%s' is needed.", name);
}

int batch_ask_parse(const char *body, size_t n, struct arena *a, struct batch *out,
                    const char **ignored, struct api_error *e)
{
    *out = (struct batch){.keep_s = KEEP_DEFAULT_S};
    struct asking ask = {.batch = out};
    if (params_each(body, n, a, read_field, &ask, ignored, e))
        return -1;
    return !out->input_file  ? missing("input_file_id", e)
           : !out->endpoint  ? missing("endpoint", e)
           : !ask.has_window ? missing("completion_window", e)
                             : 0;
}

/* ---- shown ----------------------------------------------------------------------------------- */

static void put_errors(struct jout *j, const struct batch *b)
{
    jout_key(j, "errors");
    if (!b->errors) {
        jout_null(j);
        return;
    }
    jout_open(j, '{');
    jout_put_str(j, "object", "list");
    jout_key(j, "data");
    jout_raw(j, b->errors);
    jout_close(j, '}');
}

static void put_counts(struct jout *j, const struct batch *b)
{
    jout_key(j, "request_counts");
    jout_open(j, '{');
    jout_put_int(j, "total", b->n_line);
    jout_put_int(j, "completed", b->n_good);
    jout_put_int(j, "failed", b->n_bad);
    jout_close(j, '}');
}

static void put_detail(struct jout *j, const char *key, const char *what, int64_t n)
{
    jout_key(j, key);
    jout_open(j, '{');
    jout_put_int(j, what, n);
    jout_close(j, '}');
}

static void put_usage(struct jout *j, const struct batch_usage *u)
{
    jout_key(j, "usage");
    jout_open(j, '{');
    jout_put_int(j, "input_tokens", u->in);
    put_detail(j, "input_tokens_details", "cached_tokens", u->cached);
    jout_put_int(j, "output_tokens", u->out);
    put_detail(j, "output_tokens_details", "reasoning_tokens", u->thoughts);
    jout_put_int(j, "total_tokens", u->in + u->out);
    jout_close(j, '}');
}

void batch_write(struct jout *j, const struct batch *b)
{
    static const char *const names[] = {
#define STATE(name, text) text,
        BATCH_STATES(STATE)
#undef STATE
    };
    static const struct {
        const char *key;
        enum batch_state state;
    } times[] = {{"in_progress_at", BATCH_IN_PROGRESS}, {"finalizing_at", BATCH_FINALIZING},
                 {"completed_at", BATCH_COMPLETED},     {"failed_at", BATCH_FAILED},
                 {"expired_at", BATCH_EXPIRED},         {"cancelling_at", BATCH_CANCELLING},
                 {"cancelled_at", BATCH_CANCELLED}};
    jout_open(j, '{');
    jout_put_str(j, "id", b->id);
    jout_put_str(j, "object", "batch");
    jout_put_str(j, "endpoint", b->endpoint);
    jout_put_str(j, "model", b->model);
    put_errors(j, b);
    jout_put_str(j, "input_file_id", b->input_file);
    jout_put_str(j, "completion_window", "24h");
    jout_put_str(j, "status", names[b->state]);
    jout_put_str(j, "output_file_id", b->output_file);
    jout_put_str(j, "error_file_id", b->error_file);
    jout_put_int(j, "created_at", b->at[BATCH_VALIDATING]);
    jout_put_int(j, "expires_at", b->expires);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        jout_put_time(j, times[i].key, b->at[times[i].state]);
    put_counts(j, b);
    put_usage(j, &b->usage);
    jout_key(j, "metadata");
    jout_raw(j, b->metadata ? b->metadata : "null");
    jout_close(j, '}');
}
