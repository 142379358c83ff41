/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a packed table, picked by token, by position (GPT-2, BERT) or by segment (BERT). The
 * table of tokens is often the head as well: there is one copy, packed for the product. Rows of an
 * adapter that has a table of tokens of its own read that.
 */
#include "engine/op/ops.h"

#include <string.h>

struct embed_attr {
    const struct param *table;
    int64_t known; /* ids from here on are read as 0; 0: all are what they are */
    int32_t ids, from;
    bool has_saved;
};

static const struct embed_attr *attr_of(const struct op_node *n)
{
    return (const struct embed_attr *)(const void *)n->attr;
}

static const int32_t *ids_of(const struct op_ctx *c)
{
    switch ((enum op_ids)attr_of(c->node)->ids) {
    case OP_IDS_POS:
        return c->batch->pos;
    case OP_IDS_SEGMENT:
        return c->batch->segment;
    default:
        return c->batch->token;
    }
}

static struct val add(struct builder *b, struct embed_attr a)
{
    struct op_node n = {.op = OP_embed};
    struct embed_attr *to = (struct embed_attr *)(void *)n.attr; /* whose gaps stay zero */
    to->table = a.table;
    to->ids = a.ids;
    to->from = a.from;
    to->known = a.known;
    to->has_saved = a.has_saved;
    return builder_add(b, &n);
}

struct val op_embed_from(struct builder *b, enum op_ids ids, const struct param *table,
                         int32_t from)
{
    return add(b, (struct embed_attr){.table = table, .ids = (int32_t)ids, .from = from});
}

struct val op_embed_tokens(struct builder *b, const struct param *table)
{
    const struct param *own = b->saved[SAVED_EMBED];
    return add(b, (struct embed_attr){
                      .table = own ? own : table, .ids = OP_IDS_TOKEN, .has_saved = b->has_saved});
}

struct val op_embed(struct builder *b, enum op_ids ids, const struct param *table)
{
    return op_embed_from(b, ids, table, 0);
}

struct val op_embed_known(struct builder *b, const struct param *table)
{
    return add(b, (struct embed_attr){.table = table, .ids = OP_IDS_TOKEN, .known = table->n});
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    (void)in, (void)e;
    out[0] = (struct op_shape){.rows = DIM_TOK, .cols = attr_of(n)->table->k};
    return 0;
}

static void forward(struct op_ctx *c)
{
    struct k_embed a = {.token = ids_of(c),
                        .table = attr_of(c->node)->table->w,
                        .y = c->out[0].p,
                        .ld_y = c->out[0].ld,
                        .m = op_rows(c, DIM_TOK),
                        .lo = attr_of(c->node)->table->lo - attr_of(c->node)->from,
                        .known = attr_of(c->node)->known};
    const struct op_count count[] = {
        {.offset = offsetof(struct k_embed, m), .dim = DIM_TOK},
        {.offset = offsetof(struct k_embed, n_saved), .dim = DIM_SAVED}};
    if (attr_of(c->node)->has_saved) {
        a.saved = c->batch->saved[SAVED_EMBED];
        a.n_saved = op_rows(c, DIM_SAVED);
    }
    op_launch(c, K_embed, &a, sizeof a, count, a.saved ? 2 : 1);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct param *p = attr_of(c->node)->table;
    struct k_embed_bwd a = {.token = ids_of(c),
                            .dy = g->dout[0].p,
                            .ld_dy = g->dout[0].ld,
                            .m = op_rows(c, DIM_TOK),
                            .n = p->n,
                            .k = p->k,
                            .lo = p->lo - attr_of(c->node)->from,
                            .dtable = p->grad};
    if (p->grad)
        OP_LAUNCH_M(c, K_embed_bwd, a, DIM_TOK);
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? attr_of(n)->table : NULL;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct embed_attr a = *attr_of(n);
    a.table = op_part(l, a.table);
    memcpy(n->attr, &a, sizeof a);
}

/* A table split over the vocabulary leaves each rank a partial sum: zeros but for its own ids. */
static const struct op_shard shard[] = {{.weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
                                        {.weight = SPLIT_COLS, .out = SPLIT_PARTIAL},
                                        {.out = SPLIT_END}};

const struct op_def op_embed_def = {.shape = shape,
                                    .forward = forward,
                                    .backward = backward,
                                    .param = param,
                                    .localise = localise,
                                    .shard = shard};
