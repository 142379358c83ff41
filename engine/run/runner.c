/* SPDX-License-Identifier: Apache-2.0
 *
 * A runner: inputs, cells and states, and either a plan or an executor over them.
 */
#include "engine/run/runner.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/graph/passes.h"
#include "engine/graph/plan.h"
#include "engine/model/dora.h"
#include "engine/model/saved.h"
#include "engine/run/cells.h"
#include "engine/run/inputs.h"
#include "engine/run/lead.h"
#include "engine/run/ranks.h"
#include "engine/run/states.h"

struct runner {
    const struct model *model; /* borrowed */
    struct graph_ranks ranks;
    struct graph shared; /* in eager mode, where ranks share the model: what is run op by op */
    struct lead lead;
    struct runner_options opt;
    struct stream *stream; /* borrowed */
    struct device *device; /* borrowed */
    struct inputs in;
    struct inputs_caps in_caps;
    const int32_t *drawn; /* borrowed, the device's: tokens for the next step; NULL: none */
    struct cells cells;
    struct states states;
    float *parts; /* owned; device memory of in.dev.part; NULL: none */
    size_t parts_bytes;
    struct plan *plan;   /* owned; NULL in eager mode */
    struct eager *eager; /* owned; NULL in static mode */
};

/* A step of so few tokens that there are not two heads for each compute thread takes the chunks of
 * a long sequence apart: three heads on two threads would leave one idle for a third of the time.
 */
static int make_parts(struct runner *r, struct err *e)
{
    const struct config *cfg = &r->model->cfg;
    int32_t d_head = cfg->full_d_head > cfg->d_head ? cfg->full_d_head : cfg->d_head;
    int64_t n_row = (2 * device_lanes(r->device) - 1) / cfg->n_kv_head;
    int64_t n_chunk = (r->in.dev.cell_stride * K_CELL + K_ATTN_CHUNK - 1) / K_ATTN_CHUNK;
    if (n_row > r->opt.cap[DIM_TOK])
        n_row = r->opt.cap[DIM_TOK];
    if (n_row < 1 || n_chunk < 2)
        return 0;
    r->parts_bytes =
        (size_t)(n_row * n_chunk) * (size_t)cfg->n_head * ((size_t)d_head + 2) * sizeof *r->parts;
    r->parts = device_alloc(r->device, r->parts_bytes, "attention of long sequences", e);
    if (!r->parts)
        return -1;
    r->in.dev.part = (struct batch_parts){.at = r->parts, .n_row = n_row, .n_chunk = n_chunk};
    return 0;
}

static bool has_dora(const struct runner *r)
{
    return r->opt.lora_rank_max > 0 && dora_is_possible(r->model);
}

static bool has_saved(const struct runner *r)
{
    return r->opt.lora_rank_max > 0 && saved_is_possible(r->model);
}

/* An encoder's layers use the cells one after the other; a decoder's keep their own. */
static int make_memory(struct runner *r, struct err *e)
{
    int64_t stride = (r->model->ctx + K_CELL - 1) / K_CELL;
    r->opt.cap[DIM_DORA] = has_dora(r) ? r->opt.cap[DIM_GROUP] : 0;
    r->opt.cap[DIM_SAVED] = has_saved(r) ? r->opt.cap[DIM_GROUP] : 0;
    r->in_caps =
        (struct inputs_caps){.cell_stride = stride < r->opt.n_cell ? stride : r->opt.n_cell,
                             .n_lora = r->opt.lora_rank_max ? r->model->n_lora : 0,
                             .has_turns = r->model->rope_short > 0,
                             .has_states = model_state_bytes(r->model) > 0,
                             .goes_ahead = !device_reads_host(r->device) && !r->model->part};
    memcpy(r->in_caps.n, r->opt.cap, sizeof r->in_caps.n);
    if (inputs_init(&r->in, &r->in_caps, r->device, e) ||
        cells_init(&r->cells, r->model, r->opt.n_cell, r->model->cfg.is_encoder, e) ||
        states_init(&r->states, r->model, r->opt.n_state ? r->opt.n_state : r->opt.cap[DIM_SEQ],
                    e) ||
        make_parts(r, e))
        return -1;
    r->in.host.kv = r->in.dev.kv = r->cells.kv;
    r->in.host.state = r->in.dev.state = r->states.at;
    return lead_init(&r->lead, &r->in.host, &r->opt, r->model, e);
}

/* What the model computes, as this rank's graph where several share it. */
static int make_graph(struct runner *r, struct graph *g, unsigned passes, struct err *e)
{
    struct graph_recorder rec;
    graph_recorder_init(&rec, g);
    rec.b.has_lora = r->opt.lora_rank_max > 0;
    rec.b.lora_rank_max = r->opt.lora_rank_max;
    rec.b.has_dora = has_dora(r);
    rec.b.has_saved = has_saved(r);
    graph_mark_output(g, model_build(r->model, &rec.b, r->opt.output));
    if (rec.b.failed)
        return err_set(e, rec.b.err.code, "%s", rec.b.err.msg);
    if (ranks_of_model(r->model, &r->ranks))
        g->ranks = &r->ranks;
    return passes_run(g, passes | 1u << PASS_shard, PASS_COUNT - 1, e);
}

static int make_plan(struct runner *r, struct err *e)
{
    struct graph g;
    graph_init(&g);
    if (!make_graph(r, &g, passes_of_device(r->opt.passes, r->device), e))
        r->plan = plan_new(&g, &r->in.dev, r->opt.cap, r->device, e);
    graph_release(&g);
    return r->plan ? 0 : -1;
}

