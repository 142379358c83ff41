/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/adapters, DELETE /v1/adapters/{name}, and vLLM's /v1/load_lora_adapter and
 * /v1/unload_lora_adapter. Loading reads a disk and so is background work, which holds a reference
 * to the call; a client that leaves does not undo it. A name that is loaded already gets a new
 * version: requests in flight end on the one they began with. What a key loads is its own, unless
 * it says `shared`. Dropping waits for a load that is under way, and so is work of the same lane.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "api/request.h"
#include "engine/base/background.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/engine.h"
#include "server/answer/ops.h"
#include "server/answer/prompt.h"
#include "server/http/limit.h"
#include "server/http/route.h"
#include "server/server.h"

enum { BODY_BYTES_MAX = 4096, WAIT_US = 30 * 1000 * 1000, AGAIN_US = 5000 };

struct change;

/* The fields by their names, and how it is told that it was done: ours, and vLLM's. */
struct form {
    enum api_route route;
    const char *name, *path; /* path NULL: it drops */
    const char *done;        /* for the log */
    void (*tell)(struct call *c, const struct change *l);
};

/* A load, or a drop. In the call's arena. */
struct change {
    const struct form *form;
    struct call *call;     /* borrowed; counted by the work */
    struct engine *engine; /* borrowed */
    const char *name;
    char dir[ADAPTER_FOLDER_BYTES];
    int fd;           /* owned: of the folder; -1: none */
    int64_t until_us; /* it waits so long for a place */
    struct err err;
    bool is_shared;
    atomic_bool is_done;
};

static void log_why(const struct call *c, const char *name, const struct err *why)
{
    const struct call_request *r = call_request(c);
    log_event(LOG_WARN, "adapter refused", LOG_TEXT("id", r->id), LOG_TEXT("key", r->who->name),
              LOG_TEXT("name", name), LOG_TEXT("why", why->msg));
}

/* Here and not where it is answered: the client may be gone by then. */
static void log_end(const struct change *l)
{
    const struct call_request *r = call_request(l->call);
    if (l->err.code)
        log_why(l->call, l->name, &l->err);
    else
        log_event(LOG_INFO, l->form->done, LOG_TEXT("id", r->id), LOG_TEXT("key", r->who->name),
                  LOG_TEXT("name", l->name));
}

static void end(struct change *l)
{
    log_end(l);
    if (l->fd >= 0)
        close(l->fd);
    atomic_store(&l->is_done, true);
    call_wake(l->call);
    call_unref(l->call);
}

static int64_t load(void *ctx)
{
    struct change *l = ctx;
    const char *owner = call_request(l->call)->who->name;
    const struct limit_rule *rule = call_request(l->call)->who->rule;
    l->err = (struct err)ERR_INIT;
    if (engine_adapter_load_for(l->engine, l->name, l->dir, owner, l->is_shared,
                                rule ? rule->adapters : 0, &l->err)) {
        if (l->err.code == ERR_BUSY && clock_us() < l->until_us)
            return clock_us() + AGAIN_US; /* others load and drop meanwhile */
        adapter_folder_hide(l->dir, &l->err);
    }
    end(l);
    return BACKGROUND_DONE;
}

static int64_t let_go(void *ctx)
{
    struct change *l = ctx;
    const char *who = call_request(l->call)->who->name;
    if (engine_adapter_drop_for(l->engine, l->name, who, &l->err) &&
        l->err.code == ERR_UNSUPPORTED) /* without room for any there is none */
        l->err.code = ERR_NOT_FOUND;
    end(l);
    return BACKGROUND_DONE;
}

static void stop(void *ctx)
{
    struct change *l = ctx;
    err_set(&l->err, ERR_BUSY, "the server is stopping");
    end(l);
}

/* The files are the client's to mend, unless the machine is at fault. */
static void refuse(struct call *c, const struct err *why, const struct form *form)
{
    struct api_error e;
    if (!form->path)
        api_fail_err(&e, why, form->name);
    else if (why->code == ERR_EXISTS)
        api_fail(&e, 409, "name_taken", form->name, "The name is taken; choose another one.");
    else if (why->code == ERR_NO_SPACE)
        api_fail(&e, 429, "adapters_limit", NULL, "%s", why->msg);
    else if (why->code == ERR_CORRUPT || why->code == ERR_NOT_FOUND || why->code == ERR_TOO_LARGE)
        api_fail(&e, 400, "invalid_adapter", form->path, "%s", why->msg);
    else
        api_fail_err(&e, why, form->path);
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

static void tell_loaded(struct call *c, const struct change *l)
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
    ops_reply(c, &body);
}

static void say(struct call *c, const char *name, const char *what)
{
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    buf_printf(&body, "Success: LoRA adapter '%s' %s successfully.", name, what);
    call_reply(c, 200, "text/plain; charset=utf-8", &body);
}

static void tell_lora(struct call *c, const struct change *l)
{
    say(c, l->name, "added");
}

static const struct form own_form = {API_ADAPTER, "name", "path", "adapter loaded", tell_loaded};
static const struct form lora_form = {API_LORA_LOAD, "lora_name", "lora_path", "adapter loaded",
                                      tell_lora};

