/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of labels, each by itself, for who takes steps himself: sums over a row's labels, of the
 * label's log-probability x, that which it was drawn with, x', and what it counts, w (a weight, or
 * an advantage). The ratio is r = e^(x - x').
 *
 *     cross_entropy        -w x
 *     importance_sampling  -r w
 *     ppo                  -min(r w, clip(r, low, high) w)
 *     cispo                -clip(r, low, high) w x, of which the clipped ratio is no function of x
 *     dro                  -(w x - beta / 2 (x - x')^2)
 *
 * What was just drawn from the values that are trained has r = 1, exactly.
 *
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_LABEL_LOSS_H
#define ENGINE_TRAIN_LABEL_LOSS_H

#include <stdbool.h>

enum label_loss_kind {
    LABEL_CROSS_ENTROPY,
    LABEL_IMPORTANCE_SAMPLING,
    LABEL_PPO,
    LABEL_CISPO,
    LABEL_DRO,
    LABEL_LOSS_COUNT
};

struct label_loss {
    enum label_loss_kind kind;
    double low, high; /* of ppo and cispo: what ratios are held to */
    double beta;      /* of dro */
};

struct label_told {
    double loss;
    double by;                 /* what it falls by where the label's logprob rises by 1 */
    bool is_clipped, is_moved; /* the ratio; it is not exactly 1, and counts */
};

/* The loss of a name, with the bounds that hold where none are said; false: there is none of it. */
bool label_loss_find(const char *name, struct label_loss *out);
bool label_loss_compares(const struct label_loss *l); /* x' is asked for */

struct label_told label_loss_of(const struct label_loss *l, double counts, double now,
                                double sampled);

#endif
