/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of /v1/messages: Anthropic's messages, whose content is blocks. In a stream a block is
 * open at a time: thoughts, then words, then calls, each from its start to its stop.
 *
 * input_tokens are those of the prompt that no prefix had; what had them is known when the prompt
 * has run, so message_start counts all of them, and message_delta says it right.
 */
#include <string.h>

#include "api/face.h"

/* ---- what both forms share ----------------------------------------------------------------- */

static void put_usage(struct jout *j, const struct api_usage *u)
{
    jout_key(j, "usage");
    jout_open(j, '{');
    jout_put_int(j, "input_tokens", u->prompt - u->cached);
    jout_put_int(j, "cache_creation_input_tokens", 0);
    jout_put_int(j, "cache_read_input_tokens", u->cached);
    jout_put_int(j, "output_tokens", u->completion);
    jout_close(j, '}');
}

/* NULL where it goes on. */
static const char *reason(const struct api_choice *c)
{
    return !c->finish                             ? NULL
           : strcmp(c->finish, "length") == 0     ? "max_tokens"
           : strcmp(c->finish, "tool_calls") == 0 ? "tool_use"
           : c->stop                              ? "stop_sequence"
                                                  : "end_turn";
}

static void put_stop(struct jout *j, const char *word, const struct gen_text *stop)
{
    jout_put_str(j, "stop_reason", word);
    jout_key(j, "stop_sequence");
    if (stop && strcmp(word, "stop_sequence") == 0)
        jout_bytes(j, stop->p, stop->n);
    else
        jout_null(j);
}

static void open_message(struct jout *j, const struct api_reply *r)
{
    jout_put_str(j, "id", r->id);
    jout_put_str(j, "type", "message");
    jout_put_str(j, "role", "assistant");
    jout_put_str(j, "model", r->model);
    jout_key(j, "content");
    jout_open(j, '[');
}

static void open_block(struct jout *j, const char *type)
{
    jout_open(j, '{');
    jout_put_str(j, "type", type);
}

static void put_thoughts(struct jout *j, const char *p, size_t n)
{
    open_block(j, "thinking");
    jout_put_bytes(j, "thinking", p, n);
    jout_put_str(j, "signature", "");
    jout_close(j, '}');
}

static void put_text(struct jout *j, const char *p, size_t n)
{
    open_block(j, "text");
    jout_put_bytes(j, "text", p, n);
    jout_close(j, '}');
}

/* Its arguments are JSON already; an event that begins one has none yet. */
static void put_call(struct jout *j, const struct api_call *c, const char *arguments, size_t n)
{
    open_block(j, "tool_use");
    jout_put_str(j, "id", c->id);
    jout_put_str(j, "name", c->name);
    jout_key(j, "input");
    jout_json(j, arguments, n);
    jout_close(j, '}');
}

/* ---- whole --------------------------------------------------------------------------------- */

static void write_whole(struct api_reply *r, const struct api_choice *c, size_t n,
                        const struct api_usage *usage, const struct api_times *times,
                        struct buf *out)
{
    (void)times;
    struct jout j = jout_on(out);
    (void)n; /* a message is one choice */
    jout_open(&j, '{');
    open_message(&j, r);
    if (c->n_thoughts)
        put_thoughts(&j, c->thoughts, c->n_thoughts);
    if (c->n_text)
        put_text(&j, c->text, c->n_text);
    for (size_t i = 0; i < c->n_call; i++)
        put_call(&j, &c->call[i], c->call[i].arguments, c->call[i].n_arguments);
    jout_close(&j, ']');
    put_stop(&j, reason(c), c->stop);
    put_usage(&j, usage);
    jout_close(&j, '}');
}

/* ---- events -------------------------------------------------------------------------------- */

static void begin(struct api_reply *r, const struct api_usage *usage, struct buf *out)
{
    struct jout j = api_event_open(out, "message_start");
    jout_key(&j, "message");
    jout_open(&j, '{');
    open_message(&j, r);
    jout_close(&j, ']');
    jout_put_null(&j, "stop_reason");
    jout_put_null(&j, "stop_sequence");
    put_usage(&j, usage);
    jout_close(&j, '}');
    api_event_close(&j);
    buf_str(out, api_face_messages.ping);
}

static void stop_block(struct api_reply *r, struct buf *out)
{
    if (r->block == API_BLOCK_NONE)
        return;
    struct jout j = api_event_open(out, "content_block_stop");
    jout_put_int(&j, "index", r->n_block - 1);
    api_event_close(&j);
}

/* Begins a block, which `call` is where it is one. */
static void start_block(struct api_reply *r, enum api_block block, const struct api_call *call,
                        struct buf *out)
{
    stop_block(r, out);
    struct jout j = api_event_open(out, "content_block_start");
    jout_put_int(&j, "index", r->n_block++);
    jout_key(&j, "content_block");
    if (block == API_BLOCK_THOUGHTS)
        put_thoughts(&j, "", 0);
    else if (block == API_BLOCK_TEXT)
        put_text(&j, "", 0);
    else
        put_call(&j, call, "{}", 2);
    api_event_close(&j);
    r->block = block;
}

static void add(const struct api_reply *r, const char *type, const char *key, const char *p,
                size_t n, struct buf *out)
{
    struct jout j = api_event_open(out, "content_block_delta");
    jout_put_int(&j, "index", r->n_block - 1);
    jout_key(&j, "delta");
    open_block(&j, type);
    jout_put_bytes(&j, key, p, n);
    jout_close(&j, '}');
    api_event_close(&j);
}

static void event(struct api_reply *r, const struct api_choice *c, const struct api_usage *usage,
                  struct buf *out)
{
    (void)usage;
    if (c->n_thoughts && r->block != API_BLOCK_THOUGHTS)
        start_block(r, API_BLOCK_THOUGHTS, NULL, out);
    if (c->n_thoughts)
        add(r, "thinking_delta", "thinking", c->thoughts, c->n_thoughts, out);
    if (c->n_text && r->block != API_BLOCK_TEXT)
        start_block(r, API_BLOCK_TEXT, NULL, out);
    if (c->n_text)
        add(r, "text_delta", "text", c->text, c->n_text, out);
    for (size_t i = 0; i < c->n_call; i++) {
        if (c->call[i].id)
            start_block(r, API_BLOCK_CALL, &c->call[i], out);
        if (c->call[i].n_arguments)
            add(r, "input_json_delta", "partial_json", c->call[i].arguments, c->call[i].n_arguments,
                out);
    }
    if (c->finish) {
        stop_block(r, out);
        r->finish = reason(c);
        r->stop = c->stop;
    }
}

static void end(struct api_reply *r, const struct api_usage *usage, const struct api_times *times,
                struct buf *out)
{
    (void)times;
    struct jout j = api_event_open(out, "message_delta");
    jout_key(&j, "delta");
    jout_open(&j, '{');
    put_stop(&j, r->finish, r->stop);
    jout_close(&j, '}');
    put_usage(&j, usage);
    api_event_close(&j);
    j = api_event_open(out, "message_stop");
    api_event_close(&j);
}

static void error(struct api_reply *r, const struct api_error *e, struct buf *out)
{
    (void)r;
    buf_str(out, "event: error\ndata: ");
    api_error_write(e, API_ERROR_MESSAGES, out);
    buf_str(out, "\n\n");
}

const struct api_face api_face_messages = {.prefix = "msg",
                                           .media = API_MEDIA_EVENTS,
                                           .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                           .write = write_whole,
                                           .begin = begin,
                                           .event = event,
                                           .end = end,
                                           .error = error};
