/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss that balances the load of experts, of models whose config asks for it
 * (output_router_logits): coef * E * sum over experts of f P, where over all rows of all mixtures f
 * is the share of rows that went to an expert (a row goes to several) and P the mean of what
 * routers gave it. f has no gradient. It is of a micro-batch, as of a batch of transformers', and
 * counts by the micro-batch's share of the step's tokens.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_BALANCE_H
#define ENGINE_TRAIN_BALANCE_H

#include "engine/device/device.h"
#include "engine/model/model.h"
#include "engine/op/batch.h"

struct balance {
    struct batch_balance asked; /* device memory, owned */
    int32_t *start;             /* owned: the same on the host */
    float *sum;
    int64_t n_expert, n_tok;
    double coef, share;
    struct device *device;
};

/* Of a model that asks for none nothing is made, and the loss is 0. */
int balance_init(struct balance *b, const struct model *m, struct stream *s, struct err *e);
void balance_release(struct balance *b);

/* What a micro-batch of n_tok tokens, of n_all in the step, is to be asked for. */
const struct batch_balance *balance_begin(struct balance *b, int64_t n_tok, int64_t n_all);

/* Behind the forward, what it told is on its way; behind a sync it is the loss. */
void balance_fetch(struct balance *b, struct stream *s);
double balance_loss(const struct balance *b);

#endif
