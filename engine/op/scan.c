/* SPDX-License-Identifier: Apache-2.0
 *
 * The state-space scan of Mamba-2 (kernels/args_delta.h): a mixer of rows whose memory of a
 * sequence is one state for each head of values, as the delta rule's, which shares all of it but
 * the rates. Queries and keys (C and B) are read as they come; how much a row's values weigh, and
 * what the state loses before, is made of its dt.
 */
#include <string.h>

#include "engine/op/recurrence.h"

static const struct op_scan_attr *attr_of(const struct op_node *n)
{
    return (const struct op_scan_attr *)(const void *)n->attr;
}

struct val op_scan(struct builder *b, const struct op_scan_in *in, const struct op_scan_attr *attr)
{
    struct op_node n = {.op = OP_scan, .n_in = 4, .in = {in->q.id, in->k.id, in->v.id, in->dt.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_scan_attr *a = attr_of(n);
    out[0] = in[2];
    return recurrence_shape(n, in, &a->heads,
                            (const struct param *[]){a->a_log, a->dt_bias, a->skip}, 3, e);
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
    float *ddt, *da_log, *dskip;
};

static struct back back_at(struct carve *at, const struct op_scan_attr *a, const int64_t *cap)
{
    struct back b = {.rows = recurrence_back_at(at, &a->heads, cap)};
    b.ddt = recurrence_floats(at, cap[DIM_TOK], a->heads.n_v);
    b.da_log = recurrence_floats(at, cap[DIM_TOK], a->heads.n_v);
    b.dskip = recurrence_floats(at, cap[DIM_TOK], a->heads.n_v);
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

static struct k_scan_rates rates_of(const struct op_ctx *c, float *rate)
{
    const struct op_scan_attr *at = attr_of(c->node);
    return (struct k_scan_rates){.dt = c->in[3].p,
                                 .a_log = at->a_log->vec,
                                 .dt_bias = at->dt_bias->vec,
                                 .rate = rate,
                                 .ld_dt = c->in[3].ld,
                                 .m = op_rows(c, DIM_TOK),
                                 .n_k = at->heads.n_k,
                                 .n_v = at->heads.n_v,
                                 .lo = at->lo,
                                 .hi = at->hi};
}

static void forward(struct op_ctx *c)
{
    const struct op_scan_attr *a = attr_of(c->node);
    struct carve at = {.base = c->work};
    struct k_scan_rates r = rates_of(c, recurrence_rates_at(&at, &a->heads, c->cap));
    OP_LAUNCH_M(c, K_scan_rates, r, DIM_TOK);
    recurrence_forward(c, &a->heads, r.rate, a->skip->vec);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct op_scan_attr *at = attr_of(c->node);
    struct carve room = {.base = c->work};
    struct back b = back_at(&room, at, c->cap);
    struct k_scan_rates rates = rates_of(c, b.rows.rate);
    struct k_scan_rates_bwd r = {.fwd = rates,
                                 .part = b.rows.part,
                                 .v = c->in[2].p,
                                 .dy = g->dout[0].p,
                                 .dq = g->din[0].p,
                                 .dk = g->din[1].p,
                                 .ddt = g->din[3].p ? g->din[3].p : b.ddt,
                                 .da_log = b.da_log,
                                 .dskip = b.dskip,
                                 .ld_v = c->in[2].ld,
                                 .ld_dy = g->dout[0].ld,
                                 .ld_dq = g->din[0].ld,
                                 .ld_dk = g->din[1].ld,
                                 .ld_ddt = g->din[3].p ? g->din[3].ld : at->heads.n_v,
                                 .d_k = at->heads.d_k,
                                 .d_v = at->heads.d_v};
    OP_LAUNCH_M(c, K_scan_rates, rates, DIM_TOK);
    recurrence_backward(c, g, &at->heads, &b.rows, at->skip->vec);
    op_launch(c, K_scan_rates_bwd, &r, sizeof r,
              &(struct op_count){.offset = offsetof(struct k_scan_rates_bwd, fwd) +
                                           offsetof(struct k_scan_rates, m),
                                 .dim = DIM_TOK},
              1);
    recurrence_sum_rows(c, at->dt_bias, r.ddt, r.ld_ddt);
    recurrence_sum_rows(c, at->a_log, r.da_log, at->heads.n_v);
    recurrence_sum_rows(c, at->skip, r.dskip, at->heads.n_v);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static const struct param *param(const struct op_node *n, int i)
{
    const struct op_scan_attr *a = attr_of(n);
    return i == 0 ? a->a_log : i == 1 ? a->dt_bias : i == 2 ? a->skip : NULL;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_scan_attr a = *attr_of(n);
    a.a_log = op_part(l, a.a_log);
    a.dt_bias = op_part(l, a.dt_bias);
    a.skip = op_part(l, a.skip);
    recurrence_localise(&a.heads, l);
    memcpy(n->attr, &a, sizeof a);
}

/* All heads share the keys of one group, in the models that there are, and the norm behind them
 * goes over all of it: every rank runs all heads, and has a part of the products around them. */
static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE, SPLIT_WHOLE, SPLIT_WHOLE, SPLIT_WHOLE},
                                         .weight = SPLIT_WHOLE,
                                         .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_scan_def = {.shape = shape,
                                   .work = work,
                                   .work_back = work_back,
                                   .forward = forward,
                                   .backward = backward,
                                   .param = param,
                                   .need_in = 15,
                                   .only_overwrites = true,
                                   .has_effect = true,
                                   .localise = localise,
                                   .shard = shard};
