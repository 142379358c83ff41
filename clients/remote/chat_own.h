/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of `tandem chat` share: the talk.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_CHAT_OWN_H
#define CLIENTS_REMOTE_CHAT_OWN_H

#include "clients/remote/markdown.h"
#include "clients/remote/remote.h"
#include "clients/remote/term.h"

enum { CHAT_TOP = 5 }; /* likeliest tokens that are asked for at each place */

struct chat {
    const struct opt *o;
    struct peer *peer;
    struct term term;
    const char *system; /* borrowed: what /clear begins with; NULL */
    char *model;        /* owned */
    json_t *messages;   /* owned */
    json_t *sampling;   /* owned: fields of requests that say how answers are drawn */
    json_t *tokens;     /* owned: of the last answer, as `logprobs.content` has them */
    json_t *tools;      /* owned: that the model is told of */
    json_t *calls;      /* owned: of the last answer, as a message has them */
    size_t n_result;    /* so many of them have their results */
    struct buf answer;
    struct markdown styles; /* of the answer, as it is shown */
    const char *finish;     /* "length", or what else ended it early; NULL */
    bool is_talk;           /* with a person, who sees faults and goes on */
};

void chat_add(struct chat *c, const char *role, const char *text, size_t n);

/* Anew, with this told first. */
void chat_begin(struct chat *c, const char *system);

/* What the command line says of how answers are drawn. */
void chat_sample(struct chat *c, const struct opt *o);

/* A line that begins with a slash. */
int chat_obey(struct chat *c, const char *line, bool *is_over, struct err *e);

/* Tells the model of the tools in a file, or with "off" of none; "" lists them. */
int chat_tools(struct chat *c, const char *path, struct err *e);

void chat_calls_add(struct chat *c, const json_t *pieces); /* of a streamed answer */
const json_t *chat_call(const struct chat *c);             /* that awaits its result; NULL */
void chat_calls_show(const struct chat *c);
void chat_result(struct chat *c, const char *text); /* of that call */

/* Each token of the last answer, how likely it was, and what else might have stood there. */
int chat_why(const struct chat *c, struct err *e);

#endif
