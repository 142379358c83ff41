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
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "server/desk/tuning.h"
#include "server/http/route.h"
#include "server/jobs/train_file.h"

enum { ROW_BYTES = 1 << 20, TEXT_BYTES = 16 << 20 };

/* The line that is asked for, in the errand's arena or the JSON tree that it holds. */
static int take_line(struct errand *t, const struct preview_ask *ask, const char **line, size_t *n,
                     struct train_file *f, struct api_error *e)
{
    struct buf b;
    *line = ask->row;
    *n = ask->n_row;
    if (ask->row)
        return 0;
    if (tuning_file(t, ask->training_file, "training_file", e))
        return -1;
    char *path = desk_file_path(t->desk, ask->training_file);
    buf_init(&b, ROW_BYTES);
    int rc = train_file_line(path, ask->example, ROW_BYTES, &b, f, e);
    if (!rc) {
        *line = arena_strndup(&t->arena, b.data, b.len);
        *n = b.len;
    }
    buf_release(&b);
    free(path);
    return rc;
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

static int show(struct errand *t, const struct dataset *d, bool is_chat, struct api_error *e)
{
    const struct dataset_row *row = &d->row.at[0];
    struct engine *g = desk_engine(t->desk);
    struct jout j = jout_on(&t->out);
    struct err why = ERR_INIT;
    struct preview p = {.model = engine_info(g)->name,
                        .is_chat = is_chat,
                        .max_tok = d->opt.max_tok,
                        .n_cut = d->n_tok_cut,
                        .n_learn = row->n_learn,
                        .id = d->id.at,
                        .is_learned = d->is_learned.at,
                        .n = row->n};
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
    const struct resident *on = engine_resident(desk_engine(t->desk));
    const struct dataset_options o = train_file_options(on, (int64_t)time(NULL));
    struct preview_ask ask;
    struct train_file f = {0};
    struct dataset d;
    const char *line;
    size_t n;
    if (preview_ask_parse(t->ask->body, t->ask->n_body, &t->arena, &ask, e) ||
        take_line(t, &ask, &line, &n, &f, e))
        return ERRAND_FAILED;
    t->ignored = ask.ignored;
    dataset_init(&d, &o);
    int rc = train_file_add(&d, line, n, &t->arena, &f, e);
    if (rc && ask.row)
        snprintf(e->param, sizeof e->param, "row");
    if (!rc)
        rc = show(t, &d, f.n_chat > 0, e);
    dataset_release(&d);
    return rc ? ERRAND_FAILED : ERRAND_DONE;
}

void route_tuning_preview(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_preview);
}
