/* SPDX-License-Identifier: Apache-2.0
 *
 * Grammars are compiled on a thread of low priority: where there is not CPU for both, texts under
 * way go first.
 */
#include "server/answer/constraining.h"

#include <sys/resource.h>

#include "engine/base/background.h"
#include "server/server.h"

enum { NICE = 10 };

static void end(struct constraining *t)
{
    struct call *c = t->call;
    atomic_store(&t->is_pending, false);
    call_wake(c);
    call_unref(c);
}

/* On Linux a thread has a priority of its own; those of this lane compile and nothing else. */
static int64_t run(void *ctx)
{
    struct constraining *t = ctx;
    setpriority(PRIO_PROCESS, 0, NICE);
    if (atomic_load(&t->is_left))
        err_set(&t->err, ERR_BUSY, "the client has left");
    else
        t->masks = engine_constraint(t->engine, t->ask, t->tenant, &t->err);
    end(t);
    return BACKGROUND_DONE;
}

static void drop(void *ctx)
{
    struct constraining *t = ctx;
    err_set(&t->err, ERR_BUSY, "the server is being stopped");
    end(t);
}

int constraining_begin(struct constraining *t, struct call *c, struct engine *g,
                       const struct constraint *ask, bool *waits, struct api_error *e)
{
    struct err why = ERR_INIT;
    const struct who *who = call_request(c)->who;
    const struct background_task task = {.run = run,
                                         .drop = drop,
                                         .ctx = t,
                                         .bytes = ask->text.n,
                                         .tenant = who->tenant,
                                         .weight = who->weight};
    *waits = false;
    if (ask->kind == CONSTRAINT_NONE)
        return 0;
    t->ask = ask;
    t->engine = g;
    t->call = c;
    t->tenant = who->salt;
    t->masks = engine_constraint_find(g, ask, t->tenant);
    if (t->masks)
        return 0;
    atomic_store(&t->is_pending, true);
    call_ref(c);
    if (background_give(server_work(call_server(c)), SERVER_CONSTRAINTS, &task, &why)) {
        atomic_store(&t->is_pending, false);
        call_unref(c);
        return api_fail_err(e, &why, ask->field);
    }
    *waits = true;
    return 0;
}

void constraining_release(struct constraining *t)
{
    masks_unref(t->masks);
    t->masks = NULL;
}

bool constraining_is_done(struct constraining *t)
{
    return !atomic_load(&t->is_pending);
}

int constraining_check(const struct constraining *t, struct api_error *e)
{
    if (!t->err.code)
        return 0;
    if (t->err.code == ERR_BUSY || t->err.code == ERR_NO_MEMORY)
        return api_fail_err(e, &t->err, t->ask->field);
    return api_fail(e, 400, t->err.code == ERR_UNSUPPORTED ? "unsupported_value" : "invalid_value",
                    t->ask->field, "'%s': %.400s", t->ask->field, t->err.msg);
}

void constraining_leave(struct constraining *t)
{
    atomic_store(&t->is_left, true);
}
