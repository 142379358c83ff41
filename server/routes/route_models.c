/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/models, GET /v1/models/{id}: the base and its adapters, in OpenAI's form with what vLLM
 * adds to it. `root` is a name, not a path: where files lie is nobody's business.
 */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/engine.h"
#include "server/answer/ops.h"
#include "server/http/route.h"

enum { BODY_BYTES_MAX = 4 << 20 };

static void put_model(struct jout *j, const struct engine_info *base, const char *id,
                      int64_t created, bool is_shared)
{
    jout_open(j, '{');
    jout_put_str(j, "id", id);
    jout_put_str(j, "object", "model");
    jout_put_int(j, "created", created);
    jout_put_str(j, "owned_by", "tandem");
    jout_put_bool(j, "shared", is_shared);
    jout_put_str(j, "root", base->name);
    jout_put_str(j, "parent", id == base->name ? NULL : base->name);
    jout_put_int(j, "max_model_len", base->ctx);
    jout_put_str(j, "fingerprint", base->fingerprint);
    jout_close(j, '}');
}

/* Nobody's name may use what is the operator's, or shared. */
static bool is_everybodys(struct engine *g, const char *name)
{
    return engine_adapter_may_use(g, name, "");
}

void route_models(struct call *c)
{
    struct engine *g = ops_engine(c);
    if (!g)
        return;
    struct engine_adapter_info *at;
    size_t n = ops_adapters(c, g, &at);
    const struct engine_info *base = engine_info(g);
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_str(&j, "object", "list");
    jout_key(&j, "data");
    jout_open(&j, '[');
    put_model(&j, base, base->name, base->created, true);
    for (size_t i = 0; i < n; i++)
        put_model(&j, base, at[i].name, at[i].created, is_everybodys(g, at[i].name));
    jout_close(&j, ']');
    jout_close(&j, '}');
    ops_reply(c, &body);
}

static bool write_one(struct call *c, struct engine *g, const char *id, struct jout *j)
{
    const struct engine_info *base = engine_info(g);
    if (strcmp(id, base->name) == 0) {
        put_model(j, base, base->name, base->created, true);
        return true;
    }
    struct engine_adapter_info *at;
    size_t n = ops_adapters(c, g, &at);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(id, at[i].name) != 0)
            continue;
        put_model(j, base, at[i].name, at[i].created, is_everybodys(g, at[i].name));
        return true;
    }
    return false;
}

void route_model(struct call *c)
{
    struct engine *g = ops_engine(c);
    if (!g)
        return;
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    if (write_one(c, g, call_request(c)->param, &j)) {
        ops_reply(c, &body);
        return;
    }
    struct api_error e;
    buf_release(&body);
    ops_no_model(c, g, call_request(c)->param, &e);
    call_error(c, &e);
}

/* Where llama.cpp's clients ask. */
void route_plain_models(struct call *c)
{
    route_models(c);
}
