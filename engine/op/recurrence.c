/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, memory and launches of recurrences.
 */
#include "engine/op/recurrence.h"

#include "kernels/delta.h"

int recurrence_shape(const struct op_node *n, const struct op_shape *in,
                     const struct op_state_heads *h, const struct param *const *vec, int n_vec,
                     struct err *e)
{
    int64_t keys = (int64_t)h->n_k * h->d_k;
    const int64_t want[] = {keys, keys, (int64_t)h->n_v * h->d_v};
    if (h->n_k < 1 || h->n_v % h->n_k)
        return err_set(e, ERR_BAD_INPUT, "%d heads of values over %d of keys", h->n_v, h->n_k);
    if (h->d_k < 1 || h->d_v < 1 || h->d_k > K_DELTA_D_MAX || h->d_v > K_DELTA_D_MAX)
        return err_set(e, ERR_UNSUPPORTED, "heads of %d by %d: at most %d", h->d_k, h->d_v,
                       K_DELTA_D_MAX);
    for (int i = 0; i < n->n_in; i++) {
        int64_t cols = i < 3 ? want[i] : h->n_v;
        if (in[i].blocked || in[i].rows != DIM_TOK || in[i].cols != cols)
            return err_set(e, ERR_BAD_INPUT, "input %d has %lld columns, %lld expected", i,
                           (long long)in[i].cols, (long long)cols);
    }
    for (int i = 0; i < n_vec; i++)
        if (vec[i]->n != h->n_v)
            return err_set(e, ERR_BAD_INPUT, "%s: %lld numbers for %d heads", vec[i]->name,
                           (long long)vec[i]->n, h->n_v);
    return 0;
}

/* ---- memory --------------------------------------------------------------------------------- */

float *recurrence_floats(struct carve *at, int64_t m, int64_t d)
{
    return carve(at, m * d, sizeof(float));
}

float *recurrence_rates_at(struct carve *at, const struct op_state_heads *h, const int64_t *cap)
{
    return recurrence_floats(at, cap[DIM_TOK], delta_rate_cols(h->n_k, h->n_v));
}

struct recurrence_back recurrence_back_at(struct carve *at, const struct op_state_heads *h,
                                          const int64_t *cap)
{
    int64_t n_tok = cap[DIM_TOK], state = (int64_t)h->n_v * h->d_k * h->d_v;
    struct recurrence_back b = {.rate = recurrence_rates_at(at, h, cap)};
    b.part = recurrence_floats(at, n_tok, (int64_t)h->n_v * K_DELTA_PARTS * (2 * h->d_k + 2));
    b.border = recurrence_floats(at, delta_borders(h->d_k, n_tok, cap[DIM_SEQ]), state);
    b.dv = recurrence_floats(at, n_tok, (int64_t)h->n_v * h->d_v);
    return b;
}

/* ---- launches ------------------------------------------------------------------------------- */

static struct k_delta args_of(const struct op_ctx *c, const struct op_state_heads *h,
                              const float *rate, const float *skip)
{
    const struct batch *b = c->batch;
    return (struct k_delta){.batch = batch_ragged(b),
                            .state = {.at = b->state ? b->state[h->layer] : NULL,
                                      .from = b->state_from,
                                      .to = b->state_to,
                                      .kept = b->state_kept,
                                      .kept_len = b->state_kept_len},
                            .q = c->in[0].p,
                            .k = c->in[1].p,
                            .v = c->in[2].p,
                            .rate = rate,
                            .skip = skip,
                            .y = c->out[0].p,
                            .ld_q = c->in[0].ld,
                            .ld_k = c->in[1].ld,
                            .ld_v = c->in[2].ld,
                            .ld_y = c->out[0].ld,
                            .n_k = h->n_k,
                            .n_v = h->n_v,
                            .d_k = h->d_k,
                            .d_v = h->d_v};
}

static const struct op_count count[] = {
    {.offset = offsetof(struct k_delta, batch) + offsetof(struct k_ragged, n_seq), .dim = DIM_SEQ},
    {.offset = offsetof(struct k_delta, batch) + offsetof(struct k_ragged, n_tok), .dim = DIM_TOK}};

_Static_assert(offsetof(struct k_delta_bwd, fwd) == 0, "the same counts");

void recurrence_forward(struct op_ctx *c, const struct op_state_heads *h, const float *rate,
                        const float *skip)
{
    struct k_delta a = args_of(c, h, rate, skip);
    op_launch(c, K_delta, &a, sizeof a, count, 2);
}

void recurrence_backward(struct op_ctx *c, const struct op_grad *g, const struct op_state_heads *h,
                         const struct recurrence_back *b, const float *skip)
{
    struct k_delta_bwd a = {.fwd = args_of(c, h, b->rate, skip),
                            .dy = g->dout[0].p,
                            .dv = g->din[2].p ? g->din[2].p : b->dv,
                            .part = b->part,
                            .border = b->border,
                            .ld_dy = g->dout[0].ld,
                            .ld_dv = g->din[2].p ? g->din[2].ld : (int64_t)h->n_v * h->d_v};
    op_launch(c, K_delta_bwd, &a, sizeof a, count, 2);
}

void recurrence_sum_rows(struct op_ctx *c, const struct param *p, const float *x, int64_t ld)
{
    struct k_col_sum a = {.x = x, .ld_x = ld, .m = op_rows(c, DIM_TOK), .d = p->n, .y = p->grad};
    if (a.y)
        OP_LAUNCH_M(c, K_col_sum, a, DIM_TOK);
}

void recurrence_localise(struct op_state_heads *h, const struct op_local *l)
{
    h->n_k = (int32_t)(l->in[1].cols / h->d_k);
    h->n_v = (int32_t)(l->in[2].cols / h->d_v);
}
