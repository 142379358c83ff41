/* SPDX-License-Identifier: Apache-2.0
 *
 * Chats that were kept (`store: true`): listed, shown, given metadata, deleted; and the messages
 * that they were asked with. They are rows beside those of responses, with their time and quota.
 */
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "api/kept_chat.h"
#include "api/response_items.h"
#include "server/desk/page.h"
#include "server/http/route.h"
#include "server/routes/kept.h"

enum { LIMIT = 20, LIMIT_MAX = 100 };

/* A page's oldest thing comes first where nobody says otherwise. */
static int read_page(struct call *c, struct errand *t, struct api_error *e)
{
    if (page_read(c, t, LIMIT, LIMIT_MAX, e))
        return -1;
    t->page.ascending |= !call_query(c, "order");
    t->model = call_query(c, "model");
    return 0;
}

static void send_page(struct call *c, enum errand_end (*work)(struct errand *, struct api_error *))
{
    struct errand *t = errand_new(c);
    struct api_error e;
    if (!t)
        return;
    if (read_page(c, t, &e))
        errand_refuse(t, &e);
    else
        errand_send(t, work);
}

/* ---- all of them --------------------------------------------------------------------------- */

static bool fits(const struct errand *t, const void *row)
{
    const struct response_row *r = row;
    bool is_of_model = !t->model || (r->model && strcmp(t->model, r->model) == 0);
    return r->expires > (int64_t)time(NULL) && is_of_model && page_fits(t, r->metadata);
}

static int look(struct errand *t, const struct store_page *page, struct arena *a, void **row,
                size_t *n, bool *more, struct err *e)
{
    struct response_row *r = NULL;
    int rc = store_response_list(desk_store(t->desk), t->ask->who->name, RESPONSE_CHAT, page, a, &r,
                                 n, more, e);
    *row = r;
    return rc;
}

/* One row's answer at a time is in memory beside the page. */
static int put(struct errand *t, struct jout *j, const void *row, struct err *e)
{
    const struct response_row *one = row;
    struct arena a;
    struct response_row r;
    arena_init(&a, 64 << 20);
    int rc = store_response_get(desk_store(t->desk), t->ask->who->name, RESPONSE_CHAT, one->id, 0,
                                &a, &r, e);
    if (!rc)
        api_chat_kept_write(j, r.body, r.metadata);
    arena_release(&a);
    return rc ? (e->code == ERR_NOT_FOUND ? 1 : -1) : buf_check(&t->out, "the list", e);
}

static enum errand_end work_list(struct errand *t, struct api_error *e)
{
    static const struct page_kind chats = {.size = sizeof(struct response_row),
                                           .id = offsetof(struct response_row, id),
                                           .look = look,
                                           .fits = fits,
                                           .put = put};
    return page_walk(t, &chats, e);
}

void route_chats(struct call *c)
{
    send_page(c, work_list);
}

/* ---- one of them --------------------------------------------------------------------------- */

static enum errand_end work_show(struct errand *t, struct api_error *e)
{
    struct response_row r;
    struct jout j = jout_on(&t->out);
    if (kept_find(t, RESPONSE_CHAT, &r, e))
        return ERRAND_FAILED;
    api_chat_kept_write(&j, r.body, r.metadata);
    return ERRAND_DONE;
}

void route_chat_kept(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_show);
}

static enum errand_end work_mark(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    const char *metadata;
    if (api_chat_mark_parse(t->ask->body, t->ask->n_body, &t->arena, &metadata, &t->ignored, e))
        return ERRAND_FAILED;
    if (store_response_mark(desk_store(t->desk), t->ask->who->name, RESPONSE_CHAT, t->ask->param,
                            metadata, desk_options(t->desk)->responses_quota, &why))
        return errand_fail(&why, e);
    return work_show(t, e);
}

void route_chat_mark(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_mark);
}

static enum errand_end work_drop(struct errand *t, struct api_error *e)
{
    return kept_drop(t, RESPONSE_CHAT, "chat.completion.deleted", e);
}

void route_chat_drop(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_drop);
}

static enum errand_end work_messages(struct errand *t, struct api_error *e)
{
    struct response_row r;
    struct api_items_page page = {
        .after = t->page.after, .limit = t->page.limit, .ascending = t->page.ascending};
    if (kept_find(t, RESPONSE_CHAT, &r, e) ||
        api_chat_messages_write(&t->arena, r.id, r.input, &page, &t->out, e))
        return ERRAND_FAILED;
    return ERRAND_DONE;
}

void route_chat_messages(struct call *c)
{
    send_page(c, work_messages);
}
