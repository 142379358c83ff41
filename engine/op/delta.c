/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule (kernels/args_delta.h): a mixer of rows whose memory of a sequence is one
 * state of fixed size for each head of values, in the layer's slots between steps. Queries and keys
 * get unit length in here; decay and learning rate of each row are made of its a and b.
 *
 * The recurrence runs row by row, so a row's bits don't depend on how its sequence was cut into
 * steps. Backward makes states again: it keeps nothing of the forward but the inputs. Trained rows
 * are whole sequences, which begin from zeros.
 */
#include "engine/op/ops.h"

#include <string.h>

#include "engine/base/carve.h"
#include "kernels/delta.h"

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
    const int64_t want[] = {(int64_t)a->n_k * a->d_k, (int64_t)a->n_k * a->d_k,
                            (int64_t)a->n_v * a->d_v, a->n_v, a->n_v};
    if (a->n_k < 1 || a->n_v % a->n_k)
        return err_set(e, ERR_BAD_INPUT, "%d heads of values over %d of keys", a->n_v, a->n_k);
    if (a->d_k < 1 || a->d_v < 1 || a->d_k > K_DELTA_D_MAX || a->d_v > K_DELTA_D_MAX)
        return err_set(e, ERR_UNSUPPORTED, "heads of %d by %d: at most %d", a->d_k, a->d_v,
                       K_DELTA_D_MAX);
    for (int i = 0; i < n->n_in; i++)
        if (in[i].blocked || in[i].rows != DIM_TOK || in[i].cols != want[i])
            return err_set(e, ERR_BAD_INPUT, "input %d has %lld columns, %lld expected", i,
                           (long long)in[i].cols, (long long)want[i]);
    if (a->a_log->n != a->n_v || a->dt_bias->n != a->n_v)
        return err_set(e, ERR_BAD_INPUT, "%lld and %lld rates for %d heads", (long long)a->a_log->n,
                       (long long)a->dt_bias->n, a->n_v);
    out[0] = in[2];
    return 0;
}

/* ---- memory --------------------------------------------------------------------------------- */

static float *floats(struct carve *at, int64_t m, int64_t d)
{
    return carve(at, m * d, sizeof(float));
}

static float *rates_at(struct carve *at, const struct op_delta_attr *a, int64_t n_tok)
{
    return floats(at, n_tok, delta_rate_cols(a->n_k, a->n_v));
}

static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    struct carve at = {0};
    (void)in;
    rates_at(&at, attr_of(n), cap[DIM_TOK]);
    return at.at;
}

struct back {
    float *rate, *part, *border, *dv, *da, *da_log;
};

static struct back back_at(struct carve *at, const struct op_delta_attr *a, const int64_t *cap)
{
    int64_t n_tok = cap[DIM_TOK], state = (int64_t)a->n_v * a->d_k * a->d_v;
    struct back b = {.rate = rates_at(at, a, n_tok)};
    b.part = floats(at, n_tok, (int64_t)a->n_v * K_DELTA_PARTS * (2 * a->d_k + 2));
    b.border = floats(at, delta_borders(a->d_k, n_tok, cap[DIM_SEQ]), state);
    b.dv = floats(at, n_tok, (int64_t)a->n_v * a->d_v);
    b.da = floats(at, n_tok, a->n_v);
    b.da_log = floats(at, n_tok, a->n_v);
    return b;
}

static size_t work_back(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    struct carve at = {0};
    (void)in;
    back_at(&at, attr_of(n), cap);
    return at.at;
}

/* ---- forward -------------------------------------------------------------------------------- */

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
                                  .n_k = at->n_k,
                                  .n_v = at->n_v,
                                  .d_k = at->d_k};
}

