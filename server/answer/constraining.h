/* SPDX-License-Identifier: Apache-2.0
 *
 * The constraint of a generation, compiled before it is submitted. One that was compiled already is
 * there at once; else that is background work, and the call is woken when it is done. Work whose
 * client has left meanwhile is not begun.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_CONSTRAINING_H
#define SERVER_ANSWER_CONSTRAINING_H

#include <stdatomic.h>

#include "api/error.h"
#include "engine/engine.h"
#include "server/http/call.h"

struct constraining {
    const struct constraint *ask; /* borrowed; NULL: none */
    struct masks *masks;          /* counted; the work's until it is done; NULL: any text will do */
    struct engine *engine;        /* borrowed */
    struct call *call;            /* borrowed; the work holds a reference */
    uint64_t tenant;
    struct err err;
    _Atomic bool is_pending, is_left;
};

/* *waits: the call will be woken. */
int constraining_begin(struct constraining *t, struct call *c, struct engine *g,
                       const struct constraint *ask, bool *waits, struct api_error *e);
void constraining_release(struct constraining *t);

bool constraining_is_done(struct constraining *t);
int constraining_check(const struct constraining *t, struct api_error *e); /* once it is done */
void constraining_leave(struct constraining *t); /* nobody will ask any more */

#endif
