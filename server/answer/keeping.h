/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that are kept, and what came before them: a route that keeps hands a keeper to its
 * generation. Keeping waits for a disk, so it is work of the lane that does; the end of an answer
 * is told when it is kept, so who has read it can ask for it.
 *
 * Thread: the HTTP thread that has the call; `keep` the lane's.
 */
#ifndef SERVER_ANSWER_KEEPING_H
#define SERVER_ANSWER_KEEPING_H

#include <stdatomic.h>

#include "api/request.h"
#include "engine/base/buf.h"
#include "server/http/call.h"

struct kept {
    const char *id, *previous;    /* previous: NULL: none */
    const char *input, *body;     /* JSON */
    const char *model, *metadata; /* metadata: JSON; NULL: none */
};

struct keeper {
    api_recall_fn *recall; /* may wait for a disk; NULL: nothing is gone on from */
    void *recall_ctx;      /* borrowed, as ctx */
    int (*keep)(void *ctx, const struct kept *what, struct err *e);
    void *ctx; /* borrowed: lives as long as the call */
};

struct keeping {
    const struct keeper *keeper; /* borrowed; NULL: nothing is kept */
    struct call *call;           /* borrowed; the work holds a reference */
    struct kept what;            /* borrowed */
    struct buf body;             /* owned */
    struct err err;
    bool is_begun;
    _Atomic bool is_pending;
};

/* What t->body holds is kept. The call will be woken, unless it fails at once. */
int keeping_begin(struct keeping *t, struct call *c, const struct api_request *q, const char *id,
                  struct err *e);
bool keeping_is_done(struct keeping *t);
void keeping_release(struct keeping *t);

#endif