static void step(struct call *c, void *ctx)
{
    const struct change *l = ctx;
    if (!atomic_load(&l->is_done))
        return;
    if (l->err.code) {
        refuse(c, &l->err, l->form);
        return;
    }
    l->form->tell(c, l);
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static void give(struct change *l, int64_t (*run)(void *ctx))
{
    struct call *c = l->call;
    const struct who *who = call_request(c)->who;
    const struct background_task task = {
        .run = run, .drop = stop, .ctx = l, .tenant = who->tenant, .weight = who->weight};
    call_wait(c, &(struct call_later){.step = step, .gone = nothing, .done = nothing, .ctx = l});
    call_ref(c);
    if (background_give(server_work(call_server(c)), SERVER_LOADS, &task, &l->err))
        end(l);
}

static int begin(struct call *c, struct engine *g, const struct api_request *q,
                 const struct form *form, struct err *e)
{
    struct change *l = ARENA_NEW(call_arena(c), struct change);
    *l = (struct change){
        .form = form, .call = c, .engine = g, .name = q->adapter_name, .is_shared = q->is_shared};
    l->until_us = clock_us() + WAIT_US;
    l->fd = adapter_folder_open(server_adapter_root(call_server(c)),
                                q->path ? q->path : q->adapter_name, l->dir, e);
    if (l->fd < 0)
        return -1;
    give(l, load);
    return 0;
}

/* vLLM's name is loaded once, unless the request wants it loaded over. */
static bool is_there(struct call *c, struct engine *g, const struct api_request *q)
{
    struct engine_adapter_info info;
    return q->route == API_LORA_LOAD && !q->loads_over &&
           engine_adapter_may_use(g, q->adapter_name, call_request(c)->who->name) &&
           find(c, g, q->adapter_name, &info);
}

/* The body, where it is good and something may be loaded. */
static int read_body(struct call *c, struct engine *g, const struct form *form,
                     struct api_request *q, struct api_error *e)
{
    const struct call_request *r = call_request(c);
    const struct api_limits limits = prompt_limits(g);
    if (api_request_parse(form->route, r->body ? r->body : "", r->n_body, &limits, call_arena(c), q,
                          e))
        return -1;
    if (!server_adapter_root(call_server(c)))
        return api_fail(e, 403, "adapters_not_allowed", NULL,
                        "Adapters cannot be loaded over HTTP: the server was started without "
                        "--adapter-root.");
    if (strcmp(q->adapter_name, engine_info(g)->name) == 0)
        return api_fail(e, 400, "invalid_value", form->name, "'%s' is the name of the base.",
                        form->name);
    if (is_there(c, g, q))
        return api_fail(e, 400, "invalid_value", form->name,
                        "An adapter of this name is loaded already; 'load_inplace' loads another "
                        "one over it.");
    return 0;
}

static void load_form(struct call *c, const struct form *form)
{
    struct engine *g = ops_engine(c);
    struct api_request q;
    struct api_error e;
    struct err why = ERR_INIT;
    if (!g)
        return;
    if (read_body(c, g, form, &q, &e)) {
        call_error(c, &e);
        return;
    }
    if (q.ignored)
        call_set_header(c, "x-tandem-ignored", q.ignored);
    if (begin(c, g, &q, form, &why)) {
        log_why(c, q.adapter_name, &why);
        refuse(c, &why, form);
    }
}

void route_adapter_load(struct call *c)
{
    load_form(c, &own_form);
}

void route_lora_load(struct call *c)
{
    load_form(c, &lora_form);
}

/* ---- and let go ---------------------------------------------------------------------------- */

static void tell_dropped(struct call *c, const struct change *l)
{
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_str(&j, "id", l->name);
    jout_put_str(&j, "object", "adapter");
    jout_put_bool(&j, "deleted", true);
    jout_close(&j, '}');
    ops_reply(c, &body);
}

static void tell_unloaded(struct call *c, const struct change *l)
{
    say(c, l->name, "removed");
}

static const struct form own_drop = {
    .name = "name", .done = "adapter dropped", .tell = tell_dropped};
static const struct form lora_drop = {API_LORA_UNLOAD, "lora_name", NULL, "adapter dropped",
                                      tell_unloaded};

static void begin_drop(struct call *c, struct engine *g, const char *name, const struct form *form)
{
    struct change *l = ARENA_NEW(call_arena(c), struct change);
    *l = (struct change){.form = form, .call = c, .engine = g, .name = name, .fd = -1};
    give(l, let_go);
}

void route_adapter_drop(struct call *c)
{
    struct engine *g = ops_engine(c);
    if (g)
        begin_drop(c, g, call_request(c)->param, &own_drop);
}

void route_lora_unload(struct call *c)
{
    struct engine *g = ops_engine(c);
    const struct call_request *r = call_request(c);
    struct api_request q;
    struct api_error e;
    if (!g)
        return;
    const struct api_limits limits = prompt_limits(g);
    if (api_request_parse(API_LORA_UNLOAD, r->body ? r->body : "", r->n_body, &limits,
                          call_arena(c), &q, &e)) {
        call_error(c, &e);
        return;
    }
    if (q.ignored)
        call_set_header(c, "x-tandem-ignored", q.ignored);
    begin_drop(c, g, q.adapter_name, &lora_drop);
}
