/* SPDX-License-Identifier: Apache-2.0
 *
 * One block with the arrays one after the other.
 */
#include "engine/run/inputs.h"

#include <string.h>

enum { ALIGN_BYTES = 64 };

struct cut {
    char *base; /* NULL measures */
    size_t at;
};

static void *take(struct cut *c, int64_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += ((size_t)n * size + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return p;
}

static size_t lay_out(struct batch *b, const struct inputs_caps *caps, char *base)
{
    struct cut c = {.base = base};
    const int64_t *n = caps->n;
    b->cell_stride = caps->cell_stride;
    b->lora_stride = n[DIM_GROUP];
    b->token = take(&c, n[DIM_TOK], sizeof *b->token);
    b->from = caps->goes_ahead ? take(&c, n[DIM_TOK], sizeof *b->from) : NULL;
    b->segment = take(&c, n[DIM_TOK], sizeof *b->segment);
    b->pos = take(&c, n[DIM_TOK], sizeof *b->pos);
    b->seq_of = take(&c, n[DIM_TOK], sizeof *b->seq_of);
    b->q_start = take(&c, n[DIM_SEQ] + 1, sizeof *b->q_start);
    b->kv_len = take(&c, n[DIM_SEQ], sizeof *b->kv_len);
    b->cell = take(&c, n[DIM_SEQ] * caps->cell_stride, sizeof *b->cell);
    b->out_row = take(&c, n[DIM_OUT], sizeof *b->out_row);
    b->lora = take(&c, caps->n_lora * n[DIM_GROUP], sizeof *b->lora);
    b->lora_of = take(&c, n[DIM_GROUP], sizeof *b->lora_of);
    if (caps->trains) {
        b->target = take(&c, n[DIM_OUT], sizeof *b->target);
        b->dloss = take(&c, n[DIM_OUT], sizeof *b->dloss);
        b->dropout_key = take(&c, n[DIM_TOK], sizeof *b->dropout_key);
    }
    return c.at;
}

int inputs_init(struct inputs *in, const struct inputs_caps *caps, struct device *d, struct err *e)
{
    *in = (struct inputs){.device = d};
    in->bytes = lay_out(&in->host, caps, NULL);
    in->host_block = device_host_alloc(d, in->bytes, "the inputs of a step", e);
    if (!in->host_block)
        return -1;
    in->block = device_reads_host(d) ? in->host_block
                                     : device_alloc(d, in->bytes, "the inputs of a step", e);
    if (!in->block)
        return -1;
    lay_out(&in->host, caps, in->host_block);
    lay_out(&in->dev, caps, in->block);
    if (!caps->goes_ahead)
        return 0;
    in->host_other = device_host_alloc(d, in->bytes, "the inputs of a step", e);
    return in->host_other ? 0 : -1;
}

void inputs_release(struct inputs *in)
{
    if (!in->device)
        return;
    if (in->block != in->host_block)
        device_mem_free(in->device, in->block);
    device_host_free(in->device, in->host_block);
    device_host_free(in->device, in->host_other);
    *in = (struct inputs){0};
}

void inputs_turn(struct inputs *in, const struct inputs_caps *caps)
{
    void *sent = in->host_block;
    in->host_block = in->host_other;
    in->host_other = sent;
    lay_out(&in->host, caps, in->host_block);
}

const struct batch *inputs_send(struct inputs *in, struct stream *s)
{
    memcpy(in->dev.n, in->host.n, sizeof in->dev.n);
    in->dev.dropout_seed = in->host.dropout_seed;
    if (in->block != in->host_block)
        stream_copy(s, in->block, in->host_block, in->bytes, COPY_TO_DEVICE);
    return &in->dev;
}
