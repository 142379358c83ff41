/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/fine_tuning/preview: one row as a job would take it, by the renderer, the tokenizer and
 * the mask of jobs. A row that a job refuses is refused with the job's words.
 *
 * The desk's thread does it, so rows of more than ROW_BYTES are too large to be shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/preview.h"
#include "api/train_row.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "engine/token/tokenizer.h"
#include "engine/tune.h"
#include "server/data/data_dir.h"
#include "server/desk/tuning.h"
#include "server/http/route.h"

enum { ROW_BYTES = 1 << 20, TEXT_BYTES = 16 << 20 };

/* The line of a file that is asked for, in the errand's arena. */
static int take_line(struct errand *t, const struct preview_ask *ask, struct tune_rows *rows,
                     const char **line, size_t *n, struct err *e)
{
    struct buf b;
    int fd = data_open(store_dir(desk_store(t->desk)), DATA_FILES, ask->training_file, e);
    if (fd < 0)
        return -1;
    buf_init(&b, ROW_BYTES);
    int rc = tune_rows_line(rows, fd, ask->example, ROW_BYTES, &b, e);
    if (!rc) {
        *line = arena_strndup(&t->arena, b.data, b.len);
        *n = b.len;
    }
    buf_release(&b);
    return rc;
}

/* What is wrong with a row that was sent, as with any request; with one of a file, as a job has it;
 * or there is no such row. said: what its reader said, if it did. */
static int refuse(const struct preview_ask *ask, const struct tune_rows *rows,
                  const struct err *why, const struct train_said *said, struct api_error *e)
{
    const struct tune_rows_info at = tune_rows_info(rows);
    bool is_read = !said->error.status;
    if (!ask->row && why->code == ERR_BAD_INPUT && at.fault == TRAIN_FAULT_NONE)
        return api_fail(e, 400, "invalid_value", "example", "%s", why->msg);
    api_fail_err(e, why, ask->row ? "row" : "training_file");
    if (at.fault == TRAIN_FAULT_FORMAT)
        e->code = "invalid_file_format";
    else if (at.fault == TRAIN_FAULT_ROW && !ask->row)
        e->code = "invalid_training_file";
    else if (!is_read)
        e->code = said->error.code;
    return -1;
}

/* The row's tokens as text, piece by piece. */
static int spell(const struct tokenizer *tok, struct preview *p, struct buf *text, size_t *end,
                 struct err *e)
{
    struct detok *d = detok_new(tok, false);
    int rc = 0;
    for (int64_t i = 0; !rc && i < p->n; i++) {
        rc = detok_push(d, p->id[i], text, e);
        if (!rc && i + 1 == p->n)
            rc = detok_finish(d, text, e);
        end[i] = text->len;
    }
    detok_free(d);
    p->text = text->len ? text->data : "";
    p->text_end = end;
    return rc ? -1 : buf_check(text, "the row's text", e);
}

static int show(struct errand *t, const struct tune_rows *rows, const char *unread,
                struct api_error *e)
{
    const struct tune_rows_info info = tune_rows_info(rows);
    const struct tune_row row = tune_rows_get(rows, 0);
    struct engine *g = desk_engine(t->desk);
    struct jout j = jout_on(&t->out);
    struct err why = ERR_INIT;
    struct preview p = {.model = engine_info(g)->name,
                        .is_chat = info.n_chat > 0,
                        .is_text = !engine_info(g)->generates,
                        .max_tok = info.max_tok,
                        .n_cut = info.n_tok_cut,
                        .n_learn = row.n_learn,
                        .id = row.id,
                        .is_learned = row.is_learned,
                        .weight = row.weight,
                        .n = row.n,
                        .unread = unread};
    struct buf text;
    size_t *end = xcalloc((size_t)p.n + 1, sizeof *end);
    buf_init(&text, TEXT_BYTES);
    int rc = spell(engine_tokenizer(g), &p, &text, end, &why);
    if (rc)
        api_fail_err(e, &why, NULL);
    else
        preview_write(&j, &p);
    buf_release(&text);
    free(end);
    return rc;
}

static enum errand_end work_preview(struct errand *t, struct api_error *e)
{
    struct preview_ask ask;
    struct train_said said = {0};
    struct err why = ERR_INIT;
    if (preview_ask_parse(t->ask->body, t->ask->n_body, &t->arena, &ask, e) ||
        (!ask.row && errand_file(t, ask.training_file, "fine-tune", "training_file", e)))
        return ERRAND_FAILED;
    t->ignored = ask.ignored;
    const char *line = ask.row;
    size_t n = ask.n_row;
    const struct engine_info *on = engine_info(desk_engine(t->desk));
    struct tune_rows *rows =
        tune_rows_new(desk_engine(t->desk),
                      &(struct tune_rows_options){.created_s = (int64_t)time(NULL),
                                                  .has_anchors = on->embeds,
                                                  .has_labels = on->n_label > 0,
                                                  .reader = {.fn = api_train_read, .ctx = &said}});
    int rc = ask.row ? 0 : take_line(t, &ask, rows, &line, &n, &why);
    if (rc || tune_rows_add(rows, line, n, &t->arena, &why))
        rc = refuse(&ask, rows, &why, &said, e);
    else
        rc = show(t, rows, said.unread, e);
    tune_rows_free(rows);
    return rc ? ERRAND_FAILED : ERRAND_DONE;
}

void route_tuning_preview(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_preview);
}
