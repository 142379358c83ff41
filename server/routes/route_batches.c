/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/batches: made, shown, listed, cancelled. What is done for them is server/batches; here their
 * rows are made and changed, and its thread is woken.
 */
#include <time.h>

#include "server/batches/batches.h"
#include "server/desk/page.h"
#include "server/desk/retry.h"
#include "server/http/route.h"
#include "server/server.h"
#include "server/store/store_batch.h"

enum { WINDOW_S = 24 * 3600, BATCHES_KEPT = 10000, WAITING_MAX = 100, LIMIT = 20, LIMIT_MAX = 100 };

static enum errand_end tell_batch(struct errand *t, const struct batch *b)
{
    struct jout j = jout_on(&t->out);
    batch_write(&j, b);
    return ERRAND_DONE;
}

/* It sees the row by itself where it is not there yet. */
static void wake(struct errand *t)
{
    struct batches *b = server_batches(call_server(t->call));
    if (b)
        batches_wake(b);
}

static int find(struct errand *t, struct batch *b, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (!store_batch_get(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena, b, &why))
        return 0;
    errand_fail(&why, e);
    return -1;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int check_count(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    int64_t n;
    if (store_batch_count(desk_store(t->desk), t->ask->who->name, &n, &why))
        return api_fail_err(e, &why, NULL);
    return n < WAITING_MAX ? 0
                           : api_fail(e, 429, "batches_waiting_limit", NULL,
                                      "This API key has %d batches that have not ended, and may "
                                      "have no more: wait for one to end, or cancel one.",
                                      WAITING_MAX);
}

/* The batch that the same creation made before: what has become of its file since is no matter. */
static int find_first(struct errand *t, const struct retry *r, struct batch *found, struct err *e)
{
    return store_batch_retry(desk_store(t->desk), t->ask->who->name, r->name, r->body,
                             (int64_t)time(NULL) - r->within_s, &t->arena, found, e);
}

static enum errand_end work_add(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct batch b, found;
    struct retry r;
    char id[STORE_ID_BYTES];
    if (batch_ask_parse(t->ask->body, t->ask->n_body, &t->arena, &b, &t->ignored, e))
        return ERRAND_FAILED;
    retry_of(t, &r);
    if (r.within_s >= 0 && find_first(t, &r, &found, &why))
        return why.code == ERR_EXISTS ? retry_conflict(e) : errand_fail(&why, e);
    if (r.within_s >= 0 && found.id)
        return tell_batch(t, &found);
    if (errand_file(t, b.input_file, "batch", "input_file_id", e) || check_count(t, e) ||
        errand_quota(t, 1, NULL, e)) /* answers need room */
        return ERRAND_FAILED;
    store_id("batch_", id);
    b.id = id;
    b.owner = t->ask->who->name;
    b.state = BATCH_VALIDATING;
    b.at[BATCH_VALIDATING] = (int64_t)time(NULL);
    b.expires = b.at[BATCH_VALIDATING] + WINDOW_S;
    if (store_batch_add(desk_store(t->desk), &b, r.name, r.body, BATCHES_KEPT, &why))
        return errand_fail(&why, e);
    wake(t);
    return tell_batch(t, &b);
}

void route_batch_add(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t && !retry_read(c, t))
        errand_send(t, work_add);
}

/* ---- the others ------------------------------------------------------------------------------ */

static enum errand_end work_get(struct errand *t, struct api_error *e)
{
    struct batch b;
    return find(t, &b, e) ? ERRAND_FAILED : tell_batch(t, &b);
}

void route_batch(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_get);
}

static enum errand_end work_list(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct batch *b;
    size_t n;
    bool more;
    if (store_batch_list(desk_store(t->desk), t->ask->who->name, &t->page, &t->arena, &b, &n, &more,
                         &why))
        return page_fail(&why, e);
    struct jout j = jout_on(&t->out);
    page_open(&j);
    for (size_t i = 0; i < n; i++)
        batch_write(&j, &b[i]);
    page_close(&j, true, n ? b[0].id : NULL, n ? b[n - 1].id : NULL, more);
    return ERRAND_DONE;
}

void route_batches(struct call *c)
{
    struct errand *t = errand_new(c);
    struct api_error e;
    if (!t)
        return;
    if (page_read(c, t, LIMIT, LIMIT_MAX, &e))
        errand_refuse(t, &e);
    else
        errand_send(t, work_list);
}

/* Nothing was asked yet of one that is being validated: it ends here. */
static int cancel(struct errand *t, struct batch *b, struct err *e)
{
    unsigned from = 1u << b->state;
    b->at[BATCH_CANCELLING] = (int64_t)time(NULL);
    if (b->state == BATCH_VALIDATING)
        b->at[BATCH_CANCELLED] = b->at[BATCH_CANCELLING];
    b->state = b->state == BATCH_VALIDATING ? BATCH_CANCELLED : BATCH_CANCELLING;
    return store_batch_change(desk_store(t->desk), b, from, NULL, 0, e);
}

static enum errand_end work_cancel(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct batch b;
    if (find(t, &b, e))
        return ERRAND_FAILED;
    if (b.state == BATCH_CANCELLING)
        return tell_batch(t, &b);
    if (b.state != BATCH_VALIDATING && b.state != BATCH_IN_PROGRESS) {
        api_fail(e, 400, "invalid_state", "id",
                 "The batch has ended, or is about to: it cannot be cancelled any more.");
        return ERRAND_FAILED;
    }
    if (cancel(t, &b, &why))
        return why.code == ERR_BUSY ? ERRAND_AGAIN : errand_fail(&why, e);
    wake(t);
    return tell_batch(t, &b);
}

void route_batch_cancel(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_cancel);
}
