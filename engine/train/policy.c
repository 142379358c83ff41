/* SPDX-License-Identifier: Apache-2.0
 *
 * In f64 from the log-probabilities on. Where the ratio is 1 a token's weight is its advantage, to
 * the last bit.
 */
#include "engine/train/policy.h"

#include <math.h>

static const double DEVIATION_LEAST = 1e-4; /* as TRL has it */

static double mean_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static double deviation_of(const double *x, int64_t n, double mean)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (double)(n - 1)) : 0;
}

static bool all_alike(const double *x, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (x[i] != x[0])
            return false;
    return true;
}

void policy_advantages(enum train_advantage kind, const double *reward, int64_t n, double *out)
{
    bool is_nothing = all_alike(reward, n); /* a mean may differ from what it is of by a bit */
    double mean = mean_of(reward, n), by = 1;
    if (kind == TRAIN_GRPO)
        by = 1 / (deviation_of(reward, n, mean) + DEVIATION_LEAST);
    else if (kind == TRAIN_RLOO && n > 1)
        by = (double)n / (double)(n - 1);
    for (int64_t i = 0; i < n; i++)
        out[i] = is_nothing ? 0 : (reward[i] - mean) * by;
}

double policy_share(enum train_advantage kind, int64_t n, int64_t most, int64_t n_row)
{
    switch (kind) {
    case TRAIN_GRPO:
        return 1 / ((double)n_row * (double)n);
    case TRAIN_DR_GRPO:
        return 1 / ((double)n_row * (double)most);
    case TRAIN_RLOO:
        return 1 / (double)n_row;
    }
    return 0;
}

/* What a ratio is held to. */
static double clip(const struct train_policy *p, double r)
{
    double lo = 1 - p->clip_low, hi = 1 + p->clip_high;
    return r > hi ? hi : r < lo ? lo : r;
}

struct policy_token policy_of(const struct train_policy *p, double advantage, double log_ratio,
                              const struct policy_logprobs *x)
{
    double r = exp(log_ratio), held = clip(p, r);
    struct policy_token t = {.is_clipped = advantage > 0 ? r > held : advantage < 0 && r < held};
    t.loss = -fmin(r * advantage, held * advantage);
    t.by = t.is_clipped ? 0 : advantage * r;
    if (p->kl > 0) { /* with the token's ratio its slope is that of the divergence itself */
        double to = x->reference - x->now, weight = p->kl * exp(x->now - x->sampled);
        t.kl = expm1(to) - to;
        t.penalty = weight * t.kl;
        t.loss += t.penalty;
        t.by += weight * to;
    }
    return t;
}
