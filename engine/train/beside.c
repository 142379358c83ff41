/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rank makes the same things in the same order, and they agree behind what can fail at one of
 * them.
 */
#include "engine/train/beside.h"

#include "engine/run/ranks.h"
#include "engine/train/ask.h"
#include "engine/train/brief.h"

/* This rank's copy of the model: all of it, or its part. */
static struct model *copy_of(struct beside *b, const struct crew_seat *seat, int type,
                             struct err *e)
{
    const struct model *served = seat->model;
    struct model_options mo = {.type = type, .kv_type = (int)served->kv_type, .ctx = served->ctx};
    struct op_ranks at = {
        .comm = b->ranks.all, .rank = served->ranks.rank, .size = served->ranks.size};
    if (served->part && ranks_share_for(&b->share, &served->cfg, &mo, &at, MODEL_LOSS, e))
        return NULL;
    mo.share = served->part ? &b->share : NULL;
    return model_load(seat->dir, &mo, seat->device, e);
}

static int make(struct beside *b, const struct crew_seat *seat, struct tuning_options *o,
                int copy_type, struct err *e)
{
    int rc = 0;
    o->gate = seat->gate;
    o->train.ranks = b->ranks;
    if (copy_type >= 0)
        rc = (b->copy = copy_of(b, seat, copy_type, e)) ? 0 : -1;
    if (!rc)
        rc = (b->stream = stream_new_yielding(seat->device, e)) ? 0 : -1;
    if (train_agree(&b->ranks, rc, e))
        return -1;
    b->tuning = tuning_new(b->copy ? b->copy : seat->model, o, b->stream, e);
    return b->tuning ? 0 : -1;
}

static void release(struct beside *b)
{
    tuning_free(b->tuning);
    model_free(b->copy);
    ranks_share_release(&b->share);
    if (b->stream)
        stream_free(b->stream);
    *b = (struct beside){0};
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

int beside_begin(struct beside *b, const struct crew_seat *seat, struct crew *crew,
                 struct tuning_options *o, int copy_type, struct err *e)
{
    *b = (struct beside){0};
    if (crew)
        b->ranks = (struct train_ranks){.all = seat->comm, .model = seat->comm};
    if (crew && (crew_call(crew, e) || brief_send(&b->ranks, o, copy_type, e)))
        return -1;
    return make(b, seat, o, copy_type, e);
}

int beside_run(struct beside *b, bool *is_done, struct err *e)
{
    *is_done = false;
    return train_ask_run(&b->ranks, e) || tuning_run(b->tuning, is_done, e) ? -1 : 0;
}

void beside_end(struct beside *b)
{
    struct err e = ERR_INIT; /* they are gone: whoever serves says so */
    if (b->tuning)
        train_ask_end(&b->ranks, 0, &e);
    release(b);
}

/* ---- the others ------------------------------------------------------------------------------ */

/* Until rank 0 lets it go. How the tuning ended is common, where the group is whole. */
static int follow(struct beside *b, struct err *e)
{
    struct train_subject *s = trainer_subject(tuning_trainer(b->tuning));
    struct err common = ERR_INIT;
    for (bool runs = true, is_done; runs;) {
        if (train_answer(&b->ranks, s, &runs, e))
            return -1;
        if (runs && tuning_run(b->tuning, &is_done, &common) && comm_check(b->ranks.all, e))
            return -1;
    }
    return 0;
}

int beside_work(const struct crew_seat *seat, struct err *e)
{
    struct beside b = {.ranks = {.all = seat->comm, .model = seat->comm}};
    struct brief brief;
    struct err common = ERR_INIT;
    int rc = brief_take(&brief, &b.ranks, &common) ||
                     make(&b, seat, &brief.opt, brief.copy_type, &common)
                 ? comm_check(seat->comm, e)
                 : follow(&b, e);
    release(&b);
    brief_release(&brief);
    return rc;
}
