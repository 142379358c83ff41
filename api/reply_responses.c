/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of /v1/responses: OpenAI's responses, whose output is items: thoughts, a message, calls.
 * In a stream an item is open at a time; its events come in the order that the specification has
 * them, numbered, and what is whole of it is kept, since the last event holds all of it.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/face.h"

enum { ITEM_ID_BYTES = 96 };

/* ---- items --------------------------------------------------------------------------------- */

/* The response's own letters, behind what the item is. */
static const char *item_id(const struct api_reply *r, enum api_block kind, int64_t index,
                           char id[ITEM_ID_BYTES])
{
    static const char *const prefix[] = {
        [API_BLOCK_THOUGHTS] = "rs", [API_BLOCK_TEXT] = "msg", [API_BLOCK_CALL] = "fc"};
    const char *own = strchr(r->id, '_');
    snprintf(id, ITEM_ID_BYTES, "%s_%s_%lld", prefix[kind], own ? own + 1 : r->id,
             (long long)index);
    return id;
}

/* Those of the text's tokens behind the first n bytes. */
static void put_logprobs(struct jout *j, const struct buf *all, size_t from)
{
    jout_key(j, "logprobs");
    jout_open(j, '[');
    buf_add(j->out, all->len > from ? all->data + from : "", all->len > from ? all->len - from : 0);
    jout_close(j, ']');
}

static void add_logprobs(struct api_reply *r, const struct api_choice *c)
{
    if (!c->n_logprob)
        return;
    if (r->logprobs.len)
        buf_char(&r->logprobs, ',');
    struct jout j = jout_on(&r->logprobs);
    api_logprobs_entries(&j, &r->vocab, c->logprob, c->n_logprob);
}

static void put_part(struct jout *j, const struct api_reply *r, enum api_block kind, const char *p,
                     size_t n)
{
    jout_open(j, '{');
    jout_put_str(j, "type", kind == API_BLOCK_THOUGHTS ? "reasoning_text" : "output_text");
    jout_put_bytes(j, "text", p, n);
    if (kind == API_BLOCK_TEXT) {
        jout_key(j, "annotations");
        jout_raw(j, "[]");
        put_logprobs(j, &r->logprobs, n ? 0 : r->logprobs.len);
    }
    jout_close(j, '}');
}

/* An item; p: its text, or a call's arguments; NULL: of one that has none yet. */
struct item {
    enum api_block kind;
    int64_t index;
    const char *status, *p;
    size_t n;
    const char *call_id, *name;
};

static void put_item(struct jout *j, const struct api_reply *r, const struct item *it)
{
    static const char *const type[] = {[API_BLOCK_THOUGHTS] = "reasoning",
                                       [API_BLOCK_TEXT] = "message",
                                       [API_BLOCK_CALL] = "function_call"};
    char id[ITEM_ID_BYTES];
    jout_open(j, '{');
    jout_put_str(j, "id", item_id(r, it->kind, it->index, id));
    jout_put_str(j, "type", type[it->kind]);
    jout_put_str(j, "status", it->status);
    if (it->kind == API_BLOCK_CALL) {
        jout_put_str(j, "call_id", it->call_id);
        jout_put_str(j, "name", it->name);
        jout_put_bytes(j, "arguments", it->p, it->n);
        jout_close(j, '}');
        return;
    }
    if (it->kind == API_BLOCK_TEXT) {
        jout_put_str(j, "role", "assistant");
    } else {
        jout_key(j, "summary");
        jout_raw(j, "[]");
    }
    jout_key(j, "content");
    jout_open(j, '[');
    if (it->p)
        put_part(j, r, it->kind, it->p, it->n);
    jout_close(j, ']');
    jout_close(j, '}');
}

/* ---- the response -------------------------------------------------------------------------- */

static void put_usage(struct jout *j, const struct api_usage *u)
{
    jout_open(j, '{');
    jout_put_int(j, "input_tokens", u->prompt);
    jout_key(j, "input_tokens_details");
    jout_open(j, '{');
    jout_put_int(j, "cached_tokens", u->cached);
    jout_put_int(j, "cache_write_tokens", 0);
    jout_close(j, '}');
    jout_put_int(j, "output_tokens", u->completion);
    jout_key(j, "output_tokens_details");
    jout_open(j, '{');
    jout_put_int(j, "reasoning_tokens", u->reasoning);
    jout_close(j, '}');
    jout_put_int(j, "total_tokens", u->prompt + u->completion);
    jout_close(j, '}');
}

