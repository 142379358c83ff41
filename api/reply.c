/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing answers. A choice of a whole answer and one of an event are the same members, but for
 * the name of the text: "message" or "delta" in a chat, "text" in a completion.
 */
#include "api/reply.h"

#include <string.h>

#include "engine/base/base64.h"

enum { OPENING_BYTES_MAX = 4096, ITEMS_BYTES_MAX = 256 << 20 };

static const char *object(enum api_route route, bool is_event)
{
    if (route == API_COMPLETIONS)
        return "text_completion";
    return is_event ? "chat.completion.chunk" : "chat.completion";
}

static void put_opening(struct jout *j, const struct api_reply *r, bool is_event)
{
    jout_put_str(j, "id", r->id);
    jout_put_str(j, "object", object(r->route, is_event));
    jout_put_int(j, "created", r->created);
    jout_put_str(j, "model", r->model);
}

void api_reply_init(struct api_reply *r, enum api_route route, const char *id, const char *model,
                    int64_t created, struct api_vocab vocab)
{
    *r = (struct api_reply){
        .route = route, .id = id, .model = model, .created = created, .vocab = vocab};
    buf_init(&r->opening, OPENING_BYTES_MAX);
    buf_init(&r->items, ITEMS_BYTES_MAX);
    buf_init(&r->text, ITEMS_BYTES_MAX);
    buf_init(&r->logprobs, ITEMS_BYTES_MAX);
    buf_str(&r->opening, "data: ");
    struct jout j = jout_on(&r->opening);
    jout_open(&j, '{');
    put_opening(&j, r, true);
    jout_key(&j, "choices");
}

void api_reply_release(struct api_reply *r)
{
    buf_release(&r->opening);
    buf_release(&r->items);
    buf_release(&r->text);
    buf_release(&r->logprobs);
}

/* ---- a choice ------------------------------------------------------------------------------ */

static void put_ids(struct jout *j, const char *key, const int32_t *id, size_t n)
{
    jout_key(j, key);
    jout_open(j, '[');
    for (size_t i = 0; i < n; i++)
        jout_int(j, id[i]);
    jout_close(j, ']');
}

static void put_logprobs(struct jout *j, const struct api_reply *r, const struct api_choice *c)
{
    jout_key(j, "logprobs");
    if (!c->logprob)
        jout_null(j);
    else if (r->route == API_CHAT)
        api_logprobs_chat(j, &r->vocab, c->logprob, c->n_logprob);
    else
        api_logprobs_completion(j, &r->vocab, c->logprob, c->n_logprob);
}

static void put_text(struct jout *j, const char *key, const struct api_choice *c)
{
    jout_key(j, key);
    jout_bytes(j, c->n_text ? c->text : "", c->n_text);
}

static void put_call(struct jout *j, const struct api_call *c, bool is_event)
{
    jout_open(j, '{');
    if (is_event)
        jout_put_int(j, "index", c->index);
    if (c->id) {
        jout_put_str(j, "id", c->id);
        jout_put_str(j, "type", "function");
    }
    jout_key(j, "function");
    jout_open(j, '{');
    if (c->name)
        jout_put_str(j, "name", c->name);
    jout_key(j, "arguments");
    jout_bytes(j, c->n_arguments ? c->arguments : "", c->n_arguments);
    jout_close(j, '}');
    jout_close(j, '}');
}

static void put_calls(struct jout *j, const struct api_choice *c, bool is_event)
{
    if (!c->n_call)
        return;
    jout_key(j, "tool_calls");
    jout_open(j, '[');
    for (size_t i = 0; i < c->n_call; i++)
        put_call(j, &c->call[i], is_event);
    jout_close(j, ']');
}

static void put_message(struct jout *j, const struct api_choice *c, bool is_event)
{
    jout_key(j, is_event ? "delta" : "message");
    jout_open(j, '{');
    if (!is_event || c->is_first)
        jout_put_str(j, "role", "assistant");
    if (c->n_call && !c->n_text && (!is_event || c->is_first))
        jout_put_null(j, "content");
    else if (!is_event || c->is_first || c->n_text)
        put_text(j, "content", c);
    if (c->n_thoughts) {
        jout_key(j, "reasoning_content");
        jout_bytes(j, c->thoughts, c->n_thoughts);
    }
    put_calls(j, c, is_event);
    if (!is_event)
        jout_put_null(j, "refusal");
    jout_close(j, '}');
}

static void put_prompt(struct jout *j, const struct api_reply *r, const struct api_choice *c)
{
    jout_key(j, "prompt_logprobs");
    api_logprobs_prompt(j, &r->vocab, c->prompt, c->n_prompt);
}

/* What vLLM adds. A chat's prompt is that of all its choices, and stands beside them. */
static void put_more(struct jout *j, const struct api_reply *r, const struct api_choice *c)
{
    if (c->stop) {
        jout_key(j, "stop_reason");
        jout_bytes(j, c->stop->p, c->stop->n);
    } else if (c->stop_id >= 0) {
        jout_put_int(j, "stop_reason", c->stop_id);
    }
    if (c->prompt && r->route != API_CHAT)
        put_prompt(j, r, c);
    if (c->prompt_id)
        put_ids(j, "prompt_token_ids", c->prompt_id, c->n_prompt_id);
    if (c->id)
        put_ids(j, "token_ids", c->id, c->n_id);
}

static void put_choice(struct jout *j, const struct api_reply *r, const struct api_choice *c,
                       bool is_event)
{
    jout_open(j, '{');
    jout_put_int(j, "index", c->index);
    if (r->route == API_CHAT)
        put_message(j, c, is_event);
    else
        put_text(j, "text", c);
    put_logprobs(j, r, c);
    jout_put_str(j, "finish_reason", c->finish);
    put_more(j, r, c);
    jout_close(j, '}');
}

