/* SPDX-License-Identifier: Apache-2.0
 *
 * One block with the arrays one after the other.
 */
#include "engine/run/inputs.h"

#include <string.h>

#include "engine/base/carve.h"

static size_t lay_out(struct batch *b, const struct inputs_caps *caps, char *base)
{
    struct carve c = {.base = base};
    const int64_t *n = caps->n;
    b->cell_stride = caps->cell_stride;
    b->lora_stride = n[DIM_GROUP];
    b->token = carve(&c, n[DIM_TOK], sizeof *b->token);
    b->from = caps->goes_ahead ? carve(&c, n[DIM_TOK], sizeof *b->from) : NULL;
    b->segment = carve(&c, n[DIM_TOK], sizeof *b->segment);
    b->pos = carve(&c, n[DIM_TOK], sizeof *b->pos);
    b->turn = caps->has_turns ? carve(&c, n[DIM_TOK], sizeof *b->turn) : b->pos;
    b->seq_of = carve(&c, n[DIM_TOK], sizeof *b->seq_of);
    b->q_start = carve(&c, n[DIM_SEQ] + 1, sizeof *b->q_start);
    b->kv_len = carve(&c, n[DIM_SEQ], sizeof *b->kv_len);
    b->cell = carve(&c, n[DIM_SEQ] * caps->cell_stride, sizeof *b->cell);
    if (caps->has_states) {
        b->state_from = carve(&c, n[DIM_SEQ], sizeof *b->state_from);
        b->state_to = carve(&c, n[DIM_SEQ], sizeof *b->state_to);
        b->state_kept = carve(&c, n[DIM_SEQ], sizeof *b->state_kept);
        b->state_kept_len = carve(&c, n[DIM_SEQ], sizeof *b->state_kept_len);
    }
    b->out_row = carve(&c, n[DIM_OUT], sizeof *b->out_row);
    b->lora = carve(&c, caps->n_lora * n[DIM_GROUP], sizeof *b->lora);
    b->lora_of = carve(&c, n[DIM_GROUP], sizeof *b->lora_of);
    b->saved_stride = n[DIM_SAVED];
    for (int i = 0; i < SAVED_COUNT; i++)
        b->saved[i] = carve(&c, n[DIM_SAVED], sizeof *b->saved[i]);
    b->saved_out = carve(&c, n[DIM_SAVED] + 1, sizeof *b->saved_out);
    if (caps->trains) {
        b->target = carve(&c, n[DIM_OUT], sizeof *b->target);
        b->dloss = carve(&c, n[DIM_OUT], sizeof *b->dloss);
        b->dropout_key = carve(&c, n[DIM_TOK], sizeof *b->dropout_key);
    }
    b->top.n_top = caps->n_top;
    if (caps->n_top) {
        b->top.id = carve(&c, n[DIM_OUT] * caps->n_top, sizeof *b->top.id);
        b->top.share = carve(&c, n[DIM_OUT] * caps->n_top, sizeof *b->top.share);
        b->top.rest = carve(&c, n[DIM_OUT], sizeof *b->top.rest);
        b->top.logit = carve(&c, n[DIM_OUT] * caps->n_top, sizeof *b->top.logit);
        b->top.others = carve(&c, n[DIM_OUT], sizeof *b->top.others);
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
