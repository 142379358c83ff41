/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch in bytes is the used parts of its arrays behind each other.
 */
#include "engine/run/order.h"

#include <string.h>

int order_pass(struct comm *c, void *x, size_t bytes, bool is_patient, struct err *e)
{
    struct comm_job j = {.kind = COMM_BROADCAST, .out = x, .n = bytes};
    j.is_patient = is_patient && comm_rank(c) != 0;
    return comm_run(c, &j, e);
}

struct packer {
    char *at;
    bool reads; /* out of the bytes into the batch */
};

static void put(struct packer *p, void *x, int64_t n, size_t size)
{
    size_t bytes = (size_t)n * size;
    if (p->reads)
        memcpy(x, p->at, bytes);
    else
        memcpy(p->at, x, bytes);
    p->at += bytes;
}

static int64_t cells_of(const struct batch *b, int64_t seq)
{
    return (b->kv_len[seq] + K_CELL - 1) / K_CELL;
}

/* What of a batch is the same on both sides. */
static void put_arrays(struct packer *p, struct batch *b)
{
    const int64_t *n = b->n;
    put(p, b->token, n[DIM_TOK], sizeof *b->token);
    put(p, b->segment, n[DIM_TOK], sizeof *b->segment);
    put(p, b->pos, n[DIM_TOK], sizeof *b->pos);
    if (b->turn != b->pos)
        put(p, b->turn, n[DIM_TOK], sizeof *b->turn);
    put(p, b->seq_of, n[DIM_TOK], sizeof *b->seq_of);
    put(p, b->q_start, n[DIM_SEQ] + 1, sizeof *b->q_start);
    put(p, b->kv_len, n[DIM_SEQ], sizeof *b->kv_len);
    put(p, b->out_row, n[DIM_OUT], sizeof *b->out_row);
    if (b->state_from) {
        put(p, b->state_from, n[DIM_SEQ], sizeof *b->state_from);
        put(p, b->state_to, n[DIM_SEQ], sizeof *b->state_to);
        put(p, b->state_kept, n[DIM_SEQ], sizeof *b->state_kept);
        put(p, b->state_kept_len, n[DIM_SEQ], sizeof *b->state_kept_len);
    }
    for (int64_t s = 0; s < n[DIM_SEQ]; s++) /* kv_len is there by now */
        put(p, b->cell + s * b->cell_stride, cells_of(b, s), sizeof *b->cell);
}

/* The groups come first, where they are aligned. */
size_t order_batch_put(struct batch *b, char *room)
{
    struct order_group *g = (struct order_group *)(void *)room;
    for (int64_t i = 0; i < b->n[DIM_GROUP]; i++)
        g[i] = (struct order_group){b->lora[i].row_lo, b->lora[i].row_hi, b->lora_of[i]};
    struct packer p = {.at = (char *)(g + b->n[DIM_GROUP])};
    put_arrays(&p, b);
    return (size_t)(p.at - room);
}

void order_batch_get(struct batch *b, char *room, const struct order_group **group)
{
    const struct order_group *g = (const struct order_group *)(const void *)room;
    struct packer p = {.at = room + (size_t)b->n[DIM_GROUP] * sizeof *g, .reads = true};
    put_arrays(&p, b);
    *group = g;
}

size_t order_batch_room(const struct batch *b, const int64_t *cap)
{
    return sizeof(struct order_group) * (size_t)cap[DIM_GROUP] +
           sizeof(int32_t) * (size_t)(5 * cap[DIM_TOK] + cap[DIM_OUT] + 6 * cap[DIM_SEQ] + 1 +
                                      cap[DIM_SEQ] * b->cell_stride);
}