static void put_repeats(struct jout *j, const struct api_request *q)
{
    for (size_t i = 0; i < API_ECHOES; i++) {
        const struct gen_text *x = &q->repeats[i];
        jout_key(j, api_echo_rows[i].name);
        if (x->p)
            jout_json(j, x->p, x->n);
        else
            jout_raw(j, api_echo_rows[i].otherwise);
    }
    jout_put_num(j, "temperature", q->gen.sample.temperature);
    jout_put_num(j, "top_p", q->gen.sample.top_p);
    jout_put_int(j, "top_logprobs", q->top_logprobs);
    jout_put_bool(j, "store", q->store == API_STORE);
    jout_put_bool(j, "background", false);
    jout_put_str(j, "service_tier", "default");
}

static void put_reason(struct jout *j, const char *status)
{
    jout_key(j, "incomplete_details");
    if (strcmp(status, "incomplete") != 0) {
        jout_null(j);
        return;
    }
    jout_open(j, '{');
    jout_put_str(j, "reason", "max_output_tokens");
    jout_close(j, '}');
}

static void put_error(struct jout *j, const struct api_error *e)
{
    jout_key(j, "error");
    if (!e) {
        jout_null(j);
        return;
    }
    jout_open(j, '{');
    jout_put_str(j, "code", "server_error");
    jout_put_str(j, "message", e->message);
    jout_close(j, '}');
}

/* Items: JSON with commas between. usage, e: NULL: none. */
static void put_response(struct jout *j, const struct api_reply *r, const char *status,
                         const struct buf *items, const struct api_usage *usage,
                         const struct api_error *e)
{
    bool is_over = usage != NULL;
    jout_open(j, '{');
    jout_put_str(j, "id", r->id);
    jout_put_str(j, "object", "response");
    jout_put_int(j, "created_at", r->created);
    jout_put_str(j, "status", status);
    jout_key(j, "completed_at");
    if (is_over && strcmp(status, "completed") == 0)
        jout_int(j, r->completed);
    else
        jout_null(j);
    put_error(j, e);
    put_reason(j, status);
    jout_put_str(j, "model", r->model);
    jout_key(j, "output");
    jout_open(j, '[');
    buf_add(j->out, items->len ? items->data : "", items->len);
    j->out->failed |=
        items->failed || r->text.failed || r->logprobs.failed; /* what has a hole is not told */
    jout_close(j, ']');
    put_repeats(j, r->q);
    jout_key(j, "usage");
    if (is_over)
        put_usage(j, usage);
    else
        jout_null(j);
    jout_close(j, '}');
}

static const char *status_of(const char *finish)
{
    return strcmp(finish, "length") == 0 ? "incomplete" : "completed";
}

/* ---- whole --------------------------------------------------------------------------------- */

static void keep_item(struct api_reply *r, const struct item *it)
{
    if (r->items.len)
        buf_char(&r->items, ',');
    struct jout j = jout_on(&r->items);
    put_item(&j, r, it);
}

/* Of an answer that was cut the last item is. */
static void write_whole(struct api_reply *r, const struct api_choice *c, size_t n,
                        const struct api_usage *usage, const struct api_times *times,
                        struct buf *out)
{
    (void)times;
    const char *status = status_of(c->finish);
    bool has_text = c->n_text || (!c->n_call && !c->n_thoughts);
    (void)n; /* a response is one choice */
    add_logprobs(r, c);
    if (c->n_thoughts)
        keep_item(r, &(struct item){.kind = API_BLOCK_THOUGHTS,
                                    .index = r->n_block++,
                                    .status = has_text || c->n_call ? "completed" : status,
                                    .p = c->thoughts,
                                    .n = c->n_thoughts});
    if (has_text)
        keep_item(r, &(struct item){.kind = API_BLOCK_TEXT,
                                    .index = r->n_block++,
                                    .status = c->n_call ? "completed" : status,
                                    .p = c->n_text ? c->text : "",
                                    .n = c->n_text});
    for (size_t i = 0; i < c->n_call; i++)
        keep_item(r, &(struct item){.kind = API_BLOCK_CALL,
                                    .index = r->n_block++,
                                    .status = "completed",
                                    .p = c->call[i].arguments,
                                    .n = c->call[i].n_arguments,
                                    .call_id = c->call[i].id,
                                    .name = c->call[i].name});
    r->finish = status;
    r->completed = (int64_t)time(NULL);
    struct jout j = jout_on(out);
    put_response(&j, r, status, &r->items, usage, NULL);
}

