/* SPDX-License-Identifier: Apache-2.0
 *
 * Two sets of the batch's arrays: one that the host fills and one that kernels read. They are one
 * and the same where the device reads the host's memory.
 */
#include "engine/run/runner.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/graph/passes.h"
#include "engine/graph/plan.h"

struct runner {
    const struct model *model; /* borrowed */
    struct runner_options opt;
    struct stream *stream; /* borrowed */
    struct device *device; /* borrowed */
    void *host, *dev;      /* owned: blocks behind the arrays; may be the same */
    size_t input_bytes;
    struct batch host_batch, dev_batch;
    void *cells; /* owned: device memory of all layers' K and V */
    size_t cell_bytes;
    struct k_kv_cache *kv; /* owned: [n_layer] */
    struct plan *plan;     /* owned; NULL in eager mode */
    struct eager *eager;   /* owned; NULL in static mode */
};

/* One array after the other: `base` NULL measures. */
static size_t lay_out(struct batch *b, const struct runner *r, char *base)
{
    const int64_t *cap = r->opt.cap;
    size_t at = 0;
    struct {
        int32_t **p;
        int64_t n;
    } ints[] = {{&b->token, cap[DIM_TOK]},
                {&b->segment, cap[DIM_TOK]},
                {&b->pos, cap[DIM_TOK]},
                {&b->seq_of, cap[DIM_TOK]},
                {&b->q_start, cap[DIM_SEQ] + 1},
                {&b->kv_len, cap[DIM_SEQ]},
                {&b->cell, cap[DIM_SEQ] * b->cell_stride},
                {&b->out_row, cap[DIM_OUT]},
                {&b->target, cap[DIM_OUT]}};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        *ints[i].p = base ? (int32_t *)(void *)(base + at) : NULL;
        at += ((size_t)ints[i].n * sizeof(int32_t) + 63) / 64 * 64;
    }
    b->dloss = base ? (float *)(void *)(base + at) : NULL;
    at += ((size_t)cap[DIM_OUT] * sizeof(float) + 63) / 64 * 64;
    b->lora = base ? (struct k_lora_group *)(void *)(base + at) : NULL;
    b->lora_stride = cap[DIM_GROUP];
    at += (size_t)r->model->n_lora * (size_t)cap[DIM_GROUP] * sizeof(struct k_lora_group);
    return at;
}

static int make_inputs(struct runner *r, struct err *e)
{
    int64_t stride = (r->model->ctx + K_CELL - 1) / K_CELL;
    r->host_batch.cell_stride = r->dev_batch.cell_stride =
        stride < r->opt.n_cell ? stride : r->opt.n_cell;
    r->input_bytes = lay_out(&r->host_batch, r, NULL);
    r->host = device_host_alloc(r->device, r->input_bytes, "the inputs of a step", e);
    if (!r->host)
        return -1;
    r->dev = device_reads_host(r->device)
                 ? r->host
                 : device_alloc(r->device, r->input_bytes, "the inputs of a step", e);
    if (!r->dev)
        return -1;
    lay_out(&r->host_batch, r, r->host);
    lay_out(&r->dev_batch, r, r->dev);
    return 0;
}

/* An encoder's layers use the cells one after the other; a decoder's keep their own. */
static int make_cells(struct runner *r, struct err *e)
{
    const struct config *c = &r->model->cfg;
    size_t cell = k_kv_cell_bytes(r->model->kv_type, c->d_head);
    size_t half = cell * (size_t)c->n_kv_head * (size_t)r->opt.n_cell;
    int64_t n = c->family == FAMILY_BERT ? 1 : c->n_layer;
    r->kv = xcalloc((size_t)c->n_layer + 1, sizeof *r->kv);
    r->cell_bytes = 2 * half * (size_t)n;
    r->cells = device_alloc(r->device, r->cell_bytes, "the K/V cache", e);
    if (!r->cells)
        return -1;
    for (int64_t l = 0; l < c->n_layer; l++) {
        char *at = (char *)r->cells + 2 * half * (size_t)(n == 1 ? 0 : l);
        r->kv[l] = (struct k_kv_cache){.type = r->model->kv_type,
                                       .k = at,
                                       .v = at + half,
                                       .n_kv_head = c->n_kv_head,
                                       .d_head = c->d_head,
                                       .n_cell = r->opt.n_cell};
    }
    r->host_batch.kv = r->dev_batch.kv = r->kv;
    return 0;
}

