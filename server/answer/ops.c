/* SPDX-License-Identifier: Apache-2.0
 *
 * What the routes of ops.h share.
 */
#include "server/answer/ops.h"

#include "engine/engine.h"
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

int ops_no_model(struct call *c, struct engine *g, const char *name, struct api_error *e)
{
    struct err why;
    if (!engine_adapter_may_use(g, name, call_request(c)->who->name) ||
        !engine_adapter_why(g, name, &why))
        return api_fail(e, 404, "model_not_found", "model",
                        "No model of this name is served here; GET /v1/models lists them.");
    if (why.code == ERR_UNSUPPORTED)
        return api_fail(e, 400, "base_mismatch", "model", "%s", why.msg);
    api_fail(e, 500, "model_altered", "model", "%s", why.msg);
    e->no_retry = true;
    return -1;
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
