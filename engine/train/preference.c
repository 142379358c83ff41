/* SPDX-License-Identifier: Apache-2.0
 *
 * In f64 from the sums on. A loss with the same terms for both rows is exactly what its formula
 * gives for a difference of 0: log 2 of dpo at the first step.
 */
#include "engine/train/preference.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"

typedef struct preference_pair loss_fn(const struct train_preference *p,
                                       const struct preference_row row[2]);

/* -log s(x), and s(-x), which is what it falls by. */
static double minus_log_sigmoid(double x)
{
    return x >= 0 ? log1p(exp(-x)) : log1p(exp(x)) - x;
}

static double sigmoid_of_minus(double x)
{
    return x >= 0 ? exp(-x) / (1 + exp(-x)) : 1 / (1 + exp(x));
}

static double mean_of(const struct preference_row *r)
{
    return r->logprob / (double)r->n_label;
}

static struct preference_pair dpo(const struct train_preference *p,
                                  const struct preference_row row[2])
{
    double w = row[0].logprob - row[0].reference, l = row[1].logprob - row[1].reference;
    double x = p->beta * (w - l), slope = p->beta * sigmoid_of_minus(x);
    return (struct preference_pair){
        .loss = minus_log_sigmoid(x), .reward = {p->beta * w, p->beta * l}, .by = {slope, -slope}};
}

static struct preference_pair ipo(const struct train_preference *p,
                                  const struct preference_row row[2])
{
    double n[2] = {(double)row[0].n_label, (double)row[1].n_label};
    double w = row[0].logprob - row[0].reference, l = row[1].logprob - row[1].reference;
    double x = w / n[0] - l / n[1] - 1 / (2 * p->beta);
    return (struct preference_pair){
        .loss = x * x, .reward = {p->beta * w, p->beta * l}, .by = {-2 * x / n[0], 2 * x / n[1]}};
}

/* log(e^x / (1 - e^x)) of a log-probability; one of 0 is certain, and has no odds. */
static double log_odds(double x)
{
    return x - log(-expm1(x));
}

static struct preference_pair orpo(const struct train_preference *p,
                                   const struct preference_row row[2])
{
    static const double certain = -1e-12;
    double w = fmin(mean_of(&row[0]), certain), l = fmin(mean_of(&row[1]), certain);
    double x = log_odds(w) - log_odds(l), slope = p->beta * sigmoid_of_minus(x);
    return (struct preference_pair){.loss = -w + p->beta * minus_log_sigmoid(x),
                                    .reward = {p->beta * w, p->beta * l},
                                    .by = {(1 - slope / expm1(w)) / (double)row[0].n_label,
                                           slope / expm1(l) / (double)row[1].n_label}};
}

static struct preference_pair simpo(const struct train_preference *p,
                                    const struct preference_row row[2])
{
    double w = mean_of(&row[0]), l = mean_of(&row[1]);
    double x = p->beta * (w - l) - p->gamma, slope = p->beta * sigmoid_of_minus(x);
    return (struct preference_pair){
        .loss = minus_log_sigmoid(x),
        .reward = {p->beta * w, p->beta * l},
        .by = {slope / (double)row[0].n_label, -slope / (double)row[1].n_label}};
}

struct preference_verdict preference_of_row(const struct train_preference *p,
                                            const struct preference_row *row, bool is_undesirable,
                                            double kl)
{
    double sign = is_undesirable ? -1 : 1, counts = is_undesirable ? p->undesirable : p->desirable;
    double ratio = row->logprob - row->reference, x = sign * p->beta * (ratio - kl);
    double lost = sigmoid_of_minus(x);
    return (struct preference_verdict){.loss = counts * lost,
                                       .reward = p->beta * ratio,
                                       .by = counts * sign * p->beta * lost * (1 - lost),
                                       .is_right = x > 0};
}

static const struct {
    const char *name;
    loss_fn *of; /* NULL: of verdicts */
    double beta; /* where none is said */
    bool has_reference;
} losses[TRAIN_LOSS_COUNT] = {[TRAIN_DPO] = {"dpo", dpo, 0.1, true},
                              [TRAIN_IPO] = {"x_ipo", ipo, 0.1, true},
                              [TRAIN_ORPO] = {"x_orpo", orpo, 0.1, false},
                              [TRAIN_SIMPO] = {"x_simpo", simpo, 2, false},
                              [TRAIN_KTO] = {"x_kto", NULL, 0.1, true}};

void train_preference_default(struct train_preference *p)
{
    if (p->beta == 0)
        p->beta = losses[p->loss].beta;
    if (p->gamma == 0 && p->loss == TRAIN_SIMPO)
        p->gamma = 1;
    if (p->desirable == 0 && train_has_verdicts(p))
        p->desirable = 1;
    if (p->undesirable == 0 && train_has_verdicts(p))
        p->undesirable = 1;
}

bool preference_has_reference(const struct train_preference *p)
{
    return losses[p->loss].has_reference;
}

struct preference_pair preference_of(const struct train_preference *p,
                                     const struct preference_row row[2])
{
    ASSERT(train_has_pairs(p));
    return losses[p->loss].of(p, row);
}

enum train_loss preference_find(const char *name)
{
    enum train_loss i = TRAIN_DPO;
    while (i < TRAIN_LOSS_COUNT && strcmp(losses[i].name, name) != 0)
        i++;
    return i;
}
