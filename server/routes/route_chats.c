/* SPDX-License-Identifier: Apache-2.0
 *
 * Chats that were kept (`store: true`): listed, shown, given metadata, deleted; and the messages
 * that they were asked with. They are rows beside those of responses, with their time and quota.
 */
#include <string.h>
#include <time.h>

#include "api/kept_chat.h"
#include "api/response_items.h"
#include "server/desk/page.h"
#include "server/http/route.h"
#include "server/routes/kept.h"

enum { LIMIT = 20, LIMIT_MAX = 100, LOOK = 200 };

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

static bool fits(const struct errand *t, const struct response_row *r)
{
    bool is_of_model = !t->model || (r->model && strcmp(t->model, r->model) == 0);
    return r->expires > (int64_t)time(NULL) && is_of_model && page_fits(t, r->metadata);
}

/* One row's answer at a time is in memory beside the page. */
static int put_one(struct errand *t, struct jout *j, const char *id, struct err *e)
{
    struct arena a;
    struct response_row r;
    arena_init(&a, 64 << 20);
    int rc =
        store_response_get(desk_store(t->desk), t->ask->who->name, RESPONSE_CHAT, id, 0, &a, &r, e);
    if (!rc)
        api_chat_kept_write(j, r.body, r.metadata);
    arena_release(&a);
    return rc ? -1 : buf_check(&t->out, "the list", e);
}

static enum errand_end work_list(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct store_page page = {
        .after = t->page.after, .limit = LOOK, .ascending = t->page.ascending};
    struct jout j = jout_on(&t->out);
    const char *first = NULL, *last = NULL;
    int64_t n_out = 0;
    bool more = true, has_more = false;
    page_open(&j);
    while (more && !has_more) {
        struct response_row *r;
        size_t n;
        if (store_response_list(desk_store(t->desk), t->ask->who->name, RESPONSE_CHAT, &page,
                                &t->arena, &r, &n, &more, &why))
            return page_fail(&why, e);
        for (size_t i = 0; i < n && !has_more; i++) {
            if (!fits(t, &r[i]))
                continue;
            has_more = n_out++ == t->page.limit;
            if (has_more)
                break;
            if (put_one(t, &j, r[i].id, &why))
                return errand_fail(&why, e);
            first = first ? first : r[i].id;
            last = r[i].id;
        }
        page.after = n ? r[n - 1].id : page.after;
    }
    page_close(&j, true, first, last, has_more);
    return ERRAND_DONE;
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