static int make_plan(struct runner *r, struct err *e)
{
    struct graph g;
    struct graph_recorder rec;
    int rc = -1;
    graph_init(&g);
    graph_recorder_init(&rec, &g);
    rec.b.has_lora = r->opt.lora_rank_max > 0;
    rec.b.lora_rank_max = r->opt.lora_rank_max;
    graph_mark_output(&g, model_build(r->model, &rec.b, r->opt.head));
    if (rec.b.failed)
        err_set(e, rec.b.err.code, "%s", rec.b.err.msg);
    else if (!passes_run(&g, r->opt.passes, PASS_COUNT - 1, e))
        r->plan = plan_new(&g, &r->dev_batch, r->opt.cap, r->device, e);
    rc = r->plan ? 0 : -1;
    graph_release(&g);
    return rc;
}

struct runner *runner_new(const struct model *m, const struct runner_options *o, struct stream *s,
                          struct err *e)
{
    struct runner *r = xcalloc(1, sizeof *r);
    *r = (struct runner){.model = m, .opt = *o, .stream = s, .device = stream_device(s)};
    if (make_inputs(r, e) || make_cells(r, e))
        goto fail;
    if (o->is_eager) {
        r->eager = eager_new(s, e);
        if (!r->eager)
            goto fail;
    } else if (make_plan(r, e)) {
        goto fail;
    }
    return r;
fail:
    runner_free(r);
    return NULL;
}

void runner_free(struct runner *r)
{
    if (!r)
        return;
    plan_free(r->plan);
    eager_free(r->eager);
    device_mem_free(r->device, r->cells);
    if (r->dev != r->host)
        device_mem_free(r->device, r->dev);
    device_host_free(r->device, r->host);
    free(r->kv);
    free(r);
}

struct batch *runner_batch(struct runner *r)
{
    return &r->host_batch;
}

static int step_eager(struct runner *r, struct op_view *out, struct err *e)
{
    struct eager_options o = {.has_lora = r->opt.lora_rank_max > 0,
                              .lora_rank_max = r->opt.lora_rank_max};
    struct builder *b = eager_builder(r->eager);
    eager_end(r->eager); /* of the step before, whose result is not wanted any more */
    eager_begin(r->eager, &r->dev_batch, &o);
    struct val v = model_build(r->model, b, r->opt.head);
    if (b->failed)
        return err_set(e, b->err.code, "%s", b->err.msg);
    *out = eager_view(r->eager, v);
    return 0;
}

int runner_step(struct runner *r, struct op_view *out, struct err *e)
{
    memcpy(r->dev_batch.n, r->host_batch.n, sizeof r->dev_batch.n);
    if (r->dev != r->host)
        stream_copy(r->stream, r->dev, r->host, r->input_bytes, COPY_TO_DEVICE);
    if (r->eager)
        return step_eager(r, out, e);
    plan_run(r->plan, &r->dev_batch, r->stream);
    *out = plan_output(r->plan, 0);
    return 0;
}

int runner_feed(struct runner *r, const int32_t *token, int64_t n, int64_t pos, int64_t n_out,
                struct op_view *out, struct err *e)
{
    struct batch *b = &r->host_batch;
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
    b->n[DIM_GROUP] = 0;
    return runner_step(r, out, e);
}

size_t runner_bytes(const struct runner *r)
{
    return r->cell_bytes + (r->plan ? plan_bytes(r->plan) : eager_bytes(r->eager));
}
