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

/* Ollama's clients put :latest behind a name without a tag. False: the name goes without. */
static bool cut_latest(struct call *c, struct api_request *q)
{
    static const char latest[] = ":latest";
    size_t n = strlen(q->model), more = sizeof latest - 1;
    if (!(q->route & API_OLLAMA) || n <= more || strcmp(q->model + n - more, latest) != 0)
        return false;
    q->model = arena_strndup(call_arena(c), q->model, n - more);
    return true;
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
    at->is_cold = may_use && !at->adapter && engine_adapter_knows(at->engine, at->q.model);
    if (at->is_cold)
        return 0;
    if (!at->adapter && cut_latest(c, &at->q))
        return find_model(c, at, e);
    if (!at->adapter)
        return ops_no_model(c, at->engine, at->q.model, e);
    arena_defer(call_arena(c), release_adapter, at->adapter);
    return 0;
}

static int check_kind(const struct admitted *at, struct api_error *e)
{
    const struct engine_info *info = engine_info(at->engine);
    enum api_route route = at->q.route;
    const char *why = NULL;
    if ((route & API_VECTORS) && !info->embeds)
        why = info->n_label ? "This model labels texts: it has /v1/classify, and where it has one "
                              "label /v1/rerank and /v1/score, but no vectors."
                            : "This model generates text and was not made for embeddings.";
    if (route == API_CLASSIFY && !info->n_label)
        why = "This model was not made to label texts.";
    if ((route & API_PAIRS) && info->generates)
        why = "This model generates text: it scores no pairs.";
    if ((route & API_PAIRS) && info->n_label > 1)
        why = "This model has several labels, and so no one score of a pair: it has /v1/classify.";
    if ((route & API_TEXTS) && !info->generates)
        why = info->n_label ? "This model labels texts: it has /v1/classify, and where it has one "
                              "label /v1/rerank and /v1/score."
                            : "This model is an encoder: it has /v1/embeddings, and by its "
                              "vectors /v1/rerank and /v1/score.";
    return why ? api_fail(e, 400, "unsupported_model", "model", "%s", why) : 0;
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
        limits.keeps = true;
        limits.recall = keeper->recall;
        limits.recall_ctx = keeper->recall_ctx;
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
