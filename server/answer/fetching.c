/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane of its own: adapters that clients load by name do not wait behind those that wait for a
 * place. Keys take turns there, by weight; who finds no place free keeps its turn.
 */
#include "server/answer/fetching.h"

#include "engine/base/background.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/answer/ops.h"
#include "server/server.h"

enum { AGAIN_US = 5000 };

static void end(struct fetching *t)
{
    struct call *c = t->call;
    atomic_store(&t->is_pending, false);
    call_wake(c);
    call_unref(c);
}

static void release(void *ctx)
{
    struct fetching *t = ctx;
    adapter_unref(t->adapter);
}

/* The same time for all who wait for a place: then the lane's order says who has it. */
static int64_t next_us(void)
{
    return (clock_us() / AGAIN_US + 1) * AGAIN_US;
}

static int64_t run(void *ctx)
{
    struct fetching *t = ctx;
    struct err why = ERR_INIT;
    if (atomic_load(&t->is_left))
        err_set(&why, ERR_BUSY, "the client has left");
    else if (engine_adapter_fetch(t->engine, t->name, &t->adapter, &why) && why.code == ERR_BUSY)
        return next_us();
    if (why.code && why.code != ERR_BUSY)
        log_event(LOG_ERROR, "an adapter cannot be read", LOG_TEXT("name", t->name),
                  LOG_TEXT("why", why.msg));
    t->err = why;
    end(t);
    return BACKGROUND_DONE;
}

static void drop(void *ctx)
{
    struct fetching *t = ctx;
    err_set(&t->err, ERR_BUSY, "the server is being stopped");
    end(t);
}

int fetching_begin(struct fetching *t, struct call *c, struct engine *g, const char *name,
                   struct api_error *e)
{
    struct err why = ERR_INIT;
    const struct who *who = call_request(c)->who;
    const struct background_task task = {.run = run,
                                         .drop = drop,
                                         .ctx = t,
                                         .tenant = who->tenant,
                                         .weight = who->weight,
                                         .keeps_turn = true};
    t->call = c;
    t->engine = g;
    t->name = name;
    arena_defer(call_arena(c), release, t);
    atomic_store(&t->is_pending, true);
    call_ref(c);
    if (!background_give(server_work(call_server(c)), SERVER_FETCHES, &task, &why))
        return 0;
    atomic_store(&t->is_pending, false);
    call_unref(c);
    return api_fail_err(e, &why, "model");
}

bool fetching_is_done(struct fetching *t)
{
    return !atomic_load(&t->is_pending);
}

int fetching_check(const struct fetching *t, struct api_error *e)
{
    if (!t->err.code)
        return 0;
    if (t->err.code == ERR_CORRUPT || t->err.code == ERR_NOT_FOUND ||
        t->err.code == ERR_UNSUPPORTED)
        return ops_no_model(t->call, t->engine, t->name, e);
    if (t->err.code != ERR_TOO_LARGE)
        return api_fail_err(e, &t->err, "model");
    api_fail(e, 503, "adapters_full", "model",
             "The server has no place for this model now: %.300s.", t->err.msg);
    e->retry_after_s = 1;
    return -1;
}

void fetching_leave(struct fetching *t)
{
    atomic_store(&t->is_left, true);
}
