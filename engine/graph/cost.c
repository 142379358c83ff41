/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs by running each node's forward against a sink that only asks the kernels' shapes. The batch
 * holds real counts and positions, since attention's cost depends on them; values have no memory.
 */
#include "engine/graph/cost.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/op/collective.h"
#include "engine/op/ops.h"

struct count_sink {
    struct op_sink s; /* first */
    struct graph_cost *cost;
};

static void count_launch(struct op_sink *s, enum kernel_id k, const void *args, size_t bytes,
                         const struct op_count *count, int n_count)
{
    struct graph_cost *c = ((struct count_sink *)(void *)s)->cost;
    struct k_shape shape = kernel_shape(k, args);
    (void)bytes, (void)count, (void)n_count;
    c->bytes += shape.bytes;
    c->flops += shape.flops;
    c->n_launch++;
}

static void count_collective(struct op_sink *s, const struct op_collective *a, enum dim dim)
{
    (void)dim;
    ((struct count_sink *)(void *)s)->cost->moved += op_collective_bytes(a);
}

/* One prompt from position 0 on, in cells 0, 1, ... */
struct prompt {
    struct batch batch;
    int32_t *ints; /* owned */
    struct k_kv_cache *kv;
};

static void set_cache(struct prompt *p, const struct op_node *n)
{
    struct op_attn_attr a;
    memcpy(&a, n->attr, sizeof a);
    p->kv[a.layer] =
        (struct k_kv_cache){.type = K_BF16, .n_kv_head = a.n_kv_head, .d_head = a.d_head};
}

static void prompt_init(struct prompt *p, const struct graph *g, int64_t n_tok, int64_t n_out)
{
    int64_t n_cell = n_tok / K_CELL + 1;
    int16_t n_layer = 0;
    int32_t *at = xcalloc((size_t)(5 * n_tok + n_out + n_cell) + 8, sizeof *at);
    for (size_t i = 0; i < g->node.n; i++)
        n_layer = g->node.at[i].layer > n_layer ? g->node.at[i].layer : n_layer;
    *p = (struct prompt){.ints = at, .kv = xcalloc((size_t)n_layer + 2, sizeof *p->kv)};
    for (size_t i = 0; i < g->node.n; i++)
        if (g->node.at[i].op.op == OP_attn)
            set_cache(p, &g->node.at[i].op);
    struct batch *b = &p->batch;
    *b = (struct batch){.n = {[DIM_TOK] = n_tok, [DIM_OUT] = n_out, [DIM_SEQ] = 1},
                        .token = at,
                        .segment = at + n_tok,
                        .pos = at + 2 * n_tok,
                        .seq_of = at + 3 * n_tok,
                        .q_start = at + 4 * n_tok,
                        .kv_len = at + 4 * n_tok + 2,
                        .cell = at + 4 * n_tok + 3,
                        .out_row = at + 4 * n_tok + 3 + n_cell,
                        .cell_stride = n_cell,
                        .kv = p->kv};
    b->turn = b->pos;
    b->q_start[1] = b->kv_len[0] = (int32_t)n_tok;
    for (int64_t i = 0; i < n_tok; i++)
        b->pos[i] = (int32_t)i;
    for (int64_t i = 0; i < n_cell; i++)
        b->cell[i] = (int32_t)i;
}

static struct op_view no_memory(struct op_shape s)
{
    return (struct op_view){.shape = s, .ld = s.cols};
}

struct graph_cost *graph_costs(const struct graph *g, int64_t n_tok, int64_t n_out)
{
    struct graph_cost *cost = xcalloc(g->node.n + 1, sizeof *cost);
    struct count_sink sink = {.s = {.launch = count_launch, .collective = count_collective}};
    struct prompt p;
    prompt_init(&p, g, n_tok, n_out);
    for (size_t i = 0; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        struct op_ctx c = {.node = n, .batch = &p.batch, .cap = p.batch.n, .sink = &sink.s};
        if (op_get(n->op)->view)
            continue;
        for (int j = 0; j < n->n_in; j++)
            c.in[j] = no_memory(g->value.at[n->in[j]].shape);
        for (int o = 0; o < n->n_out; o++)
            c.out[o] = no_memory(g->value.at[n->out[o]].shape);
        sink.cost = &cost[i];
        op_get(n->op)->forward(&c);
    }
    free(p.ints);
    free(p.kv);
    return cost;
}
