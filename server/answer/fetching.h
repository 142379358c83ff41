/* SPDX-License-Identifier: Apache-2.0
 *
 * An adapter that is known and not loaded now: it is read as background work while its call waits.
 * Where all places are in use it waits for one, behind whoever has them, as long as the request may
 * take.
 *
 * Thread: the HTTP thread that has the call, but for fetching_begin, which its handler calls.
 */
#ifndef SERVER_ANSWER_FETCHING_H
#define SERVER_ANSWER_FETCHING_H

#include <stdatomic.h>

#include "api/error.h"
#include "engine/engine.h"
#include "server/http/call.h"

struct fetching {
    struct call *call;     /* borrowed; counted while it is pending */
    struct engine *engine; /* borrowed */
    const char *name;
    struct adapter *adapter; /* counted; NULL: not there yet, or none */
    struct err err;
    atomic_bool is_pending, is_left;
};

/* The adapter is let go with the call. -1: it cannot be waited for. */
int fetching_begin(struct fetching *t, struct call *c, struct engine *g, const char *name,
                   struct api_error *e);
bool fetching_is_done(struct fetching *t); /* true where nothing was fetched */
int fetching_check(const struct fetching *t, struct api_error *e); /* once it is done */
void fetching_leave(struct fetching *t);                           /* nobody waits any more */

#endif
