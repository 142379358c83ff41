/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries turned, and keys and values written to the layer's cells: what pass `rope_kv` makes of
 * two ropes (and the norms of heads before them) and of the writing in op attn, which then reads
 * the cells alone. The same numbers in one launch. No model calls it, so it has no backward, and
 * ranks have shared the graph by then.
 */
#include "engine/op/rope_kv.h"

#include <string.h>

#include "engine/op/norm.h"

static const struct op_rope_kv_attr *attr_of(const struct op_node *n)
{
    return (const struct op_rope_kv_attr *)(const void *)n->attr;
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_rope_kv_attr *a = attr_of(n);
    for (int i = 0; i < 3; i++) {
        int64_t want = (int64_t)(i ? a->n_kv_head : a->rope.n_head) * a->rope.d_head;
        if (in[i].blocked || in[i].rows != DIM_TOK || in[i].cols != want)
            return err_set(e, ERR_BAD_INPUT, "input %d has %lld columns, %lld expected", i,
                           (long long)in[i].cols, (long long)want);
    }
    out[0] = in[0];
    return 0;
}

static const struct op_count count[] = {
    {.offset = offsetof(struct k_rope_kv, kv.batch.n_seq), .dim = DIM_SEQ},
    {.offset = offsetof(struct k_rope_kv, kv.batch.n_tok), .dim = DIM_TOK}};

static void forward(struct op_ctx *c)
{
    const struct op_rope_kv_attr *at = attr_of(c->node);
    struct k_rope_kv a = {.kv = {.batch = batch_ragged(c->batch),
                                 .cache = c->batch->kv[at->layer],
                                 .k = c->in[1].p,
                                 .v = c->in[2].p,
                                 .ld_k = c->in[1].ld,
                                 .ld_v = c->in[2].ld},
                          .q = c->in[0].p,
                          .y = c->out[0].p,
                          .ld_q = c->in[0].ld,
                          .ld_y = c->out[0].ld,
                          .turn = c->batch->turn,
                          .cos = at->rope.cos,
                          .sin = at->rope.sin,
                          .q_weight = at->q_weight ? at->q_weight->vec : NULL,
                          .k_weight = at->k_weight ? at->k_weight->vec : NULL,
                          .n_head = at->rope.n_head,
                          .d_rot = at->rope.d_rot,
                          .eps = at->eps,
                          .interleaved = at->rope.interleaved,
                          .plus_one = at->plus_one};
    op_launch(c, K_rope_kv, &a, sizeof a, count, 2);
}

static const struct param *param(const struct op_node *n, int i)
{
    const struct op_rope_kv_attr *a = attr_of(n);
    return i == 0 ? a->q_weight : i == 1 ? a->k_weight : NULL;
}

const struct op_def op_rope_kv_def = {.shape = shape,
                                      .forward = forward,
                                      .param = param,
                                      .only_overwrites = true,
                                      .may_overwrite = {1},
                                      .has_effect = true};

/* ---- what it is made from -------------------------------------------------------------------- */

static struct op_rope_attr rope_of(const struct op_node *rope)
{
    struct op_rope_attr a;
    memcpy(&a, rope->attr, sizeof a);
    return a;
}

static const struct norm_attr *norm_of(const struct op_node *norm)
{
    return (const struct norm_attr *)(const void *)norm->attr;
}

/* A norm that this op can do: by heads, of what comes as it is. */
static bool is_of_heads(const struct op_node *norm, const struct op_rope_attr *r)
{
    return norm && norm->op == OP_rmsnorm && norm->n_in == 1 && norm_of(norm)->weight &&
           norm_of(norm)->d == r->d_head;
}

int op_rope_kv_set(struct op_node *n, const struct op_rope_kv_from *f)
{
    struct op_attn_attr at;
    struct op_rope_attr q = rope_of(f->rope_q), k = rope_of(f->rope_k);
    memcpy(&at, f->attn->attr, sizeof at);
    struct op_rope_kv_attr a = {.rope = q, .layer = at.layer, .n_kv_head = k.n_head};
    k.n_head = q.n_head;
    if (memcmp(&q, &k, sizeof q) != 0 || q.d_head != at.d_head || q.at)
        return -1;
    bool has_norms = is_of_heads(f->norm_q, &q) && is_of_heads(f->norm_k, &q) &&
                     norm_of(f->norm_q)->eps == norm_of(f->norm_k)->eps &&
                     norm_of(f->norm_q)->plus_one == norm_of(f->norm_k)->plus_one;
    *n = (struct op_node){.op = OP_rope_kv, .n_in = 3, .n_out = 1};
    n->in[0] = has_norms ? f->norm_q->in[0] : f->rope_q->in[0];
    n->in[1] = has_norms ? f->norm_k->in[0] : f->rope_k->in[0];
    n->in[2] = f->attn->in[2];
    if (has_norms) {
        a.q_weight = norm_of(f->norm_q)->weight;
        a.k_weight = norm_of(f->norm_k)->weight;
        a.eps = norm_of(f->norm_q)->eps;
        a.plus_one = norm_of(f->norm_q)->plus_one;
    }
    memcpy(n->attr, &a, sizeof a);
    return 0;
}
