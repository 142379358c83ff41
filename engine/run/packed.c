/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays of a micro-batch: one set that is filled and one that kernels read (engine/run/
 * inputs.h), as in a runner.
 */
#include "engine/run/packed.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/run/cells.h"
#include "engine/run/inputs.h"
#include "kernels/attention.h"

struct packed {
    const struct model *model; /* borrowed */
    struct packed_options opt;
    struct stream *stream; /* borrowed */
    struct inputs in;
    struct cells cells;
    float *weight;             /* owned: [cap_tok] of each label, before the normaliser */
    struct batch_scale *scale; /* owned: [cap_row] the labels of each row */
    struct batch_scale *part;  /* owned: [cap_tok] runs of labels that count the same */
    float *dq_part;            /* owned; device memory of in.dev.dq_part; NULL: none */
    size_t dq_part_bytes;
    int32_t n_cell;
};

/* A GPU makes scores sooner than it would fetch parts. */
static int make_dq_part(struct packed *p, struct err *e)
{
    struct device *d = stream_device(p->stream);
    const struct config *cfg = &p->model->cfg;
    if (!device_reads_host(d))
        return 0;
    int32_t d_head = cfg->full_d_head > cfg->d_head ? cfg->full_d_head : cfg->d_head;
    p->dq_part_bytes = attn_part_floats(p->opt.cap_tok, cfg->n_head, d_head) * sizeof(float);
    p->dq_part = device_alloc(d, p->dq_part_bytes, "attention's gradients", e);
    p->in.host.dq_part = p->in.dev.dq_part = p->dq_part;
    return p->dq_part ? 0 : -1;
}

struct packed *packed_new(const struct model *m, const struct packed_options *o, struct stream *s,
                          struct err *e)
{
    struct packed *p = xcalloc(1, sizeof *p);
    *p = (struct packed){.model = m, .opt = *o, .stream = s};
    int64_t longest = o->cap_tok < m->ctx ? o->cap_tok : m->ctx;
    struct inputs_caps caps = {.n = {[DIM_TOK] = o->cap_tok,
                                     [DIM_OUT] = o->cap_tok,
                                     [DIM_SEQ] = o->cap_row,
                                     [DIM_GROUP] = o->cap_group},
                               .cell_stride = (longest + K_CELL - 1) / K_CELL,
                               .n_lora = m->n_lora,
                               .n_top = o->n_top,
                               .has_turns = m->rope_short > 0,
                               .trains = true};
    /* every row ends in a cell that may be filled in part */
    int64_t n_cell = o->cap_tok / K_CELL + o->cap_row + 1;
    if (inputs_init(&p->in, &caps, stream_device(s), e) ||
        cells_init(&p->cells, m, n_cell, o->shares_cells, e) || make_dq_part(p, e))
        goto fail;
    p->in.host.kv = p->in.dev.kv = p->cells.kv;
    p->weight = try_alloc((size_t)o->cap_tok, sizeof *p->weight, "a micro-batch", e);
    p->scale = try_alloc((size_t)o->cap_row, sizeof *p->scale, "a micro-batch", e);
    p->part = try_alloc((size_t)o->cap_tok, sizeof *p->part, "a micro-batch", e);
    if (!p->weight || !p->scale || !p->part)
        goto fail;
    packed_clear(p);
    return p;
fail:
    packed_free(p);
    return NULL;
}

void packed_free(struct packed *p)
{
    if (!p)
        return;
    inputs_release(&p->in);
    cells_release(&p->cells);
    if (p->dq_part)
        device_mem_free(stream_device(p->stream), p->dq_part);
    mem_free(p->weight);
    mem_free(p->scale);
    mem_free(p->part);
    free(p);
}

void packed_clear(struct packed *p)
{
    memset(p->in.host.n, 0, sizeof p->in.host.n);
    p->in.host.q_start[0] = 0;
    p->in.dev.n_scale = 0;
    p->n_cell = 0;
}

bool packed_fits(const struct packed *p, int64_t n)
{
    return p->in.host.n[DIM_TOK] + n <= p->opt.cap_tok && n <= p->model->ctx &&
           p->in.host.n[DIM_SEQ] < p->opt.cap_row;
}

static int check_row(const struct packed *p, const int32_t *id, const int32_t *label, int64_t n,
                     struct err *e)
{
    int64_t n_vocab = p->model->cfg.n_vocab;
    if (n < 1 || !packed_fits(p, n))
        return err_set(e, ERR_TOO_LARGE, "a row of %lld tokens does not fit", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= n_vocab || label[i] < -1 || label[i] >= n_vocab)
            return err_set(e, ERR_BAD_INPUT, "place %lld: token %d, label %d: %lld ids there are",
                           (long long)i, id[i], label[i], (long long)n_vocab);
    return 0;
}

static void name_none(struct batch_top *t, int64_t out)
{
    t->rest[out] = 0;
    for (int64_t k = 0; k < t->n_top; k++) {
        t->id[out * t->n_top + k] = -1;
        t->share[out * t->n_top + k] = 0;
    }
}

