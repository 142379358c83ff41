/* SPDX-License-Identifier: Apache-2.0
 *
 * A face: how a route that generates tells what came. All of them are given the same choices and
 * the same usage by one loop (server/answer/tell.c), and differ in the bytes that they make of it.
 *
 * Thread: as api/reply.h.
 */
#ifndef API_FACE_H
#define API_FACE_H

#include "api/reply.h"

struct api_face {
    const char *prefix;   /* of an answer's id */
    const char *media;    /* the type of a stream */
    const char *ping;     /* what breaks a stream's silence; NULL: a comment */
    bool has_whole_calls; /* a stream tells a call once it is whole, name and arguments at once */
    /* The whole answer. times: NULL: not known. */
    void (*write)(struct api_reply *r, const struct api_choice *choice, size_t n,
                  const struct api_usage *usage, const struct api_times *times, struct buf *out);
    /* Events: before the first choice (NULL: none), of what is new of a choice, behind the last. */
    void (*begin)(struct api_reply *r, const struct api_usage *usage, struct buf *out);
    void (*event)(struct api_reply *r, const struct api_choice *choice,
                  const struct api_usage *usage, struct buf *out);
    void (*end)(struct api_reply *r, const struct api_usage *usage, const struct api_times *times,
                struct buf *out); /* times: NULL: not known */
    /* The whole answer once more, to be kept; NULL: none is. */
    void (*keep)(struct api_reply *r, const struct api_usage *usage, struct buf *out);
    /* Instead of what was to come; r may not have begun. */
    void (*error)(struct api_reply *r, const struct api_error *e, struct buf *out);
};

const struct api_face *api_face(enum api_route route);

/* The same of vectors: what stands before them, each, what stands behind them. */
struct api_vectors_face {
    void (*begin)(struct jout *j);
    void (*write)(struct jout *j, int64_t index, const float *v, size_t n, bool as_base64);
    void (*end)(struct jout *j, const char *model, const struct api_usage *usage, int64_t took_us);
};

const struct api_vectors_face *api_vectors_face(enum api_route route);

/* reply_messages.c, reply_responses.c, reply_ollama.c, reply_infill.c */
extern const struct api_face api_face_messages, api_face_responses, api_face_ollama,
    api_face_infill;
extern const struct api_vectors_face api_vectors_ollama, api_vectors_ollama_one;

#define API_MEDIA_EVENTS "text/event-stream"

/* How a name begins an event whose data is an object of that type; what follows are its members. */
struct jout api_event_open(struct buf *out, const char *type);
void api_event_close(struct jout *j);

#endif
