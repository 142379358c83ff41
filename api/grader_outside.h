/* SPDX-License-Identifier: Apache-2.0
 *
 * What graders ask of others: a model, somebody's program behind an address, a program in Python.
 * What is asked and what the answer means stands in api/; how it gets there is for who runs
 * graders.
 *
 * Thread: any; ask is called by several at once.
 */
#ifndef API_GRADER_OUTSIDE_H
#define API_GRADER_OUTSIDE_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/buf.h"

enum grader_place {
    GRADER_MODEL_HERE, /* the body of a chat request, of the owner's */
    GRADER_URL,        /* a body to be posted */
    GRADER_PYTHON      /* {"source", "sample", "item"} */
};

struct grader_header {
    const char *name, *value;
};

struct grader_question {
    enum grader_place to;
    const char *url; /* of GRADER_URL */
    const struct grader_header *header;
    size_t n_header;
    const char *owner; /* who asks */
    const char *body;  /* JSON */
    size_t n_body;
    const atomic_bool *ends; /* true: nobody waits for it any more; NULL: never */
    int64_t until_us;        /* clock_us, of a whole run; 0: the question's own time alone */
};

struct grader_outside {
    /* Waits. -1: there is no answer, and why: ERR_BUSY, where it was not wanted any more; ERR_IO,
     * where the server could not ask. */
    int (*ask)(void *ctx, const struct grader_question *q, struct buf *out, struct err *e);
    /* Whether such a thing may be asked here; url: of GRADER_URL, of a model too. */
    int (*allows)(void *ctx, enum grader_place to, const char *url, struct err *e);
    void *ctx;
    const char *owner;
    const atomic_bool *ends;
    int64_t timeout_us; /* of one question */
    int64_t until_us;   /* as the question's */
};

#endif