static int make_eager(struct runner *r, struct err *e)
{
    r->eager = eager_new(r->stream, e);
    return r->eager && !(r->model->part && make_graph(r, &r->shared, 0, e)) ? 0 : -1;
}

struct runner *runner_new(const struct model *m, const struct runner_options *o, struct stream *s,
                          struct err *e)
{
    struct runner *r = xcalloc(1, sizeof *r);
    *r = (struct runner){.model = m, .opt = *o, .stream = s, .device = stream_device(s)};
    graph_init(&r->shared);
    if (make_memory(r, e))
        goto fail;
    if (o->is_eager ? make_eager(r, e) : make_plan(r, e))
        goto fail;
    if (device_reserve(r->device, o->beside_bytes, "what adapters and jobs may take", e))
        goto fail;
    return r;
fail:
    runner_free(r);
    return NULL;
}

void runner_free(struct runner *r)
{
    if (!r)
        return;
    lead_release(&r->lead);
    graph_release(&r->shared);
    plan_free(r->plan);
    eager_free(r->eager);
    device_mem_free(r->device, r->parts);
    inputs_release(&r->in);
    cells_release(&r->cells);
    states_release(&r->states);
    free(r);
}

struct batch *runner_batch(struct runner *r)
{
    return &r->in.host;
}

bool runner_goes_ahead(const struct runner *r)
{
    return r->in_caps.goes_ahead;
}

void runner_go_ahead(struct runner *r, const int32_t *id)
{
    inputs_turn(&r->in, &r->in_caps);
    r->drawn = id;
}

static void feed_drawn(struct runner *r)
{
    struct k_token_feed a = {.token = r->in.dev.token,
                             .from = r->in.dev.from,
                             .id = r->drawn,
                             .n = r->in.dev.n[DIM_TOK]};
    if (r->drawn)
        stream_launch(r->stream, K_token_feed, &a, sizeof a);
    r->drawn = NULL;
}

static int step_eager(struct runner *r, struct op_view *out, struct err *e)
{
    struct eager_options o = {.has_lora = r->opt.lora_rank_max > 0,
                              .lora_rank_max = r->opt.lora_rank_max,
                              .has_dora = has_dora(r),
                              .has_saved = has_saved(r)};
    struct builder *b = eager_builder(r->eager);
    eager_end(r->eager); /* of the step before, whose result is not wanted any more */
    eager_begin(r->eager, &r->in.dev, &o);
    struct val v = {.id = -1};
    if (r->model->part) {
        if (graph_replay(&r->shared, b, &v, e))
            return -1;
    } else {
        v = model_build(r->model, b, r->opt.output);
    }
    if (b->failed)
        return err_set(e, b->err.code, "%s", b->err.msg);
    *out = eager_view(r->eager, v);
    return 0;
}

int runner_step(struct runner *r, struct op_view *out, struct err *e)
{
    if (r->states.at && !r->opt.n_state)
        states_by_order(&r->in.host);
    batch_find_saved(&r->in.host);
    if (lead_step(&r->lead, e))
        return -1;
    inputs_send(&r->in, r->stream);
    feed_drawn(r);
    if (r->eager)
        return lead_end(&r->lead, r->stream, step_eager(r, out, e), e);
    plan_run(r->plan, &r->in.dev, r->stream);
    *out = plan_output(r->plan, 0);
    return lead_end(&r->lead, r->stream, 0, e);
}

int runner_feed(struct runner *r, const int32_t *token, int64_t n, int64_t pos, int64_t n_out,
                struct op_view *out, struct err *e)
{
    struct batch *b = &r->in.host;
    int32_t turn = model_turn(r->model, r->opt.n_feed ? r->opt.n_feed : r->model->ctx);
    if (n < 1 || n > r->opt.cap[DIM_TOK] || n_out < 0 || n_out > n || n_out > r->opt.cap[DIM_OUT] ||
        pos < 0 || pos + n > b->cell_stride * K_CELL)
        return err_set(e, ERR_TOO_LARGE, "tokens %lld to %lld: a step takes %lld, the cache %lld",
                       (long long)pos, (long long)(pos + n), (long long)r->opt.cap[DIM_TOK],
                       (long long)(b->cell_stride * K_CELL));
    for (int64_t i = 0; i < n; i++) {
        if (token[i] < 0 || token[i] >= r->model->cfg.n_vocab)
            return err_set(e, ERR_BAD_INPUT, "token %d is not in the vocabulary of %lld", token[i],
                           (long long)r->model->cfg.n_vocab);
        b->token[i] = token[i];
        b->pos[i] = (int32_t)(pos + i);
        b->turn[i] = turn + b->pos[i];
        b->seq_of[i] = b->segment[i] = 0;
    }
    b->q_start[0] = 0;
    b->q_start[1] = (int32_t)n;
    b->kv_len[0] = (int32_t)(pos + n);
    for (int64_t c = 0; c < b->cell_stride; c++)
        b->cell[c] = (int32_t)c;
    for (int64_t i = 0; i < n_out; i++)
        b->out_row[i] = (int32_t)(n - n_out + i);
    b->n[DIM_TOK] = n;
    b->n[DIM_SEQ] = 1;
    b->n[DIM_OUT] = n_out;
    b->n[DIM_GROUP] = b->n[DIM_DORA] = b->n[DIM_SAVED] = 0;
    return runner_step(r, out, e);
}

size_t runner_bytes(const struct runner *r)
{
    return r->cells.bytes + r->states.bytes + r->parts_bytes +
           (r->plan ? plan_bytes(r->plan) : eager_bytes(r->eager));
}
