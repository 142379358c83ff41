/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain data goes as it lies in memory: all ranks run one program. How much comes is told before it
 * comes, and all agree that there is room for it.
 */
#include "engine/train/brief.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

struct rows_header {
    size_t n_id, n_row, n_taught;
    int32_t n_top;
    int64_t n_cut, n_barren, n_learn, longest, max_tok;
    uint64_t digest;
    bool has_pairs, has_verdicts, has_weights;
};

struct header {
    struct tuning_options opt;
    int copies;
    size_t targets_bytes;
    bool has_valid, has_checkpoints;
    struct rows_header data, valid;
};

/* The arrays of a set, in their order. */
struct run {
    void *at;
    size_t bytes;
};

enum { RUNS = 5 };

static void runs_of(const struct dataset *d, struct run run[RUNS])
{
    run[0] = (struct run){d->id.at, d->id.n * sizeof *d->id.at};
    run[1] = (struct run){d->is_learned.at, d->id.n * sizeof *d->is_learned.at};
    run[2] = (struct run){d->row.at, d->row.n * sizeof *d->row.at};
    run[3] = (struct run){d->top_id.at, d->top.n * sizeof *d->top_id.at};
    run[4] = (struct run){d->top.at, d->top.n * sizeof *d->top.at};
}

static int pass_rows(const struct train_ranks *ranks, const struct dataset *d, struct err *e)
{
    struct run run[RUNS];
    runs_of(d, run);
    for (int i = 0; i < RUNS; i++)
        if (run[i].bytes && train_broadcast(ranks, run[i].at, run[i].bytes, e))
            return -1;
    return 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

static struct rows_header rows_header_of(const struct dataset *d)
{
    ASSERT(d->is_learned.n == d->id.n);
    return (struct rows_header){.n_id = d->id.n,
                                .n_row = d->row.n,
                                .n_taught = d->top.n,
                                .n_top = d->n_top,
                                .n_cut = d->n_cut,
                                .n_barren = d->n_barren,
                                .n_learn = d->n_learn,
                                .longest = d->longest,
                                .digest = d->digest,
                                .max_tok = d->opt.max_tok,
                                .has_pairs = d->opt.has_pairs,
                                .has_verdicts = d->opt.has_verdicts,
                                .has_weights = d->has_weights};
}

static char *join_targets(const struct train_lora *l, size_t *bytes)
{
    *bytes = 1;
    for (int32_t i = 0; i < l->n_target; i++)
        *bytes += strlen(l->target[i]) + 1;
    char *all = xcalloc(*bytes, 1), *at = all;
    for (int32_t i = 0; i < l->n_target; i++) {
        size_t n = strlen(l->target[i]) + 1;
        memcpy(at, l->target[i], n);
        at += n;
    }
    return all;
}

int brief_send(const struct train_ranks *ranks, const struct tuning_options *o, bool copies,
               struct err *e)
{
    struct header h = {.opt = *o,
                       .copies = copies,
                       .has_valid = o->valid != NULL,
                       .has_checkpoints = o->checkpoints != NULL,
                       .data = rows_header_of(o->data)};
    char *targets = join_targets(&o->train.lora, &h.targets_bytes);
    if (o->valid)
        h.valid = rows_header_of(o->valid);
    int rc = train_broadcast(ranks, &h, sizeof h, e) || train_agree(ranks, 0, e) ||
                     train_broadcast(ranks, targets, h.targets_bytes, e) ||
                     pass_rows(ranks, o->data, e) || (o->valid && pass_rows(ranks, o->valid, e))
                 ? -1
                 : 0;
    free(targets);
    return rc;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static int reserve_rows(struct dataset *d, const struct rows_header *h, struct err *e)
{
    dataset_init(d, &(struct dataset_options){.max_tok = h->max_tok,
                                              .has_pairs = h->has_pairs,
                                              .has_verdicts = h->has_verdicts});
    d->n_cut = h->n_cut;
    d->n_barren = h->n_barren;
    d->n_learn = h->n_learn;
    d->longest = h->longest;
    d->digest = h->digest;
    d->has_weights = h->has_weights;
    d->n_top = h->n_top;
    if (vec_try_reserve(&d->id, h->n_id, "rows to train on", e) ||
        vec_try_reserve(&d->is_learned, h->n_id, "rows to train on", e) ||
        vec_try_reserve(&d->row, h->n_row, "rows to train on", e) ||
        vec_try_reserve(&d->top_id, h->n_taught, "rows to train on", e) ||
        vec_try_reserve(&d->top, h->n_taught, "rows to train on", e))
        return -1;
    d->top_id.n = d->top.n = h->n_taught;
    d->id.n = d->is_learned.n = h->n_id;
    d->row.n = h->n_row;
    return 0;
}

/* What led to rank 0's memory leads to what is here. */
static void point(struct brief *b, const struct header *h)
{
    struct tuning_options *o = &b->opt;
    const char *at = b->targets;
    *o = h->opt;
    o->data = &b->data;
    o->valid = h->has_valid ? &b->valid : NULL;
    o->checkpoints = h->has_checkpoints ? "" : NULL; /* rank 0 knows where */
    o->ancestor.dir = h->opt.ancestor.dir ? "" : NULL;
    o->row_log = NULL;
    o->gate = NULL;
    o->event = NULL;
    o->is_wanted_end = NULL;
    o->ctx = NULL;
    for (int32_t i = 0; i < o->train.lora.n_target; i++, at += strlen(at) + 1)
        o->train.lora.target[i] = at;
}

int brief_take(struct brief *b, const struct train_ranks *ranks, struct err *e)
{
    struct header h;
    *b = (struct brief){0};
    if (train_broadcast(ranks, &h, sizeof h, e))
        return -1;
    b->targets = xcalloc(h.targets_bytes, 1);
    int rc = reserve_rows(&b->data, &h.data, e) || reserve_rows(&b->valid, &h.valid, e) ? -1 : 0;
    if (train_agree(ranks, rc, e) || train_broadcast(ranks, b->targets, h.targets_bytes, e) ||
        pass_rows(ranks, &b->data, e) || (h.has_valid && pass_rows(ranks, &b->valid, e)))
        return -1;
    b->copies = h.copies != 0;
    point(b, &h);
    return 0;
}

void brief_release(struct brief *b)
{
    dataset_release(&b->data);
    dataset_release(&b->valid);
    free(b->targets);
    *b = (struct brief){0};
}
