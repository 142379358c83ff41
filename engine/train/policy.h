/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss of a policy gradient: rows are samples of the model, each with what it was worth beside
 * the other samples of its prompt (its advantage A) and the log-probabilities that its tokens were
 * drawn with. Known behind the forward alone, as losses of pairs are (preference.h).
 *
 *     ratio r = e^(x - x'), of a token's log-probability x and that which it was drawn with, x'
 *     loss      share (-min(r A, clip(r, 1 - low, 1 + high) A) + kl r (e^(x~ - x) - (x~ - x) - 1))
 *
 * of each token; x~ is the same of the reference. The first ratio
 * may also be that of the whole row, e^(sum of x - x'), which its tokens share. What trains on what
 * it has just sampled has r = 1 for each token, exactly: serving's log-probability is the trained
 * one.
 *
 *     grpo     A = (reward - mean) / (deviation + 1e-4); a token's share 1 / (rows * its row's
 * tokens) dr_grpo  A = reward - mean; 1 / (rows * the most tokens that a row may have) rloo     A =
 * reward - mean of the others; the row's ratio, once a row: 1 / rows
 *
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_POLICY_H
#define ENGINE_TRAIN_POLICY_H

#include "engine/train/plain.h"

/* Of each row of a group, whose rewards are finite; all alike: zeros. */
void policy_advantages(enum train_advantage kind, const double *reward, int64_t n, double *out);

/* What a token of a row of n tokens counts in a step of n_row; most: that a row may have. */
double policy_share(enum train_advantage kind, int64_t n, int64_t most, int64_t n_row);

struct policy_token {
    double loss, penalty; /* before its share; the second is the part of kl */
    double by;            /* what that falls by where the token's logprob rises by 1 */
    double kl;            /* before its weight and ratio */
    bool is_clipped;
};

struct policy_logprobs {
    double now, sampled, reference;
};

/* log_ratio: the token's, or its row's. */
struct policy_token policy_of(const struct train_policy *p, double advantage, double log_ratio,
                              const struct policy_logprobs *x);

#endif
