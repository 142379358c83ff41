/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule (kernels/args_delta.h): a mixer of rows whose memory of a sequence is one
 * state of fixed size for each head of values, in the layer's slots between steps. Queries and keys
 * get unit length in here; decay and learning rate of each row are made of its a and b.
 *
 * The recurrence runs row by row, so a row's bits don't depend on how its sequence was cut into
 * steps.
 */
#include <string.h>

#include "engine/op/recurrence.h"

static const struct op_delta_attr *attr_of(const struct op_node *n)
{
    return (const struct op_delta_attr *)(const void *)n->attr;
}

struct val op_delta(struct builder *b, const struct op_delta_in *in,
                    const struct op_delta_attr *attr)
{
    struct op_node n = {
        .op = OP_delta, .n_in = 5, .in = {in->q.id, in->k.id, in->v.id, in->a.id, in->b.id}};
    struct op_delta_attr *to = (struct op_delta_attr *)(void *)n.attr;
    memcpy(to, attr, sizeof *attr);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_delta_attr *a = attr_of(n);
    out[0] = in[2];
    return recurrence_shape(n, in, &a->heads, (const struct param *[]){a->a_log, a->dt_bias}, 2, e);
}

/* ---- memory --------------------------------------------------------------------------------- */

static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    struct carve at = {0};
    (void)in;
    recurrence_rates_at(&at, &attr_of(n)->heads, cap);
    return at.at;
}

struct back {
    struct recurrence_back rows;
    float *da, *da_log;
};

static struct back back_at(struct carve *at, const struct op_delta_attr *a, const int64_t *cap)
{
    struct back b = {.rows = recurrence_back_at(at, &a->heads, cap)};
    b.da = recurrence_floats(at, cap[DIM_TOK], a->heads.n_v);
    b.da_log = recurrence_floats(at, cap[DIM_TOK], a->heads.n_v);
    return b;
}

static size_t work_back(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    struct carve at = {0};
    (void)in;
    back_at(&at, attr_of(n), cap);
    return at.at;
}

/* ---- forward and backward ------------------------------------------------------------------- */

static struct k_delta_rates rates_of(const struct op_ctx *c, float *rate)
{
    const struct op_delta_attr *at = attr_of(c->node);
    return (struct k_delta_rates){.q = c->in[0].p,
                                  .k = c->in[1].p,
                                  .a = c->in[3].p,
                                  .b = c->in[4].p,
                                  .a_log = at->a_log->vec,
                                  .dt_bias = at->dt_bias->vec,
                                  .rate = rate,
                                  .ld_q = c->in[0].ld,
                                  .ld_k = c->in[1].ld,
                                  .ld_a = c->in[3].ld,
                                  .ld_b = c->in[4].ld,
                                  .m = op_rows(c, DIM_TOK),
                                  .n_k = at->heads.n_k,
                                  .n_v = at->heads.n_v,
                                  .d_k = at->heads.d_k};
}

static void forward(struct op_ctx *c)
{
    const struct op_state_heads *h = &attr_of(c->node)->heads;
    struct carve at = {.base = c->work};
    struct k_delta_rates r = rates_of(c, recurrence_rates_at(&at, h, c->cap));
    OP_LAUNCH_M(c, K_delta_rates, r, DIM_TOK);
    recurrence_forward(c, h, r.rate, NULL);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct op_delta_attr *at = attr_of(c->node);
    struct carve room = {.base = c->work};
    struct back b = back_at(&room, at, c->cap);
    struct k_delta_rates rates = rates_of(c, b.rows.rate);
    struct k_delta_rates_bwd r = {.fwd = rates,
                                  .part = b.rows.part,
                                  .dq = g->din[0].p,
                                  .dk = g->din[1].p,
                                  .da = g->din[3].p ? g->din[3].p : b.da,
                                  .db = g->din[4].p,
                                  .da_log = b.da_log,
                                  .ld_dq = g->din[0].ld,
                                  .ld_dk = g->din[1].ld,
                                  .ld_da = g->din[3].p ? g->din[3].ld : at->heads.n_v,
                                  .ld_db = g->din[4].ld};
    OP_LAUNCH_M(c, K_delta_rates, rates, DIM_TOK);
    recurrence_backward(c, g, &at->heads, &b.rows, NULL);
    op_launch(c, K_delta_rates_bwd, &r, sizeof r,
              &(struct op_count){.offset = offsetof(struct k_delta_rates_bwd, fwd) +
                                           offsetof(struct k_delta_rates, m),
                                 .dim = DIM_TOK},
              1);
    recurrence_sum_rows(c, at->dt_bias, r.da, r.ld_da);
    recurrence_sum_rows(c, at->a_log, r.da_log, at->heads.n_v);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? attr_of(n)->a_log : i == 1 ? attr_of(n)->dt_bias : NULL;
}

static int64_t pieces(const struct op_node *n, const struct op_shape *in)
{
    (void)in;
    return attr_of(n)->heads.n_k;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_delta_attr a = *attr_of(n);
    a.a_log = op_part(l, a.a_log);
    a.dt_bias = op_part(l, a.dt_bias);
    recurrence_localise(&a.heads, l);
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE, SPLIT_WHOLE, SPLIT_WHOLE, SPLIT_WHOLE},
     .weight = SPLIT_WHOLE,
     .out = SPLIT_WHOLE},
    {.in = {SPLIT_COLS, SPLIT_COLS, SPLIT_COLS, SPLIT_COLS, SPLIT_COLS},
     .weight = SPLIT_COLS,
     .out = SPLIT_COLS},
    {.out = SPLIT_END}};

const struct op_def op_delta_def = {.shape = shape,
                                    .work = work,
                                    .work_back = work_back,
                                    .forward = forward,
                                    .backward = backward,
                                    .param = param,
                                    .need_in = 31,
                                    .only_overwrites = true,
                                    .has_effect = true,
                                    .pieces = pieces,
                                    .localise = localise,
                                    .shard = shard};