int packed_add(struct packed *p, const int32_t *id, const int32_t *label, const float *weight,
               int64_t n, uint64_t key, struct err *e)
{
    struct batch *b = &p->in.host;
    int64_t row = b->n[DIM_SEQ], at = b->n[DIM_TOK], first = b->n[DIM_OUT];
    int32_t turn = model_turn(p->model, n);
    if (check_row(p, id, label, n, e))
        return -1;
    for (int64_t i = 0; i < n; i++, at++) {
        b->token[at] = id[i];
        b->segment[at] = 0;
        b->pos[at] = (int32_t)i;
        b->turn[at] = turn + (int32_t)i;
        b->seq_of[at] = (int32_t)row;
        b->dropout_key[at] = key << 32 | (uint64_t)i;
        if (label[i] < 0)
            continue;
        if (b->top.n_top)
            name_none(&b->top, b->n[DIM_OUT]);
        b->out_row[b->n[DIM_OUT]] = (int32_t)at;
        b->target[b->n[DIM_OUT]] = label[i];
        p->weight[b->n[DIM_OUT]++] = weight ? weight[i] : 1.0f;
    }
    for (int64_t c = 0; c * K_CELL < n; c++)
        b->cell[row * b->cell_stride + c] = p->n_cell++;
    p->scale[row] = (struct batch_scale){.lo = first, .hi = b->n[DIM_OUT], .by = 1};
    b->kv_len[row] = (int32_t)n;
    b->q_start[row + 1] = (int32_t)at;
    b->n[DIM_SEQ]++;
    b->n[DIM_TOK] = at;
    return 0;
}

void packed_split(struct packed *p, int64_t n_first)
{
    struct batch *b = &p->in.host;
    for (int64_t at = b->q_start[b->n[DIM_SEQ] - 1] + n_first; at < b->n[DIM_TOK]; at++)
        b->segment[at] = 1;
}

void packed_teach(struct packed *p, const int32_t *id, const float *mass, double weight)
{
    struct batch *b = &p->in.host;
    const struct batch_scale *row = &p->scale[b->n[DIM_SEQ] - 1];
    for (int64_t i = row->lo; i < row->hi; i++, id++, mass++) {
        bool is_taught = *id >= 0;
        double rest = 1;
        for (int64_t k = 0; *id >= 0; k++, id++, mass++) {
            ASSERT(k < b->top.n_top);
            bool is_label = *id == b->target[i];
            b->top.id[i * b->top.n_top + k] = *id;
            b->top.share[i * b->top.n_top + k] =
                (float)(weight * (double)*mass + (is_label ? 1 - weight : 0));
            rest -= (double)*mass;
        }
        b->top.rest[i] = is_taught && rest > 0 ? (float)(weight * rest) : 0;
    }
}

const struct batch *packed_batch(struct packed *p, double normaliser, uint64_t dropout_seed)
{
    struct batch *b = &p->in.host;
    for (int64_t i = 0; i < b->n[DIM_OUT]; i++)
        b->dloss[i] = (float)(p->weight[i] / normaliser);
    b->dropout_seed = dropout_seed;
    if (p->opt.cap_group > 0) {
        struct k_lora_group *g = packed_lora(p);
        b->n[DIM_GROUP] = 1;
        b->n[DIM_DORA] = 0;
        for (int32_t i = 0; i < p->model->n_lora; i++) {
            g[i].row_lo = 0;
            g[i].row_hi = b->n[DIM_TOK];
            b->n[DIM_DORA] |= g[i].gain != NULL;
        }
    }
    p->in.dev.n_scale = 0;
    return inputs_send(&p->in, p->stream);
}

void packed_ask_load(struct packed *p, const struct batch_balance *load)
{
    p->in.dev.balance = *load;
}

void packed_scale(struct packed *p, const float *by)
{
    int64_t n = packed_n_row(p);
    for (int64_t i = 0; i < n; i++)
        p->scale[i].by = by[i];
    p->in.dev.scale = p->scale;
    p->in.dev.n_scale = n;
}

void packed_scale_labels(struct packed *p, const float *by)
{
    int64_t n = 0;
    for (int64_t i = 0; i < packed_n_out(p); i++)
        if (n > 0 && p->part[n - 1].by == by[i])
            p->part[n - 1].hi = i + 1;
        else
            p->part[n++] = (struct batch_scale){.lo = i, .hi = i + 1, .by = by[i]};
    p->in.dev.scale = p->part;
    p->in.dev.n_scale = n;
}

void packed_fetch_top(struct packed *p)
{
    const struct batch_top *from = &p->in.dev.top, *to = &p->in.host.top;
    size_t n = (size_t)packed_n_out(p);
    if (!from->n_top || from->logit == to->logit)
        return;
    stream_copy(p->stream, to->logit, from->logit, n * (size_t)from->n_top * sizeof *to->logit,
                COPY_FROM_DEVICE);
    stream_copy(p->stream, to->others, from->others, n * sizeof *to->others, COPY_FROM_DEVICE);
}

const struct batch_top *packed_top(const struct packed *p)
{
    return &p->in.host.top;
}

int64_t packed_n_row(const struct packed *p)
{
    return p->in.host.n[DIM_SEQ];
}

int64_t packed_n_tok(const struct packed *p)
{
    return p->in.host.n[DIM_TOK];
}

int64_t packed_n_out(const struct packed *p)
{
    return p->in.host.n[DIM_OUT];
}

double packed_weight(const struct packed *p)
{
    double sum = 0;
    for (int64_t i = 0; i < p->in.host.n[DIM_OUT]; i++)
        sum += p->weight[i];
    return sum;
}

size_t packed_bytes(const struct packed *p)
{
    return p->in.bytes + p->cells.bytes + p->dq_part_bytes;
}

struct k_lora_group *packed_lora(struct packed *p)
{
    return p->in.host.lora;
}