static void keep(struct api_reply *r, const struct api_usage *usage, struct buf *out)
{
    struct jout j = jout_on(out);
    put_response(&j, r, r->finish, &r->items, usage, NULL);
}

/* ---- events -------------------------------------------------------------------------------- */

static struct jout open_event(struct api_reply *r, const char *type, struct buf *out)
{
    struct jout j = api_event_open(out, type);
    jout_put_int(&j, "sequence_number", r->n_event++);
    return j;
}

static void put_state(struct api_reply *r, const char *type, const char *status,
                      const struct api_usage *usage, const struct api_error *e, struct buf *out)
{
    struct jout j = open_event(r, type, out);
    jout_key(&j, "response");
    put_response(&j, r, status, &r->items, usage, e);
    api_event_close(&j);
}

static void begin(struct api_reply *r, const struct api_usage *usage, struct buf *out)
{
    (void)usage;
    r->has_begun = true;
    put_state(r, "response.created", "in_progress", NULL, NULL, out);
    put_state(r, "response.in_progress", "in_progress", NULL, NULL, out);
}

static void put_place(struct jout *j, const struct api_reply *r, bool has_part)
{
    char id[ITEM_ID_BYTES];
    jout_put_str(j, "item_id", item_id(r, r->block, r->n_block - 1, id));
    jout_put_int(j, "output_index", r->n_block - 1);
    if (has_part)
        jout_put_int(j, "content_index", 0);
}

/* What is open, as far as it came. */
static struct item item_of(const struct api_reply *r, const char *status)
{
    return (struct item){.kind = r->block,
                         .index = r->n_block - 1,
                         .status = status,
                         .p = r->text.len ? r->text.data : "",
                         .n = r->text.len,
                         .call_id = r->call_id,
                         .name = r->call_name};
}

static void put_item_event(struct api_reply *r, const char *type, const struct item *it,
                           struct buf *out)
{
    struct jout j = open_event(r, type, out);
    jout_put_int(&j, "output_index", it->index);
    jout_key(&j, "item");
    put_item(&j, r, it);
    api_event_close(&j);
}

static void put_part_event(struct api_reply *r, const char *type, struct buf *out)
{
    struct jout j = open_event(r, type, out);
    put_place(&j, r, true);
    jout_key(&j, "part");
    put_part(&j, r, r->block, r->text.len ? r->text.data : "", r->text.len);
    api_event_close(&j);
}

static const char *const delta_of[] = {[API_BLOCK_THOUGHTS] = "response.reasoning_text.delta",
                                       [API_BLOCK_TEXT] = "response.output_text.delta",
                                       [API_BLOCK_CALL] = "response.function_call_arguments.delta"};
static const char *const done_of[] = {[API_BLOCK_THOUGHTS] = "response.reasoning_text.done",
                                      [API_BLOCK_TEXT] = "response.output_text.done",
                                      [API_BLOCK_CALL] = "response.function_call_arguments.done"};

/* More of what is open (key "delta"), or all of it ("text", "arguments"); with the
 * log-probabilities behind `from`. */
static void put_text_event(struct api_reply *r, const char *type, const char *key, const char *p,
                           size_t n, size_t from, struct buf *out)
{
    struct jout j = open_event(r, type, out);
    put_place(&j, r, r->block != API_BLOCK_CALL);
    jout_put_bytes(&j, key, p, n);
    if (r->block == API_BLOCK_TEXT)
        put_logprobs(&j, &r->logprobs, from);
    if (r->block == API_BLOCK_CALL && strcmp(key, "delta") != 0)
        jout_put_str(&j, "name", r->call_name);
    api_event_close(&j);
}

