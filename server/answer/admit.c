/* SPDX-License-Identifier: Apache-2.0
 *
 * What every request to the engine goes through before it has a shape of its own.
 */
#include <string.h>

#include "api/error.h"
#include "engine/base/map.h"
#include "server/answer/generate.h"
#include "server/answer/keeping.h"
#include "server/answer/ops.h"
#include "server/answer/prompt.h"
#include "server/server.h"

static void release_adapter(void *a)
{
    adapter_unref(a);
}

/* The base's name, an adapter's, or none: the base. */
static int find_model(struct call *c, struct admitted *at, struct api_error *e)
{
    const char *base = engine_info(at->engine)->name;
    if (!at->q.model || strcmp(at->q.model, base) == 0) {
        at->q.model = base;
        return 0;
    }
    bool may_use = engine_adapter_may_use(at->engine, at->q.model, call_request(c)->who->name);
    at->adapter = may_use ? engine_adapter_get(at->engine, at->q.model) : NULL;
    if (!at->adapter)
        return ops_no_model(c, at->engine, at->q.model, e);
    arena_defer(call_arena(c), release_adapter, at->adapter);
    return 0;
}

static int check_kind(const struct admitted *at, struct api_error *e)
{
    const struct engine_info *info = engine_info(at->engine);
    if (at->q.route == API_EMBEDDINGS && !info->embeds)
        return api_fail(e, 400, "unsupported_model", "model",
                        "This model generates text and was not made for embeddings.");
    if ((at->q.route & API_TEXTS) && !info->generates)
        return api_fail(e, 400, "unsupported_model", "model",
                        "This model is an encoder: it has /v1/embeddings alone.");
    return 0;
}

static int admit(struct call *c, enum api_route route, const struct keeper *keeper,
                 struct admitted *at, struct api_error *e)
{
    const struct call_request *r = call_request(c);
    *at = (struct admitted){.engine = server_engine(call_server(c))};
    if (!at->engine) {
        api_fail(e, 503, "loading", NULL, "The model is still being loaded.");
        e->retry_after_s = 1;
        return -1;
    }
    struct api_limits limits = prompt_limits(at->engine);
    if (keeper) {
        limits.recall = keeper->recall;
        limits.recall_ctx = keeper->ctx;
    }
    if (api_request_parse(route, r->body ? r->body : "", r->n_body, &limits, call_arena(c), &at->q,
                          e))
        return -1;
    return find_model(c, at, e) || check_kind(at, e) ? -1 : 0;
}

bool generate_admit_kept(struct call *c, enum api_route route, const struct keeper *keeper,
                         struct admitted *out)
{
    struct api_error e;
    if (!admit(c, route, keeper, out, &e))
        return true;
    call_error(c, &e);
    return false;
}

bool generate_admit(struct call *c, enum api_route route, struct admitted *out)
{
    return generate_admit_kept(c, route, NULL, out);
}

uint64_t generate_salt(struct call *c, const struct api_request *q)
{
    uint64_t salt = call_request(c)->who->salt;
    if (!q->cache_salt)
        return salt;
    char *both = arena_printf(call_arena(c), "%016llx %s", (unsigned long long)salt, q->cache_salt);
    return map_hash(both, strlen(both));
}

static void wake(void *c)
{
    call_wake(c);
}

static void let_go(void *c)
{
    call_unref(c);
}

struct gen_notify generate_notify(struct call *c, bool every_token)
{
    return (struct gen_notify){.fn = wake, .done = let_go, .ctx = c, .every_token = every_token};
}
