/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of chat and completions, whole or as events of a stream. One struct says what a choice
 * holds; the two routes differ in where it is written. An event costs its own bytes: what all
 * events of a stream share is rendered once.
 *
 * Memory: everything is borrowed but `opening`.
 * Thread: one at a time.
 */
#ifndef API_REPLY_H
#define API_REPLY_H

#include "api/logprobs.h"
#include "api/request.h"

struct api_usage {
    int64_t prompt, completion, cached; /* tokens; cached: of the prompt */
    int64_t reasoning;                  /* of the answer: its thoughts */
    int64_t accepted,
        rejected; /* tokens that were guessed: of the answer; not of it, nor counted */
};

/* What an answer took, as the engine noted it: how a connection delivers it has no part in that. */
struct api_times {
    int64_t queue_us, prompt_us, decode_us; /* until it began; to the first token; to the last */
};

/* What of a stream in blocks is open. */
enum api_block { API_BLOCK_NONE, API_BLOCK_THOUGHTS, API_BLOCK_TEXT, API_BLOCK_CALL };

struct api_reply {
    enum api_route route;
    const struct api_request *q; /* borrowed; api_reply_write does without */
    const char *id, *model;
    int64_t created; /* seconds since 1970 */
    struct api_vocab vocab;
    struct buf opening; /* owned: how each event begins */
    /* of a stream in blocks (api/face.h) */
    enum api_block block;
    int64_t n_block, n_event; /* that were begun; that were numbered */
    struct buf items, text;   /* owned: of a response, its items as JSON; what the open one has */
    struct buf logprobs;      /* owned: of its text's tokens, as JSON with commas between */
    size_t n_logprobs_told;   /* bytes, with the comma behind */
    char call_id[40], call_name[TOOL_NAME_MAX + 1]; /* of the open one */
    bool has_begun;
    int64_t completed;           /* seconds since 1970; 0: not yet */
    const char *finish;          /* why it ended, in the face's words */
    const struct gen_text *stop; /* the text that ended it, or NULL */
};

/* A call of a tool; in an event a piece of one: its id and name, or more of its arguments. */
struct api_call {
    int64_t index;
    const char *id, *name; /* NULL: an event that adds arguments */
    const char *arguments; /* not terminated */
    size_t n_arguments;
};

struct api_choice {
    int64_t index;
    const char *text; /* not terminated */
    size_t n_text;
    const char *thoughts; /* chats: reasoning_content; not terminated */
    size_t n_thoughts;
    const struct api_call *call; /* chats */
    size_t n_call;
    bool is_first;                     /* of its choice in a stream */
    const char *finish;                /* NULL: it goes on */
    int32_t stop_id;                   /* the token asked for that ended it, or -1 */
    const struct gen_text *stop;       /* the text that ended it, or NULL */
    const struct api_logprob *logprob; /* NULL: not wanted */
    size_t n_logprob;
    const int32_t *id; /* its tokens; NULL: not wanted */
    size_t n_id;
    const int32_t *prompt_id; /* NULL: not wanted */
    size_t n_prompt_id;
    const struct api_logprob *prompt; /* vLLM's prompt_logprobs; NULL: not wanted */
    size_t n_prompt;
};

/* Moves nothing; `id` and `model` must outlive it. */
void api_reply_init(struct api_reply *r, enum api_route route, const char *id, const char *model,
                    int64_t created, struct api_vocab vocab);
void api_reply_release(struct api_reply *r);

/* The whole answer. */
void api_reply_write(const struct api_reply *r, const struct api_choice *choice, size_t n,
                     const struct api_usage *usage, struct buf *out);

enum api_usage_form { API_USAGE_ABSENT, API_USAGE_NULL, API_USAGE_GIVEN };

/* Events. */
void api_event_choice(const struct api_reply *r, const struct api_choice *c,
                      enum api_usage_form form, const struct api_usage *usage, struct buf *out);
void api_event_usage(const struct api_reply *r, const struct api_usage *usage,
                     const struct api_times *times, struct buf *out); /* times: NULL: not known */
void api_event_error(const struct api_error *e, struct buf *out);
void api_event_done(struct buf *out);

/* The answer of embeddings, a vector after another. */
void api_vectors_begin(struct jout *j);
void api_vector_write(struct jout *j, int64_t index, const float *v, size_t n, bool as_base64);
void api_vectors_end(struct jout *j, const char *model, const struct api_usage *usage);

#endif
