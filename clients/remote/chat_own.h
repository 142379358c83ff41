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

/* Each token of the last answer, how likely it was, and what else might have stood there. */
int chat_why(const struct chat *c, struct err *e);

#endif
