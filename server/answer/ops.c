/* SPDX-License-Identifier: Apache-2.0
 *
 * What the routes of ops.h share.
 */
#include "server/answer/ops.h"

#include "engine/engine.h"
#include "server/server.h"

enum { ADAPTERS_MORE = 16 };

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

/* A few that come meanwhile have room. */
size_t ops_adapters(struct call *c, struct engine *g, struct engine_adapter_info **at)
{
    size_t cap = engine_adapters(g, NULL, 0) + ADAPTERS_MORE, n_mine = 0;
    *at = ARENA_ARRAY(call_arena(c), struct engine_adapter_info, cap);
    size_t n = engine_adapters(g, *at, cap);
    for (size_t i = 0; i < n && i < cap; i++)
        if (engine_adapter_may_use(g, (*at)[i].name, call_request(c)->who->name))
            (*at)[n_mine++] = (*at)[i];
    return n_mine;
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
