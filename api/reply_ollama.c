/* SPDX-License-Identifier: Apache-2.0
 *
 * The faces of Ollama's /api/chat and /api/generate: a stream is lines of JSON, of which the last
 * says how it ended and what it took. A line of a call has all of its arguments, as an object.
 *
 * Durations are the engine's own, in nanoseconds; what Ollama takes to load a model is here the
 * time in the queue.
 */
#include <string.h>

#include "api/face.h"
#include "engine/base/clock.h"

static const char *reason(const char *finish)
{
    return strcmp(finish, "length") == 0 ? "length" : "stop";
}

static void open_line(struct jout *j, const struct api_reply *r)
{
    char at[CLOCK_TEXT_BYTES];
    jout_open(j, '{');
    jout_put_str(j, "model", r->model);
    jout_put_str(j, "created_at", clock_text(r->created * 1000000, at));
}

/* As the model wrote them, on one line: no string of JSON holds a line's end. */
static void put_arguments(struct jout *j, const char *p, size_t n)
{
    size_t at = j->out->len;
    jout_json(j, p, n);
    for (; at < j->out->len; at++)
        if (j->out->data[at] == '\n' || j->out->data[at] == '\r')
            j->out->data[at] = ' ';
}

static void put_call(struct jout *j, const struct api_call *c)
{
    jout_open(j, '{');
    jout_put_str(j, "id", c->id);
    jout_key(j, "function");
    jout_open(j, '{');
    jout_put_int(j, "index", c->index);
    jout_put_str(j, "name", c->name);
    jout_key(j, "arguments");
    put_arguments(j, c->arguments, c->n_arguments);
    jout_close(j, '}');
    jout_close(j, '}');
}

static void put_message(struct jout *j, const struct api_choice *c)
{
    jout_key(j, "message");
    jout_open(j, '{');
    jout_put_str(j, "role", "assistant");
    jout_put_bytes(j, "content", c->n_text ? c->text : "", c->n_text);
    if (c->n_thoughts)
        jout_put_bytes(j, "thinking", c->thoughts, c->n_thoughts);
    if (c->n_call) {
        jout_key(j, "tool_calls");
        jout_open(j, '[');
        for (size_t i = 0; i < c->n_call; i++)
            put_call(j, &c->call[i]);
        jout_close(j, ']');
    }
    jout_close(j, '}');
}

static void put_words(struct jout *j, const struct api_reply *r, const struct api_choice *c)
{
    if (r->route == API_OLLAMA_CHAT) {
        put_message(j, c);
        return;
    }
    jout_put_bytes(j, "response", c->n_text ? c->text : "", c->n_text);
    if (c->n_thoughts)
        jout_put_bytes(j, "thinking", c->thoughts, c->n_thoughts);
}

static void put_end(struct jout *j, const char *word, const struct api_usage *u,
                    const struct api_times *times)
{
    const struct api_times t = times ? *times : (struct api_times){.queue_us = 0};
    jout_put_bool(j, "done", true);
    jout_put_str(j, "done_reason", word);
    jout_put_int(j, "total_duration", (t.queue_us + t.prompt_us + t.decode_us) * 1000);
    jout_put_int(j, "load_duration", t.queue_us * 1000);
    jout_put_int(j, "prompt_eval_count", u->prompt);
    jout_put_int(j, "prompt_eval_duration", t.prompt_us * 1000);
    jout_put_int(j, "eval_count", u->completion);
    jout_put_int(j, "eval_duration", t.decode_us * 1000);
}

/* Nothing was asked where there is no choice: the model is loaded, which is all that was wanted. */
static void write_whole(struct api_reply *r, const struct api_choice *choice, size_t n,
                        const struct api_usage *usage, const struct api_times *times,
                        struct buf *out)
{
    static const struct api_choice nothing = {.finish = NULL};
    struct jout j = jout_on(out);
    open_line(&j, r);
    put_words(&j, r, n ? choice : &nothing);
    put_end(&j, n ? reason(choice->finish) : "load", usage, times);
    jout_close(&j, '}');
}

/* ---- lines --------------------------------------------------------------------------------- */

static void begin(struct api_reply *r, const struct api_usage *usage, struct buf *out)
{
    (void)usage;
    (void)out;
    buf_clear(&r->opening);
    struct jout j = jout_on(&r->opening);
    open_line(&j, r);
}

static struct jout begin_line(const struct api_reply *r, struct buf *out)
{
    buf_add(out, r->opening.data, r->opening.len);
    return (struct jout){.out = out, .is_behind = true};
}

static void end_line(struct jout *j)
{
    jout_close(j, '}');
    buf_char(j->out, '\n');
}

static void event(struct api_reply *r, const struct api_choice *c, const struct api_usage *usage,
                  struct buf *out)
{
    (void)usage;
    if (c->n_text || c->n_thoughts || c->n_call) {
        struct jout j = begin_line(r, out);
        put_words(&j, r, c);
        jout_put_bool(&j, "done", false);
        end_line(&j);
    }
    if (c->finish)
        r->finish = reason(c->finish);
}

static void end(struct api_reply *r, const struct api_usage *usage, const struct api_times *times,
                struct buf *out)
{
    static const struct api_choice nothing = {.finish = NULL};
    struct jout j = begin_line(r, out);
    put_words(&j, r, &nothing);
    put_end(&j, r->finish, usage, times);
    end_line(&j);
}

static void error(struct api_reply *r, const struct api_error *e, struct buf *out)
{
    (void)r;
    api_error_write(e, API_ERROR_OLLAMA, out);
    buf_char(out, '\n');
}

const struct api_face api_face_ollama = {.prefix = "ollama",
                                         .media = "application/x-ndjson",
                                         .has_whole_calls = true,
                                         .write = write_whole,
                                         .begin = begin,
                                         .event = event,
                                         .end = end,
                                         .error = error};

/* ---- vectors ------------------------------------------------------------------------------- */

static void begin_vectors(struct jout *j)
{
    jout_open(j, '{');
    jout_key(j, "embeddings");
    jout_open(j, '[');
}

static void begin_vector(struct jout *j)
{
    jout_open(j, '{');
    jout_key(j, "embedding");
}

static void write_vector(struct jout *j, int64_t index, const float *v, size_t n, bool as_base64)
{
    (void)index;
    (void)as_base64; /* no field asks for it */
    jout_open(j, '[');
    for (size_t i = 0; i < n; i++)
        jout_float(j, v[i]);
    jout_close(j, ']');
}

static void end_vectors(struct jout *j, const char *model, const struct api_usage *usage,
                        int64_t took_us)
{
    jout_close(j, ']');
    jout_put_str(j, "model", model);
    jout_put_int(j, "total_duration", took_us * 1000);
    jout_put_int(j, "load_duration", 0);
    jout_put_int(j, "prompt_eval_count", usage->prompt);
    jout_close(j, '}');
}

static void end_vector(struct jout *j, const char *model, const struct api_usage *usage,
                       int64_t took_us)
{
    (void)model;
    (void)usage;
    (void)took_us;
    jout_close(j, '}');
}

const struct api_vectors_face api_vectors_ollama = {
    .begin = begin_vectors, .write = write_vector, .end = end_vectors};
const struct api_vectors_face api_vectors_ollama_one = {
    .begin = begin_vector, .write = write_vector, .end = end_vector};
