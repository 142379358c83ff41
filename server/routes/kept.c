/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of kept answers.
 */
#include "server/routes/kept.h"

#include <string.h>
#include <time.h>

#include "api/jout.h"
#include "engine/base/log.h"
#include "server/server.h"

enum { KEPT_S = 30 * 24 * 3600 };

struct maker {
    struct keeper keeper;
    struct call *call;
    struct desk *desk;
    enum response_kind kind;
};

static int64_t bytes_of(const char *text)
{
    return text ? (int64_t)strlen(text) : 0;
}

static int keep(void *ctx, const struct kept *what, struct err *e)
{
    struct maker *m = ctx;
    int64_t now = (int64_t)time(NULL);
    const struct response_row r = {.kind = m->kind,
                                   .id = what->id,
                                   .owner = call_request(m->call)->who->name,
                                   .previous = what->previous,
                                   .model = what->model,
                                   .metadata = what->metadata,
                                   .input = what->input,
                                   .body = what->body,
                                   .bytes = bytes_of(what->id) + bytes_of(what->input) +
                                            bytes_of(what->body) + bytes_of(what->metadata),
                                   .created = now,
                                   .expires = now + KEPT_S};
    if (!store_response_add(desk_store(m->desk), &r, desk_options(m->desk)->responses_quota, e))
        return 0;
    log_event(LOG_ERROR, "an answer is not kept", LOG_TEXT("why", e->msg));
    return -1;
}

const struct keeper *kept_keeper(struct call *c, enum response_kind kind, api_recall_fn *recall)
{
    struct desk *d = server_desk(call_server(c));
    struct maker *m = ARENA_NEW(call_arena(c), struct maker);
    *m = (struct maker){.call = c, .desk = d, .kind = kind};
    m->keeper = (struct keeper){.recall = recall, .recall_ctx = c, .keep = keep, .ctx = m};
    return d && desk_options(d)->responses_quota > 0 ? &m->keeper : NULL;
}

int kept_find(struct errand *t, enum response_kind kind, struct response_row *r,
              struct api_error *e)
{
    struct err why = ERR_INIT;
    if (!store_response_get(desk_store(t->desk), t->ask->who->name, kind, t->ask->param,
                            (int64_t)time(NULL), &t->arena, r, &why))
        return 0;
    errand_fail(&why, e);
    return -1;
}

enum errand_end kept_drop(struct errand *t, enum response_kind kind, const char *object,
                          struct api_error *e)
{
    struct err why = ERR_INIT;
    if (store_response_drop(desk_store(t->desk), t->ask->who->name, kind, t->ask->param, &why))
        return errand_fail(&why, e);
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    jout_put_str(&j, "id", t->ask->param);
    jout_put_str(&j, "object", object);
    jout_put_bool(&j, "deleted", true);
    jout_close(&j, '}');
    return ERRAND_DONE;
}
