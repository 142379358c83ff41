/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows behind engine/tune.h: a dataset, and what was read of its file.
 */
#include "engine/train/tune_rows.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "engine/serve/resident.h"

/* What is learned of texts here, and where their vector is. */
static struct dataset_texts texts_of(const struct resident *on, const struct tune_rows_options *o)
{
    struct dataset_texts t = dataset_texts_of(&on->model->cfg, o->has_labels);
    t.label = (const char *const *)on->dir.labels.name;
    return o->has_anchors || o->has_labels ? t : (struct dataset_texts){.n_label = 0};
}

/* Serving cuts texts at the length that the model's files say. */
static int64_t longest_of(const struct resident *on, const struct tune_rows_options *o)
{
    int64_t most = on->model->ctx, said = on->model->cfg.max_text;
    if ((o->has_anchors || o->has_labels) && said > 0 && said < most)
        most = said;
    return o->max_tok > 0 && o->max_tok < most ? o->max_tok : most;
}

struct tune_rows *tune_rows_new(const struct engine *g, const struct tune_rows_options *o)
{
    const struct resident *on = engine_resident(g);
    struct tune_rows *r = xcalloc(1, sizeof *r);
    r->reader = o->reader;
    dataset_init(&r->data, &(struct dataset_options){.tokenizer = on->tokenizer,
                                                     .template = on->template,
                                                     .max_tok = longest_of(on, o),
                                                     .texts = texts_of(on, o),
                                                     .longer = o->refuses_longer ? DATASET_REFUSE
                                                                                 : DATASET_CUT,
                                                     .now = clock_local_s(o->created_s),
                                                     .end_id = on->dir.generation.eos,
                                                     .n_end_id = on->dir.generation.n_eos,
                                                     .has_pairs = o->has_pairs,
                                                     .has_verdicts = o->has_verdicts,
                                                     .n_sample = o->n_sample,
                                                     .max_new = o->max_new});
    return r;
}

void tune_rows_free(struct tune_rows *r)
{
    if (r)
        dataset_release(&r->data);
    free(r);
}

int tune_rows_read(struct tune_rows *r, int fd, struct err *e)
{
    return train_file_read(fd, &r->reader, &r->data, &r->file, e);
}

int tune_rows_add(struct tune_rows *r, const char *line, size_t n, struct arena *a, struct err *e)
{
    return train_file_add(&r->data, &r->reader, line, n, a, &r->file, e);
}

int tune_rows_line(struct tune_rows *r, int fd, int64_t example, size_t max, struct buf *out,
                   struct err *e)
{
    return train_file_line(fd, example, max, out, &r->file, e);
}

static size_t bytes_of(const struct dataset *d)
{
    return d->id.n * (sizeof *d->id.at + sizeof *d->is_learned.at) + d->row.n * sizeof *d->row.at +
           d->left_out.n * sizeof *d->left_out.at + d->text.n +
           d->top.n * (sizeof *d->top_id.at + sizeof *d->top.at);
}

struct tune_rows_info tune_rows_info(const struct tune_rows *r)
{
    const struct dataset *d = &r->data;
    return (struct tune_rows_info){.n_example = r->file.n_example,
                                   .n_chat = r->file.n_chat,
                                   .n_row = dataset_n_usable(d),
                                   .n_learn = d->n_learn,
                                   .n_taught = d->n_taught,
                                   .n_tok_cut = d->n_tok_cut,
                                   .max_tok = d->opt.max_tok,
                                   .bytes = bytes_of(d),
                                   .fault = r->file.fault};
}

static size_t left_out(const struct dataset *d, int64_t *example, size_t cap)
{
    for (size_t i = 0; i < d->left_out.n && i < cap; i++)
        example[i] = d->left_out.at[i];
    return d->left_out.n;
}

size_t tune_rows_odd(const struct tune_rows *r, enum tune_odd kind, int64_t *example, size_t cap)
{
    const struct dataset *d = &r->data;
    size_t n = 0;
    if (kind == TUNE_ODD_LEFT_OUT)
        return left_out(d, example, cap);
    for (size_t i = 0; i < d->row.n; i += (size_t)dataset_n_each(d)) {
        const struct dataset_row *row = &d->row.at[i];
        bool is_cut = row->is_cut || (d->opt.has_pairs && row[1].is_cut);
        bool is_odd = kind == TUNE_ODD_CUT ? is_cut : row->n_learn == 0;
        if (is_odd && n < cap)
            example[n] = row->example;
        n += is_odd;
    }
    return n;
}

struct tune_row tune_rows_get(const struct tune_rows *r, size_t i)
{
    const struct dataset *d = &r->data;
    ASSERT(i < d->row.n);
    const struct dataset_row *row = &d->row.at[i];
    return (struct tune_row){.id = d->id.at + row->at,
                             .is_learned = d->is_learned.at + row->at,
                             .n = row->n,
                             .n_learn = row->n_learn,
                             .weight = row->weight};
}
