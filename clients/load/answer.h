/* SPDX-License-Identifier: Apache-2.0
 *
 * What a completion's body says, as its bytes come: events of a stream (text/event-stream), or one
 * JSON object. Of all that is said there, load needs little: that a token came, why it ended, the
 * counts of usage, an error. A line of a stream, or a whole JSON body, has a ceiling.
 *
 * An event that carries text counts as a token that came, and so does one of a completion that is
 * still running and shows no text yet (half a character). A server may put several tokens into one
 * event; how many there were says `usage`.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOAD_ANSWER_H
#define CLIENTS_LOAD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

enum { LOAD_ANSWER_BYTES_MAX = 32 << 20, LOAD_ANSWER_FAULT_BYTES = 160 };

struct load_answer {
    bool is_stream;
    struct buf text;         /* of a stream the line that is not whole yet, else the body */
    int64_t n_event;         /* of a stream: events that carried a token */
    int64_t tok_in, tok_out; /* of usage; -1: it was not said */
    bool is_finished;        /* a finish_reason came, or the whole object */
    bool is_over;            /* [DONE] came */
    bool is_bad;             /* not what the API says, or over the ceiling */
    bool has_error;          /* an error object came */
    char fault[LOAD_ANSWER_FAULT_BYTES];
};

void load_answer_init(struct load_answer *a);
void load_answer_release(struct load_answer *a);
void load_answer_clear(struct load_answer *a, bool is_stream);

/* Bytes of the body; returns how many tokens' events ended in them. */
int load_answer_feed(struct load_answer *a, const char *p, size_t n);

/* The body is whole. */
void load_answer_done(struct load_answer *a);

#endif
