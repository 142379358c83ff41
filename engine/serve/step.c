/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's parts become the rows of a batch, in their order.
 */
#include <string.h>

#include "engine/serve/engine_own.h"

/* The last token may be one that the step before is about to draw. */
static void put_from(struct batch *b, const struct sched_part *p, int64_t at)
{
    const struct work *w = p->seq->owner;
    if (!b->from)
        return;
    for (int64_t i = 0; i < p->n_tok; i++)
        b->from[at + i] = -1;
    if (p->seq->is_open && p->pos + p->n_tok == p->seq->n_tok)
        b->from[at + p->n_tok - 1] = (int32_t)w->row_from;
}

static void put_tokens(struct batch *b, const struct sched_part *p, int32_t s, int64_t at)
{
    const struct work *w = p->seq->owner;
    memcpy(b->token + at, p->seq->token + p->pos, (size_t)p->n_tok * sizeof *b->token);
    for (int64_t i = 0; i < p->n_tok; i++) {
        b->segment[at + i] = w->n_first > 0 && p->pos + i >= w->n_first;
        b->pos[at + i] = (int32_t)(p->pos + i);
        b->turn[at + i] = w->turn + b->pos[at + i];
        b->seq_of[at + i] = s;
    }
    put_from(b, p, at);
}

static void put_states(struct batch *b, const struct sched_part *p, int32_t s)
{
    if (!b->state)
        return;
    b->state_from[s] = p->from;
    b->state_to[s] = p->to;
    b->state_kept[s] = p->kept;
    b->state_kept_len[s] = (int32_t)p->kept_len;
}

static void put_part(struct batch *b, const struct sched_part *p, enum pool_kind pool)
{
    int32_t s = (int32_t)b->n[DIM_SEQ]++;
    int64_t at = b->n[DIM_TOK], end = p->pos + p->n_tok;
    put_tokens(b, p, s, at);
    memcpy(b->cell + s * b->cell_stride, p->seq->cell,
           (size_t)((end + K_CELL - 1) / K_CELL) * sizeof *b->cell);
    put_states(b, p, s);
    b->kv_len[s] = (int32_t)end;
    b->n[DIM_TOK] = at + p->n_tok;
    b->q_start[s + 1] = (int32_t)b->n[DIM_TOK];
    if (p->seq->is_whole) /* where a vector is taken from one row, that */
        b->out_row[b->n[DIM_OUT]++] = (int32_t)(pool == POOL_LAST ? at + p->n_tok - 1 : at);
    else
        for (int64_t i = p->n_tok - p->n_out; i < p->n_tok; i++)
            b->out_row[b->n[DIM_OUT]++] = (int32_t)(at + i);
}

static struct adapter *adapter_of(const struct sched_part *p)
{
    const struct work *w = p->seq->owner;
    return w->adapter;
}

/* Neighbours with the same adapter are one group; none where no row has one. */
static void put_groups(struct engine *g, struct batch *b, const struct sched_step *step)
{
    bool has_any = false;
    for (int64_t i = 0; i < step->n_part; i++)
        has_any |= adapter_of(&step->part[i]) != NULL;
    for (int64_t i = 0, end; has_any && i < step->n_part; i = end) {
        const struct adapter *a = adapter_of(&step->part[i]);
        for (end = i + 1; end < step->n_part && adapter_of(&step->part[end]) == a;)
            end++;
        adapter_group(g->fixed.res.model, a, b->q_start[i], b->q_start[end], b, b->n[DIM_GROUP]++);
    }
}

int step_run(struct engine *g, const struct sched_step *step, struct op_view *out, struct err *e)
{
    struct batch *b = runner_batch(g->own.runner);
    memset(b->n, 0, sizeof b->n);
    b->q_start[0] = 0;
    for (int64_t i = 0; i < step->n_part; i++)
        put_part(b, &step->part[i], g->fixed.res.model->cfg.pool);
    if (g->names.registry)
        put_groups(g, b, step);
    return runner_step(g->own.runner, out, e);
}
