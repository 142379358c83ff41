/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule, row by row. A state is f32 between rows, as it is between steps; so are a
 * row's rates, its q and k of unit length, and u. Sums are f64.
 */
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

#include "kernels/ref/act.h"
#include "kernels/ref/delta.h"
#include "kernels/variants.h"

/* ---- rates ---- */

static double sum_sq(const float *x, int32_t d)
{
    double sum = 0;
    for (int32_t i = 0; i < d; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

void delta_rates_ref(const void *args, const struct k_slice *s)
{
    const struct k_delta_rates *a = args;
    for (int64_t t = s->lo; t < s->hi; t++) {
        float *decay = a->rate + t * delta_rate_cols(a->n_k, a->n_v), *beta = decay + a->n_v;
        float *q = beta + a->n_v, *k = q + a->n_k;
        for (int64_t h = 0; h < a->n_v; h++) {
            double x = (double)a->a[t * a->ld_a + h] + (double)a->dt_bias[h];
            decay[h] = (float)exp(-exp(a->a_log[h]) * ref_softplus(x));
            beta[h] = (float)ref_sigmoid(a->b[t * a->ld_b + h]);
        }
        for (int64_t h = 0; h < a->n_k; h++) {
            q[h] =
                (float)(1 /
                        sqrt((sum_sq(a->q + t * a->ld_q + h * a->d_k, a->d_k) + (double)DELTA_EPS) *
                             a->d_k));
            k[h] = (float)(1 / sqrt(sum_sq(a->k + t * a->ld_k + h * a->d_k, a->d_k) +
                                    (double)DELTA_EPS));
        }
    }
}

/* ---- forward ---- */

void ref_delta_open(const struct k_delta *a, const struct delta_unit *u, int64_t t,
                    struct ref_delta_row *r)
{
    int64_t key = delta_key_head(a, u->head) * a->d_k;
    r->rate = delta_rate_of(a, t, u->head);
    r->v = a->v + t * a->ld_v + u->head * a->d_v + u->col;
    for (int32_t i = 0; i < a->d_k; i++) {
        r->q[i] = a->q[t * a->ld_q + key + i] * r->rate.q;
        r->k[i] = a->k[t * a->ld_k + key + i] * r->rate.k;
    }
}

/* Column j of a state of `width` columns decays; what k reads there. */
static double decayed(float *state, const struct ref_delta_row *r, int32_t d_k, int32_t width,
                      int32_t j)
{
    double kv = 0;
    for (int32_t i = 0; i < d_k; i++) {
        state[i * width + j] *= r->rate.decay;
        kv += (double)state[i * width + j] * r->k[i];
    }
    return kv;
}

void ref_delta_decay(float *state, const struct ref_delta_row *r, int32_t d_k, int32_t width,
                     float *rest, float *u)
{
    for (int32_t j = 0; j < width; j++) {
        double found = decayed(state, r, d_k, width, j);
        rest[j] = r->rate.is_scan ? r->v[j] : (float)(r->v[j] - found);
        u[j] = rest[j] * r->rate.beta;
    }
}

void ref_delta_learn(float *state, const struct ref_delta_row *r, int32_t d_k, int32_t width,
                     const float *u)
{
    for (int32_t i = 0; i < d_k; i++)
        for (int32_t j = 0; j < width; j++)
            state[i * width + j] = fmaf(r->k[i], u[j], state[i * width + j]);
}

static void read_row(const float *state, const struct ref_delta_row *r, int32_t d_k, int32_t width,
                     float *y)
{
    for (int32_t j = 0; j < width; j++) {
        double sum = 0;
        for (int32_t i = 0; i < d_k; i++)
            sum += (double)state[i * width + j] * r->q[i];
        y[j] = (float)(r->rate.is_scan ? sum + (double)r->rate.skip * r->v[j] : sum);
    }
}

static void keep(float *to, const float *state, size_t bytes)
{
    if (to)
        memcpy(to, state, bytes);
}

static void run_unit(const struct k_delta *a, const struct delta_unit *u, float *state)
{
    int64_t lo = a->batch.q_start[u->seq], hi = a->batch.q_start[u->seq + 1];
    size_t bytes = (size_t)(a->d_k * u->width) * sizeof *state;
    const float *from = delta_from(a, u);
    struct ref_delta_row r;
    float rest[DELTA_COLS], learnt[DELTA_COLS];
    if (lo == hi)
        return;
    if (from)
        memcpy(state, from, bytes);
    else
        memset(state, 0, bytes);
    for (int64_t t = lo; t < hi; t++) {
        ref_delta_open(a, u, t, &r);
        ref_delta_decay(state, &r, a->d_k, u->width, rest, learnt);
        ref_delta_learn(state, &r, a->d_k, u->width, learnt);
        read_row(state, &r, a->d_k, u->width, a->y + t * a->ld_y + u->head * a->d_v + u->col);
        keep(delta_kept(a, u, t), state, bytes);
    }
    keep(delta_to(a, u), state, bytes);
}

void delta_ref(const void *args, const struct k_slice *s)
{
    const struct k_delta *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct delta_unit u = delta_unit_of(a, i);
        run_unit(a, &u, s->scratch);
    }
}