static void put_usage(struct jout *j, const struct api_usage *u)
{
    jout_open(j, '{');
    jout_put_int(j, "prompt_tokens", u->prompt);
    jout_put_int(j, "completion_tokens", u->completion);
    jout_put_int(j, "total_tokens", u->prompt + u->completion);
    jout_key(j, "prompt_tokens_details");
    jout_open(j, '{');
    jout_put_int(j, "cached_tokens", u->cached);
    jout_close(j, '}');
    jout_key(j, "completion_tokens_details");
    jout_open(j, '{');
    jout_put_int(j, "reasoning_tokens", u->reasoning);
    jout_put_int(j, "accepted_prediction_tokens", u->accepted);
    jout_put_int(j, "rejected_prediction_tokens", u->rejected);
    jout_close(j, '}');
    jout_close(j, '}');
}

/* ---- whole --------------------------------------------------------------------------------- */

void api_reply_write(const struct api_reply *r, const struct api_choice *choice, size_t n,
                     const struct api_usage *usage, struct buf *out)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    put_opening(&j, r, false);
    jout_key(&j, "choices");
    jout_open(&j, '[');
    for (size_t i = 0; i < n; i++)
        put_choice(&j, r, &choice[i], false);
    jout_close(&j, ']');
    jout_key(&j, "usage");
    put_usage(&j, usage);
    if (r->route == API_CHAT && n && choice->prompt)
        put_prompt(&j, r, choice);
    jout_close(&j, '}');
}

/* ---- events -------------------------------------------------------------------------------- */

void api_event_choice(const struct api_reply *r, const struct api_choice *c,
                      enum api_usage_form form, const struct api_usage *usage, struct buf *out)
{
    buf_add(out, r->opening.data, r->opening.len);
    struct jout j = jout_on(out);
    jout_open(&j, '[');
    put_choice(&j, r, c, true);
    jout_close(&j, ']');
    if (r->route == API_CHAT && c->prompt && c->index == 0)
        put_prompt(&j, r, c);
    if (form == API_USAGE_GIVEN) {
        jout_key(&j, "usage");
        put_usage(&j, usage);
    } else if (form == API_USAGE_NULL) {
        buf_str(out, ",\"usage\":null");
    }
    buf_str(out, "}\n\n");
}

static void put_times(struct jout *j, const struct api_times *t)
{
    jout_open(j, '{');
    jout_put_num(j, "queue_ms", (double)t->queue_us / 1e3);
    jout_put_num(j, "prompt_ms", (double)t->prompt_us / 1e3);
    jout_put_num(j, "decode_ms", (double)t->decode_us / 1e3);
    jout_close(j, '}');
}

void api_event_usage(const struct api_reply *r, const struct api_usage *usage,
                     const struct api_times *times, struct buf *out)
{
    buf_add(out, r->opening.data, r->opening.len);
    buf_str(out, "[],\"usage\":");
    struct jout j = jout_on(out);
    put_usage(&j, usage);
    if (times) {
        jout_key(&j, "timings");
        put_times(&j, times);
    }
    buf_str(out, "}\n\n");
}

void api_event_error(const struct api_error *e, struct buf *out)
{
    buf_str(out, "data: ");
    api_error_write(e, API_ERROR_PLAIN, out);
    buf_str(out, "\n\n");
}

void api_event_done(struct buf *out)
{
    buf_str(out, "data: [DONE]\n\n");
}

/* ---- vectors ------------------------------------------------------------------------------- */

static void put_base64(struct jout *j, const void *p, size_t n)
{
    struct buf text;
    buf_init(&text, (n + 2) / 3 * 4);
    base64_write(&text, p, n);
    jout_bytes(j, text.len ? text.data : "", text.len);
    buf_release(&text);
}

/* Little-endian, whatever the machine is. */
static void put_floats_base64(struct jout *j, const float *v, size_t n)
{
    struct buf raw;
    buf_init(&raw, n * 4);
    for (size_t i = 0; i < n; i++) {
        uint32_t x;
        memcpy(&x, &v[i], 4);
        const unsigned char b[4] = {x & 255, x >> 8 & 255, x >> 16 & 255, x >> 24};
        buf_add(&raw, b, 4);
    }
    put_base64(j, raw.data, raw.len);
    buf_release(&raw);
}

void api_vectors_begin(struct jout *j)
{
    jout_open(j, '{');
    jout_put_str(j, "object", "list");
    jout_key(j, "data");
    jout_open(j, '[');
}

void api_vector_write(struct jout *j, int64_t index, const float *v, size_t n, bool as_base64)
{
    jout_open(j, '{');
    jout_put_str(j, "object", "embedding");
    jout_put_int(j, "index", index);
    jout_key(j, "embedding");
    if (as_base64) {
        put_floats_base64(j, v, n);
    } else {
        jout_open(j, '[');
        for (size_t i = 0; i < n; i++)
            jout_float(j, v[i]);
        jout_close(j, ']');
    }
    jout_close(j, '}');
}

void api_vectors_end(struct jout *j, const char *model, const struct api_usage *usage)
{
    jout_close(j, ']');
    jout_put_str(j, "model", model);
    jout_key(j, "usage");
    jout_open(j, '{');
    jout_put_int(j, "prompt_tokens", usage->prompt);
    jout_put_int(j, "total_tokens", usage->prompt);
    jout_close(j, '}');
    jout_close(j, '}');
}
