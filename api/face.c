/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of chat and completions, and which route has which. Those of other shapes have files of
 * their own.
 */
#include "api/face.h"

static void write_whole(struct api_reply *r, const struct api_choice *choice, size_t n,
                        const struct api_usage *usage, const struct api_times *times,
                        struct buf *out)
{
    (void)times;
    api_reply_write(r, choice, n, usage, out);
}

static void event(struct api_reply *r, const struct api_choice *choice,
                  const struct api_usage *usage, struct buf *out)
{
    api_event_choice(r, choice,
                     r->q->sends_usage_always ? API_USAGE_GIVEN
                     : r->q->sends_usage      ? API_USAGE_NULL
                                              : API_USAGE_ABSENT,
                     usage, out);
}

static void end(struct api_reply *r, const struct api_usage *usage, const struct api_times *times,
                struct buf *out)
{
    if (r->q->sends_usage)
        api_event_usage(r, usage, times, out);
    api_event_done(out);
}

static void error(struct api_reply *r, const struct api_error *e, struct buf *out)
{
    (void)r;
    api_event_error(e, out);
}

static const struct api_face face_chat = {.prefix = "chatcmpl",
                                          .media = API_MEDIA_EVENTS,
                                          .write = write_whole,
                                          .event = event,
                                          .end = end,
                                          .error = error};
static const struct api_face face_completions = {.prefix = "cmpl",
                                                 .media = API_MEDIA_EVENTS,
                                                 .write = write_whole,
                                                 .event = event,
                                                 .end = end,
                                                 .error = error};

const struct api_face *api_face(enum api_route route)
{
    return route == API_MESSAGES      ? &api_face_messages
           : route == API_RESPONSES   ? &api_face_responses
           : route & API_OLLAMA       ? &api_face_ollama
           : route == API_INFILL      ? &api_face_infill
           : route == API_COMPLETIONS ? &face_completions
                                      : &face_chat;
}

static void end_vectors(struct jout *j, const char *model, const struct api_usage *usage,
                        int64_t took_us)
{
    (void)took_us;
    api_vectors_end(j, model, usage);
}

static const struct api_vectors_face vectors = {
    .begin = api_vectors_begin, .write = api_vector_write, .end = end_vectors};

const struct api_vectors_face *api_vectors_face(enum api_route route)
{
    return route == API_OLLAMA_EMBED    ? &api_vectors_ollama
           : route == API_OLLAMA_VECTOR ? &api_vectors_ollama_one
                                        : &vectors;
}

struct jout api_event_open(struct buf *out, const char *type)
{
    buf_printf(out, "event: %s\ndata: ", type);
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "type", type);
    return j;
}

void api_event_close(struct jout *j)
{
    jout_close(j, '}');
    buf_str(j->out, "\n\n");
}
