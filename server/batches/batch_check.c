/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a batch's file, said by line before any of it is answered.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "server/batches/batches_own.h"

enum { ERRORS_MAX = 100, ERRORS_BYTES = 1 << 17, LINE_ARENA = 256 << 20 };

struct checking {
    struct batch_run *run;
    struct map seen; /* custom_ids */
    struct buf errors;
    struct jout j;
    size_t n_error;
    char *model; /* owned: of all lines so far; NULL: none was named */
    bool has_several;
};

static bool may_use(const struct batch_run *r, const char *model)
{
    struct engine *g = r->all->opt.engine;
    if (strcmp(model, engine_info(g)->name) == 0)
        return true;
    if (!engine_adapter_may_use(g, model, r->who.name))
        return false;
    struct adapter *a = engine_adapter_get(g, model);
    adapter_unref(a);
    return a || engine_adapter_knows(g, model);
}

static int check_model(struct checking *c, const struct batch_line *line, size_t i,
                       struct api_error *e)
{
    const char *model = line->model ? line->model : engine_info(c->run->all->opt.engine)->name;
    if (c->model && strcmp(c->model, model) == 0)
        return 0;
    if (!may_use(c->run, model))
        return api_fail(e, 400, "model_not_found", "body.model",
                        "No model of this name is served here; GET /v1/models lists them.");
    c->has_several |= i > 0;
    free(c->model);
    c->model = xstrdup(model);
    return 0;
}

static int check_line(struct checking *c, size_t i, struct arena *a, struct api_error *fault,
                      struct err *e)
{
    const struct batch_input *in = &c->run->input;
    struct batch_line line;
    const char *text = batch_input_read(in, i, a, e);
    if (!text)
        return -1;
    if (batch_line_parse(text, (size_t)in->line.at[i].n, c->run->batch.endpoint, a, &line, fault))
        return fault->status >= 500 ? err_set(e, ERR_NO_MEMORY, "%s", fault->message) : 1;
    if (map_put_str(&c->seen, line.custom_id, c)) {
        api_fail(fault, 400, "duplicate_custom_id", "custom_id",
                 "The 'custom_id' of this line is that of another line, too.");
        return 1;
    }
    return check_model(c, &line, i, fault) ? 1 : 0;
}

static void keep_error(struct checking *c, int64_t line, const struct api_error *fault)
{
    if (c->n_error++ < ERRORS_MAX)
        batch_error_write(&c->j, line, fault);
}

static void begin_errors(struct checking *c)
{
    buf_init(&c->errors, ERRORS_BYTES);
    c->j = jout_on(&c->errors);
    jout_open(&c->j, '[');
}

static void end_errors(struct checking *c)
{
    struct batch_run *r = c->run;
    jout_close(&c->j, ']');
    r->batch.errors =
        c->errors.failed ? "[]" : arena_strndup(&r->attempt, c->errors.data, c->errors.len);
}

static bool is_stopping(struct batches *b)
{
    pthread_mutex_lock(&b->lock);
    bool stops = b->stops;
    pthread_mutex_unlock(&b->lock);
    return stops;
}

int batch_check(struct batch_run *r, struct err *e)
{
    struct checking c = {.run = r};
    struct arena a;
    int rc = 0;
    map_init(&c.seen);
    begin_errors(&c);
    arena_init(&a, LINE_ARENA);
    for (size_t i = 0; i < r->input.line.n && rc >= 0 && c.n_error < ERRORS_MAX; i++) {
        struct api_error fault = {0};
        rc = is_stopping(r->all) ? err_set(e, ERR_BUSY, "the server is being stopped")
                                 : check_line(&c, i, &a, &fault, e);
        if (rc == 1)
            keep_error(&c, r->input.line.at[i].number, &fault);
        arena_reset(&a);
    }
    arena_release(&a);
    if (rc >= 0 && c.n_error) {
        end_errors(&c);
    } else if (rc >= 0) {
        r->batch.n_line = (int64_t)r->input.line.n;
        r->batch.model = c.model && !c.has_several ? arena_strdup(&r->attempt, c.model) : NULL;
    }
    map_release(&c.seen);
    buf_release(&c.errors);
    free(c.model);
    return rc < 0 ? -1 : 0;
}

void batch_fault(struct batch_run *r, const struct api_error *fault, int64_t line)
{
    struct checking c = {.run = r};
    begin_errors(&c);
    keep_error(&c, line, fault);
    end_errors(&c);
    buf_release(&c.errors);
}
