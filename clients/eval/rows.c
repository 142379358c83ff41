/* SPDX-License-Identifier: Apache-2.0
 *
 * A file's lines, and what kind of row each is. One line at a time is in memory beside the tokens.
 */
#include "clients/eval/rows.h"

#include "api/json.h"
#include "api/value.h"
#include "clients/eval/rows_own.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/engine.h"
#include "engine/train/train_file.h"

enum { ROW_BYTES_MAX = 512 << 20 };

static const char what[] = "rows to judge a model by";

int eval_line_piece(struct eval_line *l, int64_t n_char, struct err *e)
{
    const struct eval_piece p = {.at = l->rows->id.n, .n_char = n_char};
    l->row.n_piece++;
    return vec_try_push(&l->rows->piece, what, e, p);
}

int eval_line_put(struct eval_line *l, const int32_t *id, size_t n, struct row_part counted,
                  struct err *e)
{
    struct eval_rows *r = l->rows;
    struct eval_piece *p = &r->piece.at[r->piece.n - 1];
    if (p->n + (int64_t)n > l->ctx)
        return err_set(e, ERR_TOO_LARGE, "%lld tokens: the model's context holds %lld",
                       (long long)(p->n + (int64_t)n), (long long)l->ctx);
    if (vec_try_reserve(&r->id, r->id.n + n, what, e) ||
        vec_try_reserve(&r->is_counted, r->is_counted.n + n, what, e))
        return -1;
    for (size_t i = 0; i < n; i++) {
        r->id.at[r->id.n++] = id[i];
        r->is_counted.at[r->is_counted.n++] = i >= counted.lo && i < counted.hi;
    }
    p->n += (int64_t)n;
    return 0;
}

int32_t eval_line_first(const struct eval_line *l)
{
    int32_t bos = tokenizer_bos(l->on->tokenizer);
    return bos >= 0 ? bos : tokenizer_eos(l->on->tokenizer);
}

static int read_line(struct eval_line *l, struct err *e)
{
    struct api_error why = {0};
    l->json = api_json_line(l->arena, l->text, l->n_text, &why);
    if (!l->json)
        return err_set(e, why.status >= 500 ? ERR_NO_MEMORY : ERR_BAD_INPUT, "%s", why.message);
    l->row.kind = value_member(l->json, "choices") ? EVAL_CHOICE
                  : value_member(l->json, "text")  ? EVAL_TEXT
                                                   : EVAL_ANSWER;
    l->row.piece = l->rows->piece.n;
    switch (l->row.kind) {
    case EVAL_CHOICE:
        return eval_read_choice(l, e);
    case EVAL_TEXT:
        return eval_read_text(l, e);
    case EVAL_ANSWER:
        return eval_read_answer(l, e);
    }
    return 0;
}

static int add_line(struct eval_line *l, const struct train_file *f, struct err *e)
{
    l->row = (struct eval_row){.line = f->n_line};
    if (read_line(l, e))
        return err_wrap(e, "line %lld", (long long)f->n_line);
    l->rows->n_of[l->row.kind]++;
    return vec_try_push(&l->rows->row, what, e, l->row);
}

static int read_all(struct eval_line *l, struct train_scan *scan, int64_t limit, struct err *e)
{
    struct train_file f = {0};
    int rc = 1;
    while (rc == 1 && (limit == 0 || (int64_t)l->rows->row.n < limit)) {
        rc = train_scan_next(scan, &f, &l->text, &l->n_text, e);
        if (rc < 0 && f.fault != TRAIN_FAULT_NONE)
            return err_wrap(e, "line %lld", (long long)f.n_line);
        if (rc == 1 && add_line(l, &f, e))
            return -1;
        arena_reset(l->arena);
    }
    if (rc >= 0 && l->rows->row.n == 0)
        return err_set(e, ERR_BAD_INPUT, "there is no row in it");
    return rc < 0 ? -1 : 0;
}

int eval_rows_read(struct eval_rows *r, const char *path, const struct eval_rows_options *o,
                   struct err *e)
{
    const struct resident *on = engine_resident(o->engine);
    struct arena arena;
    struct eval_line l = {.rows = r,
                          .on = on,
                          .ctx = on->model->ctx,
                          .now = clock_local_s(clock_wall_us() / 1000000),
                          .arena = &arena};
    *r = (struct eval_rows){.n_of = {0}};
    if (!on->tokenizer)
        return err_set(e, ERR_UNSUPPORTED, "the model has no tokenizer");
    if (o->window >= l.ctx)
        return err_set(e, ERR_BAD_INPUT,
                       "--window %lld: a window and what it goes on from have %lld tokens",
                       (long long)o->window, (long long)l.ctx);
    l.window = o->window ? o->window : l.ctx - 1;
    int fd = fs_open(path, e);
    if (fd < 0)
        return -1;
    arena_init(&arena, ROW_BYTES_MAX);
    struct train_scan *scan = train_scan_new(fd, e);
    int rc = scan ? read_all(&l, scan, o->limit, e) : -1;
    train_scan_free(scan);
    arena_release(&arena);
    return rc ? err_wrap(e, "%s", path) : 0;
}

void eval_rows_release(struct eval_rows *r)
{
    vec_release(&r->id);
    vec_release(&r->is_counted);
    vec_release(&r->piece);
    vec_release(&r->row);
}