static struct k_delta args_of(const struct op_ctx *c, const float *rate)
{
    const struct op_delta_attr *at = attr_of(c->node);
    const struct batch *b = c->batch;
    return (struct k_delta){.batch = batch_ragged(b),
                            .state = {.at = b->state ? b->state[at->layer] : NULL,
                                      .from = b->state_from,
                                      .to = b->state_to,
                                      .kept = b->state_kept,
                                      .kept_len = b->state_kept_len},
                            .q = c->in[0].p,
                            .k = c->in[1].p,
                            .v = c->in[2].p,
                            .rate = rate,
                            .y = c->out[0].p,
                            .ld_q = c->in[0].ld,
                            .ld_k = c->in[1].ld,
                            .ld_v = c->in[2].ld,
                            .ld_y = c->out[0].ld,
                            .n_k = at->n_k,
                            .n_v = at->n_v,
                            .d_k = at->d_k,
                            .d_v = at->d_v};
}

static const struct op_count count[] = {
    {.offset = offsetof(struct k_delta, batch) + offsetof(struct k_ragged, n_seq), .dim = DIM_SEQ},
    {.offset = offsetof(struct k_delta, batch) + offsetof(struct k_ragged, n_tok), .dim = DIM_TOK}};

_Static_assert(offsetof(struct k_delta_bwd, fwd) == 0, "the same counts");

static void forward(struct op_ctx *c)
{
    struct carve at = {.base = c->work};
    struct k_delta_rates r = rates_of(c, rates_at(&at, attr_of(c->node), c->cap[DIM_TOK]));
    struct k_delta a = args_of(c, r.rate);
    OP_LAUNCH_M(c, K_delta_rates, r, DIM_TOK);
    op_launch(c, K_delta, &a, sizeof a, count, 2);
}

/* ---- backward ------------------------------------------------------------------------------- */

/* What rows add to a vector of n_v. */
static void sum_rows(struct op_ctx *c, const struct param *p, const float *x, int64_t ld)
{
    struct k_col_sum a = {
        .x = x, .ld_x = ld, .m = op_rows(c, DIM_TOK), .d = attr_of(c->node)->n_v, .y = p->grad};
    if (a.y)
        OP_LAUNCH_M(c, K_col_sum, a, DIM_TOK);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct op_delta_attr *at = attr_of(c->node);
    struct carve room = {.base = c->work};
    struct back b = back_at(&room, at, c->cap);
    struct k_delta_rates rates = rates_of(c, b.rate);
    struct k_delta_bwd a = {.fwd = args_of(c, b.rate),
                            .dy = g->dout[0].p,
                            .dv = g->din[2].p ? g->din[2].p : b.dv,
                            .part = b.part,
                            .border = b.border,
                            .ld_dy = g->dout[0].ld,
                            .ld_dv = g->din[2].p ? g->din[2].ld : (int64_t)at->n_v * at->d_v};
    struct k_delta_rates_bwd r = {.fwd = rates,
                                  .part = b.part,
                                  .dq = g->din[0].p,
                                  .dk = g->din[1].p,
                                  .da = g->din[3].p ? g->din[3].p : b.da,
                                  .db = g->din[4].p,
                                  .da_log = b.da_log,
                                  .ld_dq = g->din[0].ld,
                                  .ld_dk = g->din[1].ld,
                                  .ld_da = g->din[3].p ? g->din[3].ld : at->n_v,
                                  .ld_db = g->din[4].ld};
    OP_LAUNCH_M(c, K_delta_rates, rates, DIM_TOK);
    op_launch(c, K_delta_bwd, &a, sizeof a, count, 2);
    op_launch(c, K_delta_rates_bwd, &r, sizeof r,
              &(struct op_count){.offset = offsetof(struct k_delta_rates_bwd, fwd) +
                                           offsetof(struct k_delta_rates, m),
                                 .dim = DIM_TOK},
              1);
    sum_rows(c, at->dt_bias, r.da, r.ld_da);
    sum_rows(c, at->a_log, r.da_log, at->n_v);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? attr_of(n)->a_log : i == 1 ? attr_of(n)->dt_bias : NULL;
}

static int64_t pieces(const struct op_node *n, const struct op_shape *in)
{
    (void)in;
    return attr_of(n)->n_k;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_delta_attr a = *attr_of(n);
    a.a_log = op_part(l, a.a_log);
    a.dt_bias = op_part(l, a.dt_bias);
    a.n_k = (int32_t)(l->in[1].cols / a.d_k);
    a.n_v = (int32_t)(l->in[2].cols / a.d_v);
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
