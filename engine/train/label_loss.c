/* SPDX-License-Identifier: Apache-2.0
 *
 * In f64 from the log-probabilities on; apart is x - x', 0 where a loss does not compare.
 */
#include "engine/train/label_loss.h"

#include <math.h>
#include <string.h>

static double held(const struct label_loss *l, double r)
{
    return r > l->high ? l->high : r < l->low ? l->low : r;
}

static struct label_told cross_entropy(const struct label_loss *l, double w, double x, double apart)
{
    (void)l;
    (void)apart;
    return (struct label_told){.loss = -w * x, .by = w};
}

static struct label_told importance(const struct label_loss *l, double w, double x, double apart)
{
    double r = exp(apart);
    (void)l;
    (void)x;
    return (struct label_told){.loss = -r * w, .by = r * w};
}

static struct label_told ppo(const struct label_loss *l, double w, double x, double apart)
{
    double r = exp(apart), h = held(l, r);
    (void)x;
    struct label_told t = {.is_clipped = w > 0 ? r > h : w < 0 && r < h};
    t.loss = -fmin(r * w, h * w);
    t.by = t.is_clipped ? 0 : r * w;
    return t;
}

static struct label_told cispo(const struct label_loss *l, double w, double x, double apart)
{
    double r = exp(apart), h = held(l, r);
    return (struct label_told){.loss = -h * w * x, .by = h * w, .is_clipped = h != r};
}

static struct label_told dro(const struct label_loss *l, double w, double x, double apart)
{
    return (struct label_told){.loss = -(w * x - l->beta / 2 * apart * apart),
                               .by = w - l->beta * apart};
}

static const struct {
    const char *name;
    struct label_told (*of)(const struct label_loss *l, double w, double x, double apart);
    double low, high, beta; /* where none are said */
} losses[LABEL_LOSS_COUNT] = {
    [LABEL_CROSS_ENTROPY] = {"cross_entropy", cross_entropy, 0, 0, 0},
    [LABEL_IMPORTANCE_SAMPLING] = {"importance_sampling", importance, 0, 0, 0},
    [LABEL_PPO] = {"ppo", ppo, 0.8, 1.2, 0},
    [LABEL_CISPO] = {"cispo", cispo, 0.8, 1.2, 0},
    [LABEL_DRO] = {"dro", dro, 0, 0, 0.05}};

bool label_loss_find(const char *name, struct label_loss *out)
{
    for (int i = 0; i < LABEL_LOSS_COUNT; i++) {
        if (strcmp(losses[i].name, name) != 0)
            continue;
        *out = (struct label_loss){.kind = (enum label_loss_kind)i,
                                   .low = losses[i].low,
                                   .high = losses[i].high,
                                   .beta = losses[i].beta};
        return true;
    }
    return false;
}

bool label_loss_compares(const struct label_loss *l)
{
    return l->kind != LABEL_CROSS_ENTROPY;
}

struct label_told label_loss_of(const struct label_loss *l, double counts, double now,
                                double sampled)
{
    double apart = label_loss_compares(l) ? now - sampled : 0;
    struct label_told t = losses[l->kind].of(l, counts, now, apart);
    t.is_clipped = t.is_clipped && counts != 0; /* else it is of no sample */
    t.is_moved = apart != 0 && counts != 0;
    return t;
}
