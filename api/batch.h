/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches: files of requests that are answered when there is time. A batch as the store has it and
 * clients see it; the lines of its file; the lines of its answers.
 *
 * Thread: any.
 */
#ifndef API_BATCH_H
#define API_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/error.h"
#include "api/jout.h"
#include "engine/base/arena.h"

#define BATCH_STATES(X)                                                                            \
    X(VALIDATING, "validating")                                                                    \
    X(IN_PROGRESS, "in_progress")                                                                  \
    X(FINALIZING, "finalizing")                                                                    \
    X(COMPLETED, "completed")                                                                      \
    X(FAILED, "failed")                                                                            \
    X(EXPIRED, "expired")                                                                          \
    X(CANCELLING, "cancelling")                                                                    \
    X(CANCELLED, "cancelled")

enum batch_state {
#define STATE(name, text) BATCH_##name,
    BATCH_STATES(STATE)
#undef STATE
        BATCH_STATE_COUNT
};

/* States that are followed by others, as bits 1 << state. */
enum {
    BATCH_OPEN = 1 << BATCH_VALIDATING | 1 << BATCH_IN_PROGRESS | 1 << BATCH_FINALIZING |
                 1 << BATCH_CANCELLING
};

/* Tokens, as the answers tell them. */
struct batch_usage {
    int64_t in, cached, out, thoughts;
};

struct batch {
    const char *id, *owner, *endpoint, *input_file;
    const char *model;    /* that all of its requests name; NULL: not known, or several */
    const char *metadata; /* JSON of an object; NULL */
    const char *errors;   /* JSON of an array; NULL: none */
    const char *output_file, *error_file; /* NULL: not there */
    enum batch_state state;
    int64_t at[BATCH_STATE_COUNT]; /* when it came to each state; 0: not; the first: its creation */
    int64_t expires, keep_s;       /* its files: seconds from their creation; 0: for ever */
    int64_t n_line, n_good, n_bad; /* requests: all; answered; answered with an error */
    struct batch_usage usage;
};

/* The body of a creation: endpoint, input file, metadata and keep_s; the texts lie in the arena. */
int batch_ask_parse(const char *body, size_t n, struct arena *a, struct batch *out,
                    const char **ignored, struct api_error *e);
void batch_write(struct jout *j, const struct batch *b);

/* ---- lines of the input ---------------------------------------------------------------------- */

struct batch_line {
    const char *custom_id;
    const char *model; /* of its body; NULL: it names none */
    const char *body;  /* JSON of an object */
    size_t n_body;
};
/* -1: what is wrong with it, in the error's code, param and message. */
int batch_line_parse(const char *text, size_t n, const char *endpoint, struct arena *a,
                     struct batch_line *out, struct api_error *e);

/* One thing of batch.errors. */
void batch_error_write(struct jout *j, int64_t line, const struct api_error *e);

/* ---- lines of the answers -------------------------------------------------------------------- */

/* Each is one line, without its end. body: JSON. */
void batch_answer_write(struct buf *out, const char *id, const char *custom_id, int status,
                        const char *request_id, const char *body, size_t n_body);

/* Of a request that was not answered: code and message say why. */
void batch_missed_write(struct buf *out, const char *id, const char *custom_id, const char *code,
                        const char *message);

/* Adds what a line of an answer says of its tokens. -1: it is no such line. */
int batch_usage_add(const char *line, size_t n, struct batch_usage *u);

#endif
