/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/adapters, DELETE /v1/adapters/{name}. Loading reads a disk and so is background
 * work, which holds a reference to the call; a client that leaves does not undo it. A name that
 * is loaded already gets a new version: requests in flight end on the one they began with. What a
 * key loads is its own, unless it says `shared`.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "api/request.h"
#include "engine/base/background.h"
#include "engine/base/log.h"
#include "engine/engine.h"
#include "server/answer/ops.h"
#include "server/answer/prompt.h"
#include "server/http/limit.h"
#include "server/http/route.h"
#include "server/server.h"

enum { BODY_BYTES_MAX = 4096 };

/* In the call's arena. */
struct loading {
    struct call *call;     /* borrowed; counted by the work */
    struct engine *engine; /* borrowed */
    const char *name;
    char dir[ADAPTER_FOLDER_BYTES];
    int fd;
    struct err err;
    bool is_shared;
    atomic_bool is_done;
};

static void end(struct loading *l)
{
    close(l->fd);
    atomic_store(&l->is_done, true);
    call_wake(l->call);
    call_unref(l->call);
}

static int64_t load(void *ctx)
{
    struct loading *l = ctx;
    const char *owner = call_request(l->call)->who->name;
    const struct limit_rule *rule = call_request(l->call)->who->rule;
    if (engine_adapter_load_for(l->engine, l->name, l->dir, owner, l->is_shared,
                                rule ? rule->adapters : 0, &l->err))
        adapter_folder_hide(l->dir, &l->err);
    end(l);
    return BACKGROUND_DONE;
}

static void drop(void *ctx)
{
    struct loading *l = ctx;
    err_set(&l->err, ERR_BUSY, "the server is stopping");
    end(l);
}

/* The files are the client's to mend, unless the machine is at fault. */
static void refuse(struct call *c, const struct err *why, const char *param)
{
    struct api_error e;
    if (why->code == ERR_EXISTS)
        api_fail(&e, 409, "name_taken", "name", "The name is taken; choose another one.");
    else if (why->code == ERR_NO_SPACE)
        api_fail(&e, 429, "adapters_limit", NULL, "%s", why->msg);
    else if (why->code == ERR_CORRUPT || why->code == ERR_NOT_FOUND || why->code == ERR_TOO_LARGE)
        api_fail(&e, 400, "invalid_adapter", param, "%s", why->msg);
    else
        api_fail_err(&e, why, param);
    log_event(LOG_WARN, "adapter refused", LOG_TEXT("why", why->msg));
    call_error(c, &e);
}

static bool find(struct call *c, struct engine *g, const char *name,
                 struct engine_adapter_info *out)
{
    size_t cap = engine_adapters(g, NULL, 0) + 16;
    struct engine_adapter_info *at = ARENA_ARRAY(call_arena(c), struct engine_adapter_info, cap);
    size_t n = engine_adapters(g, at, cap);
    for (size_t i = 0; i < n && i < cap; i++) {
        if (strcmp(at[i].name, name) == 0) {
            *out = at[i];
            return true;
        }
    }
    return false;
}

static void loaded(struct call *c, const struct loading *l)
{
    struct engine_adapter_info info = {.rank = 0};
    struct buf body;
    find(c, l->engine, l->name, &info); /* dropped meanwhile: it was loaded all the same */
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_str(&j, "id", l->name);
    jout_put_str(&j, "object", "adapter");
    jout_put_int(&j, "created", info.created);
    jout_put_str(&j, "base", engine_info(l->engine)->name);
    jout_put_int(&j, "rank", info.rank);
    jout_put_int(&j, "version", (int64_t)info.version);
    jout_close(&j, '}');
    log_event(LOG_INFO, "adapter loaded", LOG_TEXT("name", l->name));
    ops_reply(c, &body);
}

static void step(struct call *c, void *ctx)
{
    const struct loading *l = ctx;
    if (!atomic_load(&l->is_done))
        return;
    if (l->err.code)
        refuse(c, &l->err, "path");
    else
        loaded(c, l);
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static int begin(struct call *c, struct engine *g, const struct api_request *q, struct err *e)
{
    struct loading *l = ARENA_NEW(call_arena(c), struct loading);
    *l = (struct loading){
        .call = c, .engine = g, .name = q->adapter_name, .is_shared = q->is_shared};
    l->fd = adapter_folder_open(server_adapter_root(call_server(c)),
                                q->path ? q->path : q->adapter_name, l->dir, e);
    if (l->fd < 0)
        return -1;
    const struct background_task task = {.run = load, .drop = drop, .ctx = l};
    call_wait(c, &(struct call_later){.step = step, .gone = nothing, .done = nothing, .ctx = l});
    call_ref(c);
    if (background_give(server_work(call_server(c)), SERVER_LOADS, &task, &l->err))
        end(l);
    return 0;
}

void route_adapter_load(struct call *c)
{
    struct engine *g = ops_engine(c);
    const struct call_request *r = call_request(c);
    struct api_request q;
    struct api_error e;
    struct err why = ERR_INIT;
    if (!g)
        return;
    const struct api_limits limits = prompt_limits(g);
    if (api_request_parse(API_ADAPTER, r->body ? r->body : "", r->n_body, &limits, call_arena(c),
                          &q, &e)) {
        call_error(c, &e);
    } else if (!server_adapter_root(call_server(c))) {
        api_fail(&e, 403, "adapters_not_allowed", NULL,
                 "Adapters cannot be loaded over HTTP: the server was started without "
                 "--adapter-root.");
        call_error(c, &e);
    } else if (strcmp(q.adapter_name, engine_info(g)->name) == 0) {
        api_fail(&e, 400, "invalid_value", "name", "'name' is the name of the base.");
        call_error(c, &e);
    } else if (begin(c, g, &q, &why)) {
        refuse(c, &why, "path");
    }
}

void route_adapter_drop(struct call *c)
{
    struct engine *g = ops_engine(c);
    const char *name = call_request(c)->param;
    struct err why = ERR_INIT;
    struct api_error e;
    if (!g)
        return;
    if (!engine_adapter_may_change(g, name, call_request(c)->who->name)
            ? err_set(&why, ERR_NOT_FOUND, "no adapter has the name %.100s", name)
            : engine_adapter_drop(g, name, &why)) {
        if (why.code == ERR_UNSUPPORTED) /* without room for any there is none */
            why.code = ERR_NOT_FOUND;
        api_fail_err(&e, &why, "name");
        call_error(c, &e);
        return;
    }
    engine_adapter_disown(g, name);
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_str(&j, "id", name);
    jout_put_str(&j, "object", "adapter");
    jout_put_bool(&j, "deleted", true);
    jout_close(&j, '}');
    log_event(LOG_INFO, "adapter dropped", LOG_TEXT("name", name));
    ops_reply(c, &body);
}