static void add(struct api_reply *r, const char *p, size_t n, struct buf *out)
{
    buf_add(&r->text, p, n);
    put_text_event(r, delta_of[r->block], "delta", p, n, r->n_logprobs_told, out);
    if (r->block == API_BLOCK_TEXT && r->logprobs.len)
        r->n_logprobs_told = r->logprobs.len + 1;
}

static void close_item(struct api_reply *r, const char *status, struct buf *out)
{
    if (r->block == API_BLOCK_NONE)
        return;
    bool is_call = r->block == API_BLOCK_CALL;
    if (r->block == API_BLOCK_TEXT && r->logprobs.len && r->n_logprobs_told <= r->logprobs.len)
        add(r, "", 0, out); /* tokens behind the last piece of text, which show none */
    const struct item it = item_of(r, status);
    put_text_event(r, done_of[r->block], is_call ? "arguments" : "text", it.p, it.n, 0, out);
    if (!is_call)
        put_part_event(r, "response.content_part.done", out);
    put_item_event(r, "response.output_item.done", &it, out);
    keep_item(r, &it);
    r->block = API_BLOCK_NONE;
}

static void open_item(struct api_reply *r, enum api_block kind, const struct api_call *call,
                      struct buf *out)
{
    close_item(r, "completed", out);
    buf_clear(&r->text);
    r->block = kind;
    r->n_block++;
    if (call) {
        snprintf(r->call_id, sizeof r->call_id, "%s", call->id);
        snprintf(r->call_name, sizeof r->call_name, "%s", call->name);
    }
    struct item it = item_of(r, "in_progress");
    it.p = call ? "" : NULL;
    put_item_event(r, "response.output_item.added", &it, out);
    if (!call)
        put_part_event(r, "response.content_part.added", out);
}

static void event(struct api_reply *r, const struct api_choice *c, const struct api_usage *usage,
                  struct buf *out)
{
    (void)usage;
    add_logprobs(r, c);
    if (c->n_thoughts && r->block != API_BLOCK_THOUGHTS)
        open_item(r, API_BLOCK_THOUGHTS, NULL, out);
    if (c->n_thoughts)
        add(r, c->thoughts, c->n_thoughts, out);
    if (c->n_text && r->block != API_BLOCK_TEXT)
        open_item(r, API_BLOCK_TEXT, NULL, out);
    if (c->n_text)
        add(r, c->text, c->n_text, out);
    for (size_t i = 0; i < c->n_call; i++) {
        if (c->call[i].id)
            open_item(r, API_BLOCK_CALL, &c->call[i], out);
        if (c->call[i].n_arguments)
            add(r, c->call[i].arguments, c->call[i].n_arguments, out);
    }
    if (!c->finish)
        return;
    r->finish = status_of(c->finish);
    if (!r->n_block)
        open_item(r, API_BLOCK_TEXT, NULL, out);
    close_item(r, r->finish, out);
}

static void end(struct api_reply *r, const struct api_usage *usage, const struct api_times *times,
                struct buf *out)
{
    bool is_whole = strcmp(r->finish, "completed") == 0;
    (void)times;
    r->completed = (int64_t)time(NULL);
    put_state(r, is_whole ? "response.completed" : "response.incomplete", r->finish, usage, NULL,
              out);
}

static void error(struct api_reply *r, const struct api_error *e, struct buf *out)
{
    if (r->has_begun) {
        put_state(r, "response.failed", "failed", NULL, e, out);
        return;
    }
    struct jout j = open_event(r, "error", out);
    jout_put_str(&j, "code", e->code);
    jout_put_str(&j, "message", e->message);
    jout_put_str(&j, "param", *e->param ? e->param : NULL);
    api_event_close(&j);
}

const struct api_face api_face_responses = {.prefix = "resp",
                                            .media = API_MEDIA_EVENTS,
                                            .write = write_whole,
                                            .begin = begin,
                                            .event = event,
                                            .end = end,
                                            .keep = keep,
                                            .error = error};
