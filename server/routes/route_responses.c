/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/responses: made, shown again, gone on from, deleted. With a data directory they are kept as
 * rows of the store, under their key and for a time; without one none is.
 *
 * Making one may read the store, so its row of the table says that the handler runs as background
 * work.
 */
#include <string.h>
#include <time.h>

#include "api/response_items.h"
#include "server/answer/generate.h"
#include "server/desk/page.h"
#include "server/http/route.h"
#include "server/routes/kept.h"
#include "server/server.h"

enum { CHAIN_MAX = 1024, PAST_BYTES = 32 << 20, ITEMS_LIMIT = 20, ITEMS_MAX = 100 };

/* ---- making -------------------------------------------------------------------------------- */

static int no_previous(const struct err *why, const char *id, struct api_error *e)
{
    if (why->code != ERR_NOT_FOUND)
        return api_fail_err(e, why, "previous_response_id");
    return api_fail(e, 400, "previous_response_not_found", "previous_response_id",
                    "'previous_response_id': there is no response %.64s: it was deleted, its time "
                    "is over, or it was never kept.",
                    id);
}

/* All that stands before, the first one first. */
static int recall(void *ctx, const char *id, struct arena *a, const struct api_past **out,
                  size_t *n, struct api_error *e)
{
    struct call *c = ctx;
    struct err why = ERR_INIT;
    struct response_row r;
    size_t at = CHAIN_MAX;
    int64_t held = 0;
    struct api_past *past = arena_try(a, CHAIN_MAX, sizeof *past, &why);
    if (!past)
        return api_fail_err(e, &why, "previous_response_id");
    for (const char *next = id; next; next = r.previous) {
        if (at == 0)
            return api_fail(e, 400, "invalid_value", "previous_response_id",
                            "'previous_response_id' goes on from more than %d responses.",
                            CHAIN_MAX);
        if (store_response_get(desk_store(server_desk(call_server(c))), call_request(c)->who->name,
                               RESPONSE_ITEMS, next, (int64_t)time(NULL), a, &r, &why))
            return no_previous(&why, next, e);
        if ((held += r.bytes) > PAST_BYTES)
            return api_fail(e, 400, "invalid_value", "previous_response_id",
                            "'previous_response_id' goes on from more than %d bytes of responses.",
                            PAST_BYTES);
        if (call_charge(c, (size_t)r.bytes, e))
            return -1;
        past[--at] = (struct api_past){.input = r.input, .body = r.body};
    }
    *out = past + at;
    *n = CHAIN_MAX - at;
    return 0;
}

void route_responses(struct call *c)
{
    generate_kept(c, API_RESPONSES, kept_keeper(c, RESPONSE_ITEMS, recall));
}

/* ---- those that are kept ------------------------------------------------------------------- */

static int find(struct errand *t, struct response_row *r, struct api_error *e)
{
    return kept_find(t, RESPONSE_ITEMS, r, e);
}

static enum errand_end work_get(struct errand *t, struct api_error *e)
{
    struct response_row r;
    if (find(t, &r, e))
        return ERRAND_FAILED;
    buf_str(&t->out, r.body);
    return ERRAND_DONE;
}

void route_response(struct call *c)
{
    struct api_error e;
    const char *stream = call_query(c, "stream");
    struct errand *t = errand_new(c);
    if (!t)
        return;
    if (stream && strcmp(stream, "false") != 0) {
        api_fail(&e, 400, "unsupported_parameter", "stream",
                 "'stream' is refused: a kept response is shown whole.");
        errand_refuse(t, &e);
        return;
    }
    errand_send(t, work_get);
}

static enum errand_end work_drop(struct errand *t, struct api_error *e)
{
    return kept_drop(t, RESPONSE_ITEMS, "response.deleted", e);
}

void route_response_drop(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_drop);
}

/* What can be asked for by its id has ended: only a background response could be cancelled. */
static enum errand_end work_cancel(struct errand *t, struct api_error *e)
{
    struct response_row r;
    if (!find(t, &r, e))
        api_fail(e, 400, "invalid_value", "id",
                 "Cannot cancel a synchronous response: end its request instead.");
    return ERRAND_FAILED;
}

void route_response_cancel(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_cancel);
}

static enum errand_end work_items(struct errand *t, struct api_error *e)
{
    struct response_row r;
    struct api_items_page page = {
        .after = t->page.after, .limit = t->page.limit, .ascending = t->page.ascending};
    if (find(t, &r, e) || api_input_items_write(&t->arena, r.id, r.input, &page, &t->out, e))
        return ERRAND_FAILED;
    return ERRAND_DONE;
}

void route_response_items(struct call *c)
{
    struct errand *t = errand_new(c);
    struct api_error e;
    if (!t)
        return;
    if (page_read(c, t, ITEMS_LIMIT, ITEMS_MAX, &e))
        errand_refuse(t, &e);
    else
        errand_send(t, work_items);
}
