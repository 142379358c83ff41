/* SPDX-License-Identifier: Apache-2.0
 *
 * What the routes of ops.h share.
 */
#include "server/answer/ops.h"

#include "server/server.h"

struct engine *ops_engine(struct call *c)
{
    struct engine *g = server_engine(call_server(c));
    if (g)
        return g;
    struct api_error e;
    api_fail(&e, 503, "loading", NULL, "The model is still being loaded.");
    e.retry_after_s = 1;
    call_error(c, &e);
    return NULL;
}

void ops_reply(struct call *c, struct buf *body)
{
    struct err why = ERR_INIT;
    struct api_error e;
    if (!buf_check(body, "the answer", &why)) {
        call_reply(c, 200, "application/json", body);
        return;
    }
    buf_release(body);
    api_fail_err(&e, &why, NULL);
    call_error(c, &e);
}
