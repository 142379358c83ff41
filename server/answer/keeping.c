/* SPDX-License-Identifier: Apache-2.0
 *
 * One task of the lane that waits for disks, for each answer that is kept.
 */
#include "server/answer/keeping.h"

#include "engine/base/background.h"
#include "server/server.h"

static void end(struct keeping *t)
{
    struct call *c = t->call;
    atomic_store(&t->is_pending, false);
    call_wake(c);
    call_unref(c);
}

static int64_t run(void *ctx)
{
    struct keeping *t = ctx;
    t->keeper->keep(t->keeper->ctx, &t->what, &t->err);
    end(t);
    return BACKGROUND_DONE;
}

static void drop(void *ctx)
{
    struct keeping *t = ctx;
    err_set(&t->err, ERR_BUSY, "The server is being stopped.");
    end(t);
}

int keeping_begin(struct keeping *t, struct call *c, const struct api_request *q, const char *id,
                  struct err *e)
{
    const struct who *who = call_request(c)->who;
    const struct background_task task = {
        .run = run, .drop = drop, .ctx = t, .tenant = who->tenant, .weight = who->weight};
    t->is_begun = true;
    if (buf_char(&t->body, 0) || buf_check(&t->body, "the answer", e))
        return -1;
    t->call = c;
    t->what = (struct kept){.id = id,
                            .previous = q->previous,
                            .input = q->input_json.p,
                            .body = t->body.data,
                            .model = q->model,
                            .metadata = q->metadata};
    atomic_store(&t->is_pending, true);
    call_ref(c);
    if (!background_give(server_work(call_server(c)), SERVER_DESK, &task, e))
        return 0;
    atomic_store(&t->is_pending, false);
    call_unref(c);
    return -1;
}

bool keeping_is_done(struct keeping *t)
{
    return !atomic_load(&t->is_pending);
}

void keeping_release(struct keeping *t)
{
    buf_release(&t->body);
}
