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
static struct model *copy_of(struct beside *b, const struct crew_rank *member, struct err *e)
{
    const struct model *served = member->model;
    struct model_options mo = model_options_trained(served, member->dir->weights);
    struct op_ranks at = {
        .comm = b->ranks.all, .rank = served->ranks.rank, .size = served->ranks.size};
    if (served->part && ranks_share_for(&b->share, &served->cfg, &mo, &at, MODEL_LOSS, e))
        return NULL;
    mo.share = served->part ? &b->share : NULL;
    return model_load(member->dir, &mo, member->device, e);
}

static int make(struct beside *b, const struct crew_rank *member, struct tuning_options *o,
                bool copies, struct err *e)
{
    int rc = 0;
    o->gate = member->gate;
    o->train.ranks = b->ranks;
    if (copies)
        rc = (b->copy = copy_of(b, member, e)) ? 0 : -1;
    if (!rc)
        rc = (b->stream = stream_new_yielding(member->device, e)) ? 0 : -1;
    if (train_agree(&b->ranks, rc, e))
        return -1;
    b->tuning = tuning_new(b->copy ? b->copy : member->model, o, b->stream, e);
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

int beside_begin(struct beside *b, const struct crew_rank *member, struct crew *crew,
                 struct tuning_options *o, bool copies, struct err *e)
{
    *b = (struct beside){0};
    if (crew)
        b->ranks = (struct train_ranks){.all = member->comm, .model = member->comm};
    if (crew && (crew_call(crew, e) || brief_send(&b->ranks, o, copies, e)))
        return -1;
    return make(b, member, o, copies, e);
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

int beside_work(const struct crew_rank *member, struct err *e)
{
    struct beside b = {.ranks = {.all = member->comm, .model = member->comm}};
    struct brief brief;
    struct err common = ERR_INIT;
    int rc =
        brief_take(&brief, &b.ranks, &common) || make(&b, member, &brief.opt, brief.copies, &common)
            ? comm_check(member->comm, e)
            : follow(&b, e);
    release(&b);
    brief_release(&brief);
    return rc;
}
